//! JSON Lines: one object a line, with the text to screen in `text`, or a conversation in `messages`.

use anyhow::{Context as _, bail};
use custody_models::chat::{ChatMessage, ChatRole};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::channel::Channel;
use super::input::{Lines, Piece};

/// Whether the first line that is not blank is an object with a text or a conversation.
pub(super) fn looks_like_rows(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    serde_json::from_str::<Value>(first).is_ok_and(|row| {
        row.get("text").is_some_and(Value::is_string)
            || row.get("messages").is_some_and(Value::is_array)
    })
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
    let parsed = serde_json::from_str(text).with_context(|| not_a_row(name, line))?;
    let Value::Object(mut fields) = parsed else { bail!(not_a_row(name, line)) };
    let Said { text, channel, before } =
        said(&mut fields).with_context(|| not_a_row(name, line))?;
    let named = match fields.get("channel") {
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
        channel: named.or(channel),
        before,
        text,
    })
}

fn not_a_row(name: &str, line: usize) -> String {
    format!("`{name}` line {line} is not a JSON object with a text in `text` or `messages`")
}

/// The text of a row, its channel, and the turns before it.
struct Said {
    text: String,
    channel: Option<Channel>,
    before: Vec<ChatMessage>,
}

/// A turn as OpenAI's protocol writes it; what else it holds is no text for the model.
#[derive(Deserialize)]
struct Turn {
    role: ChatRole,
    /// A string, parts of which those with a text count, or nothing, where tools are called.
    #[serde(default)]
    content: Value,
}

fn said(fields: &mut Map<String, Value>) -> Option<Said> {
    match (fields.remove("text"), fields.remove("messages")) {
        (Some(Value::String(text)), None) => Some(Said { text, channel: None, before: Vec::new() }),
        (None, Some(messages)) => {
            let turns: Vec<Turn> = serde_json::from_value(messages).ok()?;
            let turns: Option<Vec<ChatMessage>> = turns.into_iter().map(Turn::message).collect();
            let mut before = turns?;
            let last = before.pop()?;
            let channel = match last.role {
                ChatRole::User => Some(Channel::User),
                ChatRole::Tool => Some(Channel::Tool),
                ChatRole::System | ChatRole::Assistant => None,
            };
            Some(Said { text: last.content, channel, before })
        }
        _ => None,
    }
}

impl Turn {
    fn message(self) -> Option<ChatMessage> {
        let text = match self.content {
            Value::Null => String::new(),
            Value::String(text) => text,
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
        };
        Some(ChatMessage::new(self.role, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_row_is_named_by_its_line() {
        let error =
            read("in", "{\"text\": \"a\"}\n\n{\"txt\": \"b\"}\n").expect_err("no text").to_string();
        assert_eq!(error, "`in` line 3 is not a JSON object with a text in `text` or `messages`");
        assert!(read("in", "\n\n").is_err(), "no row at all");
    }

    #[test]
    fn an_id_is_kept_as_it_was_written() {
        let rows =
            read("in", "{\"text\": \"a\", \"id\": 7, \"channel\": \"tool\"}\n").expect("a row");
        assert_eq!((rows[0].id.clone(), rows[0].channel), (Some(7.into()), Some(Channel::Tool)));
    }

    #[test]
    fn of_a_conversation_the_last_turn_counts_and_the_others_come_before_it() {
        let row = r#"{"messages": [{"role": "user", "content": "a"},
            {"role": "assistant", "content": null, "tool_calls": []},
            {"role": "tool", "content": [{"type": "text", "text": "b"}]}]}"#;
        let rows = read("in", &row.replace('\n', " ")).expect("a row");
        assert_eq!((rows[0].text.as_str(), rows[0].channel), ("b", Some(Channel::Tool)));
        assert_eq!(rows[0].before.len(), 2);
        for wrong in [r#"{"messages": []}"#, r#"{"messages": [{"role": "x", "content": "a"}]}"#] {
            assert!(read("in", wrong).is_err(), "{wrong}");
        }
    }
}
