//! A page as one HTML file: no script, nothing fetched, everything escaped.

use std::fmt::Write as _;

use super::page::{Block, Page, Table, Text, Tone};
use crate::output::shown;

const STYLE: &str = include_str!("page.css");

/// Nothing is loaded and nothing runs, even if an escape were missing.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

pub(super) fn render(page: &Page) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(page, &mut out);
    out
}

fn write(page: &Page, out: &mut String) -> std::fmt::Result {
    let (title, verdict) = (escaped(&page.title.text), escaped(&page.verdict.text));
    writeln!(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
    writeln!(out, "<title>{title}: {verdict}</title>")?;
    writeln!(out, "<style>\n{STYLE}</style>\n</head>\n<body>")?;
    writeln!(out, "<p class=\"banner {}\">{}</p>", class(&page.banner), code_spans(&page.banner))?;
    writeln!(out, "<header>\n<p class=\"kicker\">Recovery certificate</p>\n<h1>{title}</h1>")?;
    writeln!(out, "<p class=\"verdict {}\">{verdict}</p>", class(&page.verdict))?;
    if !page.warnings.is_empty() {
        writeln!(out, "<ul class=\"warnings\">")?;
        for warning in &page.warnings {
            writeln!(out, "<li class=\"{}\">{}</li>", class(warning), escaped(&warning.text))?;
        }
        writeln!(out, "</ul>")?;
    }
    writeln!(out, "<dl class=\"figures\">")?;
    for figure in &page.figures {
        let (number, tone) = (escaped(&figure.number), name(figure.tone));
        writeln!(out, "<div class=\"{tone}\"><dt>{}</dt><dd>{number}</dd></div>", figure.of)?;
    }
    writeln!(out, "</dl>\n</header>")?;
    for section in &page.sections {
        writeln!(out, "<section>\n<h2>{}</h2>", section.title)?;
        for block in &section.blocks {
            write_block(block, out)?;
        }
        writeln!(out, "</section>")?;
    }
    writeln!(out, "</body>\n</html>")
}

fn write_block(block: &Block, out: &mut String) -> std::fmt::Result {
    match block {
        Block::Line(text) => {
            writeln!(out, "<p class=\"{}\">{}</p>", class(text), escaped(&text.text))
        }
        Block::Facts(facts) => {
            writeln!(out, "<dl class=\"facts\">")?;
            for (name, text) in facts {
                let (class, text) = (class(text), escaped(&text.text));
                writeln!(out, "<dt>{name}</dt><dd class=\"{class}\">{text}</dd>")?;
            }
            writeln!(out, "</dl>")
        }
        Block::Table(table) => write_table(table, out),
    }
}

fn write_table(table: &Table, out: &mut String) -> std::fmt::Result {
    let Table { headings, rows, left_out } = table;
    write!(out, "<div class=\"scroll\"><table>\n<thead><tr>")?;
    for heading in headings {
        write!(out, "<th>{heading}</th>")?;
    }
    writeln!(out, "</tr></thead>\n<tbody>")?;
    for row in rows {
        write!(out, "<tr>")?;
        for text in row {
            write!(out, "<td class=\"{}\">{}</td>", class(text), escaped(&text.text))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody>\n</table></div>")?;
    if *left_out > 0 {
        writeln!(out, "<p class=\"left-out\">{left_out} more rows are left out.</p>")?;
    }
    Ok(())
}

fn class(text: &Text) -> String {
    let data = if text.is_data { " data" } else { "" };
    format!("{}{data}", name(text.tone))
}

const fn name(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Warn => "warn",
    }
}

/// Our own words, with what stands between backticks as code.
fn code_spans(text: &Text) -> String {
    let parts = text.text.split('`').enumerate();
    parts
        .map(|(at, part)| match at % 2 {
            0 => escaped(part),
            _ => format!("<code>{}</code>", escaped(part)),
        })
        .collect()
}

/// A text with no character that HTML reads as markup, in an element or in an attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in shown(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        let hostile = "</td><script>alert('x')</script>\"&amp;\u{202e}\u{0}";
        assert_eq!(
            escaped(hostile),
            "&lt;/td&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;amp;\\u{202e}\\u{0}"
        );
    }
}
