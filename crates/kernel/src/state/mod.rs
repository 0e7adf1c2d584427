//! The state of a store: the fold of its records.
//!
//! [`State::decide`] judges and changes nothing; [`State::commit`] consumes the witness it returned and
//! makes the record; [`State::fold`] folds a record of earlier in. Whoever holds the log can repeat all three. They are
//! in [`monitor`](crate::monitor), and what each action changes is in [`actions`](crate::actions).

mod ask;
mod claims;
mod hosts;
mod incidents;
mod items;
pub(crate) mod lists;
mod log_end;
mod rate;
mod waiting;

use std::collections::{BTreeMap, HashMap, HashSet};

use claims::Claims;
use custody_arguments::IntentRef;
use custody_log::{Digest, EntryId, LogKey, PrincipalId, Seq, SessionId, StoreId, Timestamp};
use hosts::Adapted;
use incidents::Recovered;
use items::Items;
use log_end::LogEnd;
use waiting::Waiting;

use crate::adapter::Name;
use crate::context::SessionContext;
use crate::key::Key;
use crate::label::{Label, Trust};
use crate::memory::item::{ContentRef, Item, Mode};
use crate::memory::rate::Limits;
use crate::memory::review::{Pending, Purpose};
use crate::namespace::{Namespace, Tenant};
use crate::principal::{Principal, PrincipalClaim};
use crate::tool::asked::AskedCall;
use crate::tool::intent::IntentTerms;

pub(crate) use hosts::Tainting;

pub use ask::{ApplyError, AskError, SubmittedRequest};
pub use hosts::{Adapter, Eviction, Host};
pub use incidents::{AppliedPlan, IncidentState, Mark, Marks};
pub use rate::RateWindow;

/// An open session.
#[derive(Debug, Clone)]
pub struct SessionState {
    /// Under which credential it was opened; every request in it is made under that.
    pub who: PrincipalClaim,
    /// The caller's own name for it.
    pub alias: Option<String>,
    /// The host of its model, where adapters may be loaded into that.
    pub host: Option<Name>,
    /// The public key with which its records are signed. Absent in format 1.
    pub key: Option<Digest>,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When something was last asked in it.
    pub active_at: Timestamp,
    /// What its model has read.
    pub context: SessionContext,
    /// The calls of whose output the policy lets fields be taken out, with those fields.
    pub(crate) extractable: HashMap<Seq, Vec<String>>,
    /// Outputs that the model was not shown, with the call that each belongs to.
    pub(crate) withheld: HashMap<Seq, Seq>,
    /// Bits that were taken out of them.
    pub(crate) extracted_bits: u32,
    /// What is left of the intents that were declared for it.
    pub(crate) intents: BTreeMap<IntentRef, IntentTerms>,
}

impl SessionState {
    pub(crate) fn opened(
        who: PrincipalClaim,
        alias: Option<String>,
        host: Option<Name>,
        key: Option<Digest>,
    ) -> Self {
        let context = SessionContext::default();
        let (extractable, withheld) = (HashMap::new(), HashMap::new());
        let (opened_at, active_at) = (Timestamp(0), Timestamp(0));
        Self {
            who,
            alias,
            host,
            key,
            opened_at,
            active_at,
            context,
            extractable,
            withheld,
            extracted_bits: 0,
            intents: BTreeMap::new(),
        }
    }

    /// Bits that were taken out of outputs it did not read.
    pub const fn extracted_bits(&self) -> u32 {
        self.extracted_bits
    }

    /// π: the trust of whoever the session runs for.
    pub const fn on_behalf_of(&self) -> Trust {
        self.who.role.trust()
    }
}

/// A watched file: an item whose value also stands in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The item's namespace; always a shared one.
    pub namespace: Namespace,
    /// The item's key.
    pub key: Key,
    /// Where the file is.
    pub path: String,
}

/// A policy for tool calls that the owner signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedPolicy {
    /// SHA-256 of its text.
    pub version: Digest,
    /// Its text.
    pub text: ContentRef,
}

