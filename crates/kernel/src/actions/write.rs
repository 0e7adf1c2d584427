//! Writing and deleting an item: MON rules 2–5.
//!
//! Every public function reads nothing but its arguments and returns a witness or a refusal. The rules are tried in the
//! paper's order, immutable (3), tainted (4), untrusted (5), so a refusal names the first that failed. No detector
//! score is an argument anywhere. Rule 8, propagation, is [`Label::join`] over the parents of every entry.
//!
//! What is written into the shared namespace is before every session of the tenant at once. Such a change is therefore
//! decided as a promotion too, by rules 6 and 7.

use custody_log::{Seq, SessionId, Timestamp};

use super::draft::{Draft, InSession};
use super::promote::check_authorised;
use super::read::is_visible;
use crate::context::{Added, Dependencies};
use crate::key::Key;
use crate::label::{Channel, Label, Trust};
use crate::memory::item::{ContentRef, Item, Mode, Value, Version};
use crate::memory::rate::Limits;
use crate::memory::refusal::{Refusal, TaintSource};
use crate::memory::review::{Pending, Purpose};
use crate::namespace::{Namespace, Scope};
use crate::principal::PrincipalClaim;
use crate::record::{Answer, DependencyRef, Record};
use crate::state::RateWindow;
use crate::state::{AskError, State};

/// What the store holds that bears on one key, gathered by [`State`].
#[derive(Debug, Clone, Copy)]
pub struct WriteContext<'a> {
    /// The item under this key in the namespace asked for.
    pub target: Option<&'a Item>,
    /// The shared item under this key in the same tenant.
    pub shared: Option<&'a Item>,
    /// A protected shared key that this one could be taken for.
    pub look_alike: Option<&'a Key>,
    /// The asker's own recent changes in this namespace.
    pub recent: Option<&'a RateWindow>,
    /// The store's limits.
    pub limits: &'a Limits,
    /// The time of the request.
    pub now: Timestamp,
}

/// One proposed change of one item. A delete is a write of nothing.
#[derive(Debug, Clone)]
pub struct WriteProposal {
    /// The namespace of the item.
    pub namespace: Namespace,
    /// The item's key.
    pub key: Key,
    /// The new content; `None` deletes the item.
    pub value: Option<ContentRef>,
    /// What it depends on.
    pub dependencies: Dependencies,
    /// π: the trust of the principal the session runs for.
    pub on_behalf_of: Trust,
}

/// A change that the monitor accepted, or that only a reviewer's word is missing for. Only
/// [`decide_write`] and [`decide_delete`] make one, and committing consumes it, so skipping the check does not compile.
#[derive(Debug)]
pub struct AcceptedWrite {
    proposal: WriteProposal,
    needs_review: bool,
}

impl<'a> WriteContext<'a> {
    /// What `state` holds that bears on `key` in `namespace`, for a change by `who`.
    pub(super) fn of(
        state: &'a State,
        namespace: &Namespace,
        key: &Key,
        who: &PrincipalClaim,
        now: Timestamp,
    ) -> Self {
        let target = state.item(namespace, key);
        let shared = match namespace.scope {
            Scope::Shared => target,
            Scope::Session(_) => state.item(&Namespace::shared(namespace.tenant.clone()), key),
        };
        // A trace is read faster than it happened, so its times say nothing.
        let is_limited = !namespace.tenant.is_replay() && state.limits.changes.is_some();
        let (limits, recent) = if is_limited {
            (&state.limits, state.recent.get(&(who.principal, namespace.clone())))
        } else {
            (&Limits::UNLIMITED, None)
        };
        let look_alike = state.items.look_alike(&namespace.tenant, key);
        Self { target, shared, look_alike, recent, limits, now }
    }

    /// Whether the item, or the shared one that it would hide, has this mode.
    fn has_mode(&self, mode: Mode) -> bool {
        [self.target, self.shared].into_iter().flatten().any(|item| item.mode == mode)
    }

    /// When the asker's next change is allowed, if not now.
    pub(crate) fn wait_until(&self) -> Option<Timestamp> {
        match self.recent {
            Some(recent) => recent.wait_until(self.limits, self.now),
            None => RateWindow::default().wait_until(self.limits, self.now),
        }
    }
}

impl AcceptedWrite {
    /// Whether the item's mode is `reviewed`, so that this becomes a pending proposal.
    pub const fn needs_review(&self) -> bool {
        self.needs_review
    }

