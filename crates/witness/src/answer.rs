//! A witness's answers as HTTP says them, without HTTP itself.

use crate::folder::{CommitError, WitnessFolder};
use crate::latest::{self, WitnessNonce};
use crate::state::SubmissionRefusal;

/// The media type of a size in a refusal.
pub(crate) const SIZE_TYPE: &str = "text/x.tlog.size";

const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// The path of a request to cosign.
pub(crate) const ADD_CHECKPOINT: &str = "/add-checkpoint";

/// A response: what follows the status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessAnswer {
    /// The HTTP status code.
    pub status: u16,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

impl WitnessAnswer {
    /// An answer in words, on one line.
    pub(crate) fn text(status: u16, text: impl std::fmt::Display) -> Self {
        Self { status, content_type: TEXT_TYPE, body: format!("{text}\n") }
    }
}

impl WitnessFolder {
    /// Answers a request, at `time_s` seconds since 1970-01-01 UTC. Whatever it says is stored before it returns.
    pub fn answer(&mut self, method: &str, path: &str, body: &[u8], time_s: u64) -> WitnessAnswer {
        match (method, path) {
            ("POST", ADD_CHECKPOINT) => self.answer_submission(body, time_s),
            (_, ADD_CHECKPOINT) => WitnessAnswer::text(405, "use POST"),
            (method, path) => match path.strip_prefix(latest::PATH) {
                Some(_) if method != "GET" => WitnessAnswer::text(405, "use GET"),
                Some(question) => self.answer_latest(question),
                None => WitnessAnswer::text(404, "there is nothing at this path"),
            },
        }
    }

    fn answer_submission(&mut self, body: &[u8], time_s: u64) -> WitnessAnswer {
        let decided = self.state().decide_submission(body, self.signer(), time_s);
        match decided {
            Ok(accepted) => match self.commit(accepted) {
                Ok(line) => WitnessAnswer { status: 200, content_type: TEXT_TYPE, body: line },
                // Where the state lies is nobody's business but the operator's.
                Err(CommitError(_)) => WitnessAnswer::text(500, "the state could not be stored"),
            },
            Err(refusal) => refused(&refusal),
        }
    }

    fn answer_latest(&self, question: &str) -> WitnessAnswer {
        let question = question.split_once('/');
        let Some((id, nonce)) =
            question.and_then(|(id, nonce)| Some((id, WitnessNonce::parse(nonce)?)))
        else {
            return WitnessAnswer::text(400, "use the origin's SHA-256 and a nonce of 64 digits");
        };
        let mut logs = self.state().logs();
        let Some((origin, log)) = logs.find(|(origin, _)| latest::origin_id(origin) == id) else {
            return WitnessAnswer::text(404, SubmissionRefusal::UnknownLog);
        };
        let body = latest::render_answer(self.signer(), origin, nonce, log.latest.as_ref());
        WitnessAnswer { status: 200, content_type: TEXT_TYPE, body }
    }
}

fn refused(refusal: &SubmissionRefusal) -> WitnessAnswer {
    let status = match refusal {
        SubmissionRefusal::OtherSize { latest } => {
            let body = format!("{latest}\n");
            return WitnessAnswer { status: 409, content_type: SIZE_TYPE, body };
        }
        SubmissionRefusal::Malformed(_)
        | SubmissionRefusal::Checkpoint(_)
        | SubmissionRefusal::OldAboveNew { .. } => 400,
        SubmissionRefusal::UnknownLog => 404,
        SubmissionRefusal::NotSigned => 403,
        SubmissionRefusal::OtherRoot { .. } => 409,
        SubmissionRefusal::Inconsistent(_) => 422,
        SubmissionRefusal::Clock { .. } => 500,
    };
    WitnessAnswer::text(status, refusal)
}
