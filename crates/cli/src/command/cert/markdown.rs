//! A page in Markdown. Data stands in code spans, where no reader of Markdown looks for markup, links or HTML.

use std::fmt::Write as _;

use super::page::{Block, Page, Table, Text, Tone};
use crate::output::shown;

pub(super) fn render(page: &Page) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(page, &mut out);
    out
}

fn write(page: &Page, out: &mut String) -> std::fmt::Result {
    writeln!(out, "> **{}**\n", spelled(&page.banner))?;
    writeln!(out, "# {}: {}\n", spelled(&page.title), spelled(&page.verdict))?;
    for warning in &page.warnings {
        writeln!(out, "- {}", emphasised(warning))?;
    }
    if !page.warnings.is_empty() {
        out.push('\n');
    }
    writeln!(out, "| | |\n| ---: | --- |")?;
    for figure in &page.figures {
        let number = Text { text: figure.number.clone(), tone: figure.tone, is_data: false };
        writeln!(out, "| {} | {} |", emphasised(&number), figure.of)?;
    }
    for section in &page.sections {
        writeln!(out, "\n## {}", section.title)?;
        for block in &section.blocks {
            out.push('\n');
            write_block(block, out)?;
        }
    }
    Ok(())
}

fn write_block(block: &Block, out: &mut String) -> std::fmt::Result {
    match block {
        Block::Line(text) => writeln!(out, "{}", emphasised(text)),
        Block::Facts(facts) => {
            writeln!(out, "| | |\n| --- | --- |")?;
            facts
                .iter()
                .try_for_each(|(name, text)| writeln!(out, "| {name} | {} |", emphasised(text)))
        }
        Block::Table(Table { headings, rows, left_out }) => {
            writeln!(out, "| {} |", headings.join(" | "))?;
            writeln!(out, "|{}", " --- |".repeat(headings.len()))?;
            for row in rows {
                let cells: Vec<String> = row.iter().map(emphasised).collect();
                writeln!(out, "| {} |", cells.join(" | "))?;
            }
            if *left_out > 0 {
                writeln!(out, "\n{left_out} more rows are left out.")?;
            }
            Ok(())
        }
    }
}

fn emphasised(text: &Text) -> String {
    let is_loud = matches!(text.tone, Tone::Bad | Tone::Warn) && !text.text.is_empty();
    if is_loud { format!("**{}**", spelled(text)) } else { spelled(text) }
}

/// A text on one line that says in Markdown what it says in plain text.
fn spelled(text: &Text) -> String {
    let one_line = text.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let safe = shown(&one_line);
    if text.is_data { code(&safe) } else { escaped(&safe) }
}

/// A code span. Its fence is longer than every run of backticks inside; a bar would end a cell of a table.
fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{}{pad}{fence}", text.replace('|', "\\|"))
}

/// Our own words, in which only backticks are markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_a_code_span_whatever_it_says() {
        let cases = [
            ("plain", "`plain`"),
            ("a`b", "``a`b``"),
            ("`", "`` ` ``"),
            ("``x``", "``` ``x`` ```"),
            ("a|b", "`a\\|b`"),
            ("<b>\n# x", "`<b> # x`"),
            ("\u{202e}x", "`\\u{202e}x`"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(spelled(&Text::data(text)), expected, "{text:?}");
        }
        assert_eq!(spelled(&Text::said("a_b <c>")), "a\\_b \\<c\\>");
    }
}
