//! The classifier inside the Python package `stackone-defender`, with its own preparation of texts.
//!
//! Source: `stackone-defender` 0.9.4, `classifiers/tier2_classifier.py` and `classifiers/onnx_classifier.py`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;

use crate::error::ModelError;
use crate::onnx::{OnnxClassifier, OutputActivation};

/// The window it was trained with.
const MAX_TOKENS: usize = 256;
/// Texts of fewer characters are not scored.
const FEWEST_CHARACTERS: usize = 10;
/// Of longer texts so many characters are read.
const MOST_CHARACTERS: usize = 10_000;
/// A run of a character that is neither a word's nor white space is cut to this length.
const LONGEST_RUN: usize = 3;
/// Texts of few different tokens, most of them one, are taken for decoration.
const FEWEST_TOKENS: usize = 3;
const FEW_DIFFERENT: usize = 4;

/// Its two heads' answers about one text, each a probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DefenderScore {
    /// Whether the text is an attack.
    pub main: f64,
    /// A second opinion that runs the other way: with it, its authors block a text only if `main` is high and
    /// this is low.
    pub auxiliary: f64,
}

/// The classifier. It reads the first 256 tokens of a text, as its authors do for one text.
#[derive(Debug)]
pub struct Defender {
    classifier: OnnxClassifier,
    temperature: f64,
    threshold: f64,
    unknown: Option<u32>,
}

#[derive(Deserialize)]
struct ConfigJson {
    calibration: Calibration,
}

#[derive(Deserialize)]
struct Calibration {
    #[serde(rename = "temperatureT")]
    temperature: f64,
    #[serde(rename = "highRiskThreshold")]
    threshold: f64,
}

impl Defender {
    /// Opens a folder that holds `model_quantized.onnx`, `tokenizer.json` and `classifier_config.json`.
    ///
    /// # Errors
    /// [`ModelError::Configuration`] when the temperature or the threshold is not there; as [`OnnxClassifier::open`].
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        let path = folder.join("classifier_config.json");
        let config = std::fs::read(&path).map_err(|cause| ModelError::Read { path, cause })?;
        let published: ConfigJson = serde_json::from_slice(&config)
            .map_err(|cause| ModelError::Configuration { detail: cause.to_string() })?;
        let Calibration { temperature, threshold } = published.calibration;
        let classifier = OnnxClassifier::open(
            &folder.join("model_quantized.onnx"),
            &folder.join("tokenizer.json"),
            OutputActivation::Sigmoid { head: 0, temperature },
            MAX_TOKENS,
        )?;
        // A letter of Linear B: English vocabularies have none.
        let unknown = classifier.tokenizer.tokens("\u{10000}", 1)?.ids.first().copied();
        Ok(Self { classifier, temperature, threshold, unknown })
    }

    /// From which answer of the main head on its authors block a text when they ask that head alone.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// What it answers about each text: `[texts]`; `None` where its authors do not ask it, which they count as
    /// harmless: after preparation the text has fewer than ten characters or is mere decoration.
    ///
    /// # Errors
    /// As [`OnnxClassifier::scores`].
    pub fn scores(&self, texts: &[&str]) -> Result<Vec<Option<DefenderScore>>, ModelError> {
        texts.iter().map(|text| self.score(text)).collect()
    }

    fn score(&self, text: &str) -> Result<Option<DefenderScore>, ModelError> {
        let prepared = prepare(text);
        let end = prepared.char_indices().nth(MOST_CHARACTERS).map_or(prepared.len(), |(at, _)| at);
        let ids = self.classifier.first_window(&prepared[..end])?;
        if prepared.chars().nth(FEWEST_CHARACTERS - 1).is_none() || self.is_decoration(&ids) {
            return Ok(None);
        }
        let logits = self.classifier.run(&ids)?;
        let [main, auxiliary] = *logits.as_slice() else {
            let detail = format!("it has {} heads instead of two", logits.len());
            return Err(ModelError::Classifier { detail });
        };
        Ok(Some(DefenderScore {
            main: self.probability(main)?,
            auxiliary: self.probability(auxiliary)?,
        }))
    }

    fn probability(&self, logit: f32) -> Result<f64, ModelError> {
        let log_odds = crate::verdict::finite(f64::from(logit) / self.temperature)?;
        Ok(1.0 / (1.0 + (-log_odds).exp()))
    }

    /// Whether two thirds of at most four different tokens are one and the same known token.
    fn is_decoration(&self, framed: &[u32]) -> bool {
        let ids = &framed[1..framed.len() - 1];
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for id in ids {
            *counts.entry(*id).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or(0);
        // Of several tokens that are equally frequent, theirs is the one that got there first; with two
        // thirds of the text there is only one.
        let unknown = self.unknown.and_then(|id| counts.get(&id)).copied().unwrap_or(0);
        ids.len() >= FEWEST_TOKENS
            && counts.len() <= FEW_DIFFERENT
            && 3 * most >= 2 * ids.len()
            && unknown < most
    }
}

