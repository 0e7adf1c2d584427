//! Tool calls: proposed by a model, decided, and only then handed out to run.
//!
//! In reading order: `gate` (manifests and policies), `judge` (tracing and asking the policies) and `decide` (the
//! decide-and-commit step; both part of the trusted base), `intend` (calls that are
//! declared beforehand), `extract` (single values out of an output that is not shown), `rehearse` (recorded calls,
//! evaluated against a policy again).

mod decide;
mod extract;
mod gate;
mod intend;
mod judge;
mod rehearse;

use custody_kernel::actions::call::AllowedCall;
use custody_kernel::memory::refusal::Refusal;
use custody_log::{EntryId, Timestamp};
use serde_json::Value;

pub use extract::{Extracted, take_out};
pub use gate::{Announced, Gate, GateError, set_policy};
pub use intend::{INTENT_MS, MAX_INTENTS};
pub use judge::JudgedBy;
pub use rehearse::{Changed, Rehearsal, explain, rehearse};

/// What a tool brought back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Output {
    /// What the model reads.
    pub text: String,
    /// The same as a value, if the host has it. Fields that a manifest trusts are found here and nowhere else: in text,
    /// whoever wrote a part could write another field.
    pub structured: Option<Value>,
}

impl From<&str> for Output {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), structured: None }
    }
}

/// What was decided of a call.
#[derive(Debug)]
pub enum Decision {
    /// It may run, once.
    Allow(Granted),
    /// A human is asked.
    Ask(Waiting),
    /// It does not run.
    Deny {
        /// The decision's id.
        decision: EntryId,
        /// Why.
        because: Refusal,
    },
}

/// What would be decided of a call that is not proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preview {
    /// It would run.
    Allow,
    /// A human would be asked, for this reason.
    Ask(Option<Refusal>),
    /// It would not run, for this reason.
    Deny(Refusal),
}

/// A call that waits for a human.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Under which name.
    pub proposal: EntryId,
    /// Until when.
    pub expires: Timestamp,
    /// Why it does not run without.
    pub because: Option<Refusal>,
    /// Whether the same call waited already: nobody is asked a second time.
    pub again: bool,
}

/// A call to run. Made from the kernel's witness, so nothing else can be run.
#[derive(Debug)]
#[must_use = "a call that is not run was decided in vain"]
pub struct Granted {
    allowed: AllowedCall,
    arguments: String,
    decision: EntryId,
}

impl Granted {
    /// The tool's name.
    pub fn tool(&self) -> &str {
        self.allowed.tool()
    }

    /// The canonical arguments, which are the ones that were judged.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// The decision's id, under which its result is recorded.
    pub const fn decision(&self) -> EntryId {
        self.decision
    }
}
