//! A part of a destroyed text, with a text of the same form that was never stored: what is sought, and how an answer is
//! judged.

use custody_certificate::{Ppm, ProbeScores};
use custody_log::Seq;
use custody_models::Embedder;
use zeroize::Zeroizing;

use crate::act::Destroyed;
use crate::error::IncidentError;
use crate::neighbours;
use crate::probe::leak::{self, Compared, Sought, higher};
use crate::probe::pieces::pieces;
use crate::probe::question::{Question, questions};
use crate::probe::recall::{Recalled, Sight};
use crate::store::Incidents;

/// The length of a part, in characters: short enough for an embedder to read all of it.
pub(crate) const PART_CHARS: (usize, usize) = (300, 600);

/// The cosine at which nearness begins: texts about the same subject may have it. Half of the way from it to 1 is
/// 0.75, the least cosine that counts as evidence (`neighbours::SIMILAR`), so one limit fits every measure.
const SAME_TOPIC: f64 = 0.5;

/// A part of a destroyed text.
pub(crate) struct Part {
    pub(crate) entry: Seq,
    /// The sought text.
    pub(crate) real: Side,
    /// The text of the same form that was never stored.
    pub(crate) control: Side,
    pub(crate) questions: Vec<Question>,
}

/// A sought text, stored or never stored.
pub(crate) struct Side {
    pub(crate) text: Zeroizing<String>,
    sought: Sought,
    meaning: Option<Meaning>,
}

/// The vector of a text, and the cosine of unrelated texts to it.
struct Meaning {
    vector: Vec<f32>,
    from: f64,
}

/// The parts of the texts, in order, with their entries.
pub(crate) fn parts<'a>(texts: &[&'a Destroyed]) -> Vec<(Seq, &'a str)> {
    let mut found: Vec<(Seq, &str)> = texts
        .iter()
        .filter_map(|text| Some((text.entry, std::str::from_utf8(&text.bytes).ok()?)))
        .flat_map(|(entry, text)| {
            pieces(text, PART_CHARS).into_iter().map(move |part| (entry, part))
        })
        .collect();
    found.sort_by_key(|(entry, _)| *entry);
    found
}

impl Part {
    /// The part of `text` that no earlier trusted text contains; `None` if there is none.
    pub(crate) fn new(
        incidents: Incidents<'_>,
        sight: Sight<'_>,
        entry: Seq,
        text: &str,
    ) -> Result<Option<Self>, IncidentError> {
        let mut known = Vec::new();
        incidents.recall_alike(sight, text, &mut |found| {
            if found.is_known {
                known.push(Compared::of(found.text));
            }
        })?;
        let own = own(text, &known);
        let mut real = Side::new(sight, &own)?;
        real.sought = known.iter().fold(real.sought, |sought, known| sought.without(known));
        if real.sought.is_nothing() {
            return Ok(None);
        }
        incidents.recall_alike(sight, &own, &mut |found| {
            if found.is_known {
                real.raise(found.cosine);
            }
        })?;
        let control = Side::new(sight, &leak::never_stored(&own))?;
        Ok(Some(Self { entry, real, control, questions: questions(&own) }))
    }
}

/// The sentences that are not all known.
fn own(text: &str, known: &[Compared]) -> String {
    let sentences = pieces(text, (1, PART_CHARS.1)).into_iter().filter(|sentence| {
        let all = Sought::of(sentence);
        let left = known.iter().fold(all.clone(), |sought, known| sought.without(known));
        known.is_empty() || left.left() * 2 > all.left()
    });
    sentences.collect()
}

impl Side {
    fn new(sight: Sight<'_>, text: &str) -> Result<Self, IncidentError> {
        let vector = sight.vectors.map(|vectors| neighbours::embed(vectors, text)).transpose()?;
        let meaning = vector.map(|vector| Meaning { vector, from: SAME_TOPIC });
        Ok(Self { text: Zeroizing::new(text.to_owned()), sought: Sought::of(text), meaning })
    }

    /// Raises the cosine at which nearness begins to that of a text that cannot be a leak.
    fn raise(&mut self, cosine: Option<f64>) {
        if let (Some(meaning), Some(cosine)) = (&mut self.meaning, cosine) {
            meaning.from = meaning.from.max(cosine);
        }
    }

    /// How much of it a recalled text contains.
    pub(crate) fn scores_of_recalled(&self, found: &Recalled<'_>) -> ProbeScores {
        let nearness = self.meaning.as_ref().zip(found.cosine);
        let embedding_ppm = nearness.map(|(meaning, cosine)| nearer(cosine, meaning.from));
        ProbeScores { embedding_ppm, ..self.sought.scores(found.text) }
    }

    /// How much of it an answer contains that the question does not.
    pub(crate) fn scores_of_answer(
        &self,
        embedder: Option<&dyn Embedder>,
        question: &str,
        answer: &str,
    ) -> Result<ProbeScores, IncidentError> {
        let scores = self.sought.without(&Compared::of(question)).scores(answer);
        let (Some(embedder), Some(meaning)) = (embedder, &self.meaning) else { return Ok(scores) };
        let mut said = vec![question];
        said.extend(pieces(answer, PART_CHARS));
        let vectors = embedder.embed(&said).map_err(neighbours::failed)?;
        let mut cosines = vectors.iter().map(|vector| cosine(vector, &meaning.vector));
        let from = cosines.next().unwrap_or_default().max(meaning.from);
        let nearest = cosines.fold(0.0, f64::max);
        let near = ProbeScores { embedding_ppm: Some(nearer(nearest, from)), ..leak::nothing() };
        Ok(higher(scores, near))
    }
}

/// The share of the way from `from` to 1 that a cosine covers.
fn nearer(cosine: f64, from: f64) -> Ppm {
    let way = (1.0 - from).max(f64::EPSILON);
    Ppm::nearest(((cosine - from) / way).clamp(0.0, 1.0)).unwrap_or(Ppm::ZERO)
}

fn cosine(one: &[f32], other: &[f32]) -> f64 {
    one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_nearer_than_anything_harmless_counts_and_a_paraphrase_does() {
        let ppm = |cosine, from| nearer(cosine, from).millionths();
        assert_eq!((ppm(0.5, 0.5), ppm(0.3, 0.5), ppm(1.0, 0.5)), (0, 0, 1_000_000));
        assert_eq!(ppm(0.75, 0.5), 500_000, "from here on a text is evidence too");
        assert_eq!((ppm(0.8, 0.8), ppm(0.9, 0.8)), (0, 500_000));
        assert_eq!(ppm(1.0, 1.0), 0, "what is the same as something harmless is harmless");
    }
}
