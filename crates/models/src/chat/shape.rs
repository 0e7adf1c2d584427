//! Shapes of answers that a program parses.
//!
//! Small models often produce almost valid JSON. The embedded engine can
//! exclude tokens that violate the shape; a server receives it as a JSON schema. Neither makes an answer
//! true, and not every server enforces it, so callers must still validate the answer.

use regex_automata::Anchored;
use regex_automata::dfa::{Automaton as _, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::decoder::Token;

/// One JSON object with one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerShape {
    /// The field's name.
    pub field: String,
    /// The type of the field.
    pub holds: FieldType,
}

/// The type of the field of an [`AnswerShape`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldType {
    /// A string, or `null`.
    TextOrNull,
    /// A list of integers from 0; may be empty.
    Numbers,
}

impl AnswerShape {
    /// The shape as a strict JSON schema.
    pub(super) fn schema(&self) -> Value {
        let value = match self.holds {
            FieldType::TextOrNull => json!({"type": ["string", "null"]}),
            FieldType::Numbers => json!({"type": "array", "items": {"type": "integer"}}),
        };
        json!({
            "type": "object",
            "properties": {&self.field: value},
            "required": [&self.field],
            "additionalProperties": false,
        })
    }

    /// The shape as a regular expression, which allows only the usual formatting of an object.
    fn pattern(&self) -> String {
        let field = json!(self.field).to_string();
        let value = match self.holds {
            // Unescaped characters except those that must be escaped, and the short escapes.
            FieldType::TextOrNull => r#"(?:null|"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt])*")"#,
            FieldType::Numbers => r"\[(?:[0-9]{1,6}(?:, ?[0-9]{1,6})*)?\]",
        };
        format!(r"\{{{}: {value}\}}", regex_syntax::escape(&field))
    }
}

/// Restricts the next token of an answer.
pub(super) struct Guide {
    automaton: dense::DFA<Vec<u32>>,
    state: StateID,
}

impl Guide {
    /// Creates a guide for an answer of this shape; `None` if the field name gives no valid pattern.
    pub(super) fn new(shape: &AnswerShape) -> Option<Self> {
        let automaton = dense::DFA::new(&shape.pattern()).ok()?;
        let start = start::Config::new().anchored(Anchored::Yes);
        let state = automaton.start_state(&start).ok()?;
        Some(Self { automaton, state })
    }

    /// Sets the logits of all tokens that violate the shape to NaN. A special token is allowed only
    /// after a complete answer.
    pub(super) fn restrict(&self, logits: &mut [f32], tokens: &[Token]) {
        let is_whole = self.is_whole();
        for (id, logit) in logits.iter_mut().enumerate() {
            let fits = match tokens.get(id) {
                Some(Token::Text(bytes)) => self.fits(bytes),
                Some(Token::Spelt(text)) => self.fits(text.as_bytes()),
                Some(Token::Control) => is_whole,
                None => false,
            };
            if !fits {
                *logit = f32::NAN;
            }
        }
    }

    /// Advances by `bytes`.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.state = self.after(bytes);
    }

    fn is_whole(&self) -> bool {
        self.automaton.is_match_state(self.automaton.next_eoi_state(self.state))
    }

    fn fits(&self, bytes: &[u8]) -> bool {
        !bytes.is_empty() && !self.is_out(self.after(bytes))
    }

    /// Whether a byte led to `state` that the shape does not allow. The automaton reports a match one byte
    /// late, so that byte
    /// followed a complete answer.
    fn is_out(&self, state: StateID) -> bool {
        self.automaton.is_dead_state(state) || self.automaton.is_match_state(state)
    }

    fn after(&self, bytes: &[u8]) -> StateID {
        let mut state = self.state;
        for byte in bytes {
            state = self.automaton.next_state(state, *byte);
            if self.is_out(state) {
                break;
            }
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(holds: FieldType) -> AnswerShape {
        AnswerShape { field: "the \"field\"".to_owned(), holds }
    }

    /// Whether an answer with the field value `rest` has the shape, and whether it can be completed to it.
    fn check(holds: FieldType, rest: &str) -> (bool, bool) {
        let text = format!(r#"{{"the \"field\"": {rest}"#);
        let mut guide = Guide::new(&shape(holds)).unwrap();
        let fits = guide.fits(text.as_bytes());
        guide.push(text.as_bytes());
        (guide.is_whole(), fits)
    }

    #[test]
    fn the_guide_accepts_prefixes_and_complete_answers_of_the_shape() {
        for whole in ["null}", r#""a"}"#, r#""two\nlines, \"quoted\" ü €"}"#, r#"""}"#] {
            assert_eq!(check(FieldType::TextOrNull, whole), (true, true), "{whole}");
        }
        for begun in ["", "nu", "\"", r#""a\"#, "\"a \u{1f600}"] {
            assert_eq!(check(FieldType::TextOrNull, begun), (false, true), "{begun}");
        }
        for wrong in ["nul}", "a", "\"a\n\"}", r#""a" }"#, r#""a"}}"#, r#""\x"}"#, "[]}"] {
            assert_eq!(check(FieldType::TextOrNull, wrong), (false, false), "{wrong}");
        }
        for whole in ["[]}", "[1]}", "[1, 23]}", "[1,2]}"] {
            assert_eq!(check(FieldType::Numbers, whole), (true, true), "{whole}");
        }
        for wrong in ["[-1]}", "[1,]}", "1}", "[1.5]}", "[1234567]}"] {
            assert_eq!(check(FieldType::Numbers, wrong), (false, false), "{wrong}");
        }
    }

    fn allowed(guide: &Guide, tokens: &[Token]) -> [bool; 6] {
        let mut logits = [0.0; 6];
        guide.restrict(&mut logits, tokens);
        logits.map(|logit| !logit.is_nan())
    }

    #[test]
    fn only_fitting_tokens_are_allowed() {
        let tokens = [
            Token::Text(Box::from(*b"{\"")),
            Token::Text(Box::from(*b"Sure")),
            Token::Spelt(Box::from("{")),
            Token::Control,
            Token::Text(Box::from(*b"null}")),
        ];

        let mut guide = Guide::new(&shape(FieldType::TextOrNull)).unwrap();
        assert_eq!(allowed(&guide, &tokens), [true, false, true, false, false, false]);
        guide.push(br#"{"the \"field\"": "#);
        assert_eq!(allowed(&guide, &tokens), [false, false, false, false, true, false]);
        guide.push(b"null}");
        assert_eq!(allowed(&guide, &tokens), [false, false, false, true, false, false]);
    }

    #[test]
    fn the_schema_describes_the_field() {
        for (holds, expected) in [
            (FieldType::TextOrNull, json!({"type": ["string", "null"]})),
            (FieldType::Numbers, json!({"type": "array", "items": {"type": "integer"}})),
        ] {
            assert_eq!(shape(holds).schema()["properties"]["the \"field\""], expected);
        }
    }
}
