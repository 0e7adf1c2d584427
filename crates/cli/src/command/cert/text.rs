//! A page for a terminal.

use anstyle::Style;

use super::page::{Block, Page, Table, Text, Tone};
use crate::output::{BAD, BOLD, DIM, GOOD, HEAD, WARN, excerpt, line, paint, table};

/// The widest cell, in characters.
const MAX_CELL: usize = 72;

pub(super) fn print(page: &Page) {
    line(paint(style(page.banner.tone).bold(), &page.banner.text));
    line("");
    let (title, verdict) =
        (cell(&page.title), paint(style(page.verdict.tone).bold(), &page.verdict.text));
    line(format_args!("{} {verdict}", paint(BOLD, title)));
    for warning in &page.warnings {
        line(format_args!("  {} {}", paint(style(warning.tone), "!"), cell(warning)));
    }
    line("");
    for figure in &page.figures {
        let number = format!("{:>8}", figure.number);
        line(format_args!("{} {}", paint(style(figure.tone), number), figure.of));
    }
    for section in &page.sections {
        line("");
        line(paint(HEAD, section.title));
        for block in &section.blocks {
            print_block(block);
        }
    }
}

fn print_block(block: &Block) {
    match block {
        Block::Line(text) => line(paint(style(text.tone), cell(text))),
        Block::Facts(facts) => {
            let width =
                facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
            for (name, text) in facts {
                let name = paint(DIM, format_args!("{name:width$}"));
                line(format_args!("  {name}  {}", paint(style(text.tone), whole(text))));
            }
        }
        Block::Table(Table { headings, rows, left_out }) => {
            let rows: Vec<Vec<_>> = rows
                .iter()
                .map(|row| row.iter().map(|text| (cell(text), style(text.tone))).collect())
                .collect();
            table(headings, &rows);
            if *left_out > 0 {
                line(paint(DIM, format_args!("and {left_out} more; --all shows them")));
            }
        }
    }
}

fn cell(text: &Text) -> String {
    excerpt(&text.text, MAX_CELL)
}

fn whole(text: &Text) -> String {
    excerpt(&text.text, usize::MAX)
}

const fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Good => GOOD,
        Tone::Bad => BAD,
        Tone::Warn => WARN,
    }
}
