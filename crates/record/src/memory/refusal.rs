//! Refusals: which rule said no, and what the reader needs to act on it.

use std::fmt;

use custody_log::{Digest, EntryId, IncidentId, Seq, Timestamp};
use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::memory::item::Mode;
use crate::memory::review::Purpose;
use crate::route::{Stage, Undecided};

/// A rule of MON §3.3, or one of the design's additions to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// One of the paper's nine.
    Mon(u8),
    /// Rate limits per principal and namespace.
    Rate,
    /// Owner and reviewer actions need a human (docs/design.md §10).
    Authority,
    /// Approvals bind to exact content, once, before they expire.
    Approval,
    /// Only a text whose route ends in production goes on (pipeline paper).
    Route,
    /// After reading untrusted text, sinks come from the user (docs/design.md §5.4).
    Floor,
    /// The operator's policy.
    Policy,
    /// What an incident put in quarantine stays there until it is restored (docs/design.md §6.7).
    Recovery,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mon(number) => write!(f, "rule {number}"),
            Self::Rate => f.write_str("rate limit"),
            Self::Authority => f.write_str("authority"),
            Self::Approval => f.write_str("approval"),
            Self::Route => f.write_str("route"),
            Self::Floor => f.write_str("floor"),
            Self::Policy => f.write_str("policy"),
            Self::Recovery => f.write_str("recovery"),
        }
    }
}

/// Which dependency spoils a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaintSource {
    /// A recorded entry that is tainted.
    Entry(Seq),
    /// A named entry that the record does not hold. Unknown is not clean (M4).
    Missing(EntryId),
    /// Nothing at all is known of where the value came from (M4).
    NoOrigin,
}

/// Why something was not done. An answer, not an error.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Rule 3: ι = 1, here or on the shared item that this write would shadow.
    Immutable {
        /// The protected key.
        key: Key,
    },
    /// Rule 3, for a key that a reader would take for a protected one.
    Confusable {
        /// The key asked for.
        key: Key,
        /// The protected key it looks like.
        protected: Key,
    },
    /// Rule 4: a dependency is tainted.
    Tainted {
        /// The key asked for.
        key: Key,
        /// The first dependency at fault.
        #[serde(rename = "culprit")]
        source: TaintSource,
    },
    /// Intents are declared only where nothing untrusted was read.
    IntentInTaintedContext {
        /// The first dependency at fault.
        #[serde(rename = "culprit")]
        source: TaintSource,
    },
    /// Rule 5: the session runs for nobody who is trusted.
    Untrusted {
        /// The key asked for.
        key: Key,
    },
    /// Rule 7: the item to promote is tainted.
    PromoteTainted {
        /// The key asked for.
        key: Key,
    },
    /// Rule 7: the authoriser is not trusted.
    PromoteUntrusted {
        /// The key asked for.
        key: Key,
    },
    /// Rule 7, for a replayed trace: everybody in it is somebody's claim.
    PromoteReplayed {
        /// The key asked for.
        key: Key,
    },
    /// Rule 9: the namespace is another session's.
    NotVisible {
        /// The key asked for.
        key: Key,
    },
    /// Too many changes.
    RateLimited {
        /// The key asked for.
        key: Key,
        /// When the next change is allowed.
        until: Timestamp,
    },
    /// The action needs an owner, present in person.
    NeedsOwner,
    /// The action needs a human who may review this, and it is not the asker.
    NeedsReviewer,
    /// The requester cannot approve their own proposal.
    OwnProposal,
    /// The proposal is not waiting: never submitted, decided already, or withdrawn.
    NotPending {
        /// The proposal asked for.
        proposal: EntryId,
    },
    /// The proposal waited too long.
    Expired {
        /// The proposal asked for.
        proposal: EntryId,
    },
    /// The reviewer approved something else than what was proposed.
    OtherContent {
        /// The proposal asked for.
        proposal: EntryId,
    },
    /// The item changed after the proposal was made.
    Stale {
        /// The proposal asked for.
        proposal: EntryId,
        /// The item's key.
        key: Key,
    },
    /// The attack in a text cannot be parted from the rest.
    Unrecoverable,
    /// A stage could not say whether a text may go on.
    Undecided {
        /// The stage.
        stage: Stage,
        /// Why not.
        why: Undecided,
    },
    /// After reading untrusted text, a call has sinks that the user did not say, or none that they did.
    Floor {
        /// Which arguments, by path.
        arguments: Vec<String>,
        /// The entries whose text reached them.
        entries: Vec<Seq>,
    },
    /// The policy wants a human to decide.
    PolicyAsks {
        /// The ids of the policies that say so.
        by: Vec<String>,
    },
    /// The policy forbids it, or no policy permits it.
    PolicyDenies {
        /// The ids of the policies that say so.
        by: Vec<String>,
    },
    /// Nobody has approved it yet.
    NotApproved {
        /// The proposal asked for.
        proposal: EntryId,
    },
    /// A reviewer turned it down.
    TurnedDown {
        /// The proposal asked for.
        proposal: EntryId,
    },
    /// Its approval was used.
    UsedUp {
        /// The proposal asked for.
        proposal: EntryId,
    },
    /// It was approved under another policy.
    OtherPolicy {
        /// The proposal asked for.
        proposal: EntryId,
    },
    /// No policy that the owner signed lets this field of an output be taken out.
    NotExtractable {
        /// The field, as a path of names.
        field: String,
    },
    /// It depends on an entry that an incident put in quarantine, or purged.
    InQuarantine {
        /// The entry.
        entry: Seq,
    },
    /// As many questions of whoever asks wait for a human as may, over all their sessions.
    TooManyWaiting {
        /// What one more would wait for.
        purpose: Purpose,
        /// How many may wait at once.
        limit: u32,
    },
    /// An incident evicted these weights, and no host may load them again.
    Evicted {
        /// SHA-256 of them.
        weights: Digest,
        /// The incident.
        incident: IncidentId,
    },
    /// The session has taken out as much as it may.
    BitsUsedUp {
        /// The field, as a path of names.
        field: String,
        /// What it counts, in bits.
        bits: u32,
        /// How many are left.
        left: u32,
    },
}

