//! Tokenisation: token ids and their spans in the text.

use std::ops::Range;
use std::path::Path;

use tokenizers::Tokenizer as Vocabulary;

use crate::error::ModelError;

/// The maximum number of bytes read per requested token. English needs about four bytes per token; only
/// text of characters that the vocabulary drops needs more.
const BYTES_PER_TOKEN: usize = 256;

/// The text is tokenised in pieces of about this many bytes, so that the beginning of a long text costs
/// no more than a short text.
const PIECE_BYTES: usize = 2048;

/// White space for every tokenizer. BERT treats other Unicode spaces as control characters, drops
/// them and joins the words around them.
const SPACES: [char; 4] = [' ', '\t', '\n', '\r'];

/// The tokens of one text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    /// The token ids. [`Tokenizer::encode`] adds the start and the end token.
    pub ids: Vec<u32>,
    /// The byte range of each token in the text; empty for the two frame tokens.
    pub spans: Vec<Range<usize>>,
    /// Whether the whole text was tokenised. If not, it continues after the last span.
    pub is_complete: bool,
}

/// A text split into overlapping windows that fit a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows {
    /// Byte ranges of the text, in order, on character boundaries.
    pub ranges: Vec<Range<usize>>,
    /// Whether the windows cover the whole text.
    pub is_complete: bool,
}

/// A tokenizer as published beside a model (`tokenizer.json`), bounded for hostile text.
///
/// It differs from the file in three ways: it does not pad or truncate by itself; a text that
/// contains a special token (`[SEP]`) gets the tokens of its characters, so no text can forge structure; and
/// a run of more than 2048 bytes without white space may be split inside a word.
#[derive(Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    start: u32,
    end: u32,
}

