//! Text page by page on a terminal, and all at once everywhere else.

use std::io::IsTerminal;

use crate::credential;
use crate::output::line;

/// The size of a terminal that does not say its own.
const USUAL: Size = Size { rows: 24, columns: 80 };

/// How much fits on a terminal, in characters.
#[derive(Debug, Clone, Copy)]
struct Size {
    rows: usize,
    columns: usize,
}

/// Prints `lines`. On a terminal it stops after each screen and goes on when asked to. Returns whether all was shown.
///
/// # Errors
/// When there is no terminal to ask on.
pub(crate) fn print(lines: &[String]) -> anyhow::Result<bool> {
    if !std::io::stdout().is_terminal() {
        lines.iter().for_each(line);
        return Ok(true);
    }
    let pages = pages(lines, size());
    for (number, page) in (1..).zip(&pages) {
        page.iter().for_each(line);
        if number < pages.len() && !credential::go_on(number, pages.len())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `lines` in parts that fit on a terminal of that size, with a row left for the question.
fn pages(lines: &[String], size: Size) -> Vec<&[String]> {
    let room = size.rows.saturating_sub(1).max(1);
    let mut pages = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (index, text) in lines.iter().enumerate() {
        let rows = rows(text, size.columns);
        if used + rows > room && index > start {
            pages.extend(lines.get(start..index));
            (start, used) = (index, 0);
        }
        used += rows;
    }
    pages.extend(lines.get(start..).filter(|rest| !rest.is_empty()));
    pages
}

/// How many rows a line takes. Wide characters count as two everywhere, which is never too few.
fn rows(text: &str, columns: usize) -> usize {
    let plain = anstream::adapter::strip_str(text).to_string();
    let width: usize = plain.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
    width.div_ceil(columns.max(1)).max(1)
}

#[cfg(unix)]
fn size() -> Size {
    let found = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let found = found.filter(|size| size.ws_row > 0 && size.ws_col > 0);
    found.map_or(USUAL, |size| Size { rows: size.ws_row.into(), columns: size.ws_col.into() })
}

#[cfg(not(unix))]
const fn size() -> Size {
    USUAL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g15_every_line_stands_on_a_page_and_no_page_is_higher_than_the_terminal() {
        let lines: Vec<String> = (0..50).map(|n| "x".repeat(n * 5)).collect();
        let size = Size { rows: 10, columns: 40 };
        let pages = pages(&lines, size);
        assert_eq!(pages.concat(), lines);
        for page in pages {
            let height: usize = page.iter().map(|line| rows(line, size.columns)).sum();
            assert!(height < size.rows || page.len() == 1, "{height}");
        }
        assert_eq!(super::pages(&[], size), [&[] as &[String]; 0]);
    }
}