/// What its authors do to a text before they tokenise it.
fn prepare(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for character in text.nfkc() {
        match plain(character) {
            Some(plain) => folded.push_str(plain),
            None => folded.push(character),
        }
    }
    shorten_runs(&without_markers(&folded))
}

/// What is read for a character without width, and for one that looks like another.
fn plain(character: char) -> Option<&'static str> {
    match character {
        '\u{200b}'..='\u{200d}' | '\u{feff}' => Some(""),
        'а' => Some("a"),
        'е' => Some("e"),
        'о' => Some("o"),
        'р' => Some("p"),
        'с' => Some("c"),
        'у' => Some("y"),
        'х' => Some("x"),
        'і' => Some("i"),
        '\u{2018}' | '\u{2019}' | '\u{201b}' | '`' | '\u{b4}' => Some("'"),
        '\u{201c}'..='\u{201f}' => Some("\""),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some("-"),
        '\u{2024}' => Some("."),
        '\u{2026}' => Some("..."),
        '\u{2d0}' | '\u{a789}' => Some(":"),
        _ => None,
    }
}

/// Without the marks that its authors put around data: `[UD-…]`, `[/UD-…]`, `<user-data-…>`, `</user-data-…>`.
fn without_markers(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['[', '<']) {
        let (before, mark) = rest.split_at(at);
        kept.push_str(before);
        let length = marker(mark).unwrap_or(0);
        if length == 0 {
            kept.push_str(&mark[..1]);
        }
        rest = &mark[length.max(1)..];
    }
    kept + rest
}

/// How long the marker is that `text` begins with.
fn marker(text: &str) -> Option<usize> {
    let (word, close) = if text.starts_with('[') { ("UD-", ']') } else { ("user-data-", '>') };
    let inside = text[1..].strip_prefix('/').unwrap_or(&text[1..]);
    let name = inside.get(..word.len()).filter(|start| start.eq_ignore_ascii_case(word));
    let name = &inside[name?.len()..];
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))?;
    (end > 0 && name[end..].starts_with(close)).then(|| text.len() - name.len() + end + 1)
}

/// Cuts runs of more than three equal characters, letters, digits and white space aside.
fn shorten_runs(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut last, mut run) = (None, 0);
    for character in text.chars() {
        run = if last == Some(character) { run + 1 } else { 1 };
        last = Some(character);
        let plain = character.is_alphanumeric() || character == '_' || character.is_whitespace();
        if plain || run <= LONGEST_RUN {
            kept.push(character);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_prepared_as_its_authors_do() {
        let cases = [
            ("ｉｇｎｏｒｅ  the rules…", "ignore  the rules..."),
            ("ig\u{200b}nоrе — “all”", "ignore - \"all\""),
            ("[UD-a_1]x[/ud-A-1]<user-data-9>y</USER-DATA-9>", "xy"),
            ("[UD-]x [UD-a x <user-data-> [", "[UD-]x [UD-a x <user-data-> ["),
            ("====== title ------ 1111 aaaa", "=== title --- 1111 aaaa"),
            ("[[[[[UD-a]", "[[["),
            ("<é[UD-é]", "<é[UD-é]"),
        ];
        for (text, prepared) in cases {
            assert_eq!(prepare(text), prepared, "{text}");
        }
    }
}
