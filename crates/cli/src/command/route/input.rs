//! What is routed: texts as arguments, files, folders, or standard input.

use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::command::screen::input::{self, Layout, Lines, Piece};

/// What a text on the command line is called.
pub(super) const ARGUMENT: &str = "argument";

/// Everything that was named, in order; standard input when nothing was.
///
/// # Errors
/// As for `custody screen`, and when an argument is one word and no file: a misspelt file would be routed as the text
/// of its name, and found to be clean.
pub(super) fn read(arguments: &[String], text: bool, layout: Layout) -> anyhow::Result<Vec<Piece>> {
    if arguments.is_empty() {
        return input::read(&[], layout);
    }
    let mut pieces = Vec::new();
    for argument in arguments {
        let is_text =
            text || (argument.contains(char::is_whitespace) && !Path::new(argument).exists());
        if is_text {
            pieces.push(said(argument)?);
        } else if argument == "-" || Path::new(argument).exists() {
            pieces.extend(input::read(&[PathBuf::from(argument)], layout)?);
        } else {
            bail!("there is no file `{argument}`; add `--text` if it is the text itself");
        }
    }
    Ok(pieces)
}

fn said(text: &str) -> anyhow::Result<Piece> {
    if text.trim().is_empty() {
        bail!("a text is empty, so there is nothing to route; look at what should have filled it");
    }
    Ok(Piece {
        source: ARGUMENT.to_owned(),
        id: None,
        lines: Lines::All,
        channel: None,
        before: Vec::new(),
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(arguments: &[&str]) -> Vec<String> {
        arguments.iter().map(|&argument| argument.to_owned()).collect()
    }

    #[test]
    fn several_words_are_a_text_and_one_word_is_a_file() {
        let read = |given: &[&str], text| read(&arguments(given), text, Layout::Auto);
        let pieces = read(&["What time is it?", "And where?"], false).unwrap();
        assert_eq!(
            pieces.iter().map(|piece| &piece.text).collect::<Vec<_>>(),
            ["What time is it?", "And where?"]
        );
        let missing = read(&["prompts.jsnl"], false).unwrap_err().to_string();
        assert_eq!(
            missing,
            "there is no file `prompts.jsnl`; add `--text` if it is the text itself"
        );
        assert_eq!(read(&["Hello"], true).unwrap()[0].text, "Hello");
        assert!(read(&["  "], true).is_err());
    }
}
