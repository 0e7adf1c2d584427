//! Transcripts: what a model was asked and what it said, for whoever keeps them. A certificate is bound to them by a
//! salted commitment, which says nothing to whoever has not got them.

use custody_certificate::ProbeKind;
use custody_log::{Digest, Seq};
use serde::Serialize;

use super::Heard;
use super::question::Question;
use crate::clock::random;

/// One question, asked after the recovery about a destroyed text and about one that was never stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    salt: [u8; 16],
    text: String,
}

#[derive(Serialize)]
struct Said<'a> {
    kind: ProbeKind,
    target: Seq,
    question: &'a str,
    answer: Option<String>,
    control_question: &'a str,
    control_answer: Option<String>,
}

impl Transcript {
    pub(super) fn new(asked: &Question, target: Seq, post: Heard, control: Heard) -> Self {
        let Question { kind, text, control: control_question } = asked;
        let (answer, control_answer) = (post.answer, control.answer);
        let said =
            Said { kind: *kind, target, question: text, answer, control_question, control_answer };
        let text = serde_json::to_string(&said).unwrap_or_default();
        Self { salt: random(), text }
    }

    /// `SHA-256(salt ‖ text)`: what the certificate holds.
    pub fn commitment(&self) -> Digest {
        Digest::commit(&self.salt, self.text.as_bytes())
    }

    /// One line: the commitment, its salt, and the text as it was committed to.
    pub fn to_json(&self) -> String {
        let (commitment, salt) = (self.commitment().to_string(), hex::encode(self.salt));
        serde_json::json!({ "commitment": commitment, "salt": salt, "transcript": self.text })
            .to_string()
    }
}
