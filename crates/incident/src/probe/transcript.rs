//! Transcripts: the questions to a model and its answers. A certificate has a salted commitment to each, which reveals
//! nothing without the transcript.

use custody_certificate::ProbeKind;
use custody_log::{Digest, Seq};
use custody_runtime::clock::random;
use serde::Serialize;

use crate::probe::ProbeAnswer;
use crate::probe::question::Question;

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
    pub(crate) fn new(
        asked: &Question,
        target: Seq,
        post: ProbeAnswer,
        control: ProbeAnswer,
    ) -> Self {
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
