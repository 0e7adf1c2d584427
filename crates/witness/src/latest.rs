//! The question that the protocol of witnesses leaves open: which checkpoint of a log did you cosign last?
//!
//! The answer is a note that the witness signs over the nonce of the question, so that an old answer is of no
//! use, and over the log's origin. What was cosigned follows whole, with the log's own signature:
//!
//! ```text
//! custody.witness/latest/v1
//! origin custody.log/store-…
//! nonce 8b1f…
//!
//! custody.log/store-…
//! 42
//! xcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcU=
//!
//! — custody-log Az3grlgt…
//! — witness.example/w1 JLXZ/gAA…
//!
//! — witness.example/w1 9fo45a62…
//! ```
//!
//! If nothing was cosigned, nothing follows the nonce. The last line is an ordinary signature of the witness's
//! key (type `0x01`); no checkpoint and no cosignature begins as this text does.
//!
//! Source: docs/reference/witness.md; an addition of ours to C2SP tlog-witness.

use custody_log::{CosignerKey, Digest, LogName, open_note};

use crate::state::{LatestCosigned, WitnessSigner};

/// The first line of an answer.
const KIND: &str = "custody.witness/latest/v1";

/// Drawn anew for every question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WitnessNonce([u8; 32]);

impl WitnessNonce {
    /// A nonce of these bytes, which must not have been used before.
    pub const fn from_random(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads 64 lower-case hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        (hex::encode(bytes) == text).then_some(Self(bytes))
    }
}

impl std::fmt::Display for WitnessNonce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// Why an answer counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LatestAnswerError {
    /// It is not signed by the expected witness.
    #[error("the answer is not signed by the pinned key")]
    NotSigned,
    /// It answers another question: an older one, or one about another log.
    #[error("the answer is not to this question; it may be an old one")]
    OtherQuestion,
    /// What it shows was not cosigned by this witness, or is of another log.
    #[error("the answer shows no checkpoint of this log that the witness cosigned")]
    NotCosigned,
}

/// The answer of a witness, as the body of a response.
pub(crate) fn render_answer(
    signer: &WitnessSigner,
    origin: &LogName,
    nonce: WitnessNonce,
    latest: Option<&LatestCosigned>,
) -> String {
    let shown = latest.map(|latest| format!("\n{}", latest.note)).unwrap_or_default();
    signer.sign(&format!("{}{shown}", question(origin, nonce)))
}

/// Verifies an answer to this question. `None` when the witness cosigned nothing of this log.
///
/// # Errors
/// [`LatestAnswerError`]; the answer then proves nothing, not even that the witness runs.
pub fn verify_latest(
    answer: &str,
    witness: &CosignerKey,
    origin: &LogName,
    nonce: WitnessNonce,
) -> Result<Option<LatestCosigned>, LatestAnswerError> {
    let text =
        open_note(answer, &witness.name, &witness.key).map_err(|_| LatestAnswerError::NotSigned)?;
    let shown = text.strip_prefix(&question(origin, nonce));
    let shown = shown.ok_or(LatestAnswerError::OtherQuestion)?;
    if shown.is_empty() {
        return Ok(None);
    }
    let note = shown.strip_prefix('\n').ok_or(LatestAnswerError::NotCosigned)?;
    let cosigned = witness.verify(note).map_err(|_| LatestAnswerError::NotCosigned)?;
    if cosigned.checkpoint.origin != *origin {
        return Err(LatestAnswerError::NotCosigned);
    }
    Ok(Some(LatestCosigned { cosigned, note: note.to_owned() }))
}

fn question(origin: &LogName, nonce: WitnessNonce) -> String {
    format!("{KIND}\norigin {origin}\nnonce {nonce}\n")
}

/// The path of a question, under the witness's URL. An origin may hold any letter, so its SHA-256 stands for it.
pub(crate) fn path(origin: &LogName, nonce: WitnessNonce) -> String {
    format!("{PATH}{}/{nonce}", origin_id(origin))
}

/// What such paths begin with.
pub(crate) const PATH: &str = "/custody/v1/latest/";

/// SHA-256 of an origin, in lower-case hexadecimal digits.
pub(crate) fn origin_id(origin: &LogName) -> String {
    Digest::of(origin.as_str().as_bytes()).to_string()
}