/// What later decisions ask of a folded record.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) label: Label,
    /// Whose it is: that of whoever asked.
    pub(crate) tenant: Tenant,
}

/// Everything that decisions read. Made by folding records, in order, from the first.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub(crate) store: Option<StoreId>,
    pub(crate) owner: Option<PrincipalId>,
    pub(crate) log_key: Option<LogKey>,
    pub(crate) limits: Limits,
    pub(crate) now: Timestamp,
    pub(crate) entries: Vec<Entry>,
    pub(crate) principals: BTreeMap<PrincipalId, Principal>,
    pub(crate) sessions: HashMap<SessionId, SessionState>,
    pub(crate) closed: HashSet<SessionId>,
    pub(crate) items: Items,
    pub(crate) pending: BTreeMap<EntryId, Pending>,
    pub(crate) asked_calls: BTreeMap<EntryId, AskedCall>,
    pub(crate) waiting: Waiting,
    pub(crate) policy: Option<SignedPolicy>,
    /// The texts that calls are judged by, by digest.
    pub(crate) bases: HashMap<Digest, Seq>,
    pub(crate) recent: HashMap<(Option<PrincipalId>, Namespace), RateWindow>,
    pub(crate) watched: BTreeMap<(Namespace, Key), Watched>,
    pub(crate) breaks: Vec<Seq>,
    pub(crate) recovered: Recovered,
    pub(crate) adapted: Adapted,
    pub(crate) log_end: LogEnd,
    pub(crate) claims: Claims,
}

impl State {
    /// The number of records folded in, which is the position of the next.
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Whether no record was folded in yet.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The id of the store.
    pub const fn store(&self) -> Option<StoreId> {
        self.store
    }

    /// The key that signs checkpoints.
    pub const fn log_key(&self) -> Option<&LogKey> {
        self.log_key.as_ref()
    }

    /// The store's owner.
    pub fn owner(&self) -> Option<&Principal> {
        self.principals.get(&self.owner?)
    }

    /// The limits in force.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The time of the last record. Time never runs backwards in a store.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// The label of an entry.
    pub fn label(&self, entry: Seq) -> Option<Label> {
        self.entry(entry).map(|entry| entry.label)
    }

    /// Whose an entry is.
    pub fn tenant_of(&self, entry: Seq) -> Option<&Tenant> {
        self.entry(entry).map(|entry| &entry.tenant)
    }

    /// The label of an entry that somebody of `tenant` names. Those of others are as unknown to them
    /// as those that do not exist.
    pub(crate) fn label_within(&self, tenant: &Tenant, entry: Seq) -> Option<Label> {
        self.entry(entry).filter(|entry| entry.tenant == *tenant).map(|entry| entry.label)
    }

    pub(crate) fn entry(&self, entry: Seq) -> Option<&Entry> {
        self.entries.get(usize::try_from(entry.0).ok()?)
    }

    /// Every registered principal.
    pub fn principals(&self) -> impl Iterator<Item = &Principal> {
        self.principals.values()
    }

    /// The principal of that name.
    pub fn principal(&self, name: &str) -> Option<&Principal> {
        self.principals.values().find(|principal| principal.name == name)
    }

    /// The principal of that id.
    pub fn principal_by_id(&self, id: PrincipalId) -> Option<&Principal> {
        self.principals.get(&id)
    }

    /// An open session.
    pub fn session(&self, id: SessionId) -> Option<&SessionState> {
        self.sessions.get(&id)
    }

    /// The open sessions, in no particular order.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &SessionState)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// The item under `key`, if that namespace has one.
    pub fn item(&self, namespace: &Namespace, key: &Key) -> Option<&Item> {
        self.items.get(namespace, key)
    }

    /// The item a session sees under `key`: its own, else the shared one. An immutable shared
    /// item cannot be hidden by a session's own (rule 9, M2).
    pub fn visible_item(&self, reader: &Namespace, key: &Key) -> Option<(Namespace, &Item)> {
        let shared = Namespace::shared(reader.tenant.clone());
        let in_shared = self.item(&shared, key);
        if in_shared.is_some_and(|item| item.mode == Mode::Immutable) {
            return in_shared.map(|item| (shared, item));
        }
        let own = self.item(reader, key).filter(|item| item.current.is_some());
        match own {
            Some(item) => Some((reader.clone(), item)),
            None => in_shared.map(|item| (shared, item)),
        }
    }

