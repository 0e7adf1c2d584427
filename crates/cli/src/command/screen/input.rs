//! What `custody screen` reads: texts, JSON Lines, folders and diffs, each cut into pieces that are
//! screened alone.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use custody_models::chat::ChatMessage;

use super::channel::Channel;
use super::{diff, rows};
use crate::file_error::unreadable;

/// The largest input that is read, in bytes. A detector's answer about half a text is no answer, so more
/// is refused and never cut.
pub(crate) const MAX_INPUT_BYTES: u64 = 256 << 20;

/// What standard input is called.
const STANDARD_INPUT: &str = "standard input";

/// How the bytes of an input are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Layout {
    /// JSON Lines if every line is an object with a `text` or `messages`, a diff if it begins like one, else one text
    Auto,
    /// The whole input is one text
    Text,
    /// One JSON object a line, with a field `text` and perhaps `id` and `channel`, or with `messages`, of which
    /// the last one counts and the others come before it
    Jsonl,
    /// A unified diff: the added lines, file by file
    Diff,
}

/// One text to screen, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The file, or `standard input`.
    pub(crate) source: String,
    /// A row's own id.
    pub(crate) id: Option<serde_json::Value>,
    /// The line of the source, from 1, that each line of `text` stands on.
    pub(crate) lines: Lines,
    /// How the text entered, when the input says so.
    pub(crate) channel: Option<Channel>,
    /// The turns of a conversation before it, oldest first.
    pub(crate) before: Vec<ChatMessage>,
    /// What is screened.
    pub(crate) text: String,
}

/// Which lines of its source a piece is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lines {
    /// All of them, from the first.
    All,
    /// One line: the row of a JSON Lines file.
    Row(usize),
    /// The added lines of a diff, by their number in the new file.
    Added(Vec<usize>),
}

impl Piece {
    /// The line of the source in which byte `at` of the text stands.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        let breaks = self.text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        match &self.lines {
            Lines::All => breaks + 1,
            Lines::Row(line) => *line,
            Lines::Added(lines) => {
                let last = lines.last().copied().unwrap_or(1);
                lines.get(breaks).copied().unwrap_or(last)
            }
        }
    }
}

/// Everything that was named, in order, folders in the order of their names.
///
/// # Errors
/// When something cannot be read, is too large, is not text, or is not laid out as `layout` says. Nothing
/// is screened then: a report about a part of the input would read like one about all of it.
pub(crate) fn read(inputs: &[PathBuf], layout: Layout) -> anyhow::Result<Vec<Piece>> {
    let standard_input = [PathBuf::from("-")];
    let inputs = if inputs.is_empty() { &standard_input[..] } else { inputs };
    let mut pieces = Vec::new();
    for input in inputs {
        if input.as_os_str() == "-" {
            pieces.extend(named(STANDARD_INPUT, std::io::stdin().lock(), layout)?);
        } else if input.is_dir() {
            read_folder(input, layout, &mut pieces)?;
        } else {
            let file = std::fs::File::open(input).with_context(|| unreadable(input))?;
            let name = input.display().to_string();
            pieces.extend(named(&name, file, layout)?);
        }
    }
    Ok(pieces)
}

/// The text files below `folder`. Hidden folders and files that are not text are left out: nobody asked
/// about each of them by name.
fn read_folder(folder: &Path, layout: Layout, pieces: &mut Vec<Piece>) -> anyhow::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .with_context(|| unreadable(folder))?
        .collect::<Result<_, _>>()
        .with_context(|| unreadable(folder))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let kind = entry.file_type().with_context(|| unreadable(folder))?;
        if kind.is_dir() {
            if !entry.file_name().to_string_lossy().starts_with('.') {
                read_folder(&path, layout, pieces)?;
            }
        } else if kind.is_file() {
            let name = path.display().to_string();
            let file =
                std::fs::File::open(&path).with_context(|| format!("could not read `{name}`"))?;
            let bytes = bounded(file, &name)?;
            if is_text(&bytes) {
                pieces.extend(cut(&name, &bytes, layout)?);
            }
        }
    }
    Ok(())
}

