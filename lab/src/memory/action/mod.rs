//! What the rules are driven with: actions in plain words, decoded from bytes.
//!
//! Bytes, because then `proptest` shrinks a failing trace and a seeded generator makes a long one.

use std::fmt;

pub use self::decode::decode;

mod decode;

/// Where something entered, or that the model made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the channels of docs/design.md §2.1, and the two things a model makes"
)]
pub enum ActionChannel {
    System,
    User,
    Web,
    Tool,
    Skill,
    Retrieval,
    File,
    PeerAgent,
    Completion,
    ToolCall,
}

/// Which namespace of a session's tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The shared one.
    Shared,
    /// That of a session, its own or another's.
    Session(usize),
}

/// The value of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// New text.
    New(String),
    /// The text of an earlier entry.
    Of {
        /// The number of the entry.
        entry: usize,
        /// Its text.
        text: String,
    },
}

/// Who decides about a proposal or a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judge {
    /// The owner, in person.
    Owner,
    /// A reviewer of the tenant, in person.
    Reviewer,
    /// A reviewer of another tenant, in person.
    Stranger,
    /// The user for whom session 0 runs, in person.
    Ann,
    /// The same user's token.
    AnnsToken,
    /// The user for whom session 1 runs, in person.
    Bob,
}

impl Judge {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Owner, Self::Reviewer, Self::Stranger, Self::Ann, Self::AnnsToken, Self::Bob];
}

/// One action of one session. Entries are named by the order in which they were recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Who acts.
    pub session: usize,
    /// What they do.
    pub act: Act,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of MON §3.3 and of the kernel's requests")]
pub enum Act {
    /// INTERNAL: something enters the context, or the model makes something.
    Internal { channel: ActionChannel, parents: Vec<usize> },
    /// READ(k, σ).
    Read { place: Place, key: String },
    /// WRITE(k, v, deps, π, σ).
    Write {
        place: Place,
        key: String,
        text: Text,
        depends_on: Vec<usize>,
        missing: bool,
        queue: bool,
    },
    /// PROMOTE(k, σ_src, σ_shared).
    Promote { from: usize, key: String },
    /// A write of nothing.
    Delete { place: Place, key: String },
    /// Release the proposal that an entry made, having seen its text or another.
    Approve { judge: Judge, proposal: usize, saw_it: bool },
    /// Turn it down.
    Deny { judge: Judge, proposal: usize },
    /// `open`, `reviewed` or `immutable`.
    SetMode { judge: Judge, place: Place, key: String, mode: &'static str },
    /// Sets the clock, possibly back.
    SetClock { ms: u64 },
}

/// The answer in plain words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlainAnswer {
    /// As asked.
    Done,
    /// A read found this text.
    Found(String),
    /// A read found nothing: ⊥.
    Absent,
    /// Waits for a reviewer: `review` or `declassify`.
    Pending(String),
    /// The rule that refused.
    Refused(String),
    /// Spoke of something that does not exist; nothing was recorded.
    NothingThere,
}

impl PlainAnswer {
    /// A refusal by `rule`.
    pub fn refused(rule: &str) -> Self {
        Self::Refused(rule.to_owned())
    }
}

impl PlainAnswer {
    /// Whether the action left an entry.
    pub const fn is_recorded(&self) -> bool {
        !matches!(self, Self::NothingThere)
    }
}

/// Without the text that was found.
impl fmt::Display for PlainAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Found(_) => f.write_str("found"),
            Self::Absent => f.write_str("absent"),
            Self::Pending(purpose) => write!(f, "pending {purpose}"),
            Self::Refused(rule) => write!(f, "refused {rule}"),
            Self::NothingThere => f.write_str("nothing there"),
        }
    }
}

/// Who runs a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionSpeaker {
    /// Whose customer they are.
    pub tenant: String,
    /// The principal, by name; empty when nothing was proven.
    pub principal: String,
    /// π.
    pub trusted: bool,
    /// Whether a person opened it with their passphrase.
    pub in_person: bool,
}

/// What a namespace holds under one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `open`, `reviewed` or `immutable`.
    pub mode: String,
    /// Text, whether its provenance is trusted, whether it is tainted.
    pub value: Option<(String, bool, bool)>,
}

/// Which actions a trace is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vocabulary {
    /// Those of MON §3.3.
    Mon,
    /// And deletes, modes, review, declassification, look-alikes and a clock.
    Extended,
}

/// What an action may refer to.
#[derive(Debug)]
pub struct Known<'a> {
    /// The sessions.
    pub sessions: usize,
    /// The keys.
    pub keys: &'a [&'a str],
    /// For each entry: the session and the text, if it has one.
    pub entries: &'a [(usize, Option<String>)],
    /// The entries that became proposals.
    pub proposals: &'a [usize],
    /// The present time.
    pub now_ms: u64,
    /// The next fresh text.
    pub fresh: usize,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}: {:?}", self.session, self.act)
    }
}