    /// The items of one namespace, by key.
    pub fn items_in(&self, namespace: &Namespace) -> BTreeMap<&Key, &Item> {
        self.items.in_namespace(namespace).collect()
    }

    /// Every namespace that ever held an item, in order.
    pub fn namespaces(&self) -> Vec<&Namespace> {
        self.items.namespaces()
    }

    /// Every item that ever was, with its namespace and key, in no particular order.
    pub fn items(&self) -> impl Iterator<Item = (&Namespace, &Key, &Item)> {
        self.items.all()
    }

    /// The number of items.
    pub fn item_count(&self) -> usize {
        self.items.len()
    }

    /// Proposals that wait for a reviewer, expired ones included.
    pub fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.pending.values()
    }

    /// One waiting proposal.
    pub fn pending_by_id(&self, id: EntryId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// Calls that a human was asked about, answered ones included.
    pub fn asked_calls(&self) -> impl Iterator<Item = &AskedCall> {
        self.asked_calls.values()
    }

    /// One call that a human was asked about.
    pub fn asked_call(&self, id: EntryId) -> Option<&AskedCall> {
        self.asked_calls.get(&id)
    }

    /// The calls that `who` was told to wait for, in any of its sessions, answered and expired ones left out.
    pub fn waiting_calls(&self, who: &PrincipalClaim) -> impl Iterator<Item = &AskedCall> {
        let proposals = self.waiting.of(who, Purpose::Call);
        proposals.filter_map(|proposal| self.asked_calls.get(&proposal))
    }

    /// The changes of `who` that wait for a reviewer, from any of its sessions.
    pub fn waiting_changes(&self, who: &PrincipalClaim) -> impl Iterator<Item = &Pending> {
        let proposals = self.waiting.of(who, Purpose::Review);
        proposals.filter_map(|proposal| self.pending.get(&proposal))
    }

    /// Takes a change out of the queue of reviewers, whatever was answered.
    pub(crate) fn end_waiting(&mut self, proposal: EntryId) -> Option<Pending> {
        let pending = self.pending.remove(&proposal)?;
        let question = (pending.expires, proposal);
        self.waiting.remove(&pending.requester, pending.purpose, question);
        Some(pending)
    }

    /// The policy for tool calls that the owner signed last.
    pub const fn policy(&self) -> Option<SignedPolicy> {
        self.policy
    }

    /// Watched files.
    pub fn watched(&self) -> impl Iterator<Item = &Watched> {
        self.watched.values()
    }

    /// The watched file of an item.
    pub fn watched_item(&self, namespace: &Namespace, key: &Key) -> Option<&Watched> {
        self.watched.get(&(namespace.clone(), key.clone()))
    }

    /// Where an owner adopted a store whose head was lost or disagreed.
    pub fn breaks(&self) -> &[Seq] {
        &self.breaks
    }

    /// A digest of what every namespace holds: keys, modes, values, provenance and taint, without
    /// times, in a fixed order, over the bytes of commitments and so defined for any value.
    ///
    /// Equal memories have equal hashes whatever process computed them (M16). Linear in
    /// the number of items.
    pub fn state_hash(&self) -> Digest {
        self.items.hash()
    }

    /// The position of the next record.
    pub(crate) fn next_seq(&self) -> Seq {
        Seq(self.len())
    }

    /// Whether a proposal has this id. A second one would take the place of the first.
    pub(crate) fn knows_proposal(&self, id: EntryId) -> bool {
        self.pending.contains_key(&id) || self.asked_calls.contains_key(&id)
    }

    /// Begins to hold items, in tables that this store seeds.
    pub(crate) fn seed_items(&mut self, store: StoreId) {
        self.items = Items::seeded_by(store);
    }
}
