//! Maps the outputs of a published classifier to one score: the probability of an attack.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::ModelError;

/// The lower-case label names of published classifiers for attacks and for harmless texts.
const ATTACK: [&str; 5] = ["injection", "prompt_injection", "jailbreak", "malicious", "attack"];
const HARMLESS: [&str; 5] = ["safe", "legit", "legitimate", "benign", "harmless"];

/// The maximum number of labels.
const MOST_LABELS: usize = 64;

/// A classifier's score of one text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttackScore {
    /// The natural logarithm of p / (1 - p). Finite.
    pub log_odds: f64,
    /// Whether the classifier saw the whole text.
    pub is_complete: bool,
}

impl AttackScore {
    /// The probability of an attack, from 0 to 1.
    pub fn probability(self) -> f64 {
        1.0 / (1.0 + (-self.log_odds).exp())
    }

    /// The log-odds, as for one head of a [`crate::Classifier`]. Finite.
    #[expect(clippy::cast_possible_truncation, reason = "clamped to what single precision holds")]
    pub(crate) fn logit(self) -> f32 {
        self.log_odds.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
    }
}

#[derive(Deserialize)]
struct ConfigJson {
    id2label: BTreeMap<String, String>,
}

/// The outputs of a softmax classifier that mean an attack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLabels {
    attack: Vec<bool>,
}

impl OutputLabels {
    /// Reads the labels from the field `id2label` of a `config.json`, with [`Self::from_names`].
    ///
    /// # Errors
    /// [`ModelError::Configuration`] if the bytes are not a JSON object with that field; those of [`Self::from_names`].
    pub fn from_config(json: &[u8]) -> Result<Self, ModelError> {
        let published: ConfigJson =
            serde_json::from_slice(json).map_err(|cause| refuse(cause.to_string()))?;
        Self::from_names(&published.id2label)
    }

    /// Reads the labels from output numbers and names, as in the field `id2label`.
    ///
    /// Names are compared without case: `INJECTION`, `JAILBREAK`, … are attacks; `SAFE`, `LEGIT`, `BENIGN`, …
    /// are not. The probabilities of several attack labels are added.
    ///
    /// # Errors
    /// [`ModelError::Configuration`] unless outputs 0, 1, … all have names, every name is known, and
    /// both classes occur.
    pub fn from_names(names: &BTreeMap<String, String>) -> Result<Self, ModelError> {
        if names.len() > MOST_LABELS {
            return Err(refuse(format!("`id2label` names {} outputs", names.len())));
        }
        let attack = (0..names.len())
            .map(|index| match names.get(&index.to_string()) {
                Some(name) => means_attack(name),
                None => Err(refuse(format!("`id2label` does not name output {index}"))),
            })
            .collect::<Result<Vec<bool>, _>>()?;
        if !(attack.contains(&true) && attack.contains(&false)) {
            return Err(refuse(
                "`id2label` needs a label for attacks and one for harmless texts".to_owned(),
            ));
        }
        Ok(Self { attack })
    }

    /// Labels for `outputs` outputs, of which `index` means an attack.
    ///
    /// # Errors
    /// [`ModelError::Configuration`] unless there are at least two and `index` is one of them.
    pub fn attack_at(index: usize, outputs: usize) -> Result<Self, ModelError> {
        if !(2..=MOST_LABELS).contains(&outputs) || index >= outputs {
            return Err(refuse(format!("output {index} of {outputs} cannot mean an attack")));
        }
        Ok(Self { attack: (0..outputs).map(|output| output == index).collect() })
    }

    /// The number of outputs of the classifier.
    pub fn count(&self) -> usize {
        self.attack.len()
    }

    /// The log-odds of an attack after a softmax over `logits`, one logit per label.
    ///
    /// # Errors
    /// [`ModelError::Classifier`] if the result is not a finite number.
    pub(crate) fn log_odds(&self, logits: &[f32]) -> Result<f64, ModelError> {
        let [attack, benign] = [true, false].map(|is_attack| {
            let chosen = logits.iter().zip(&self.attack).filter(|pair| *pair.1 == is_attack);
            log_sum_exp(chosen.map(|(logit, _)| f64::from(*logit)))
        });
        finite(attack - benign)
    }
}

/// The logarithm of the sum of exponentials, with the maximum factored out to avoid overflow.
fn log_sum_exp(logits: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = logits.clone().fold(f64::MIN, f64::max);
    largest + logits.map(|logit| (logit - largest).exp()).sum::<f64>().ln()
}

