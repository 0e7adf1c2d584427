//! The tokenizer of a language model: byte-level BPE from a GGUF file.
//!
//! A *mark* is a token that structures a conversation, such as the end of a turn.
//! [`TokenVocabulary::encode`] never produces a mark: a text that spells one gets the tokens of that spelling.
//!
//! Source: Radford et al. 2019, "GPT-2"; names are GGUF's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{SplitDelimiterBehavior, Tokenizer};

use crate::error::ModelError;
use crate::gguf::{Gguf, optional};

/// The replacement for a byte that the vocabulary lacks.
const REPLACEMENT: &str = "\u{fffd}";

/// One token of the vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// These bytes of text; perhaps a part of a character.
    Text(Box<[u8]>),
    /// A mark that stands in the text as it is spelt.
    Spelt(Box<str>),
    /// A mark that is no text: a turn ends, or begins.
    Control,
}

/// The tokens of a language model.
pub struct TokenVocabulary {
    pairs: Tokenizer,
    /// By id.
    tokens: Vec<Token>,
    /// Marks to ids.
    marks: BTreeMap<String, u32>,
    /// The lengths of the marks in bytes, longest first.
    mark_lengths: Vec<usize>,
    longest: usize,
    /// Bytes that no token expresses.
    missing: [bool; 256],
    /// What every text begins with.
    first: Option<u32>,
    begin: Option<u32>,
    end: Option<u32>,
}

impl fmt::Debug for TokenVocabulary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TokenVocabulary")
            .field("tokens", &self.tokens.len())
            .field("marks", &self.marks.len())
            .finish_non_exhaustive()
    }
}

/// The kinds of tokens, as GGUF numbers them.
const NORMAL: i64 = 1;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

