//! Records: what was asked, what was answered, and what it depended on.
//!
//! The log of records is the store. Each record is one leaf of the audit tree and one entry of
//! the provenance graph; everything else, items, sessions, principals, pending proposals, is a
//! fold over the log that anybody can repeat.

mod statement;
mod tagged;

use custody_log::{
    Digest, EntryId, Hash, LogKey, PrincipalId, Seq, SessionId, StoreId, Timestamp, leaf_hash,
};
use serde::{Deserialize, Serialize};

use crate::adapter::{Adapt, Name};
use crate::advice::Advice;
use crate::key::Key;
use crate::label::{Channel, Label};
use crate::memory::item::{ContentRef, Mode};
use crate::memory::rate::Limits;
use crate::memory::refusal::Refusal;
use crate::memory::review::Purpose;
use crate::migration::KeptClaims;
use crate::namespace::{Scope, Tenant};
use crate::principal::{Principal, PrincipalClaim};
use crate::route::{RoutePolicy, StageResult};
use crate::signature::RecordSignature;
use crate::step::Recover;
use crate::tool::basis::Basis;
use crate::tool::call::Call;
use crate::tool::extract::Extract;
use crate::tool::intent::IntentDeclaration;

pub use crate::memory::item::Value;
pub use statement::{act_bytes, session_bytes};

/// The format in which records are written.
pub const FORMAT: u8 = 2;
/// The format of records whose acts and sessions are not signed. They are read, and no longer written.
pub const UNSIGNED_FORMAT: u8 = 1;

/// How many untrusted entries a text names that it repeats without being tainted: those that are the oldest.
pub const MAX_DISCOUNTED: usize = 16;

/// Who asked, as the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// A session, under the credential that opened it.
    Session(SessionId),
    /// A principal directly.
    Principal(PrincipalClaim),
}

/// What an observed entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservationKind {
    /// Something said to the model.
    Message,
    /// Something the model said, out of its whole context.
    Completion,
    /// A tool call inside a completion.
    ToolCall,
    /// The answer of a tool.
    ToolOutput,
    /// Documents from an index.
    Retrieval,
    /// A change of a file.
    FileChange,
}

impl ObservationKind {
    /// Whether the model produced it, so that it depends on the whole context.
    pub const fn is_produced(self) -> bool {
        matches!(self, Self::Completion | Self::ToolCall)
    }
}

/// A part of an observed text: one that repeats untrusted entries is recorded in several, in order and one right after
/// the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextPart {
    /// Where it begins in the text, in bytes.
    pub start: u64,
    /// The length of the whole text, in bytes.
    pub whole: u64,
}

/// A dependency that a caller adds to those computed for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyRef {
    /// An entry of the record.
    Entry(Seq),
    /// An id that the record does not hold.
    Missing(EntryId),
}

/// The first record of every store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Genesis {
    /// The id of the store.
    pub store: StoreId,
    /// The owner, whose key certifies the log key.
    pub owner: Principal,
    /// The log key.
    pub log_key: LogKey,
    /// The limits to begin with.
    pub limits: Limits,
}

/// A route that was run over a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The entries that hold the text, in its order: one, or more where it repeats untrusted ones.
    pub original: Vec<Seq>,
    /// The entries that hold the turns it came after, where it was routed as the last of a conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Seq>,
    /// The entries that hold what repair made of it, if it made something.
    pub repaired: Vec<Seq>,
    /// Under which policy.
    pub policy: RoutePolicy,
    /// What screened it: the detector's configuration and the digest of its weights.
    pub detector: String,
    /// The language model that tried and repaired it, if there was one.
    pub model: Option<String>,
    /// What the stages said, in order.
    pub heard: Vec<StageResult>,
}