impl Refusal {
    /// The rule that refused.
    pub const fn rule(&self) -> Rule {
        match self {
            Self::Immutable { .. } | Self::Confusable { .. } => Rule::Mon(3),
            Self::Tainted { .. } => Rule::Mon(4),
            Self::Untrusted { .. } => Rule::Mon(5),
            Self::PromoteTainted { .. }
            | Self::PromoteUntrusted { .. }
            | Self::PromoteReplayed { .. } => Rule::Mon(7),
            Self::NotVisible { .. } => Rule::Mon(9),
            Self::RateLimited { .. } | Self::TooManyWaiting { .. } => Rule::Rate,
            Self::NeedsOwner | Self::NeedsReviewer | Self::OwnProposal => Rule::Authority,
            Self::NotPending { .. }
            | Self::Expired { .. }
            | Self::OtherContent { .. }
            | Self::Stale { .. }
            | Self::NotApproved { .. }
            | Self::TurnedDown { .. }
            | Self::UsedUp { .. }
            | Self::OtherPolicy { .. } => Rule::Approval,
            Self::Unrecoverable | Self::Undecided { .. } => Rule::Route,
            Self::Floor { .. } | Self::IntentInTaintedContext { .. } => Rule::Floor,
            Self::PolicyAsks { .. }
            | Self::PolicyDenies { .. }
            | Self::NotExtractable { .. }
            | Self::BitsUsedUp { .. } => Rule::Policy,
            Self::InQuarantine { .. } | Self::Evicted { .. } => Rule::Recovery,
        }
    }

    /// The tainted entry that decided, if one did.
    pub const fn tainted_entry(&self) -> Option<Seq> {
        let Self::Tainted { source: TaintSource::Entry(entry), .. } = self else { return None };
        Some(*entry)
    }

    /// A word for tables: `immutable`, `tainted`, `untrusted` ….
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Immutable { .. } => "immutable",
            Self::Confusable { .. } => "confusable",
            Self::Tainted { .. }
            | Self::PromoteTainted { .. }
            | Self::IntentInTaintedContext { .. } => "tainted",
            Self::Untrusted { .. } | Self::PromoteUntrusted { .. } => "untrusted",
            Self::PromoteReplayed { .. } => "replayed",
            Self::NotVisible { .. } => "not visible",
            Self::RateLimited { .. } => "rate limited",
            Self::TooManyWaiting { .. } => "too many waiting",
            Self::NeedsOwner => "needs owner",
            Self::NeedsReviewer => "needs reviewer",
            Self::OwnProposal => "own proposal",
            Self::NotPending { .. } => "not pending",
            Self::Expired { .. } => "expired",
            Self::OtherContent { .. } => "other content",
            Self::Stale { .. } => "stale",
            Self::Unrecoverable => "unrecoverable",
            Self::Undecided { .. } => "undecided",
            Self::Floor { .. } => "not the user's",
            Self::PolicyAsks { .. } => "policy asks",
            Self::PolicyDenies { .. } => "policy denies",
            Self::NotApproved { .. } => "not approved",
            Self::TurnedDown { .. } => "turned down",
            Self::UsedUp { .. } => "used up",
            Self::OtherPolicy { .. } => "other policy",
            Self::NotExtractable { .. } => "not extractable",
            Self::BitsUsedUp { .. } => "bits used up",
            Self::InQuarantine { .. } => "in quarantine",
            Self::Evicted { .. } => "evicted",
        }
    }
}

