//! What is asked: who asks, for what, when, and what cannot be asked or folded in at all.

use custody_log::{Digest, IncidentId, PrincipalId, Seq, SessionId};

use crate::carried::NotLoaded;
use crate::key::Key;
use crate::label::Channel;
use crate::lists::ListError;
use crate::namespace::{Namespace, Tenant};
use crate::principal::{Authority, Role};
use crate::record::{AdminRequest, MAX_DISCOUNTED, ObservationKind, SessionRequest};
use crate::route::RouteError;
use crate::tool::call::ProposedCall;

/// One request, with who makes it.
///
/// A session asks what a session may ask, and a principal the rest: neither can be put in the other's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmittedRequest {
    /// In a session that this process opened under a credential it has seen.
    Session(SessionId, SessionRequest),
    /// A tool call in such a session, with arguments that were traced.
    Call(SessionId, Box<ProposedCall>),
    /// By a principal directly.
    Admin(Authority, AdminRequest),
}

/// A request that cannot be decided, because it speaks of something that does not exist. Nothing
/// is recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// A store is created by its first record, and only by that.
    #[error("the store has {0} records; a store is created only while it has none")]
    StoreExists(u64),
    /// Nothing can be asked of a store that does not exist, and only the owner whom it names can create it.
    #[error("the store does not exist yet; its first record is made by the owner that it names")]
    NoStore,
    /// The store was written in format 1, in which nothing is signed.
    #[error(
        "the store has record format 1, which can be read and not continued; see `custody ledger migrate`"
    )]
    Unsigned,
    /// Every act in the store is signed already.
    #[error("the store has the present record format; there is nothing to migrate")]
    NothingUnsigned,
    /// Something is kept of a store of format 1 that it does not hold.
    #[error("the store does not claim everything that is kept of it; list its claims again")]
    UnknownClaim,
    /// A session needs a key with which its records are signed.
    #[error("the session `{0}` is opened without a key to sign its records")]
    NoSessionKey(SessionId),
    /// Not open, or never was.
    #[error("there is no open session `{0}`; open one first")]
    UnknownSession(SessionId),
    /// A session of that id is open, or was.
    #[error("a session `{0}` exists already, open or closed; draw another id")]
    DuplicateSession(SessionId),
    /// The channel and the kind of entry contradict each other.
    #[error("a {kind:?} cannot arrive on channel `{channel}`")]
    Channel {
        /// The kind named.
        kind: ObservationKind,
        /// The channel named.
        channel: Channel,
    },
    /// An entry that is not in the record yet.
    #[error("entry {0} is not in the record; name only entries that were recorded before")]
    UnknownEntry(Seq),
    /// More repeated entries than a text names, or not in order.
    #[error("a text names at most {MAX_DISCOUNTED} entries that it repeats, in ascending order")]
    Discounted,
    /// A content that neither arrived in this session nor was read in it.
    #[error(
        "the content of entry {0} is not known in this session; read the item, or send the text"
    )]
    UnknownContent(Seq),
    /// Not the answers of one whole route.
    #[error("this is no route: {0}")]
    Route(RouteError),
    /// A route names the entries of its texts, and of no others.
    #[error(
        "a route names the entries of its text, and those of the repaired text if repair made one"
    )]
    RouteTexts,
    /// Nothing to promote or delete.
    #[error("there is no `{key}` in `{namespace}`")]
    NoSuchItem {
        /// Where it was looked for.
        namespace: Namespace,
        /// The item's key.
        key: Key,
    },
    /// A principal of that name exists.
    #[error("a principal `{0}` exists already; choose another name or revoke it first")]
    DuplicatePrincipal(String),
    /// No such principal.
    #[error("there is no principal `{0}`; see `custody principal list`")]
    UnknownPrincipal(PrincipalId),
    /// Acts as a principal that is not registered, or no longer, or in another role or tenant.
    #[error("nobody registered proved to be {0} of tenant `{1}`; see `custody principal list`")]
    Unproven(Role, Tenant),
    /// An adapter is taken away that is not there.
    #[error(transparent)]
    NotLoaded(#[from] NotLoaded),
    /// A model that was fused before, and whose base is not named.
    #[error("the model was fused before; name its base `{0}` among what is fused")]
    BaseNotNamed(Digest),
    /// An intent that could be used for longer than a day.
    #[error("an intent expires within a day of its declaration; declare it for less")]
    IntentTooLong,
    /// A context is joined in which nothing was read.
    #[error("nothing was read in the session; there is no context to join")]
    EmptyContext,
    /// Nothing to fuse.
    #[error("no adapter is named; name those that are fused")]
    NothingToFuse,
    /// No such incident.
    #[error("there is no incident `{0}`; see `custody incident list`")]
    UnknownIncident(IncidentId),
    /// An incident of that id exists.
    #[error("an incident `{0}` exists already; draw another id")]
    DuplicateIncident(IncidentId),
    /// Lists of entries that nobody could mean.
    #[error(transparent)]
    Lists(ListError),
    /// The owner cannot be revoked.
    #[error("the owner cannot be revoked; rotate the owner's key instead")]
    RevokeOwner,
}

/// Why a record does not follow from those before it.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Not the next position.
    #[error("record {found} stands where record {expected} belongs")]
    Position {
        /// The position it names.
        found: Seq,
        /// The position it stands at.
        expected: Seq,
    },
    /// Time runs backwards.
    #[error("record {0} is older than the one before it")]
    Time(Seq),
    /// A parent that is not before it, or parents out of order.
    #[error("record {0} names parents that do not stand before it in ascending order")]
    Parent(Seq),
    /// An answer that nobody could have given to its request here.
    #[error("record {0} holds an answer that its request cannot have at this point")]
    Answer(Seq),
    /// A request that this kind of asker cannot make.
    #[error("record {0} holds a request that whoever made it cannot make")]
    Asker(Seq),
    /// Not signed by the human or the session that it names.
    #[error("record {0} is not signed by the human or the session that it names")]
    Signature(Seq),
    /// Of an earlier format than the record before it, or of a later one in a store that was not migrated.
    #[error("record {0} has a format that cannot follow the one of the record before it")]
    Format(Seq),
    /// A session that is not open.
    #[error("record {0} speaks in a session that is not open")]
    Session(Seq),
    /// The decision was made for another state of the store.
    #[error("the decision was made for position {decided}, the store is at {now}; decide again")]
    Stale {
        /// The position it was made for.
        decided: Seq,
        /// The position reached since.
        now: Seq,
    },
    /// Deciding again gives another answer than the record holds.
    #[error("record {0} is not what the rules decide")]
    Disagrees(Seq),
    /// What was asked speaks of something that does not exist.
    #[error("record {seq} contains an invalid request")]
    Asked {
        /// The record.
        seq: Seq,
        /// Why it cannot be asked.
        #[source]
        cause: AskError,
    },
}
