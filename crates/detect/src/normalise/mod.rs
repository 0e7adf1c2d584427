//! The normal form of a text, with a map back to the original.
//!
//! In reading order:
//!
//! - `offsets`: the map.
//! - `fold`: case, compatibility forms, marks, white space, invisible characters.
//! - `lookalike`: letters of other scripts in Latin words.
//! - `hidden`: invisible characters, and the messages they encode.
//! - `escapes` and `encoded`: percent encoding, entities, backslashes; base64 and hexadecimal.
//! - `spelled`: digits for letters, and letters with separators.
//!
//! Time and memory are linear in the text.

mod encoded;
mod escapes;
mod fold;
mod hidden;
mod lookalike;
mod offsets;
mod spelled;

use std::ops::Range;

pub(crate) use encoded::encoded_parts;
pub(crate) use escapes::{backslash_at, unescape};
pub(crate) use hidden::{HiddenCharacters, Message};
pub use offsets::Offsets;
pub(crate) use spelled::{RespelledText, Vocabulary};

/// The longest text that is screened: 8 MiB. No model reads more at once.
pub const MAX_TEXT_BYTES: usize = 8 << 20;

/// The text is longer than [`MAX_TEXT_BYTES`] and was not screened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is {len} bytes; the limit is {MAX_TEXT_BYTES}")]
pub struct TextTooLong {
    /// The length of the text in bytes.
    pub len: usize,
}

/// A text in the form that rules match: NFKC, lower case, no marks on Latin letters, no invisible characters,
/// look-alikes replaced by Latin letters, one space or line end for every run of white space.
///
/// Letters of other scripts and their marks remain. Decoded parts are separate views and not included.
#[derive(Debug, Clone)]
pub struct NormalisedText {
    text: String,
    /// The maps from this text to the original, innermost first.
    layers: Vec<Offsets>,
    pub(crate) hidden: HiddenCharacters,
}

/// Normalises a text.
///
/// # Errors
/// [`TextTooLong`].
pub fn normalise(text: &str) -> Result<NormalisedText, TextTooLong> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(TextTooLong { len: text.len() });
    }
    Ok(normalise_bounded(text))
}

/// Normalises a text that is known to be within the limit.
pub(crate) fn normalise_bounded(text: &str) -> NormalisedText {
    let folded = fold::fold(text);
    let mut normalised =
        NormalisedText { text: folded.text, layers: vec![folded.offsets], hidden: folded.hidden };
    let latinised =
        folded.has_foreign_letters.then(|| lookalike::latinise(&normalised.text)).flatten();
    if let Some(latinised) = latinised {
        for word in latinised.mixed_words {
            let word = normalised.original(word);
            normalised.hidden.mixed_words.record(word);
        }
        normalised.text = latinised.text;
        normalised.layers.insert(0, latinised.offsets);
    }
    normalised
}

impl NormalisedText {
    /// The normalised text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The bytes of the original text that correspond to bytes `view` of the normalised one, on character boundaries.
    #[must_use]
    pub fn original(&self, view: Range<usize>) -> Range<usize> {
        self.layers.iter().fold(view, |range, layer| layer.original(range))
    }
}

/// A word or a part of a rule in the form that [`normalise`] produces.
pub(crate) fn fold_literal(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization as _;

    let mut folded = String::with_capacity(text.len());
    for character in text.nfkc() {
        fold::fold_char(character, &mut folded);
    }
    folded
}
