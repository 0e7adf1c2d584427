//! Keys of memory items: their grammar, and what two keys look like to a reader.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use custody_arguments::is_invisible;
use custody_log::Digest;
use serde::{Deserialize, Serialize};
use unicode_normalization::{UnicodeNormalization, is_nfc};
use unicode_security::confusable_detection::skeleton;

/// The most bytes a key may have.
pub const MAX_KEY_BYTES: usize = 512;

/// The name of a memory item: 1 to 512 bytes of NFC text, `/` separating segments, no empty,
/// `.` or `..` segment, no control or invisible character.
///
/// Source: docs/design.md §2.2.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(Arc<Named>);

struct Named {
    text: Box<str>,
    // Worked out when first asked for: most keys of a log are never compared with a protected one.
    looks: OnceLock<[u64; 2]>,
}

/// Why a text is not a key. One line, with what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryKeyError {
    /// No text at all.
    #[error("a key cannot be empty; give the item a name")]
    Empty,
    /// Over [`MAX_KEY_BYTES`].
    #[error("a key has at most {MAX_KEY_BYTES} bytes, this one has {bytes}; shorten it")]
    TooLong {
        /// The length found.
        bytes: usize,
    },
    /// A character that cannot be seen or that steers a terminal.
    #[error("the key `{key}` contains `{character}`, which a reader cannot see; remove it")]
    Invisible {
        /// The key, escaped.
        key: String,
        /// The character as `U+XXXX`.
        character: String,
    },
    /// Text that another spelling of equals.
    #[error("the key `{key}` is not in Unicode normal form C; write it as `{normal}`")]
    NotNormal {
        /// The key, escaped.
        key: String,
        /// The spelling to use.
        normal: String,
    },
    /// An empty, `.` or `..` segment.
    #[error("the key `{key}` has the segment `{segment}`; segments between `/` need a name")]
    Segment {
        /// The key.
        key: String,
        /// The segment at fault.
        segment: String,
    },
}

impl Key {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Whether a reader could take one key for the other although they differ: equal after
    /// Unicode's confusable skeleton (UTS 39) and without regard to case, or differing only in
    /// the blanks and dots that some file systems drop. Taken broadly: `mall` resembles `mail`.
    pub fn resembles(&self, other: &Self) -> bool {
        self != other && self.looks().iter().any(|look| other.looks().contains(look))
    }

    /// Two fingerprints of the appearance: as it is, and as the plain lower-case text it stands for.
    /// The long `ſ` looks like `f` and stands for `s`; `Η` looks like `H`, its lower case like `n`.
    pub fn looks(&self) -> [u64; 2] {
        *self.0.looks.get_or_init(|| {
            let lower = self.0.text.nfkc().collect::<String>().to_lowercase();
            [look(&self.0.text), look(&lower)]
        })
    }
}

/// Folds until nothing changes: a fold can bring up what another then applies to, as the `m` of `M`
/// becomes `rn`, and a key may mix look-alikes and cases so that no single order sees through it.
fn look(text: &str) -> u64 {
    const FOLDS: usize = 8;
    let mut shown = folded(text);
    for _ in 1..FOLDS {
        let again = folded(&shown);
        if again == shown {
            break;
        }
        shown = again;
    }
    let bytes = Digest::of(shown.as_bytes()).0;
    u64::from_be_bytes([
        bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
    ])
}

fn folded(text: &str) -> String {
    let shown: String = skeleton(text).collect();
    let lower = shown.nfkc().collect::<String>().to_lowercase();
    // `I` looks like `l` and is the capital of `i`, so all three are one.
    trimmed_segments(&lower).replace('i', "l")
}

fn trimmed_segments(text: &str) -> String {
    let dropped = |c: char| c == '.' || c.is_whitespace();
    let segments: Vec<&str> =
        text.split('/').map(|segment| segment.trim_start().trim_end_matches(dropped)).collect();
    segments.join("/")
}

/// The beginning of a text that is no key, without what would steer a terminal.
fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

impl FromStr for Key {
    type Err = MemoryKeyError;

