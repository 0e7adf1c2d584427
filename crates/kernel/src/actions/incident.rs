//! Taking a step of an incident: who may mark entries, and what that changes for everybody else.
//!
//! A mark is on an entry; what an item holds follows from the marks. It holds the newest of its versions that is not
//! out, so rolling back and restoring are one rule, and restoring gives back exactly what was there.

use custody_log::{IncidentId, Seq};

use super::adapter::{brought_to, evict};
use super::draft::{Draft, done_or_refused};
use super::settings::check_owner;
use crate::evidence::older_trusted;
use crate::key::Key;
use crate::lists::{ListError, ascending};
use crate::memory::item::Value;
use crate::memory::refusal::Refusal;
use crate::namespace::Namespace;
use crate::principal::{Authority, Role};
use crate::record::{Author, Record};
use crate::state::lists::check_floor;
use crate::state::{AppliedPlan, AskError, IncidentState, Mark, Marks, State};
use crate::step::{Recover, RecoveryStep};

/// A step that may be taken.
#[derive(Debug)]
pub(crate) struct AcceptedStep(Recover);

pub(crate) fn decide(
    state: &State,
    authority: &Authority,
    recover: &Recover,
) -> Result<Draft<AcceptedStep>, AskError> {
    let outcome = check(state, authority, recover)?;
    Ok(Draft::administrative(outcome.map(|()| AcceptedStep(recover.clone()))))
}

/// Whether a step of an incident may be taken.
fn check(
    state: &State,
    authority: &Authority,
    recover: &Recover,
) -> Result<Result<(), Refusal>, AskError> {
    let Recover { incident: id, step } = recover;
    let is_opening = matches!(step, RecoveryStep::Open(_));
    let incident = match (state.incident(*id), is_opening) {
        (Some(_), true) => return Err(AskError::DuplicateIncident(*id)),
        (None, false) => return Err(AskError::UnknownIncident(*id)),
        (incident, _) => incident,
    };
    if let Some(entry) = step.named().find(|entry| *entry >= state.next_seq()) {
        return Err(AskError::UnknownEntry(entry));
    }
    if let Some(Value::Of(content)) = step.arriving() {
        return Err(AskError::UnknownContent(content.arrival));
    }
    // What a plan is applied to, and what is known of it, stays as it is until all of it is.
    let left = incident.map_or(0, |incident| incident.left);
    if left > 0 && step.changes_members() {
        return Err(AskError::Lists(ListError::Applying(left)));
    }
    match step {
        RecoveryStep::Contain { members } => ascending(members).map_err(AskError::Lists)?,
        RecoveryStep::Apply(_) | RecoveryStep::Continue(_) => {
            let incident = incident.ok_or(AskError::UnknownIncident(*id))?;
            check_plan(state, incident, step).map_err(AskError::Lists)?;
        }
        RecoveryStep::Restore { entries } => {
            ascending(entries).map_err(AskError::Lists)?;
            check_restorable(state, *id, entries).map_err(AskError::Lists)?;
            return Ok(may_restore(state, authority, entries));
        }
        RecoveryStep::Open(_)
        | RecoveryStep::Indicate(_)
        | RecoveryStep::Probe { .. }
        | RecoveryStep::Certify { .. } => {}
    }
    Ok(check_owner(authority))
}

/// Whether a plan, or its next part, may be applied: what direct evidence points at is destroyed when it ends.
fn check_plan(
    state: &State,
    incident: &IncidentState,
    step: &RecoveryStep,
) -> Result<(), ListError> {
    let Some(effects) = step.effects() else { return Ok(()) };
    if let RecoveryStep::Apply(applied) = step {
        effects.check(&applied.evicted)?;
    } else {
        let is_same = incident.applied.is_some_and(|applied| applied.plan == effects.plan);
        let after = incident.left.checked_sub(effects.count());
        if !is_same || effects.count() == 0 || after != Some(effects.remaining) {
            return Err(ListError::NotNext);
        }
        effects.check(&[])?;
    }
    if effects.remaining > 0 {
        return if incident.holds() { Ok(()) } else { Err(ListError::NotContained) };
    }
    let found = &incident.findings;
    let older = older_trusted(found.iter(), |entry| state.label(entry));
    // What an earlier plan destroyed cannot be destroyed again.
    let found = found.iter().filter(|finding| !state.is_purged(finding.entry));
    check_floor(&effects, found, &older, |entry| state.standing(entry)?.mark_of(incident.id))
}

fn check_restorable(state: &State, id: IncidentId, entries: &[Seq]) -> Result<(), ListError> {
    let free = entries.iter().find(|entry| {
        let mark = state.standing(**entry).and_then(|standing| standing.mark_of(id));
        mark != Some(Mark::Quarantined)
    });
    free.map_or(Ok(()), |entry| Err(ListError::NotQuarantined(*entry)))
}

/// The owner restores anything, a reviewer what is their tenant's.
fn may_restore(state: &State, authority: &Authority, entries: &[Seq]) -> Result<(), Refusal> {
    let who = authority.who();
    let is_reviewer = authority.is_human() && who.role == Role::Reviewer;
    let are_theirs = entries.iter().all(|entry| state.tenant_of(*entry) == Some(&who.tenant));
    if authority.is_owner() || (is_reviewer && are_theirs) {
        return Ok(());
    }
    Err(if is_reviewer { Refusal::NeedsOwner } else { Refusal::NeedsReviewer })
}

