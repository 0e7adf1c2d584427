//! API keys, which are never shown.

use std::fmt;

use zeroize::Zeroizing;

use super::options::OptionsError;

/// The default environment variable of the key.
pub const DEFAULT_KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// An API key. Nothing that this crate prints, returns or logs contains it; its bytes are wiped when it
/// is dropped.
#[derive(Clone)]
pub struct Secret {
    /// Not empty, visible ASCII only.
    text: Zeroizing<String>,
}

/// The minimum length of a part of the key that is redacted. Shorter ones occur by chance.
const SHORTEST_PART: usize = 8;

impl Secret {
    /// Creates a key without the blanks around it.
    ///
    /// # Errors
    /// [`OptionsError::Key`] if it is empty or has characters that are not allowed in a header.
    pub fn new(text: &str) -> Result<Self, OptionsError> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(OptionsError::Key);
        }
        Ok(Self { text: Zeroizing::new(text.to_owned()) })
    }

    /// The key in an environment variable, if it is set and not blank.
    ///
    /// # Errors
    /// [`OptionsError::KeyVariable`] if its value is not a valid key.
    pub fn from_environment(variable: &str) -> Result<Option<Self>, OptionsError> {
        let Some(value) = std::env::var_os(variable) else { return Ok(None) };
        let text = Zeroizing::new(
            value
                .into_string()
                .map_err(|_| OptionsError::KeyVariable { variable: variable.to_owned() })?,
        );
        if text.trim().is_empty() {
            return Ok(None);
        }
        Self::new(&text)
            .map(Some)
            .map_err(|_| OptionsError::KeyVariable { variable: variable.to_owned() })
    }

    /// The key itself.
    pub(super) fn expose(&self) -> &str {
        &self.text
    }

    /// Redacts the key and longer parts of it in a text, ignoring case: a server may echo it whole, truncated,
    /// or with its middle masked.
    pub(super) fn redact(&self, text: &str) -> String {
        let key = self.text.as_bytes();
        let width = key.len().min(SHORTEST_PART);
        let mut is_hidden = vec![false; text.len()];
        for (at, window) in text.as_bytes().windows(width).enumerate() {
            if key.windows(width).any(|part| part.eq_ignore_ascii_case(window)) {
                is_hidden.iter_mut().skip(at).take(width).for_each(|hidden| *hidden = true);
            }
        }
        let mut shown = String::with_capacity(text.len());
        let mut was_hidden = false;
        for (at, character) in text.char_indices() {
            let hidden = is_hidden.get(at).copied().unwrap_or(true);
            match (was_hidden, hidden) {
                (_, false) => shown.push(character),
                (false, true) => shown.push_str("[key]"),
                (true, true) => {}
            }
            was_hidden = hidden;
        }
        shown
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret([key])")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[key]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new("sk-0123456789abcdef").unwrap();
        assert_eq!(format!("{secret} {secret:?} {secret:#?}"), "[key] Secret([key]) Secret([key])");
    }

    #[test]
    fn the_key_and_its_longer_parts_are_redacted() {
        let secret = Secret::new("sk-0123456789abcdef").unwrap();
        let cases = [
            ("wrong key sk-0123456789abcdef.", "wrong key [key]."),
            ("sk-0123456789abcdef", "[key]"),
            ("wrong key SK-0123456789ABCDEF", "wrong key [key]"),
            ("wrong key sk-0123456***9abcdef", "wrong key [key]***9abcdef"),
            ("é01234567é89abcdefé", "é[key]é[key]é"),
            ("error 0123456", "error 0123456"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(secret.redact(text), expected);
        }
        assert_eq!(Secret::new("key").unwrap().redact("no key, ke"), "no [key], ke");
    }

    #[test]
    fn only_visible_ascii_is_a_key() {
        for (text, expected) in [("k", true), (" k\n", true), ("", false), (" ", false)] {
            assert_eq!(Secret::new(text).is_ok(), expected, "{text:?}");
        }
        for text in ["a b", "a\r\nx-other: b", "ключ", "a\u{7f}"] {
            assert!(Secret::new(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_unset_variable_has_no_key() {
        assert!(Secret::from_environment("CUSTODY_NO_SUCH_KEY").unwrap().is_none());
        let set = Secret::from_environment("CARGO_PKG_NAME").unwrap().unwrap();
        assert_eq!(set.expose(), "custody-models");
    }
}