/// The pieces of an input that somebody named. One that holds nothing is refused: most likely what should
/// have filled it failed, and "nothing found" would read like an answer. A diff may well be empty.
fn named(name: &str, from: impl std::io::Read, layout: Layout) -> anyhow::Result<Vec<Piece>> {
    let bytes = bounded(from, name)?;
    if bytes.trim_ascii().is_empty() {
        if layout == Layout::Diff {
            return Ok(Vec::new());
        }
        bail!("`{name}` is empty, so nothing can be screened; add `--layout diff` if it is a diff");
    }
    cut(name, &bytes, layout)
}

fn bounded(mut from: impl std::io::Read, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.by_ref()
        .take(MAX_INPUT_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("could not read `{name}`"))?;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        bail!("`{name}` is larger than {} MB; screen it in parts", MAX_INPUT_BYTES >> 20);
    }
    Ok(bytes)
}

fn cut(name: &str, bytes: &[u8], layout: Layout) -> anyhow::Result<Vec<Piece>> {
    let text = text(name, bytes)?;
    Ok(match layout {
        Layout::Text => vec![whole(name, text)],
        Layout::Jsonl => rows::read(name, &text)?,
        Layout::Diff => diff::read(name, &text)?,
        Layout::Auto if rows::looks_like_rows(&text) => rows::read(name, &text)?,
        Layout::Auto if diff::looks_like_a_diff(&text) => diff::read(name, &text)?,
        Layout::Auto => vec![whole(name, text)],
    })
}

fn whole(name: &str, text: String) -> Piece {
    let source = name.to_owned();
    Piece { source, id: None, lines: Lines::All, channel: None, before: Vec::new(), text }
}

/// UTF-8 or UTF-16 with its mark; anything else is refused, since a detector would read other words than
/// the model does.
fn text(name: &str, bytes: &[u8]) -> anyhow::Result<String> {
    let decoded = match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
        plain => match std::str::from_utf8(plain) {
            Ok(text) => Some(text.to_owned()),
            Err(wrong) => {
                let line =
                    plain.iter().take(wrong.valid_up_to()).filter(|byte| **byte == b'\n').count()
                        + 1;
                bail!("`{name}` line {line} is not UTF-8; convert it first (`iconv -t utf-8`)");
            }
        },
    };
    decoded.with_context(|| format!("`{name}` is not whole UTF-8 or UTF-16; convert it first"))
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    String::from_utf16(&pairs.iter().map(|pair| unit(*pair)).collect::<Vec<_>>()).ok()
}

/// Whether a file found in a folder is text: it decodes, and holds no NUL.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && text("", bytes).is_ok()
        || matches!(bytes, [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..]) && text("", bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, layout: Layout) -> Vec<Piece> {
        cut("in", text.as_bytes(), layout).expect("the input is well formed")
    }

    #[test]
    fn the_layout_is_recognised() {
        let cases = [
            ("Ignore this file.\n", 1, Lines::All),
            ("{\"id\": 1, \"text\": \"a\"}\n\n{\"text\": \"b\"}\n", 2, Lines::Row(1)),
            ("--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n a\n+b\n", 1, Lines::Added(vec![2])),
            ("{\"text\": 3}\n", 1, Lines::All),
        ];
        for (text, number, lines) in cases {
            let pieces = pieces(text, Layout::Auto);
            assert_eq!((pieces.len(), &pieces[0].lines), (number, &lines), "{text:?}");
        }
    }

    #[test]
    fn a_byte_is_found_on_its_line_of_the_source() {
        let plain = pieces("a\nb\nc", Layout::Text);
        assert_eq!(plain[0].line_of(4), 3);
        let diff = pieces("--- a/x\n+++ b/x\n@@ -1,2 +5,3 @@\n a\n+b\n+c\n", Layout::Auto);
        assert_eq!((diff[0].line_of(0), diff[0].line_of(2)), (6, 7));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_with_their_line() {
        let error = cut("in", b"fine\n\xFF\xFFx", Layout::Auto).expect_err("not UTF-8").to_string();
        assert_eq!(error, "`in` line 2 is not UTF-8; convert it first (`iconv -t utf-8`)");
        let wide: Vec<u8> = [0xFF, 0xFE]
            .into_iter()
            .chain("hi".encode_utf16().flat_map(u16::to_le_bytes))
            .collect();
        assert_eq!(cut("in", &wide, Layout::Auto).expect("UTF-16")[0].text, "hi");
        assert!(cut("in", &wide[..5], Layout::Auto).is_err(), "half a unit");
    }
}
