//! Names of tools: what may be one, and what two names look like to a reader.

use std::fmt;

use unicode_normalization::UnicodeNormalization;
use unicode_security::confusable_detection::skeleton;

use crate::visible::is_invisible;

/// The most characters that a tool's name may have.
pub const MAX_TOOL_NAME: usize = 128;
/// How much of a name that is none is shown, in characters.
const SHOWN: usize = 40;
/// How often a look is folded at most: a fold can bring up what another applies to, as the `m` of `M` becomes `rn`.
const MAX_FOLDS: usize = 8;

/// The name of a tool: 1 to 128 characters, each of which is seen; no blank.
///
/// Source: docs/design.md §5.2 (G19).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolName<'a>(&'a str);

/// Why a text is no name of a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolNameError {
    /// No text at all.
    #[error("a tool's name cannot be empty")]
    Empty,
    /// Over [`MAX_TOOL_NAME`].
    #[error("a tool's name has at most {MAX_TOOL_NAME} characters; `{0}` is longer")]
    TooLong(ShownName),
    /// A character that nobody sees, or a blank.
    #[error("the tool's name `{name}` contains {character}, which a reader cannot see")]
    Invisible {
        /// The name, escaped.
        name: ShownName,
        /// The character as `U+XXXX`.
        character: String,
    },
    /// What another spelling of equals.
    #[error("the tool's name `{0}` is not in Unicode normal form C")]
    NotNormal(ShownName),
}

/// The beginning of a text that is no name, without what would steer a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownName(String);

impl ShownName {
    /// The beginning of `text`.
    pub fn of(text: &str) -> Self {
        let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
        if text.chars().nth(SHOWN).is_some() {
            shown.push('…');
        }
        Self(shown)
    }
}

impl fmt::Display for ShownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'a> ToolName<'a> {
    /// Checks a name.
    ///
    /// # Errors
    /// [`ToolNameError`] when it is empty, too long, or holds what nobody sees.
    pub fn parse(name: &'a str) -> Result<Self, ToolNameError> {
        if name.is_empty() {
            return Err(ToolNameError::Empty);
        }
        if name.chars().nth(MAX_TOOL_NAME).is_some() {
            return Err(ToolNameError::TooLong(ShownName::of(name)));
        }
        if let Some(c) = name.chars().find(|c| c.is_whitespace() || is_invisible(*c)) {
            let character = format!("U+{:04X}", u32::from(c));
            return Err(ToolNameError::Invisible { name: ShownName::of(name), character });
        }
        if !name.nfc().eq(name.chars()) {
            return Err(ToolNameError::NotNormal(ShownName::of(name)));
        }
        Ok(Self(name))
    }

    /// The text.
    pub const fn as_str(&self) -> &'a str {
        self.0
    }

    /// Whether a reader could take one name for the other although they differ: equal after Unicode's confusable
    /// skeleton (UTS 39), without regard to case and to the signs between words. Taken broadly: `getFile` resembles
    /// `get_file`.
    pub fn resembles(&self, other: &str) -> bool {
        self.0 != other && look(self.0) == look(other)
    }
}

/// What is left of a name's appearance.
fn look(name: &str) -> String {
    let mut shown = name.nfkc().collect::<String>().to_lowercase();
    for _ in 0..MAX_FOLDS {
        let again = folded(&shown);
        if again == shown {
            break;
        }
        shown = again;
    }
    shown
}

fn folded(name: &str) -> String {
    let shown: String = skeleton(name).collect();
    let lower = shown.nfkc().collect::<String>().to_lowercase();
    // `I` looks like `l` and is the capital of `i`; the skeleton makes a zero an `O`.
    let letters = lower.chars().filter(|c| c.is_alphanumeric());
    letters.map(|c| if matches!(c, 'i' | '1') { 'l' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g19_what_a_reader_cannot_see_is_no_name() {
        let long = "o".repeat(MAX_TOOL_NAME);
        for name in
            ["a", "send_mail", "server/tool", "mail.send", "files::list", "выслать", long.as_str()]
        {
            assert_eq!(
                ToolName::parse(name).map(|name| name.as_str().to_owned()),
                Ok(name.to_owned())
            );
        }
        let longer = "o".repeat(MAX_TOOL_NAME + 1);
        let huge = "send_mail".repeat(12_000);
        for name in [
            "",
            " ",
            "send mail",
            " send",
            "send ",
            "send\n",
            "send\0",
            "\u{1B}[2J",
            "send\u{200B}",
            "send\u{A0}",
            "\u{3164}",
            "\u{2800}",
            "\u{115F}send",
            "\u{202E}dnes",
            "send\u{E0041}",
            "se\u{AD}nd",
            "cafe\u{301}",
            longer.as_str(),
            huge.as_str(),
        ] {
            let error = ToolName::parse(name).expect_err(name).to_string();
            assert!(error.len() < 400 && !error.contains(char::is_control), "{error:?}");
        }
    }

    #[test]
    fn g19_names_that_look_alike_resemble_each_other() {
        let known = "list_files";
        for name in [
            "List_files",
            "LIST_FILES",
            "list_fi1es",
            "list_fiIes",
            "l\u{456}st_files",
            "list\u{2010}files",
            "list-files",
            "list.files",
            "listFiles",
            "1ist_files",
            "\u{FF4C}ist_files",
            "li\u{455}t_files",
        ] {
            assert!(ToolName::parse(name).expect(name).resembles(known), "{name}");
        }
        for name in [
            "list_files",
            "list_file",
            "list_folders",
            "tools.list_files",
            "list_files/../wipe",
            "list_filés",
        ] {
            assert!(!ToolName::parse(name).expect(name).resembles(known), "{name}");
        }
        assert!(ToolName::parse("G0").expect("a name").resembles("go"));
    }
}