impl TokenVocabulary {
    /// Reads `tokenizer.ggml.*` of a GGUF file.
    ///
    /// # Errors
    /// [`ModelError::Gguf`] when something is not said; [`ModelError::Tokenizer`] for another kind of tokenizer, and
    /// for one that contradicts itself.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, ModelError> {
        let model = gguf.text("tokenizer.ggml.model")?;
        if model != "gpt2" {
            return Err(unusable(format!(
                "its model is `{model}`; give one of byte-level pairs, `gpt2`"
            )));
        }
        if optional(gguf.flag("tokenizer.ggml.add_space_prefix"))?.unwrap_or(false) {
            return Err(unusable("it puts a space before every text, which is not supported"));
        }
        let texts = gguf.texts("tokenizer.ggml.tokens")?;
        let kinds = gguf.integers("tokenizer.ggml.token_type")?;
        if kinds.len() != texts.len() {
            let (kinds, texts) = (kinds.len(), texts.len());
            return Err(unusable(format!("it has {texts} tokens and {kinds} kinds of tokens")));
        }
        let [begin, end, turn, message] = ["bos", "eos", "eot", "eom"].map(|name| {
            let id = optional(gguf.unsigned(&format!("tokenizer.ggml.{name}_token_id")))?;
            id.map(|id| {
                u32::try_from(id).ok().filter(|_| id < texts.len() as u64).ok_or_else(|| {
                    unusable(format!("its `{name}` token {id} is outside its vocabulary"))
                })
            })
            .transpose()
        });
        let (begin, end) = (begin?, end?);
        let controls = [begin, end, turn?, message?];
        let mut parts = Parts::default();
        for ((id, text), kind) in (0..).zip(texts).zip(kinds) {
            let kind = if controls.contains(&Some(id)) { CONTROL } else { kind };
            parts.add(id, text, kind)?;
        }
        let split = optional(gguf.text("tokenizer.ggml.pre"))?.unwrap_or("default");
        let (pairs, missing) = parts.pairs(gguf.texts("tokenizer.ggml.merges")?, split)?;
        let begins_texts = optional(gguf.flag("tokenizer.ggml.add_bos_token"))?.unwrap_or(false);
        let lengths: BTreeSet<usize> = parts.marks.keys().map(String::len).collect();
        Ok(Self {
            pairs,
            missing,
            tokens: parts.tokens,
            marks: parts.marks,
            mark_lengths: lengths.into_iter().rev().collect(),
            longest: parts.longest,
            first: begin.filter(|_| begins_texts),
            begin,
            end,
        })
    }

    /// The number of tokens; all ids are smaller.
    pub fn size(&self) -> usize {
        self.tokens.len()
    }

    /// The token `id`; `None` if there is no such token.
    pub fn token(&self, id: u32) -> Option<&Token> {
        self.tokens.get(usize::try_from(id).ok()?)
    }

    /// All of them, by id.
    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The token that every text begins with, if the file asks for one.
    pub(crate) fn first(&self) -> Option<u32> {
        self.first
    }

    /// How the marks for the begin and the end of a text are spelt.
    pub(crate) fn spelling_of_ends(&self) -> [String; 2] {
        [self.begin, self.end].map(|id| {
            let mark = self.marks.iter().find(|(_, mark)| Some(**mark) == id);
            mark.map(|(spelling, _)| spelling.clone()).unwrap_or_default()
        })
    }

    /// The longest mark that `text` begins with: its length in bytes and its id.
    pub(crate) fn mark_at(&self, text: &str) -> Option<(usize, u32)> {
        self.mark_lengths
            .iter()
            .find_map(|length| Some((*length, *self.marks.get(text.get(..*length)?)?)))
    }

    /// The minimum number of tokens of a text of `bytes` bytes.
    pub(crate) fn least_tokens(&self, bytes: usize) -> usize {
        bytes / self.longest.max(1)
    }

    /// Whether the vocabulary has every byte of `text`.
    fn can_encode(&self, text: &str) -> bool {
        !text.bytes().any(|byte| self.missing[usize::from(byte)])
    }

    /// The tokens of `text`. None of them is a special token, whatever the text contains.
    ///
    /// A character with a byte that the vocabulary lacks is replaced by U+FFFD, or dropped if the vocabulary lacks
    /// that as well.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the tokenizer's patterns fail on the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        let replaced = (!self.can_encode(text)).then(|| {
            let replacement = if self.can_encode(REPLACEMENT) { REPLACEMENT } else { "" };
            text.chars()
                .map(|c| {
                    let mut buffer = [0; 4];
                    let character = c.encode_utf8(&mut buffer);
                    if self.can_encode(character) { character } else { replacement }.to_owned()
                })
                .collect::<String>()
        });
        let encoding = self
            .pairs
            .encode_fast(replaced.as_deref().unwrap_or(text), false)
            .map_err(|cause| unusable(cause.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }
}

/// A vocabulary under construction.
#[derive(Default)]
struct Parts {
    tokens: Vec<Token>,
    marks: BTreeMap<String, u32>,
    normal: BTreeMap<String, u32>,
    longest: usize,
}

impl Parts {
    fn add(&mut self, id: u32, text: &str, kind: i64) -> Result<(), ModelError> {
        let token = match kind {
            NORMAL => {
                let bytes: Option<Box<[u8]>> = text.chars().map(byte_of).collect();
                let bytes = bytes.filter(|bytes| !bytes.is_empty());
                Token::Text(
                    bytes.ok_or_else(|| unusable(format!("its token {id} is no text of bytes")))?,
                )
            }
            USER_DEFINED => Token::Spelt(text.into()),
            _ => Token::Control,
        };
        let names = if kind == NORMAL { &mut self.normal } else { &mut self.marks };
        // An empty mark would be found everywhere, and two tokens of one spelling would make it chance which is meant.
        if text.is_empty() || names.insert(text.to_owned(), id).is_some() {
            return Err(unusable(format!("its token {id} is empty or there twice")));
        }
        self.longest = self.longest.max(text.len());
        self.tokens.push(token);
        Ok(())
    }

