//! A file of results that grows line by line, and is taken up where it ends.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use custody_kernel::route::Reason;
use custody_log::Digest;
use serde::Deserialize;
use serde_json::json;

use super::render::Summary;
use super::{Decision, render};
use crate::command::screen::input::Piece;
use crate::file_error::unwritable;

/// The results of the first pieces of an input.
pub(super) struct Results {
    path: PathBuf,
    file: File,
    router: String,
    reasons: Vec<Reason>,
}

/// What is read back of a line.
#[derive(Deserialize)]
struct Line {
    /// The digest of what was routed.
    input: Digest,
    /// What routed it, as [`Router::identity`](custody_pipeline::Router::identity) says.
    router: String,
    reason: Reason,
}

/// The digest of a text; of a conversation, that of all its turns.
fn digest(piece: &Piece) -> Digest {
    let turns = piece.before.iter().map(|turn| format!("{} {}", turn.role.name(), turn.content));
    let whole: Vec<String> = turns.chain([piece.text.clone()]).collect();
    match whole.as_slice() {
        [text] => Digest::of(text.as_bytes()),
        turns => Digest::of(json!(turns).to_string().as_bytes()),
    }
}

impl Results {
    /// Opens the file, or makes it. A last line that was cut off is written again.
    ///
    /// # Errors
    /// When the file is in use, cannot be written, or holds the results of another input or another way to route.
    pub(super) fn open(path: &Path, pieces: &[Piece], router: String) -> anyhow::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).with_context(|| unwritable(path))?;
        file.try_lock()
            .with_context(|| format!("`{}` is being written by another run", path.display()))?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(|| unwritable(path))?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut reasons = Vec::new();
        for (number, line) in text[..whole].lines().enumerate() {
            let reason = checked_reason(line, pieces.get(number), &router).map_err(|what| {
                anyhow!("`{}` line {} is {what}; name another file", path.display(), number + 1)
            })?;
            reasons.push(reason);
        }
        file.set_len(whole as u64).with_context(|| unwritable(path))?;
        file.seek(SeekFrom::End(0)).with_context(|| unwritable(path))?;
        Ok(Self { path: path.to_owned(), file, router, reasons })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.reasons.len()
    }

    /// Adds one, durably.
    pub(super) fn add(&mut self, piece: &Piece, decision: &Decision) -> anyhow::Result<()> {
        let mut object = render::object(piece, decision);
        object["input"] = json!(digest(piece));
        object["router"] = json!(self.router);
        let mut line = serde_json::to_vec(&object)?;
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.with_context(|| unwritable(&self.path))?;
        self.reasons.push(decision.routed.outcome.reason());
        Ok(())
    }

    /// All of them, those of earlier runs too.
    pub(super) fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        self.reasons.iter().for_each(|reason| summary.add(*reason));
        summary
    }
}

/// The reason in a line of an earlier run, if it is the result of `piece` under `router`; otherwise what it is instead.
fn checked_reason(line: &str, piece: Option<&Piece>, router: &str) -> Result<Reason, &'static str> {
    let line: Line = serde_json::from_str(line).map_err(|_| "no result")?;
    if piece.map(digest) != Some(line.input) {
        return Err("the result of another text");
    }
    if line.router != router {
        return Err("the result of another model, detector or setting");
    }
    Ok(line.reason)
}

#[cfg(test)]
mod tests {
    use custody_models::chat::{ChatMessage, ChatRole};

    use super::*;
    use crate::command::screen::input::Lines;

    #[test]
    fn the_same_words_after_other_turns_are_another_input() {
        let piece = |before: &[&str]| Piece {
            source: "in".to_owned(),
            id: None,
            lines: Lines::Row(1),
            channel: None,
            before: before.iter().map(|turn| ChatMessage::new(ChatRole::User, *turn)).collect(),
            text: "Yes.".to_owned(),
        };
        assert_eq!(digest(&piece(&[])), Digest::of(b"Yes."));
        assert_eq!(digest(&piece(&["a"])), digest(&piece(&["a"])));
        assert_ne!(digest(&piece(&["a"])), digest(&piece(&["b"])));
        assert_ne!(digest(&piece(&["a"])), digest(&piece(&[])));
    }
}
