//! What people and programs read: colours on a terminal, plain text otherwise, JSON on request.

use std::fmt::Display;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use custody_arguments::is_invisible;
use custody_log::Timestamp;
use serde::Serialize;

/// The exit status of a command that ran to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// Exit code 0: nothing was refused, nothing was found.
    Success,
    /// Exit code 1: a request was refused, or a check found something.
    Failure,
    /// Exit code 2: part of the work failed, and its error is printed already.
    Error,
}

impl ExitStatus {
    /// [`Self::Failure`] if something was refused or found.
    pub const fn failure_if(found: bool) -> Self {
        if found { Self::Failure } else { Self::Success }
    }
}

/// Emphasis: names, ids and results.
pub const BOLD: Style = Style::new().bold();
/// Secondary text: dates, hashes, hints.
pub const DIM: Style = Style::new().dimmed();
/// Accepted, verified or in order.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Refused, damaged or failed.
pub const BAD: Style = AnsiColor::Red.on_default();
/// Pending, or in need of a look.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Headings.
pub(crate) const HEAD: Style = AnsiColor::Cyan.on_default().bold();

/// `text` in `style`. The styles vanish when the output is no terminal, or `NO_COLOR` is set.
pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The style of an answer's word.
pub(crate) fn answer_style(word: &str) -> Style {
    match word {
        "accepted" => GOOD,
        "pending" => WARN,
        _ => BAD,
    }
}

/// One line on standard output. A closed pipe ends the program quietly, as for any filter.
pub fn line(text: impl Display) {
    use std::io::Write;
    let mut out = anstream::stdout().lock();
    if writeln!(out, "{text}").is_err() {
        std::process::exit(0);
    }
}

/// Says something beside the result, on standard error.
pub fn note(text: impl Display) {
    anstream::eprintln!("{}", paint(DIM, text));
}

/// One JSON object on one line.
pub fn json_line(value: &impl Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string(value)?);
    Ok(())
}

/// Ends a command that changed nothing yet: what it would do, and how to do it.
pub(crate) fn preview(json: bool, would: &str) -> anyhow::Result<ExitStatus> {
    if json {
        json_line(&serde_json::json!({ "applied": false, "would": would }))?;
    } else {
        line(format_args!("Would {would}. Nothing was changed; add --apply to do it."));
    }
    Ok(ExitStatus::Success)
}

/// The error and its causes, on one line of standard error.
pub(crate) fn error_line(error: &anyhow::Error, json: bool) {
    let text = shown(&chain(error.as_ref()));
    if json {
        let _ = json_line(&serde_json::json!({ "error": text }));
    }
    anstream::eprintln!("{}: {text}", paint(BAD.bold(), "error"));
}

/// An error and its causes, on one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut parts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        // A transparent error repeats its cause.
        if parts.last() != Some(&part) {
            parts.push(part);
        }
        cause = error.source();
    }
    parts.join(": ")
}

/// The exit code of a command, after an error was said.
pub fn exit_code(ended: anyhow::Result<ExitStatus>, json: bool) -> ExitCode {
    match ended {
        Ok(ExitStatus::Success) => ExitCode::SUCCESS,
        Ok(ExitStatus::Failure) => ExitCode::from(1),
        Ok(ExitStatus::Error) => ExitCode::from(2),
        Err(error) => {
            error_line(&error, json);
            ExitCode::from(2)
        }
    }
}

/// Help goes to standard output; everything else is wrong usage. What was typed may come from a model or
/// a script, so it is shown with nothing in it that steers the terminal.
pub fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Help and version; a closed pipe is no concern here.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let refused_value = std::error::Error::source(error)
        .filter(|_| error.kind() == clap::error::ErrorKind::ValueValidation);
    match refused_value {
        Some(why) => error_line(&anyhow::anyhow!("{why}"), false),
        None => anstream::eprint!("{}", shown(&error.render().to_string())),
    }
    ExitCode::from(2)
}