/// What a session asks. One variant per action; each has one deciding function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionRequest {
    /// Close the session.
    CloseSession,
    /// Record what entered the context, or what the model produced out of it.
    Observe {
        /// What it is.
        kind: ObservationKind,
        /// Where it entered.
        channel: Channel,
        /// The caller gives up its trust.
        lowered: bool,
        /// The text by commitment.
        content: Option<Value>,
        /// A tool, address or line it came from, for the reader.
        origin: Option<String>,
        /// Entries it was made from besides.
        parents: Vec<Seq>,
        /// Which part of the observed text it is, if it is not the whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<TextPart>,
        /// Untrusted entries that it repeats and that do not taint it, because older trusted texts hold what is
        /// repeated (G9). No label and no closure follows them; a recovery that reaches one lists this entry.
        /// Ascending, at most [`MAX_DISCOUNTED`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        discounted: Vec<Seq>,
    },
    /// Read an item (rules 1, 9).
    Read {
        /// The scope of the item: the session's own, or shared.
        scope: Scope,
        /// The item's key.
        key: Key,
    },
    /// See the keys and modes of items, page by page (rules 1, 9). It cannot name the namespace of another session.
    List {
        /// Whether those of the shared namespace, and not the session's own.
        shared: bool,
        /// Of which key on, without that one; from the first where it is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Key>,
    },
    /// Write an item (rules 2–5). Into the shared namespace it is also a promotion (rules 6, 7).
    Write {
        /// The scope of the item: the session's own, or shared.
        scope: Scope,
        /// The item's key.
        key: Key,
        /// The value: new bytes, or those of an earlier entry.
        value: Value,
        /// Dependencies besides the whole context.
        depends_on: Vec<DependencyRef>,
        /// If rule 4 refuses it, wait for a reviewer.
        queue: bool,
    },
    /// Delete an item: a write of nothing.
    Delete {
        /// The scope of the item: the session's own, or shared.
        scope: Scope,
        /// The item's key.
        key: Key,
    },
    /// Promote an item of a session to the shared namespace (rules 6, 7).
    Promote {
        /// Whose item.
        from: SessionId,
        /// The item's key.
        key: Key,
    },
    /// Ask where a text that entered may go. Its stages have run; what they said decides it again without a model.
    Route(Box<Route>),
    /// Record what a call brought back, and not show it to the model.
    Withhold {
        /// The entry of the call.
        call: Seq,
        /// The output.
        content: Value,
    },
    /// Show the model a single value of what was withheld.
    Extract(Box<Extract>),
    /// Declare calls that are meant to be made.
    DeclareIntents(Box<IntentDeclaration>),
    /// Let one entry stand for all that the session has read so far.
    JoinContext,
    /// Record a text that tool calls are judged by. The model does not read it.
    RecordBasis(Box<Basis>),
}

/// What a principal asks, outside any session. One variant per action; each has one deciding function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminRequest {
    /// Create the store.
    #[serde(rename = "found")]
    CreateStore(Box<Genesis>),
    /// Open a session for whoever asks.
    OpenSession {
        /// The id made for it.
        session: SessionId,
        /// The caller's own name for it.
        alias: Option<String>,
        /// The host of the model that speaks in it, where adapters may be loaded into that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<Name>,
        /// The public key that the process made for it: 32 bytes of Ed25519. Absent in [`UNSIGNED_FORMAT`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<Digest>,
    },
    /// Close a session of somebody whose process ended without.
    EndSession {
        /// The session.
        session: SessionId,
    },
    /// Release a pending proposal, or let a tool call run once.
    Approve {
        /// The id of the entry that proposed it.
        proposal: EntryId,
        /// The commitment of the value the reviewer was shown.
        shown: Option<Digest>,
    },
    /// Turn a pending proposal down.
    Deny {
        /// The id of the entry that proposed it.
        proposal: EntryId,
    },
    /// Lock, unlock or put under review.
    SetMode {
        /// The tenant of the item.
        tenant: Tenant,
        /// The scope of the item: the session's own, or shared.
        scope: Scope,
        /// The item's key.
        key: Key,
        /// The new mode.
        mode: Mode,
    },
    /// Take a file as it is on disk for the value of a shared item, and watch it.
    AdoptFile {
        /// The tenant of the item.
        tenant: Tenant,
        /// The item's key.
        key: Key,
        /// Where the file is.
        path: String,
        /// What it holds; `None` when only the place is recorded.
        value: Value,
    },
    /// Register a principal.
    AddPrincipal(Box<Principal>),
    /// Withdraw a principal's credentials.
    RevokePrincipal {
        /// The principal that loses its credentials.
        principal: PrincipalId,
    },
    /// Change the limits.
    SetLimits(Limits),
    /// Decide tool calls by another policy from here on.
    SetPolicy {
        /// SHA-256 of its text.
        version: Digest,
        /// Its text.
        text: Value,
    },
    /// Change the weights that a model host carries.
    Adapt(Box<Adapt>),
    /// Take a step of an incident.
    Recover(Box<Recover>),
    /// Sign checkpoints with another key from here on.
    RotateLogKey(LogKey),
    /// Go on from a store of [`UNSIGNED_FORMAT`]. No record of that format follows.
    CloseUnsignedFormat(Box<KeptClaims>),
    /// Go on from a store whose head was lost or which was deliberately restored.
    AdoptLedger {
        /// The reason, in the owner's words.
        reason: String,
        /// The size that the lost or disagreeing head spoke of, if one was found.
        head_size: Option<u64>,
    },
}