/// Returns `log_odds` if it is finite.
pub(crate) fn finite(log_odds: f64) -> Result<f64, ModelError> {
    if log_odds.is_finite() {
        return Ok(log_odds);
    }
    let detail = "its output is not a finite number; the weights are damaged".to_owned();
    Err(ModelError::Classifier { detail })
}

fn means_attack(name: &str) -> Result<bool, ModelError> {
    let known = name.trim().to_lowercase();
    if ATTACK.contains(&known.as_str()) {
        return Ok(true);
    }
    if HARMLESS.contains(&known.as_str()) {
        return Ok(false);
    }
    Err(refuse(format!(
        "label `{}` names neither attacks ({}) nor harmless texts ({}); set `id2label`",
        name.escape_debug(),
        ATTACK.join(", "),
        HARMLESS.join(", ")
    )))
}

fn refuse(detail: String) -> ModelError {
    ModelError::Configuration { detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(names: &[(&str, &str)]) -> Result<OutputLabels, ModelError> {
        let named = names.iter().map(|(id, name)| ((*id).to_owned(), (*name).to_owned()));
        OutputLabels::from_names(&named.collect())
    }

    #[test]
    fn the_attack_label_is_found_by_name() {
        let logits = [1.0, 3.5];
        for (names, log_odds) in [
            ([("0", "SAFE"), ("1", "INJECTION")], 2.5),
            ([("0", "LEGIT"), ("1", "INJECTION")], 2.5),
            ([("0", "jailbreak"), ("1", " benign")], -2.5),
        ] {
            let found = labels(&names).unwrap().log_odds(&logits).unwrap();
            assert!((found - log_odds).abs() < 1e-12, "{names:?}");
        }
    }

    #[test]
    fn a_published_configuration_names_the_attack_label() {
        let published = br#"{"model_type":"bert","id2label":{"1":"INJECTION","0":"SAFE"}}"#;
        assert_eq!(
            OutputLabels::from_config(published).unwrap(),
            OutputLabels::attack_at(1, 2).unwrap()
        );
        for json in ["", "{}", "[]", r#"{"id2label":["SAFE","INJECTION"]}"#] {
            let refused = OutputLabels::from_config(json.as_bytes());
            assert!(matches!(refused, Err(ModelError::Configuration { .. })), "{json}");
        }
    }

    #[test]
    fn several_attack_labels_count_together() {
        let three = labels(&[("0", "BENIGN"), ("1", "INJECTION"), ("2", "JAILBREAK")]).unwrap();
        let score = AttackScore {
            log_odds: three.log_odds(&[0.0, 2.0_f32.ln(), 1.0_f32.ln()]).unwrap(),
            is_complete: true,
        };
        assert!((score.probability() - 0.75).abs() < 1e-6);
    }

    #[test]
    fn ambiguous_labels_are_rejected() {
        let cases: [&[(&str, &str)]; 7] = [
            &[],
            &[("0", "INJECTION")],
            &[("0", "SAFE"), ("1", "LEGIT")],
            &[("0", "LABEL_0"), ("1", "LABEL_1")],
            &[("0", "SAFE"), ("2", "INJECTION")],
            &[("0", "SAFE"), ("01", "INJECTION")],
            &[("0", "SAFE"), ("1", "INJECTION"), ("2", "not an injection")],
        ];
        for names in cases {
            assert!(matches!(labels(names), Err(ModelError::Configuration { .. })), "{names:?}");
        }
        for (index, outputs) in [(2, 2), (0, 1), (0, 0), (0, usize::MAX)] {
            let refused = OutputLabels::attack_at(index, outputs);
            assert!(matches!(refused, Err(ModelError::Configuration { .. })), "{index} {outputs}");
        }
        assert_eq!(
            OutputLabels::attack_at(1, 2).unwrap(),
            labels(&[("0", "safe"), ("1", "attack")]).unwrap()
        );
    }

    #[test]
    fn extreme_logits_do_not_overflow_and_invalid_ones_are_errors() {
        let two = OutputLabels::attack_at(1, 2).unwrap();
        let sure =
            AttackScore { log_odds: two.log_odds(&[-1e38, 1e38]).unwrap(), is_complete: true };
        assert!((sure.probability() - 1.0).abs() < 1e-12);
        for logits in
            [[0.0, f32::NAN], [f32::NAN, 0.0], [f32::INFINITY, 0.0], [0.0, f32::NEG_INFINITY]]
        {
            let score = two.log_odds(&logits);
            assert!(matches!(score, Err(ModelError::Classifier { .. })), "{logits:?}");
        }
    }
}
