//! Operating points, from rows that trained nothing and are measured on nothing.

use std::collections::BTreeMap;

use custody_detect::calibration::{
    Calibration, CalibrationError, Classification, Rates, ScoredRow, threshold,
};
use custody_detect::language::{Language, guess_language};
use custody_detect::ngram_stage::KindThresholds;
use custody_detect::text_kind::TextKind;
use custody_detect::transformer::{Blend, Blends, ModelDecisions};

use super::corpus::{Corpus, CorpusDocument, Prompt};
use super::error::RecipeError;

/// Of ordinary prompts one in a hundred may be flagged; of attacks two in a hundred may be called clean
/// without asking further. With twice as many, the detectors flagged 6.6 and 8.8 % of NotInject, of which 5 % may be.
const PROMPTS: Limits = Limits { pooled: Rates { false_positive: 0.01, miss: 0.02 }, group: 0.02 };
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

/// How much the n-grams may count beside the transformer. Decided by the calibration rows.
const NGRAM_SHARES: [f64; 8] = [0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// A calibration row with what was said of it.
struct Row<'a, T> {
    language: Language,
    attack: bool,
    group: &'a str,
    said: T,
}

/// Calibrates one model, given its decision on any text; a text without words has none.
///
/// # Errors
/// [`RecipeError`] when a row cannot be scored or the rows are too few for the rates.
pub fn calibrate<E>(
    corpus: &Corpus,
    mut decision: impl FnMut(&str, TextKind) -> Result<Option<f64>, E>,
) -> Result<KindThresholds, RecipeError>
where
    RecipeError: From<E>,
{
    let prompts = with_words(&rows_of_prompts(corpus, &mut decision)?);
    let contents = with_words(&rows_of_contents(corpus, &mut decision)?);
    Ok(KindThresholds { prompt: PROMPTS.keep(&prompts)?, content: CONTENTS.keep(&contents)? })
}

/// Calibrates two models together, given what both say of every stretch of a text.
///
/// # Errors
/// As [`calibrate`].
pub fn blend<E>(
    corpus: &Corpus,
    mut pairs: impl FnMut(&str, TextKind) -> Result<Vec<ModelDecisions>, E>,
) -> Result<Blends, RecipeError>
where
    RecipeError: From<E>,
{
    let prompts = rows_of_prompts(corpus, &mut pairs)?;
    let contents = rows_of_contents(corpus, &mut pairs)?;
    Ok(Blends { prompt: PROMPTS.blend(&prompts)?, content: CONTENTS.blend(&contents)? })
}

fn rows_of_prompts<'a, T, E>(
    corpus: &'a Corpus,
    say: &mut impl FnMut(&str, TextKind) -> Result<T, E>,
) -> Result<Vec<Row<'a, T>>, E> {
    corpus
        .calibration_prompts
        .iter()
        .map(|prompt: &'a Prompt| {
            let said = say(&prompt.text, TextKind::Prompt)?;
            Ok(Row::new(&prompt.text, prompt.is_attack, &prompt.group, said))
        })
        .collect()
}

fn rows_of_contents<'a, T, E>(
    corpus: &'a Corpus,
    say: &mut impl FnMut(&str, TextKind) -> Result<T, E>,
) -> Result<Vec<Row<'a, T>>, E> {
    corpus
        .calibration_documents
        .iter()
        .map(|CorpusDocument { planted, group }: &'a CorpusDocument| {
            let said = say(&planted.text, TextKind::Content)?;
            Ok(Row::new(&planted.text, planted.span.is_some(), group, said))
        })
        .collect()
}

fn with_words<'a>(rows: &[Row<'a, Option<f64>>]) -> Vec<Row<'a, f64>> {
    rows.iter().filter_map(|row| row.said.map(|said| row.with(said))).collect()
}

impl<'a, T> Row<'a, T> {
    fn new(text: &str, attack: bool, group: &'a str, said: T) -> Self {
        Self { language: guess_language(text), attack, group, said }
    }

    fn with<U>(&self, said: U) -> Row<'a, U> {
        Row { language: self.language, attack: self.attack, group: self.group, said }
    }
}

impl<'a> Row<'a, Vec<ModelDecisions>> {
    /// The row with the most suspicious of its stretches.
    fn worst(&self, decision: impl Fn(&ModelDecisions) -> f64) -> Option<Row<'a, f64>> {
        self.said.iter().map(decision).max_by(f64::total_cmp).map(|said| self.with(said))
    }
}

impl Row<'_, f64> {
    fn scored(&self) -> ScoredRow {
        ScoredRow { language: self.language, score: self.said, is_attack: self.attack }
    }
}