    /// The tokenizer, and the bytes that it cannot express.
    fn pairs(&self, merges: &[&str], split: &str) -> Result<(Tokenizer, [bool; 256]), ModelError> {
        let mut pairs = Vec::with_capacity(merges.len());
        for merge in merges {
            // What a pair becomes must be a token too: the tokenizer takes that for granted.
            let pair = merge.split_once(' ').filter(|(left, right)| {
                let whole = format!("{left}{right}");
                [*left, *right, &whole].iter().all(|text| self.normal.contains_key(*text))
            });
            let (left, right) = pair.ok_or_else(|| {
                let shown: String = merge.chars().take(40).flat_map(char::escape_debug).collect();
                unusable(format!("it merges `{shown}`, which are no two tokens that make a third"))
            })?;
            pairs.push((left.to_owned(), right.to_owned()));
        }
        let normal = self.normal.iter().map(|(text, id)| (text.clone(), *id));
        let model = BPE::builder()
            .vocab_and_merges(normal.collect::<Vocab>(), pairs)
            // It would keep words of every conversation for as long as the thread lives.
            .cache_capacity(0)
            .build()
            .map_err(|cause| unusable(cause.to_string()))?;
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_pre_tokenizer(Some(splitter(split)?));
        if split == "qwen2" {
            tokenizer.with_normalizer(Some(NFC)).map_err(|cause| unusable(cause.to_string()))?;
        }
        let missing = ALPHABET.map(|character| !self.normal.contains_key(&character.to_string()));
        Ok((tokenizer, missing))
    }
}

fn split_at(pattern: &str) -> Result<PreTokenizerWrapper, ModelError> {
    let pattern = SplitPattern::Regex(pattern.to_owned());
    Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
        .map(PreTokenizerWrapper::from)
        .map_err(|cause| unusable(cause.to_string()))
}

/// The pre-tokenizer, which splits a text into words before pairs are merged; no token crosses a split.
fn splitter(name: &str) -> Result<PreTokenizerWrapper, ModelError> {
    let words = ByteLevel::new(false, false, true).into();
    let bytes = ByteLevel::new(false, false, false).into();
    let steps = match name {
        "gpt-2" => vec![words],
        "smollm" => vec![Digits::new(true).into(), words],
        "default" => {
            vec![
                split_at(r"[\p{P}\$\+<=>\^~\|]+")?,
                split_at(WORDS)?,
                split_at(r"\p{N}+")?,
                split_at("[0-9][0-9][0-9]")?,
                bytes,
            ]
        }
        "qwen2" => vec![split_at(QWEN2)?, bytes],
        _ => return Err(unusable(format!("it cuts texts by `{name}`, which is unknown here"))),
    };
    Ok(Sequence::new(steps).into())
}

const WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The character that stands for each byte in the names of tokens: itself where it is printable, else one after U+00FF.
static ALPHABET: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut beyond = 0x100;
    std::array::from_fn(|byte| {
        let code = u32::try_from(byte).unwrap_or_default();
        if matches!(code, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) {
            return char::from_u32(code).unwrap_or_default();
        }
        beyond += 1;
        char::from_u32(beyond - 1).unwrap_or_default()
    })
});

/// The byte that a character stands for.
fn byte_of(character: char) -> Option<u8> {
    static BYTES: LazyLock<BTreeMap<char, u8>> =
        LazyLock::new(|| ALPHABET.iter().copied().zip(0..=255).collect());
    BYTES.get(&character).copied()
}

fn unusable(detail: impl Into<String>) -> ModelError {
    ModelError::Tokenizer { detail: detail.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_that_of_byte_level_tokenizers() {
        let theirs: BTreeSet<char> = ByteLevel::alphabet().into_iter().collect();
        assert_eq!(ALPHABET.iter().copied().collect::<BTreeSet<_>>(), theirs);
        for (byte, character) in [(b' ', 'Ġ'), (b'\n', 'Ċ'), (b'A', 'A'), (0xad, 'Ń'), (0, 'Ā')]
        {
            assert_eq!(ALPHABET[usize::from(byte)], character);
            assert_eq!(byte_of(character), Some(byte));
        }
        assert_eq!(byte_of(' '), None);
    }
}
