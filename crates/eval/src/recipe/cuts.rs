//! Operating points, from rows that trained nothing and are measured on nothing.

use std::collections::BTreeMap;

use custody_detect::calibration::{Calibration, CalibrationError, Rates, Scored, threshold};
use custody_detect::language::guess;
use custody_detect::screen::{Cuts, Kind};

use super::corpus::{Corpus, Document, Prompt};
use super::error::RecipeError;

/// Of ordinary prompts two in a hundred may be flagged; of attacks two in a hundred may be called clean
/// without asking further.
const PROMPTS: Limits = Limits { pooled: Rates { false_positive: 0.02, miss: 0.02 }, group: 0.04 };
/// Documents are read by the thousand, and mostly nobody planted anything in them.
const CONTENTS: Limits =
    Limits { pooled: Rates { false_positive: 0.005, miss: 0.05 }, group: 0.01 };

/// What thresholds keep to.
struct Limits {
    pooled: Rates,
    /// The rate in every group of ordinary rows by itself. Rows in the field are not mixed as ours are: who
    /// works on security asks about security all day.
    group: f64,
}

/// A calibration row and the group it counts in.
struct Row<'a> {
    scored: Scored,
    group: &'a str,
}

/// Calibrates a model, given its decision on any text; a text without words has none.
///
/// # Errors
/// [`RecipeError`] when a row cannot be scored or the rows are too few for the rates.
pub fn calibrate<E>(
    corpus: &Corpus,
    mut decision: impl FnMut(&str, Kind) -> Result<Option<f64>, E>,
) -> Result<Cuts, RecipeError>
where
    RecipeError: From<E>,
{
    let mut prompts = Vec::with_capacity(corpus.calibration_prompts.len());
    for Prompt { text, is_attack: attack, group, .. } in &corpus.calibration_prompts {
        let score = decision(text, Kind::Prompt)?;
        prompts.extend(score.map(|score| Row::new(text, score, *attack, group)));
    }
    let mut contents = Vec::with_capacity(corpus.calibration_documents.len());
    for Document { planted, group } in &corpus.calibration_documents {
        let score = decision(&planted.text, Kind::Content)?;
        let attack = planted.span.is_some();
        contents.extend(score.map(|score| Row::new(&planted.text, score, attack, group)));
    }
    Ok(Cuts { prompt: PROMPTS.keep(&prompts)?, content: CONTENTS.keep(&contents)? })
}

impl<'a> Row<'a> {
    fn new(text: &str, score: f64, attack: bool, group: &'a str) -> Self {
        Self { scored: Scored { language: guess(text), score, attack }, group }
    }
}

impl Limits {
    fn keep(&self, rows: &[Row<'_>]) -> Result<Calibration, CalibrationError> {
        let scored: Vec<Scored> = rows.iter().map(|row| row.scored).collect();
        let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for row in rows.iter().filter(|row| !row.scored.attack) {
            groups.entry(row.group).or_default().push(row.scored.score);
        }
        let mut calibration = Calibration::new(&scored, self.pooled)?;
        for scores in groups.values().filter(|scores| scores.len() >= MIN_GROUP) {
            // Of a group too small to show the rate, no row may be flagged.
            let rate = self.group.max(1.0 / (scores.len() as f64 + 1.0));
            calibration = calibration.raised_to(threshold(scores, rate)?);
        }
        Ok(calibration)
    }
}

/// A group of fewer rows says more about these rows than about the group.
const MIN_GROUP: usize = 15;