/// Text from anywhere, made safe to print: control and invisible characters are escaped, so that no
/// stored text can steer the terminal or hide.
pub fn shown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) && !matches!(c, '\n' | '\t') {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// The beginning of a text on one line, at most `chars` long.
pub(crate) fn excerpt(text: &str, chars: usize) -> String {
    let one_line: Vec<&str> = text.split_whitespace().collect();
    let one_line = shown(&one_line.join(" "));
    if one_line.chars().count() <= chars {
        return one_line;
    }
    let cut: String = one_line.chars().take(chars.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// A moment as `2026-11-21T09:30:00.123Z`.
pub(crate) fn moment(at: Timestamp) -> String {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(moment) => format!("{moment:.3}"),
        Err(_) => format!("{} ms", at.0),
    }
}

/// Rows under headings, each column as wide as its widest cell. Styles do not count.
pub fn table(headings: &[&str], rows: &[Vec<(String, Style)>]) {
    let mut widths: Vec<usize> = headings.iter().map(|heading| width(heading)).collect();
    for row in rows {
        for (column, (cell, _)) in widths.iter_mut().zip(row) {
            *column = (*column).max(width(cell));
        }
    }
    let heading: Vec<String> =
        headings.iter().zip(&widths).map(|(heading, column)| padded(heading, *column)).collect();
    line(paint(DIM, heading.join("  ").trim_end()));
    for row in rows {
        let last = row.len().saturating_sub(1);
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(position, ((cell, style), column))| {
                // Nothing follows the last cell, so it needs no filling.
                paint(*style, padded(cell, if position == last { 0 } else { *column }))
            })
            .collect();
        line(cells.join("  ").trim_end());
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// `text`, filled with spaces up to `column` characters.
fn padded(text: &str, column: usize) -> String {
    format!("{text}{}", " ".repeat(column.saturating_sub(width(text))))
}

/// One indented line: a name in a column, and its value.
pub(crate) fn fact(name: &str, value: &str) {
    line(format_args!("  {name:9} {value}"));
}

/// `1 record`, `2 records`.
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// A number of bytes as people say it: `90.9 MB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    for (unit, name) in UNITS {
        if bytes >= unit {
            let tenths = bytes / (unit / 10);
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} B")
}

/// How far a transfer is, on a terminal's standard error; silent everywhere else.
pub struct Transfer {
    bar: indicatif::ProgressBar,
    file: String,
}

impl Transfer {
    /// Shows nothing until there is progress.
    pub fn start() -> Self {
        // Draws nothing unless standard error is a terminal.
        let bar = indicatif::ProgressBar::no_length();
        Self { bar, file: String::new() }
    }

    /// Shows how far the file of `at` is.
    pub fn show(&mut self, at: &custody_models::install::InstallProgress<'_>) {
        const KNOWN: &str = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        const UNKNOWN: &str = "{msg} {spinner} {bytes} {bytes_per_sec}";
        if self.file != at.file {
            at.file.clone_into(&mut self.file);
            self.bar.reset();
            self.bar.set_message(shown(at.file));
            let template = if at.of.is_some() { KNOWN } else { UNKNOWN };
            if let Ok(style) = indicatif::ProgressStyle::with_template(template) {
                self.bar.set_style(style);
            }
            if let Some(of) = at.of {
                self.bar.set_length(of);
            }
        }
        self.bar.set_position(at.bytes);
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// A cell without style.
pub fn cell(text: impl Display) -> (String, Style) {
    (text.to_string(), Style::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_said_with_one_decimal() {
        let cases = [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (90_868_376, "90.8 MB")];
        for (bytes, said) in cases {
            assert_eq!(size(bytes), said);
        }
    }

    #[test]
    fn stored_text_cannot_steer_the_terminal_or_hide() {
        assert_eq!(shown("\u{1b}[2J\u{202E}x\n"), "\\u{1b}[2J\\u{202e}x\n");
        assert_eq!(excerpt("a\n b\u{200B}c ddd", 8), "a b\\u{2…");
    }
}
