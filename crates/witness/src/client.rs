//! The log's side: asking a witness to cosign a head, and asking it what it cosigned last.
//!
//! What a reply means is pure ([`CosignStep`], [`verify_latest`](crate::verify_latest)); [`WitnessClient`] adds the
//! connection.

use std::time::Duration;

use custody_log::{Cosigned, CosignerKey, Hash, LogName, SignedHead};
use ureq::Agent;
use ureq::http::Uri;

use crate::answer::{ADD_CHECKPOINT, SIZE_TYPE};
use crate::latest::{self, LatestAnswerError, WitnessNonce, verify_latest};
use crate::state::LatestCosigned;
use crate::submission::{Submission, parse_size};

/// The longest reply that is read.
const MAX_REPLY_BYTES: u64 = 64 * 1024;

/// The longest time that one question may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// How often a head is submitted: once with the size that is remembered, and again with the size that the witness
/// gives; once more when another process of the log was faster.
const ATTEMPTS: usize = 3;

/// Where a witness is: `http://` or `https://`, a host, perhaps a port and a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessUrl(String);

/// The text is no URL of a witness.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no URL of a witness; it is `http://` or `https://`, a host, and perhaps a path", .0.escape_debug())]
pub struct WitnessUrlError(String);

impl std::str::FromStr for WitnessUrl {
    type Err = WitnessUrlError;

    fn from_str(text: &str) -> Result<Self, WitnessUrlError> {
        let uri: Uri = text.parse().map_err(|_| WitnessUrlError(text.to_owned()))?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        let is_plain =
            !text.contains(['?', '#', '@']) && text.chars().all(|c| c.is_ascii_graphic());
        let url = text.trim_end_matches('/').to_owned();
        (is_http && has_host && is_plain)
            .then_some(Self(url))
            .ok_or_else(|| WitnessUrlError(text.to_owned()))
    }
}

impl std::fmt::Display for WitnessUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl WitnessUrl {
    fn is_loopback(&self) -> bool {
        let uri: Option<Uri> = self.0.parse().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
        let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }
}

/// A reply, as HTTP gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessReply {
    /// The status code.
    pub status: u16,
    /// The media type, in lower case; empty if there is none.
    pub content_type: String,
    /// The body.
    pub body: String,
}