    fn from_str(text: &str) -> Result<Self, MemoryKeyError> {
        if text.is_empty() {
            return Err(MemoryKeyError::Empty);
        }
        if text.len() > MAX_KEY_BYTES {
            return Err(MemoryKeyError::TooLong { bytes: text.len() });
        }
        if let Some(c) = text.chars().find(|c| is_invisible(*c)) {
            let character = format!("U+{:04X}", u32::from(c));
            return Err(MemoryKeyError::Invisible { key: shown(text), character });
        }
        if !is_nfc(text) {
            return Err(MemoryKeyError::NotNormal {
                key: shown(text),
                normal: text.nfc().collect(),
            });
        }
        if let Some(segment) = text.split('/').find(|s| matches!(*s, "" | "." | "..")) {
            return Err(MemoryKeyError::Segment { key: shown(text), segment: segment.to_owned() });
        }
        Ok(Self(Arc::new(Named { text: text.into(), looks: OnceLock::new() })))
    }
}

impl TryFrom<String> for Key {
    type Error = MemoryKeyError;

    fn try_from(text: String) -> Result<Self, MemoryKeyError> {
        text.parse()
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.as_str().to_owned()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        text.parse().unwrap()
    }

    #[test]
    fn a_key_is_nfc_text_of_named_segments_without_invisible_characters() {
        for good in ["a", "notes/2026/plan", "SOUL.md", "grün", "日本", "a b", ".cursorrules"] {
            assert!(good.parse::<Key>().is_ok(), "{good}");
        }
        let long = "x".repeat(MAX_KEY_BYTES + 1);
        let bad = [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "a/../b",
            "a/./b",
            "a\0b",
            "a\nb",
            "\u{1b}[2J",
            "SO\u{200B}UL.md",
            "a\u{202E}b",
            "e\u{301}",
            "a\u{E0041}",
            "SOUL\u{2800}.md",
            "SOUL\u{1BCA0}.md",
            &long,
        ];
        for text in bad {
            assert!(text.parse::<Key>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_look_alike_is_found_whatever_it_is_made_of() {
        let soul = key("SOUL.md");
        let alike = [
            "soul.md",
            "Soul.MD",
            "SOUL.md.",
            "SOUL.md ",
            " SOUL.md",
            "SОUL.md",
            "ЅOUL.md",
            "S0UL.md",
            "ＳＯＵＬ.md",
            "SOUI.md",
            "SOUL․md",
            "𝐒𝐎𝐔𝐋.md",
        ];
        for text in alike {
            assert!(key(text).resembles(&soul), "{text}");
            assert!(soul.resembles(&key(text)), "{text}");
        }
        for text in ["SOUL.md", "SOUL.txt", "notes", "soul/md", "a/SOUL.md"] {
            assert!(!key(text).resembles(&soul), "{text}");
        }
    }

    #[test]
    fn a_look_alike_is_found_when_it_mixes_characters_and_cases() {
        let alike = [
            ("MEMORY.md", "\u{39C}EmORY.md"),
            ("IDENTITY.md", "lDENTiTY.md"),
            ("SOUL.md", "SOUL.md．"),
            ("SOUL.md", "SOUL.md.\u{A0}."),
            ("SOUL.md", "SOUL.md…"),
            ("SOUL.md", "SOUL.md٠"),
            ("agents/SOUL.md", "agents∕soul.md"),
        ];
        for (protected, text) in alike {
            assert!(key(text).resembles(&key(protected)), "{text} is not {protected}");
        }
    }

    #[test]
    fn every_character_that_looks_like_a_letter_is_found_beside_a_change_of_case() {
        let shown = |c: char| skeleton(c.encode_utf8(&mut [0; 4])).collect::<String>();
        let letters: Vec<(char, String)> =
            ('0'..='z').filter(char::is_ascii_alphanumeric).map(|c| (c, shown(c))).collect();
        let mut found = 0;
        for c in ('\0'..'\u{20000}').filter(|c| !is_invisible(*c)) {
            let Ok(imitation) = format!("{c}Im").parse::<Key>() else { continue };
            let looks = shown(c);
            for (letter, _) in letters.iter().filter(|(letter, of)| *letter != c && *of == looks) {
                assert!(imitation.resembles(&key(&format!("{letter}iM"))), "{c} for {letter}");
                found += 1;
            }
        }
        assert!(found > 1000, "{found}");
    }
}