    /// What was accepted.
    pub const fn proposal(&self) -> &WriteProposal {
        &self.proposal
    }
}

/// Decides one proposed write against the item it would replace.
///
/// # Errors
/// The refusing rule, with what a reviewer needs to act on it.
///
/// Source: MON §3.3 rules 2–7; docs/design.md §4.2 and §4.5.
pub fn decide_write(
    context: &WriteContext<'_>,
    proposal: WriteProposal,
) -> Result<AcceptedWrite, Refusal> {
    check_mutable(context, &proposal.key)?;
    check_clean(&proposal)?;
    check_trusted(&proposal)?;
    if proposal.namespace.scope == Scope::Shared {
        check_authorised(&proposal)?;
    }
    accept(context, proposal)
}

/// Decides one proposed delete: a write of nothing, so rules 2–5.
///
/// # Errors
/// The refusing rule.
///
/// Source: docs/design.md §4.2.
pub fn decide_delete(
    context: &WriteContext<'_>,
    proposal: WriteProposal,
) -> Result<AcceptedWrite, Refusal> {
    // What imitates a protected key may be removed by whoever could otherwise write there; refusing
    // that would leave a look-alike from before the lock standing for ever.
    let context = WriteContext { look_alike: None, ..*context };
    decide_write(&context, WriteProposal { value: None, ..proposal })
}

/// Rule 3, and its two extensions: shadowing and look-alikes.
pub(super) fn check_mutable(context: &WriteContext<'_>, key: &Key) -> Result<(), Refusal> {
    // A session item of the same key would hide a protected shared one (M2), so the
    // shared item speaks for every session of the tenant.
    if context.has_mode(Mode::Immutable) {
        return Err(Refusal::Immutable { key: key.clone() });
    }
    match context.look_alike {
        Some(protected) => {
            Err(Refusal::Confusable { key: key.clone(), protected: protected.clone() })
        }
        None => Ok(()),
    }
}

pub(super) fn check_clean(proposal: &WriteProposal) -> Result<(), Refusal> {
    match proposal.dependencies.taint_source() {
        Some(source) => Err(Refusal::Tainted { key: proposal.key.clone(), source: source.clone() }),
        None => Ok(()),
    }
}

fn check_trusted(proposal: &WriteProposal) -> Result<(), Refusal> {
    match proposal.on_behalf_of {
        Trust::Trusted => Ok(()),
        Trust::Untrusted => Err(Refusal::Untrusted { key: proposal.key.clone() }),
    }
}

pub(super) fn accept(
    context: &WriteContext<'_>,
    proposal: WriteProposal,
) -> Result<AcceptedWrite, Refusal> {
    // Counted only here, so that refused attempts cannot use up anybody's window.
    if let Some(until) = context.wait_until() {
        return Err(Refusal::RateLimited { key: proposal.key, until });
    }
    // A session's own copy of a key that is under review when shared is reviewed as well:
    // otherwise it would hide what the reviewer approved.
    let needs_review = context.has_mode(Mode::Reviewed);
    Ok(AcceptedWrite { proposal, needs_review })
}

/// What a change comes to that the monitor did not refuse.
#[derive(Debug)]
pub(crate) enum DecidedWrite {
    /// It is stored.
    Accepted(AcceptedWrite),
    /// It waits for a reviewer.
    Waiting(WaitingWrite),
}

/// A change that waits for a reviewer: accepted for an item under review, or refused by rule 4 and asked to be queued.
#[derive(Debug)]
pub(crate) struct WaitingWrite {
    proposal: WriteProposal,
    purpose: Purpose,
    expires: Timestamp,
}

/// A change that a session asks for.
pub(super) struct AskedChange<'a> {
    pub(super) asked: InSession<'a>,
    pub(super) scope: Scope,
    pub(super) key: &'a Key,
    pub(super) value: Option<ContentRef>,
    pub(super) added: Added,
}

impl AskedChange<'_> {
    /// The proposal, and the label its entry will have: the join of the whole context and of what the
    /// caller added (assumption A3).
    pub(super) fn proposal(self) -> (WriteProposal, Label) {
        let session = self.asked.session;
        let dependencies = session.context.dependencies(self.added);
        let mut label = Label::at_ingress(Channel::Model, session.on_behalf_of());
        label = label.join(session.context.label());
        if dependencies.taint_source().is_some() {
            label = label.lowered();
        }
        let proposal = WriteProposal {
            namespace: Namespace { tenant: session.who.tenant.clone(), scope: self.scope },
            key: self.key.clone(),
            value: self.value,
            dependencies,
            on_behalf_of: session.on_behalf_of(),
        };
        (proposal, label)
    }
}

