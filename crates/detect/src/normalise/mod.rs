//! A text as the rules read it, with a map back to the text as it was.
//!
//! In reading order:
//!
//! - `fold`: case, compatibility forms, marks, white space, invisible characters.
//! - `lookalike`: letters of other scripts in Latin words.
//! - `hidden`: what the invisible characters were, and what they say.
//! - `escapes` and `encoded`: percent signs, entities, backslashes; base64 and hexadecimal.
//! - `spelled`: digits for letters, and letters written apart.
//! - `offsets`: the map.
//!
//! Everything here is linear in the text, in time and in memory.

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
pub(crate) use hidden::{Hidden, Message};
pub use offsets::Offsets;
pub(crate) use spelled::{Respelled, Vocabulary};

/// The longest text that is screened: 8 MiB. More is no text that a model reads at once.
pub const MAX_TEXT_BYTES: usize = 8 << 20;

/// The text is longer than [`MAX_TEXT_BYTES`]. Nothing of it was screened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text has {len} bytes and at most {MAX_TEXT_BYTES} are screened at once; split it")]
pub struct TextTooLong {
    /// Bytes of the text.
    pub len: usize,
}

/// A text in the form that rules match: NFKC, lower case, no marks on Latin letters, no invisible
/// characters, look-alikes read as Latin where they pose as it, one blank or line end for every
/// run of white space.
///
/// Letters of other scripts, and their marks, stay. Decoded parts are views of their own and not
/// in here.
#[derive(Debug, Clone)]
pub struct Normalised {
    text: String,
    /// From this text outwards.
    layers: Vec<Offsets>,
    pub(crate) hidden: Hidden,
}

/// Normalises a text.
///
/// # Errors
/// [`TextTooLong`].
pub fn normalise(text: &str) -> Result<Normalised, TextTooLong> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(TextTooLong { len: text.len() });
    }
    Ok(normalise_bounded(text))
}

/// Normalises a text that is known to be within the limit.
pub(crate) fn normalise_bounded(text: &str) -> Normalised {
    let folded = fold::fold(text);
    let mut normalised =
        Normalised { text: folded.text, layers: vec![folded.offsets], hidden: folded.hidden };
    let latinised = folded.foreign.then(|| lookalike::latinise(&normalised.text)).flatten();
    if let Some(latinised) = latinised {
        for word in latinised.mixed_words {
            let word = normalised.original(word);
            normalised.hidden.mixed_words.note(word);
        }
        normalised.text = latinised.text;
        normalised.layers.insert(0, latinised.offsets);
    }
    normalised
}

impl Normalised {
    /// The normalised text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The bytes of the original text that bytes `view` of the normalised one stand for, on
    /// character boundaries.
    #[must_use]
    pub fn original(&self, view: Range<usize>) -> Range<usize> {
        self.layers.iter().fold(view, |range, layer| layer.original(range))
    }
}

/// One word, or a piece of a rule, in the form that [`normalise`] gives text.
pub(crate) fn fold_literal(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization as _;

    let mut folded = String::with_capacity(text.len());
    for character in text.nfkc() {
        fold::fold_char(character, &mut folded);
    }
    folded
}