/// Everything that can be asked of a store, as a record keeps it: under the one name of its action, whoever asked.
///
/// Anybody may parse one. What is put to the monitor is a submitted request, which takes a call only with
/// arguments that were traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Asked in a session.
    Session(SessionRequest),
    /// Run a tool. Asked in a session.
    Call(Box<Call>),
    /// Asked by a principal.
    Admin(AdminRequest),
}

impl From<SessionRequest> for Request {
    fn from(request: SessionRequest) -> Self {
        Self::Session(request)
    }
}

impl From<AdminRequest> for Request {
    fn from(request: AdminRequest) -> Self {
        Self::Admin(request)
    }
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Done as asked.
    Done,
    /// The read found this version.
    #[serde(rename = "found")]
    Value {
        /// The entry that wrote it.
        version: Seq,
        /// Its content.
        content: ContentRef,
    },
    /// The read found nothing there: ⊥.
    #[serde(rename = "absent")]
    NotFound,
    /// Waits for a reviewer, under this record's id.
    Pending {
        /// What it waits for.
        purpose: Purpose,
        /// When it expires.
        expires: Timestamp,
        /// The refusal that a declassification would lift.
        because: Option<Refusal>,
    },
    /// Not done.
    Refused(Refusal),
}

impl Answer {
    /// The word for tables: `accepted`, `pending`, `refused`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Done | Self::Value { .. } | Self::NotFound => "accepted",
            Self::Pending { .. } => "pending",
            Self::Refused(_) => "refused",
        }
    }

    /// Whether it was done as asked.
    pub const fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// The refusal, if it is one.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Pending { because, .. } => because.as_ref(),
            Self::Done | Self::Value { .. } | Self::NotFound => None,
        }
    }
}

/// One entry: immutable once written.
///
/// Anybody may parse one; only a decision of the monitor can become a new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`FORMAT`], or [`UNSIGNED_FORMAT`] in an older store.
    pub v: u8,
    /// Its position.
    pub seq: Seq,
    /// Its id, which is also the decision id.
    pub id: EntryId,
    /// When; never before the record before it.
    pub at: Timestamp,
    /// Who asked.
    pub by: Author,
    /// What was asked.
    pub request: Request,
    /// The answer to it.
    pub answer: Answer,
    /// What is known of the entry.
    pub label: Label,
    /// The entries it was made from, ascending, all before it.
    pub parents: Vec<Seq>,
    /// The change of the same item before this one, if this one changed an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Seq>,
    /// The content that a promotion or an approval put in force; other requests name theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentRef>,
    /// The weights that the model carried which produced this; after a change of a host's adapters, those it carries
    /// from then on. A base that fusing made comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<Digest>,
    /// What a detector or MON's content check noticed, for the reader; read by no decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// Of the human who asked, or of the session: see [`signature`](crate::signature).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<RecordSignature>,
}

impl Record {
    /// The bytes that are hashed into the tree and stored.
    ///
    /// # Errors
    /// Never: records hold text and numbers only.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// Its leaf in the Merkle tree of the log: the hash of the bytes in which it is written now.
    pub fn leaf(&self) -> Hash {
        leaf_hash(&self.to_bytes().expect("a record holds text and numbers only"))
    }

    /// Reads a record back.
    ///
    /// # Errors
    /// When the bytes are not a record of [`FORMAT`] or [`UNSIGNED_FORMAT`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        let record: Self = serde_json::from_slice(bytes).map_err(RecordError::Malformed)?;
        match record.v {
            FORMAT => Ok(record),
            UNSIGNED_FORMAT if record.signature.is_none() => Ok(record),
            other => Err(RecordError::Format(other)),
        }
    }
}

/// Why bytes are not a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not the JSON of a record.
    #[error("the bytes are not a record")]
    Malformed(#[source] serde_json::Error),
    /// From a later program.
    #[error("the record has format {0}; this program reads {UNSIGNED_FORMAT} and {FORMAT}")]
    Format(u8),
}