/// Why no cosignature was given.
#[derive(Debug, thiserror::Error)]
pub enum CosignError {
    /// The witness could not be asked.
    #[error("the witness was not reached")]
    Unreachable(#[source] Box<ureq::Error>),
    /// The witness does not serve this log.
    #[error("the witness does not know this log")]
    UnknownLog,
    /// The witness knows the log with another key.
    #[error("the witness knows another key of this log")]
    OtherKey,
    /// The witness says that it cosigned a larger log.
    #[error("the witness says that it cosigned `{witness}` records, and the log has `{ours}`")]
    Ahead {
        /// The size that the witness gives. Nothing signs it.
        witness: u64,
        /// The size of the head.
        ours: u64,
    },
    /// The witness cosigned other records than those that are there.
    #[error("the witness cosigned other records of this log")]
    Forked,
    /// The reply carries no cosignature of this head by the pinned key.
    #[error("the witness's reply is no cosignature by the pinned key")]
    NotCosigned,
    /// The log cannot prove that it extends what the witness has.
    #[error("there is no proof from the size `{old}`")]
    NoProof {
        /// The size.
        old: u64,
    },
    /// Any other reply.
    #[error("the witness answered with status `{status}`")]
    Status {
        /// The status code.
        status: u16,
    },
}

/// What follows from a reply to a submission.
#[derive(Debug, PartialEq, Eq)]
pub enum CosignStep {
    /// The head is cosigned.
    Done(LatestCosigned),
    /// Submit again with this old size.
    Retry {
        /// The size that the witness cosigned last.
        old: u64,
    },
}

impl CosignStep {
    /// Reads the reply to a submission of `head` with the old size `old`.
    ///
    /// # Errors
    /// [`CosignError`] for every reply that is neither a cosignature nor the size of a smaller log.
    pub fn from_reply(
        reply: &WitnessReply,
        head: &SignedHead,
        old: u64,
        witness: &CosignerKey,
    ) -> Result<Self, CosignError> {
        match reply.status {
            200 => cosigned(reply, head, witness).map(Self::Done).ok_or(CosignError::NotCosigned),
            403 => Err(CosignError::OtherKey),
            404 => Err(CosignError::UnknownLog),
            409 if reply.content_type == SIZE_TYPE => {
                let size = reply.body.strip_suffix('\n').and_then(parse_size);
                let ours = head.checkpoint.size;
                match size.ok_or(CosignError::Status { status: 409 })? {
                    size if size > ours => Err(CosignError::Ahead { witness: size, ours }),
                    // To name the size that was submitted is no answer.
                    size if size == old => Err(CosignError::Status { status: 409 }),
                    size => Ok(Self::Retry { old: size }),
                }
            }
            409 | 422 => Err(CosignError::Forked),
            status => Err(CosignError::Status { status }),
        }
    }
}

fn cosigned(
    reply: &WitnessReply,
    head: &SignedHead,
    witness: &CosignerKey,
) -> Option<LatestCosigned> {
    // The reply may carry lines of other keys too; of ours there must be one, and it alone is kept.
    let line = reply.body.lines().find(|line| {
        let note = format!("{}{line}\n", head.note);
        witness.verify(&note).is_ok_and(|cosigned| cosigned.checkpoint == head.checkpoint)
    })?;
    let note = format!("{}{line}\n", head.note);
    let cosigned: Cosigned = witness.verify(&note).ok()?;
    Some(LatestCosigned { cosigned, note })
}

/// Why a witness's latest checkpoint is not known.
#[derive(Debug, thiserror::Error)]
pub enum LatestError {
    /// The witness could not be asked.
    #[error("the witness was not reached")]
    Unreachable(#[source] Box<ureq::Error>),
    /// The witness does not serve this log, or cannot be asked this.
    #[error("the witness does not know this log, or has no such path")]
    UnknownLog,
    /// The answer proves nothing.
    #[error(transparent)]
    Answer(#[from] LatestAnswerError),
    /// Any other reply.
    #[error("the witness answered with status `{status}`")]
    Status {
        /// The status code.
        status: u16,
    },
}

/// A connection to one witness. Blocking; an answer takes 15 seconds at most.
#[derive(Debug)]
pub struct WitnessClient {
    agent: Agent,
    url: WitnessUrl,
    witness: CosignerKey,
}

impl WitnessClient {
    /// A client of the witness at `url`, which signs with the key `witness`. Sends nothing yet.
    ///
    /// Redirects are not followed, and a witness on this machine is never asked through a proxy.
    pub fn new(url: WitnessUrl, witness: CosignerKey) -> Self {
        let builder = Agent::config_builder()
            .user_agent(concat!("custody/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(TIMEOUT));
        let builder = if url.is_loopback() { builder.proxy(None) } else { builder };
        Self { agent: builder.build().new_agent(), url, witness }
    }

    /// Has the witness cosign a head.
    ///
    /// `known` is the size that it cosigned last as far as the log remembers, or 0. `prove` gives the consistency
    /// proof from a size to the head, and `None` when the log cannot.
    ///
    /// # Errors
    /// [`CosignError`]. [`CosignError::Ahead`] and [`CosignError::Forked`] rest on what the witness says without a
    /// signature; [`WitnessClient::latest`] settles it.
    pub fn cosign(
        &self,
        head: &SignedHead,
        known: u64,
        prove: impl Fn(u64) -> Option<Vec<Hash>>,
    ) -> Result<LatestCosigned, CosignError> {
        let mut old = known.min(head.checkpoint.size);
        for _ in 0..ATTEMPTS {
            let proof = prove(old).ok_or(CosignError::NoProof { old })?;
            let body = Submission { old, proof, checkpoint: head.note.clone() }.to_string();
            let url = format!("{}{ADD_CHECKPOINT}", self.url);
            let request = self.agent.post(&url).content_type("text/plain; charset=utf-8");
            let reply = read(request.send(body.as_bytes()))
                .map_err(|cause| CosignError::Unreachable(Box::new(cause)))?;
            match CosignStep::from_reply(&reply, head, old, &self.witness)? {
                CosignStep::Done(cosigned) => return Ok(cosigned),
                CosignStep::Retry { old: size } => old = size,
            }
        }
        Err(CosignError::Status { status: 409 })
    }

    /// Asks which checkpoint of a log the witness cosigned last. `nonce` is drawn anew for every question.
    ///
    /// # Errors
    /// [`LatestError`]; what the witness has is then unknown.
    pub fn latest(
        &self,
        origin: &LogName,
        nonce: WitnessNonce,
    ) -> Result<Option<LatestCosigned>, LatestError> {
        let url = format!("{}{}", self.url, latest::path(origin, nonce));
        let reply = read(self.agent.get(&url).call())
            .map_err(|cause| LatestError::Unreachable(Box::new(cause)))?;
        match reply.status {
            200 => Ok(verify_latest(&reply.body, &self.witness, origin, nonce)?),
            404 => Err(LatestError::UnknownLog),
            status => Err(LatestError::Status { status }),
        }
    }
}

/// A fresh nonce from the operating system's randomness.
///
/// # Errors
/// When the operating system has none to give; a question without a fresh nonce could be answered with an old answer.
pub fn fresh_nonce() -> Result<WitnessNonce, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(WitnessNonce::from_random(bytes))
}

fn read(
    response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<WitnessReply, ureq::Error> {
    let (head, mut body) = response?.into_parts();
    let content_type = body.mime_type().unwrap_or_default().to_ascii_lowercase();
    let body = body.with_config().limit(MAX_REPLY_BYTES).read_to_string()?;
    Ok(WitnessReply { status: head.status.as_u16(), content_type, body })
}