/// Decides a write that a session asks for. With `queue`, what rule 4 refuses waits for a reviewer.
pub(crate) fn decide(
    asked: InSession<'_>,
    scope: Scope,
    key: &Key,
    value: Value,
    depends_on: &[DependencyRef],
    queue: bool,
) -> Result<Draft<DecidedWrite>, AskError> {
    let added = added(asked, depends_on, asked.arrival(Some(value))?.as_slice());
    let value = Some(value.content(asked.state.next_seq()));
    let change = AskedChange { asked, scope, key, value, added };
    Ok(decide_change(change, queue, decide_write))
}

/// Decides a delete that a session asks for.
pub(crate) fn decide_removal(
    asked: InSession<'_>,
    scope: Scope,
    key: &Key,
) -> Result<Draft<DecidedWrite>, AskError> {
    let change = AskedChange { asked, scope, key, value: None, added: Added::default() };
    let draft = decide_change(change, false, decide_delete);
    let namespace = Namespace { tenant: asked.own().tenant, scope };
    let item = asked.state.item(&namespace, key).and_then(|item| item.current.as_ref());
    // What is protected stays so where nothing is known of its value, as in a replay.
    let protected = matches!(
        draft.answer.refusal(),
        Some(Refusal::Immutable { .. } | Refusal::NotVisible { .. })
    );
    if item.is_none() && !protected {
        return Err(AskError::NoSuchItem { namespace, key: key.clone() });
    }
    Ok(draft)
}

/// What a caller adds to the dependencies that are computed for it.
fn added(asked: InSession<'_>, depends_on: &[DependencyRef], arrivals: &[Seq]) -> Added {
    let mut added = Added::default();
    for named in depends_on {
        match *named {
            DependencyRef::Missing(id) => added.taint_with(TaintSource::Missing(id)),
            DependencyRef::Entry(entry) => match asked.named(entry) {
                // A position that is not there yet is as unknown as an id that is not there.
                Err(_) => added.taint_with(TaintSource::NoOrigin),
                Ok(_) if asked.state.is_out(entry) => {
                    added.taint_with(TaintSource::Entry(entry));
                    added.parents.push(entry);
                }
                Ok(label) => added.entry(entry, label),
            },
        }
    }
    for entry in arrivals {
        if let Some(label) = asked.state.label(*entry) {
            added.entry(*entry, label);
        }
    }
    added
}

