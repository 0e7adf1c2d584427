//! Changing the weights that a model host carries.
//!
//! Whatever a model produces is recorded with the weights it carried. Where those were trained on untrusted text, or
//! an incident evicted them, they are to the sessions of their host what a tainted text in the context is.

use custody_log::{Digest, IncidentId, Seq, SessionId};

use super::draft::{Draft, ascending, done_or_refused};
use super::settings::check_owner;
use crate::adapter::{Adapt, AdapterChange, Name};
use crate::carried::Carried;
use crate::kind::EntryKind;
use crate::label::{Channel, Label, Trust};
use crate::memory::refusal::Refusal;
use crate::principal::Authority;
use crate::record::{AdminRequest, Answer, Author, Record, Request};
use crate::state::{AskError, Eviction, State, Tainting};

/// A change of a host's adapters that the owner makes.
#[derive(Debug)]
pub(crate) struct AcceptedAdapt {
    adapt: Adapt,
    carried: Carried,
}

pub(crate) fn decide(
    state: &State,
    authority: &Authority,
    adapt: &Adapt,
) -> Result<Draft<AcceptedAdapt>, AskError> {
    let carried = changed(state, adapt)?;
    let mut label = Label::at_ingress(Channel::System, Trust::Trusted);
    let (mut parents, mut evicted) = (Vec::new(), None);
    match &adapt.change {
        AdapterChange::Load { weights, made_from, .. } => {
            for entry in made_from {
                label = label.join(state.label(*entry).ok_or(AskError::UnknownEntry(*entry))?);
            }
            parents = ascending(made_from.clone());
            evicted = state.eviction(*weights).map(|eviction| (*weights, eviction.incident));
        }
        AdapterChange::Fuse { .. } | AdapterChange::Unload { .. } => {}
    }
    let outcome = check_owner(authority).and_then(|()| match evicted {
        Some((weights, incident)) => Err(Refusal::Evicted { weights, incident }),
        None => Ok(AcceptedAdapt { adapt: adapt.clone(), carried }),
    });
    Ok(Draft { label, parents, ..Draft::administrative(outcome) })
}

impl AcceptedAdapt {
    pub(crate) fn apply(self, state: &mut State, record: &Record) {
        change(state, record, &self.adapt, self.carried);
    }
}

/// Changes what was changed earlier.
pub(crate) fn fold(state: &mut State, record: &Record, adapt: &Adapt) -> Option<()> {
    if !record.answer.is_done() {
        return done_or_refused(record, || {});
    }
    let carried = changed(state, adapt).ok()?;
    change(state, record, adapt, carried);
    Some(())
}

/// What the host carries once it is changed so.
fn changed(state: &State, adapt: &Adapt) -> Result<Carried, AskError> {
    let host = state.host(&adapt.host);
    let mut carried = host.map(|host| host.carried.clone()).unwrap_or_default();
    match &adapt.change {
        AdapterChange::Load { weights, .. } => carried.load(*weights),
        AdapterChange::Unload { weights } => carried.unload(*weights)?,
        AdapterChange::Fuse { weights } => {
            let base = carried.base();
            if let Some(base) = base.filter(|base| !weights.contains(base)) {
                return Err(AskError::BaseNotNamed(base));
            }
            if weights.iter().all(|one| base == Some(*one)) {
                return Err(AskError::NothingToFuse);
            }
            carried.fuse(weights)?;
        }
    }
    Ok(carried)
}

fn change(state: &mut State, record: &Record, adapt: &Adapt, carried: Carried) {
    let base = carried.base();
    let host = state.adapted.hosts.entry(adapt.host.clone()).or_default();
    host.carried = carried;
    match &adapt.change {
        AdapterChange::Load { weights, name, .. } => {
            if !record.label.is_good() {
                let (weights, load, label) = (*weights, record.seq, record.label);
                host.tainting.push(Tainting { weights, load, label, is_fused: false });
            }
            state.adapted.brought(*weights, Some(name), record.seq);
        }
        AdapterChange::Unload { weights } => {
            let is_left = host.carried.loads_of(*weights) > 0;
            host.tainting.retain(|one| one.is_fused || one.weights != *weights || is_left);
            if let Some(eviction) = state.adapted.evicted.get_mut(weights) {
                eviction.unloaded = eviction.unloaded.saturating_add(1);
            }
        }
        AdapterChange::Fuse { weights } => {
            for one in &mut host.tainting {
                one.is_fused |= weights.contains(&one.weights);
            }
            if let Some(base) = base {
                state.adapted.fused(weights, base);
                state.adapted.brought(base, None, record.seq);
            }
        }
    }
    follow_hosts(state, |host| *host == adapt.host);
}

/// Evicts weights that a plan names.
pub(super) fn evict(state: &mut State, incident: IncidentId, by: Seq, weights: &[Digest]) {
    if weights.is_empty() {
        return;
    }
    for one in weights {
        let eviction = Eviction { incident, by, unloaded: 0 };
        state.adapted.evicted.entry(*one).or_insert(eviction);
    }
    follow_hosts(state, |_| true);
}

/// Lets the open sessions of these hosts follow what they carry.
fn follow_hosts(state: &mut State, is_changed: impl Fn(&Name) -> bool) {
    let open: Vec<SessionId> = state
        .sessions()
        .filter(|(_, session)| session.host.as_ref().is_some_and(&is_changed))
        .map(|(id, _)| id)
        .collect();
    for id in open {
        follow_host(state, id);
    }
}

/// Lets a session follow what its host carries.
pub(super) fn follow_host(state: &mut State, id: SessionId) {
    let Some(session) = state.sessions.get_mut(&id) else { return };
    let Some(host) = session.host.as_ref().and_then(|name| state.adapted.hosts.get(name)) else {
        return;
    };
    for tainting in &host.tainting {
        if !session.context.parents().contains(&tainting.load) {
            session.context.read(tainting.load, tainting.label);
        }
    }
    let evicted = host.carried.weights().into_iter().find_map(|w| state.adapted.evicted.get(&w));
    if let Some(eviction) = evicted {
        session.context.taint(eviction.by);
    }
}

/// The weights that a record is made with.
pub(crate) fn weights_of(
    state: &State,
    by: &Author,
    request: &Request,
    answer: &Answer,
) -> Vec<Digest> {
    if let (Request::Admin(AdminRequest::Adapt(adapt)), Answer::Done) = (request, answer) {
        return changed(state, adapt).map(|carried| carried.weights()).unwrap_or_default();
    }
    let is_produced = match EntryKind::of(request) {
        EntryKind::Completion | EntryKind::ToolCall | EntryKind::MemoryWrite => true,
        EntryKind::Message
        | EntryKind::ToolOutput
        | EntryKind::Retrieval
        | EntryKind::MemoryRead
        | EntryKind::FileChange
        | EntryKind::AdapterLoad
        | EntryKind::AdapterUnload
        | EntryKind::AdapterFuse
        | EntryKind::Decision => false,
    };
    let Author::Session(id) = by else { return Vec::new() };
    let session = state.session(*id).filter(|_| is_produced);
    let host = session.and_then(|session| state.host(session.host.as_ref()?));
    host.map_or_else(Vec::new, |host| host.carried.weights())
}

/// The records that brought the weights which `record` was made with.
pub(super) fn brought_to(state: &State, record: &Record) -> Vec<Seq> {
    let adapters = record.weights.iter().filter_map(|weights| state.adapter(*weights));
    adapters.flat_map(|adapter| adapter.brought_by.iter().copied()).collect()
}
