//! The texts written for this project: attacks, ordinary texts that look like attacks, and documents in
//! which something can be planted.

use serde::Deserialize;

/// The place in a carrier where something is planted.
pub const MARKER: &str = "{INSERT}";

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Written {
    /// Its id.
    pub id: String,
    /// The text.
    pub text: String,
    /// What kind of text it is, for reports by kind.
    pub kind: String,
    /// `en`, `de` …
    pub lang: String,
    /// Of an attack, whether it is said to the assistant or stands in what the assistant reads.
    #[serde(default)]
    pub form: Option<WrittenForm>,
}

/// A harmless sentence.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Aside {
    /// Its id.
    pub id: String,
    /// The text.
    pub text: String,
}

/// How an attack arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WrittenForm {
    /// Said to the assistant.
    Direct,
    /// Planted in a document.
    Buried,
}

/// The kinds of written text that are documents.
const DOCUMENT_KINDS: [&str; 6] =
    ["code_answer", "code_file", "email", "table", "technical", "tool_output"];

/// Whether an ordinary text is one that an assistant reads for somebody.
pub fn is_document(row: &Written) -> bool {
    DOCUMENT_KINDS.contains(&row.kind.as_str())
}

/// Ordinary texts, many of which hold an attacker's words in an innocent sense.
pub fn benign() -> Vec<Written> {
    rows(include_str!("../../written/benign.jsonl"))
}

/// Attacks.
pub fn attacks() -> Vec<Written> {
    rows(include_str!("../../written/attacks.jsonl"))
}

/// Ordinary documents with one [`MARKER`] each.
pub fn carriers() -> Vec<Written> {
    rows(include_str!("../../written/carriers.jsonl"))
}

/// Harmless sentences, requests to people among them, for the same places.
pub fn asides() -> Vec<Aside> {
    rows(include_str!("../../written/asides.jsonl"))
}

/// The bytes of the four files, by name, for the list of what was trained on.
pub fn files() -> [(&'static str, &'static [u8]); 4] {
    [
        ("written/asides.jsonl", include_bytes!("../../written/asides.jsonl")),
        ("written/attacks.jsonl", include_bytes!("../../written/attacks.jsonl")),
        ("written/benign.jsonl", include_bytes!("../../written/benign.jsonl")),
        ("written/carriers.jsonl", include_bytes!("../../written/carriers.jsonl")),
    ]
}

fn rows<T: for<'de> Deserialize<'de>>(text: &str) -> Vec<T> {
    text.lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).expect("the committed rows are well formed"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_written_row_is_whole_and_stands_once() {
        let all = [benign(), attacks(), carriers()].concat();
        let ids: BTreeSet<&str> = all.iter().map(|row| row.id.as_str()).collect();
        let texts: BTreeSet<&str> = all.iter().map(|row| row.text.as_str()).collect();
        assert_eq!((ids.len(), texts.len()), (all.len(), all.len()));
        assert!(all.iter().all(|row| !row.text.trim().is_empty()));
        assert!(attacks().iter().all(|row| row.form.is_some()));
        assert!(carriers().iter().all(|row| row.text.matches(MARKER).count() == 1));
    }
}