impl Tokenizer {
    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// [`ModelError::Read`] if the file cannot be read; those of [`Self::from_bytes`].
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let bytes = std::fs::read(path)
            .map_err(|cause| ModelError::Read { path: path.to_owned(), cause })?;
        Self::from_bytes(&bytes)
    }

    /// Reads the content of a `tokenizer.json`.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if it is invalid, or does not add one token before and one after a text.
    pub fn from_bytes(json: &[u8]) -> Result<Self, ModelError> {
        let mut vocabulary =
            Vocabulary::from_bytes(json).map_err(|cause| unusable(&cause.to_string()))?;
        vocabulary.with_truncation(None).map_err(|cause| unusable(&cause.to_string()))?;
        vocabulary.with_padding(None);
        vocabulary.set_encode_special_tokens(true);
        let frame = vocabulary.encode("", true).map_err(|cause| unusable(&cause.to_string()))?;
        let [start, end] = *frame.get_ids() else {
            return Err(unusable(
                "it does not put exactly one token before a text and one after it",
            ));
        };
        Ok(Self { vocabulary, start, end })
    }

    /// The number of ids; all ids are smaller.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary.get_vocab_size(true)
    }

    /// The first tokens of `text` with the frame, at most `max_tokens`.
    ///
    /// Reads at most 256 bytes of text for each token.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if `max_tokens` leaves no room inside the frame, or the vocabulary cannot
    /// encode the text.
    pub fn encode(&self, text: &str, max_tokens: usize) -> Result<Tokens, ModelError> {
        let mut tokens = self.tokens(text, inner_tokens(max_tokens)?)?;
        let last = tokens.spans.last().map_or(0, |span| span.end);
        tokens.ids.insert(0, self.start);
        tokens.ids.push(self.end);
        tokens.spans.insert(0, 0..0);
        tokens.spans.push(last..last);
        Ok(tokens)
    }

    /// The first tokens of `text` without a frame, at most `max_tokens`.
    ///
    /// Reads at most 256 bytes of text for each token.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the vocabulary cannot encode the text.
    pub fn tokens(&self, text: &str, max_tokens: usize) -> Result<Tokens, ModelError> {
        let mut tokens = Tokens { is_complete: true, ..Tokens::default() };
        let readable = floor_boundary(text, max_tokens.saturating_mul(BYTES_PER_TOKEN));
        let mut position = 0;
        while let Some(piece) = next_piece(&text[..readable], position) {
            if tokens.ids.len() >= max_tokens {
                break;
            }
            let encoding = self
                .vocabulary
                .encode(&text[piece.clone()], false)
                .map_err(|cause| unusable(&cause.to_string()))?;
            tokens.ids.extend_from_slice(encoding.get_ids());
            let offsets = encoding.get_offsets().iter();
            tokens.spans.extend(offsets.map(|(from, to)| piece.start + from..piece.start + to));
            position = piece.end;
        }
        tokens.is_complete = tokens.ids.len() <= max_tokens
            && text[position..].trim_start_matches(SPACES).is_empty();
        tokens.ids.truncate(max_tokens);
        tokens.spans.truncate(max_tokens);
        Ok(tokens)
    }

    /// Splits `text` into at most `limit` windows that [`Self::encode`] encodes completely with `max_tokens`.
    ///
    /// Consecutive windows share about `overlap` tokens. Splits fall between words if possible. A
    /// text that fits is one window, as is an empty text.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if `max_tokens` leaves no room or `overlap` fills it; those of [`Self::tokens`].
    pub fn windows(
        &self,
        text: &str,
        max_tokens: usize,
        overlap: usize,
        limit: usize,
    ) -> Result<Windows, ModelError> {
        let inner = inner_tokens(max_tokens)?;
        if overlap >= inner {
            return Err(unusable("the overlap of windows must be smaller than a window"));
        }
        let step = inner - overlap;
        let wanted = inner.saturating_add(step.saturating_mul(limit.saturating_sub(1)));
        let tokens = self.tokens(text, wanted)?;
        let mut ranges = Vec::new();
        let mut first = 0;
        while ranges.len() < limit {
            let last = (first + inner).min(tokens.spans.len());
            let at_end = last == tokens.spans.len();
            let cut =
                if at_end { last } else { word_start(&tokens.spans, last, first + inner / 2) };
            let from = if first == 0 { 0 } else { tokens.spans[first].start };
            let to = if at_end && tokens.is_complete {
                text.len()
            } else {
                cut.checked_sub(1).map_or(text.len(), |index| tokens.spans[index].end)
            };
            ranges.push(from..to.max(from));
            if at_end {
                return Ok(Windows { ranges, is_complete: tokens.is_complete });
            }
            first = word_start(&tokens.spans, cut - overlap.min(cut - first - 1), first + 1);
        }
        Ok(Windows { ranges, is_complete: false })
    }
}

fn unusable(detail: &str) -> ModelError {
    ModelError::Tokenizer { detail: detail.to_owned() }
}

fn inner_tokens(max_tokens: usize) -> Result<usize, ModelError> {
    match max_tokens.checked_sub(2) {
        Some(inner) if inner > 0 => Ok(inner),
        _ => Err(unusable("at least three tokens are needed, two of them for the frame")),
    }
}

/// The last word start in `lowest..=index`, or `index` if there is none.
fn word_start(spans: &[Range<usize>], index: usize, lowest: usize) -> usize {
    (lowest.max(1)..=index).rev().find(|at| spans[*at].start > spans[at - 1].end).unwrap_or(index)
}

/// The largest character boundary of `text` that is at most `index`.
fn floor_boundary(text: &str, index: usize) -> usize {
    text.floor_char_boundary(index)
}

/// The next piece to tokenise: from `position`, without leading white space, up to white space after
/// about [`PIECE_BYTES`] bytes. Tokens never cross white space, so the split changes no token.
fn next_piece(text: &str, position: usize) -> Option<Range<usize>> {
    let rest = text[position..].trim_start_matches(SPACES);
    if rest.is_empty() {
        return None;
    }
    let start = text.len() - rest.len();
    let end = floor_boundary(rest, PIECE_BYTES);
    if end == rest.len() {
        return Some(start..text.len());
    }
    let at_space = rest[..end].rfind(SPACES).unwrap_or(end);
    Some(start..start + at_space)
}