impl Limits {
    fn keep(&self, rows: &[Row<'_, f64>]) -> Result<Calibration, CalibrationError> {
        let scored: Vec<ScoredRow> = rows.iter().map(Row::scored).collect();
        let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for row in rows.iter().filter(|row| !row.attack) {
            groups.entry(row.group).or_default().push(row.said);
        }
        let mut calibration = Calibration::new(&scored, self.pooled)?;
        for scores in groups.values().filter(|scores| scores.len() >= MIN_GROUP) {
            // Of a group too small to show the rate, no row may be flagged.
            let rate = self.group.max(1.0 / (scores.len() as f64 + 1.0));
            calibration = calibration.raised_to(threshold(scores, rate)?);
        }
        Ok(calibration)
    }

    /// With the share that catches most attacks within half the limits, of equal ones the smallest: rows in the field
    /// are harder than ours, and a share that needs the whole limit has nothing to spare for them.
    fn blend(&self, rows: &[Row<'_, Vec<ModelDecisions>>]) -> Result<Blend, CalibrationError> {
        let strict = self.halved();
        let mut best: Option<(usize, f64)> = None;
        for share in NGRAM_SHARES {
            let rows = blended(rows, share);
            let caught = caught(&rows, &strict.keep(&rows)?);
            if best.is_none_or(|(most, _)| caught > most) {
                best = Some((caught, share));
            }
        }
        let (_, ngram_share) = best.unwrap_or_default();
        let cuts = self.keep(&blended(rows, ngram_share))?;
        Ok(Blend { ngram_share, ordinary: ordinary(rows), cuts })
    }

    fn halved(&self) -> Self {
        let pooled = Rates { false_positive: self.pooled.false_positive / 2.0, ..self.pooled };
        Self { pooled, group: self.group / 2.0 }
    }
}

fn blended<'a>(rows: &[Row<'a, Vec<ModelDecisions>>], ngram_share: f64) -> Vec<Row<'a, f64>> {
    rows.iter().filter_map(|row| row.worst(|pair| pair.mean(ngram_share))).collect()
}

/// How many attacks are flagged.
fn caught(rows: &[Row<'_, f64>], cuts: &Calibration) -> usize {
    rows.iter()
        .filter(|row: &&Row<'_, f64>| {
            row.attack && cuts.classify(row.language, row.said) == Classification::Attack
        })
        .count()
}

/// The median of what the transformer says of ordinary texts.
fn ordinary(rows: &[Row<'_, Vec<ModelDecisions>>]) -> f64 {
    let benign = rows.iter().filter(|row| !row.attack);
    let mut said: Vec<f64> =
        benign.filter_map(|row| row.worst(|pair| pair.transformer)).map(|row| row.said).collect();
    said.sort_by(f64::total_cmp);
    said.get(said.len() / 2).copied().unwrap_or_default()
}

/// A group of fewer rows says more about these rows than about the group.
const MIN_GROUP: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Generator;
    use crate::recipe::buried::Planted;

    /// Prompts and documents of which every fourth is an attack.
    fn corpus() -> Corpus {
        let prompt = |row: usize| Prompt {
            text: format!("row {row}"),
            is_attack: row.is_multiple_of(4),
            weight: 1.0,
            group: "rows".to_owned(),
        };
        let prompts: Vec<Prompt> = (0..2_000).map(prompt).collect();
        let calibration_documents = prompts
            .iter()
            .map(|prompt: &Prompt| CorpusDocument {
                planted: Planted {
                    text: prompt.text.clone(),
                    span: prompt.is_attack.then_some(0..1),
                },
                group: "rows".to_owned(),
            })
            .collect();
        Corpus { calibration_prompts: prompts, calibration_documents, ..Corpus::default() }
    }

    fn number(text: &str) -> usize {
        text["row ".len()..].parse().expect("a number")
    }

    /// The share that is chosen when one of the models knows and the other guesses.
    fn share(ngrams_know: bool) -> f64 {
        let mut draw = Generator::new(1);
        let mut noise = || draw.below(1_000) as f64 / 500.0 - 1.0;
        blend(&corpus(), |text: &str, _: TextKind| -> Result<Vec<ModelDecisions>, RecipeError> {
            let knows = noise() + if number(text).is_multiple_of(4) { 3.0 } else { -3.0 };
            let guesses = 8.0 * noise();
            let (ngrams, transformer) =
                if ngrams_know { (knows, guesses) } else { (guesses, knows) };
            Ok(vec![ModelDecisions { ngrams, transformer }])
        })
        .expect("there are rows enough")
        .prompt
        .ngram_share
    }

    #[test]
    fn who_knows_is_heard() {
        assert!(share(true) >= 0.7, "{}", share(true));
        assert!(share(false) <= 0.4, "{}", share(false));
    }

    #[test]
    fn ordinary_is_what_the_transformer_says_of_most() {
        let blends = blend(
            &corpus(),
            |text: &str, _: TextKind| -> Result<Vec<ModelDecisions>, RecipeError> {
                let said = [number(text) as f64, -1.0];
                Ok(said.map(|transformer| ModelDecisions { ngrams: 0.0, transformer }).to_vec())
            },
        )
        .expect("there are rows enough");
        assert!((900.0..1_100.0).contains(&blends.prompt.ordinary), "{}", blends.prompt.ordinary);
    }
}
