//! Operating points, from rows that trained nothing and are measured on nothing.

use custody_detect::calibration::{Calibration, Rates, Scored};
use custody_detect::language::guess;
use custody_detect::screen::{Cuts, Kind};

use super::corpus::Corpus;
use super::error::RecipeError;

/// Of ordinary prompts two in a hundred may be flagged; of attacks two in a hundred may be called clean
/// without asking further.
const PROMPT_RATES: Rates = Rates { false_positive: 0.02, miss: 0.02 };
/// Documents are read by the thousand, and mostly nobody planted anything in them.
const CONTENT_RATES: Rates = Rates { false_positive: 0.005, miss: 0.05 };

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
    for prompt in &corpus.calibration_prompts {
        let score = decision(&prompt.text, Kind::Prompt)?;
        prompts.extend(score.map(|score| Scored {
            language: guess(&prompt.text),
            score,
            attack: prompt.is_attack,
        }));
    }
    let mut contents = Vec::with_capacity(corpus.calibration_documents.len());
    for document in &corpus.calibration_documents {
        let text = &document.planted.text;
        let attack = document.planted.span.is_some();
        let score = decision(text, Kind::Content)?;
        contents.extend(score.map(|score| Scored { language: guess(text), score, attack }));
    }
    Ok(Cuts {
        prompt: Calibration::new(&prompts, PROMPT_RATES)?,
        content: Calibration::new(&contents, CONTENT_RATES)?,
    })
}