fn decide_change(
    change: AskedChange<'_>,
    queue: bool,
    decide: fn(&WriteContext<'_>, WriteProposal) -> Result<AcceptedWrite, Refusal>,
) -> Draft<DecidedWrite> {
    let (asked, scope) = (change.asked, change.scope);
    let (proposal, label) = change.proposal();
    let parents = proposal.dependencies.parents().to_vec();
    if !is_visible(&asked.own(), &proposal.namespace) {
        let refusal = Refusal::NotVisible { key: proposal.key };
        return Draft::new(Answer::Refused(refusal), label, parents);
    }
    let InSession { state, session, at, .. } = asked;
    let context = WriteContext::of(state, &proposal.namespace, &proposal.key, &session.who, at);
    // No reviewer is asked for what would not be shared if they agreed.
    let may_wait = scope != Scope::Shared || !session.who.tenant.is_replay();
    let queued = (queue && may_wait).then(|| proposal.clone());
    draft(
        state,
        &session.who,
        &context,
        decide(&context, proposal),
        queued,
        Draft::new(Answer::Done, label, parents),
    )
}

/// What the monitor said, as the rest of `draft` has it. A `queued` proposal that rule 4 refused waits for a reviewer.
pub(super) fn draft(
    state: &State,
    who: &PrincipalClaim,
    context: &WriteContext<'_>,
    outcome: Result<AcceptedWrite, Refusal>,
    queued: Option<WriteProposal>,
    draft: Draft<DecidedWrite>,
) -> Draft<DecidedWrite> {
    let expires = context.now.plus_ms(state.limits.proposal_ttl_ms);
    let (waiting, because) = match (outcome, queued) {
        (Ok(AcceptedWrite { proposal, needs_review: true }), _) => {
            (WaitingWrite { proposal, purpose: Purpose::Review, expires }, None)
        }
        (Ok(accepted), _) => {
            return draft.with(DecidedWrite::Accepted(accepted)).changing(context.target);
        }
        // A full queue is a denial of service on the reviewer.
        (Err(refusal @ Refusal::Tainted { .. }), Some(proposal))
            if context.wait_until().is_none() =>
        {
            (WaitingWrite { proposal, purpose: Purpose::Declassify, expires }, Some(refusal))
        }
        (Err(refusal), _) => return Draft { answer: Answer::Refused(refusal), ..draft },
    };
    let purpose = waiting.purpose;
    if let Some(limit) = state.waiting.limit_reached(&state.limits, who, purpose, context.now) {
        let answer = Answer::Refused(Refusal::TooManyWaiting { purpose, limit });
        return Draft { answer, ..draft };
    }
    let answer = Answer::Pending { purpose, expires, because };
    Draft { answer, ..draft }.with(DecidedWrite::Waiting(waiting))
}

impl DecidedWrite {
    pub(crate) fn apply(self, state: &mut State, id: SessionId, record: &Record) {
        match self {
            Self::Accepted(AcceptedWrite { proposal, .. }) => {
                let WriteProposal { namespace, key, value, .. } = proposal;
                store(state, id, record, ItemChange { namespace, key, value });
            }
            Self::Waiting(WaitingWrite { proposal, purpose, expires }) => {
                let WriteProposal { namespace, key, value, .. } = proposal;
                wait(state, id, record, ItemChange { namespace, key, value }, purpose, expires);
            }
        }
    }
}

/// Which item is changed, and to what: nothing if it is deleted.
pub(super) struct ItemChange {
    pub(super) namespace: Namespace,
    pub(super) key: Key,
    pub(super) value: Option<ContentRef>,
}

/// Changes the item that a write or delete of earlier changed; `value` is what it put there.
pub(crate) fn fold(
    state: &mut State,
    id: SessionId,
    record: &Record,
    scope: Scope,
    key: &Key,
    value: Option<Value>,
) -> Option<()> {
    let tenant = state.session(id)?.who.tenant.clone();
    let value = value.map(|value| value.content(record.seq));
    let change = ItemChange { namespace: Namespace { tenant, scope }, key: key.clone(), value };
    fold_change(state, id, record, change)
}

pub(super) fn fold_change(
    state: &mut State,
    id: SessionId,
    record: &Record,
    change: ItemChange,
) -> Option<()> {
    match record.answer {
        Answer::Done => store(state, id, record, change),
        Answer::Pending { purpose, expires, .. } if !state.knows_proposal(record.id) => {
            wait(state, id, record, change, purpose, expires);
        }
        Answer::Refused(_) => {}
        Answer::Pending { .. } | Answer::Value { .. } | Answer::NotFound => return None,
    }
    Some(())
}

/// Rule 2 stores τ = 0 and π of the writer: an accepted change has a clean context, so its entry's
/// label says just that.
fn store(state: &mut State, id: SessionId, record: &Record, change: ItemChange) {
    let ItemChange { namespace, key, value } = change;
    let (entry, label) = (record.seq, record.label);
    let (provenance, taint) = (label.trust(), label.taint());
    let version = value.map(|content| Version { entry, content, provenance, taint });
    state.items.change(&namespace, &key, entry, version);
    count(state, id, record, namespace);
}

fn wait(
    state: &mut State,
    id: SessionId,
    record: &Record,
    change: ItemChange,
    purpose: Purpose,
    expires: Timestamp,
) {
    let Some(requester) = state.session(id).map(|session| session.who.clone()) else { return };
    let ItemChange { namespace, key, value } = change;
    let pending = Pending {
        proposal: record.id,
        entry: record.seq,
        purpose,
        base: state.item(&namespace, &key).and_then(Item::entry),
        namespace: namespace.clone(),
        key,
        value,
        dependencies: record.parents.clone(),
        requester,
        expires,
    };
    let question = (expires, record.id);
    state.waiting.add(&pending.requester, purpose, question, record.at);
    state.pending.insert(record.id, pending);
    count(state, id, record, namespace);
}

/// Counts a change, waiting or not, for whoever asked for it.
fn count(state: &mut State, id: SessionId, record: &Record, namespace: Namespace) {
    let Some(principal) = state.session(id).map(|session| session.who.principal) else { return };
    let window = state.recent.entry((principal, namespace)).or_default();
    window.count(&state.limits, record.at);
}