/// Names in backticks, at most three of them.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// The time of day, as a person reads it.
fn time_of_day(at: Timestamp) -> String {
    let seconds = at.0 / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// The sentence for the person at the keyboard: what happened and what to do.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Immutable { key } => {
                write!(f, "`{key}` is {}; an owner can unlock it", Mode::Immutable)
            }
            Self::Confusable { key, protected } => {
                write!(f, "`{key}` looks like the protected `{protected}`; use another name")
            }
            Self::Tainted { key, source: TaintSource::Entry(seq) } => {
                write!(f, "`{key}` would hold text that depends on untrusted entry {seq}; a reviewer may release it")
            }
            Self::Tainted { key, source: TaintSource::Missing(id) } => {
                write!(f, "`{key}` depends on `{id}`, which the record does not hold; record it first")
            }
            Self::Tainted { key, source: TaintSource::NoOrigin } => {
                write!(f, "nothing says where the value for `{key}` came from; record its source first")
            }
            Self::IntentInTaintedContext { source: TaintSource::Entry(seq) } => write!(
                f,
                "this session has read untrusted text (entry {seq}), so what it means to do is not known to be the user's"
            ),
            Self::IntentInTaintedContext { .. } => f.write_str(
                "nothing that the user said was read here, so nobody knows what is meant to be done",
            ),
            Self::Untrusted { key } => {
                write!(
                    f,
                    "untrusted principal may not write `{key}` (rule 5); authenticate as a user, reviewer or owner"
                )
            }
            Self::PromoteTainted { key } => {
                write!(f, "`{key}` is tainted and cannot be shared; declassify it first")
            }
            Self::PromoteUntrusted { key } => {
                write!(
                    f,
                    "untrusted principal may not share `{key}` (rule 7); authenticate as a user, reviewer or owner"
                )
            }
            Self::PromoteReplayed { key } => {
                write!(f, "`{key}` comes from a replayed trace, which is somebody's claim; it is never shared")
            }
            Self::NotVisible { key } => {
                write!(f, "`{key}` belongs to another session; only shared items and your own are visible")
            }
            Self::RateLimited { key, until } => {
                write!(f, "rate limit reached for `{key}`; retry after {} UTC", time_of_day(*until))
            }
            Self::TooManyWaiting { purpose: Purpose::Call, limit } => {
                write!(f, "{limit} tool calls of this principal wait for a reviewer, and no more may (`custody session pending`)")
            }
            Self::TooManyWaiting { purpose: Purpose::Review | Purpose::Declassify, limit } => {
                write!(f, "{limit} changes of this principal wait for a reviewer, and no more may (`custody memory pending`)")
            }
            Self::NeedsOwner => {
                f.write_str("only the owner may do this, with the passphrase typed on a terminal")
            }
            Self::NeedsReviewer => f.write_str(
                "only a reviewer, the owner or the user it concerns may do this, with the passphrase typed on a terminal",
            ),
            Self::OwnProposal => {
                f.write_str("who proposed it cannot approve it; ask another reviewer")
            }
            Self::NotPending { proposal } => {
                write!(f, "`{proposal}` is not waiting for a decision; see `custody memory pending`")
            }
            Self::Expired { proposal } => {
                write!(f, "`{proposal}` waited too long and expired; propose it again")
            }
            Self::OtherContent { proposal } => {
                write!(f, "approval of `{proposal}` is for different content; review the new content")
            }
            Self::Stale { proposal, key } => {
                write!(f, "`{key}` changed after `{proposal}` was made; propose it again")
            }
            Self::Unrecoverable => {
                f.write_str("the attack cannot be parted from the rest of the text; ask for another")
            }
            Self::Undecided { stage, why } => {
                write!(f, "the {} could not say whether the text may go on: {why}", stage.name())
            }
            Self::Floor { arguments, .. } if arguments.is_empty() => f.write_str(
                "untrusted text was read before, and the user said no value of this call; a reviewer may approve it",
            ),
            Self::Floor { arguments, .. } => {
                let names = listed(arguments);
                write!(f, "untrusted text was read before, and the user did not say {names}; a reviewer may approve it")
            }
            Self::PolicyAsks { by } => {
                write!(f, "policy {} asks for approval; a reviewer may give it", listed(by))
            }
            Self::PolicyDenies { by } if by.is_empty() => {
                f.write_str("no policy permits this call; the owner may add one")
            }
            Self::PolicyDenies { by } => {
                write!(f, "policy {} forbids this call; see `custody policy explain`", listed(by))
            }
            Self::NotApproved { proposal } => {
                write!(f, "`{proposal}` is not approved yet; see `custody session pending`")
            }
            Self::TurnedDown { proposal } => {
                write!(f, "`{proposal}` was turned down by a reviewer; ask for something else")
            }
            Self::UsedUp { proposal } => {
                write!(f, "`{proposal}` was approved once and ran once; it does not run again in this session")
            }
            Self::OtherPolicy { proposal } => {
                write!(f, "`{proposal}` was approved under another policy; propose it again")
            }
            Self::NotExtractable { field } => {
                write!(f, "no policy that the owner signed lets `{field}` be taken out; read the whole output")
            }
            Self::InQuarantine { entry } => {
                write!(f, "it depends on entry {entry}, which an incident took out; see `custody incident list`")
            }
            Self::Evicted { weights, incident } => {
                write!(f, "the incident {incident} evicted the weights {weights}; no host may load them again")
            }
            Self::BitsUsedUp { field, bits, left } => {
                write!(f, "`{field}` counts {bits} bits and this session has {left} left; go on in a new session")
            }
        }
    }
}
