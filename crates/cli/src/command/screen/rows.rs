//! JSON Lines: one object a line, with the text to screen in `text`.

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::channel::Channel;
use super::input::{Lines, Piece};

/// Whether the first line that is not blank is an object with a text.
pub(super) fn looks_like_rows(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    serde_json::from_str::<Value>(first)
        .is_ok_and(|row| row.get("text").is_some_and(Value::is_string))
}

/// The rows of `text`. Blank lines are left out.
pub(super) fn read(name: &str, text: &str) -> anyhow::Result<Vec<Piece>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let pieces: Vec<Piece> =
        lines.map(|(index, line)| row(name, index + 1, line)).collect::<anyhow::Result<_>>()?;
    if pieces.is_empty() {
        bail!("`{name}` holds no row; write one JSON object with a `text` on each line");
    }
    Ok(pieces)
}

fn row(name: &str, line: usize, text: &str) -> anyhow::Result<Piece> {
    let wrong = || format!("`{name}` line {line} is not a JSON object with a text in `text`");
    let Value::Object(mut fields) = serde_json::from_str(text).with_context(wrong)? else {
        bail!(wrong());
    };
    let Some(Value::String(text)) = fields.remove("text") else { bail!(wrong()) };
    let channel = match fields.get("channel") {
        None | Some(Value::Null) => None,
        Some(Value::String(channel)) => Some(
            Channel::parse(channel)
                .with_context(|| format!("`{name}` line {line} names the channel `{channel}`"))?,
        ),
        Some(_) => bail!("`{name}` line {line} has a `channel` that is no text"),
    };
    Ok(Piece {
        source: name.to_owned(),
        id: fields.remove("id"),
        lines: Lines::Row(line),
        channel,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_row_is_named_by_its_line() {
        let error =
            read("in", "{\"text\": \"a\"}\n\n{\"txt\": \"b\"}\n").expect_err("no text").to_string();
        assert_eq!(error, "`in` line 3 is not a JSON object with a text in `text`");
        assert!(read("in", "\n\n").is_err(), "no row at all");
    }

    #[test]
    fn an_id_is_kept_as_it_was_written() {
        let rows =
            read("in", "{\"text\": \"a\", \"id\": 7, \"channel\": \"tool\"}\n").expect("a row");
        assert_eq!((rows[0].id.clone(), rows[0].channel), (Some(7.into()), Some(Channel::Tool)));
    }
}