impl AcceptedStep {
    pub(crate) fn apply(self, state: &mut State, record: &Record) {
        take(state, record, &self.0);
    }
}

/// Takes a step that was taken earlier.
pub(crate) fn fold(state: &mut State, record: &Record, recover: &Recover) -> Option<()> {
    done_or_refused(record, || take(state, record, recover))
}

fn take(state: &mut State, record: &Record, recover: &Recover) {
    let (id, entry) = (recover.incident, record.seq);
    if let RecoveryStep::Open(_) = recover.step {
        let opened = IncidentState::opened(id, entry, record.at);
        state.recovered.incidents.insert(id, opened);
    }
    if recover.step.arriving().is_some() {
        state.recovered.own.insert(entry);
    }
    let Some(incident) = state.recovered.incidents.get_mut(&id) else { return };
    incident.steps += 1;
    match &recover.step {
        RecoveryStep::Open(indicated) | RecoveryStep::Indicate(indicated) => {
            incident.indicated.push(entry);
            incident.findings.extend_from_slice(&indicated.findings);
            incident.findings.sort_unstable();
            incident.findings.dedup();
        }
        RecoveryStep::Contain { members } => {
            incident.contained = incident.contained.or(Some(entry));
            incident.holds = true;
            mark_all(state, id, members, Mark::Quarantined);
            follow_marks(state, members);
        }
        RecoveryStep::Apply(applied) => {
            incident.applied = Some(AppliedPlan { record: entry, plan: applied.plan });
            apply_part(state, id, &recover.step);
            evict(state, id, entry, &applied.evicted);
        }
        RecoveryStep::Continue(_) => apply_part(state, id, &recover.step),
        RecoveryStep::Restore { entries } => {
            incident.restored.push(entry);
            mark_all(state, id, entries, Mark::Flagged);
            follow_marks(state, entries);
        }
        RecoveryStep::Probe { .. } => incident.probed = Some(entry),
        RecoveryStep::Certify { certificate } => {
            incident.certified = Some((entry, *certificate));
            state.recovered.certificates.push(*certificate);
        }
    }
    let holding = state.recovered.incidents.values().filter(|incident| incident.holds());
    state.recovered.holding = holding.count();
}

fn apply_part(state: &mut State, id: IncidentId, step: &RecoveryStep) {
    let Some(effects) = step.effects() else { return };
    let [flagged, quarantined, purged] = effects.lists();
    let Some(incident) = state.recovered.incidents.get_mut(&id) else { return };
    incident.left = effects.remaining;
    incident.holds = effects.remaining > 0;
    // An indicator may quote what is destroyed.
    let indicated = if purged.is_empty() { Vec::new() } else { incident.indicated.clone() };
    mark_all(state, id, flagged, Mark::Flagged);
    mark_all(state, id, quarantined, Mark::Quarantined);
    mark_all(state, id, purged, Mark::Purged);
    mark_all(state, id, &indicated, Mark::Purged);
    let mut marked = [flagged, quarantined, purged].concat();
    marked.sort_unstable();
    follow_marks(state, &marked);
}

fn mark_all(state: &mut State, id: IncidentId, entries: &[Seq], mark: Mark) {
    for entry in entries {
        state.recovered.mark(*entry, id, mark);
    }
}

/// Lets items and contexts follow the marks on these entries, which are ascending.
fn follow_marks(state: &mut State, marked: &[Seq]) {
    let State { recovered, items, sessions, .. } = state;
    recovered.mark_joins(marked);
    items.recompute(marked, |entry| recovered.is_out(entry));
    // What a model has read stays in its context, whatever is destroyed here.
    for session in sessions.values_mut() {
        let parents = session.context.parents().iter().copied();
        let tainting = parents.into_iter().find(|entry| recovered.is_out(*entry));
        if let Some(entry) = tainting {
            session.context.taint(entry);
        }
    }
}

/// Puts a record in quarantine that was made from a member of an incident which holds its descendants. `changed`
/// is the item that it changed.
pub(crate) fn hold(state: &mut State, record: &Record, changed: Option<(Namespace, Key)>) {
    // Its marks follow from those of the entries that it stands for.
    if state.is_join(record.seq) {
        return;
    }
    let brought = brought_to(state, record);
    let State { recovered, items, sessions, .. } = state;
    let above =
        record.parents.iter().chain(&brought).filter_map(|entry| recovered.standing(*entry));
    let mut holders: Vec<IncidentId> = above
        .flat_map(Marks::marks)
        .filter(|(_, mark)| *mark >= Mark::Quarantined)
        .map(|(id, _)| id)
        .filter(|id| recovered.incidents.get(id).is_some_and(IncidentState::holds))
        .collect();
    holders.sort_unstable();
    holders.dedup();
    if holders.is_empty() {
        return;
    }
    for id in holders {
        recovered.mark(record.seq, id, Mark::Quarantined);
    }
    if let Author::Session(id) = record.by
        && let Some(session) = sessions.get_mut(&id)
    {
        session.context.taint(record.seq);
    }
    if let Some((namespace, key)) = changed {
        items.recompute_one(&namespace, &key, |entry| recovered.is_out(entry));
    }
}
