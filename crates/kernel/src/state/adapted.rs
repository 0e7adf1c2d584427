//! Hosts: which weights each model carries, what is known of adapters, and which nobody may load any more.
//!
//! Whatever a model produces is recorded with the weights it carried. Where those were trained on untrusted text, or
//! an incident evicted them, they are to the sessions of their host what a tainted text in the context is.

use std::collections::BTreeMap;

use custody_log::{Digest, IncidentId, Seq, SessionId};

use super::decide::Verdict;
use super::{AskError, Session, State};
use crate::adapter::{Adapt, Change, Name};
use crate::carried::Carried;
use crate::kind::EntryKind;
use crate::label::{Channel, Label, Trust};
use crate::memory::refusal::Refusal;
use crate::memory::review::needs_owner;
use crate::principal::Authority;
use crate::record::{Answer, By, Record, Request};

/// A model host.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// What it carries.
    pub carried: Carried,
    /// Loads in force whose weights were trained on untrusted text, and those fused into the base.
    tainting: Vec<Tainting>,
}

#[derive(Debug, Clone, Copy)]
struct Tainting {
    weights: Digest,
    load: Seq,
    label: Label,
    is_fused: bool,
}

/// What is known of weights.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// What it called itself first; `None` for a base that fusing made.
    pub name: Option<Name>,
    /// The records that loaded it, or the fusions that made this base, ascending.
    pub brought_by: Vec<Seq>,
    /// The base that it was made part of last.
    pub fused_into: Option<Digest>,
}

/// Weights that an incident evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eviction {
    /// Which incident.
    pub incident: IncidentId,
    /// The record of the plan that says so.
    pub by: Seq,
    /// How many loads were unloaded since.
    pub unloaded: u64,
}

/// Every host, and all weights.
#[derive(Debug, Clone, Default)]
pub(super) struct Adapted {
    hosts: BTreeMap<Name, Host>,
    adapters: BTreeMap<Digest, Adapter>,
    evicted: BTreeMap<Digest, Eviction>,
}

impl State {
    /// Every host that ever carried an adapter, by name.
    pub fn hosts(&self) -> impl Iterator<Item = (&Name, &Host)> {
        self.adapted.hosts.iter()
    }

    /// One host.
    pub fn host(&self, name: &Name) -> Option<&Host> {
        self.adapted.hosts.get(name)
    }

    /// All weights that were ever loaded or made by fusing, by hash.
    pub fn adapters(&self) -> impl Iterator<Item = (Digest, &Adapter)> {
        self.adapted.adapters.iter().map(|(weights, adapter)| (*weights, adapter))
    }

    /// What is known of these weights.
    pub fn adapter(&self, weights: Digest) -> Option<&Adapter> {
        self.adapted.adapters.get(&weights)
    }

    /// How many loads of these weights are in force on all hosts.
    pub fn loads_left(&self, weights: Digest) -> u64 {
        self.adapted.hosts.values().map(|host| host.carried.loads_of(weights)).sum()
    }

    /// The incident that evicted these weights, if one did.
    pub fn eviction(&self, weights: Digest) -> Option<Eviction> {
        self.adapted.evicted.get(&weights).copied()
    }

    /// The weights that a record is made with.
    pub(super) fn weights_of(&self, by: &By, request: &Request, answer: &Answer) -> Vec<Digest> {
        if let (Request::Adapt(adapt), Answer::Done) = (request, answer) {
            return self.changed(adapt).map(|carried| carried.weights()).unwrap_or_default();
        }
        let is_produced = matches!(
            EntryKind::of(request),
            EntryKind::Completion | EntryKind::ToolCall | EntryKind::MemoryWrite
        );
        let By::Session(id) = by else { return Vec::new() };
        let host = self.session(*id).filter(|_| is_produced).and_then(|s| s.host.as_ref());
        host.and_then(|host| self.host(host)).map_or_else(Vec::new, |host| host.carried.weights())
    }

    /// Whether the adapters of a host may be changed so.
    pub(super) fn adapt(&self, authority: &Authority, adapt: &Adapt) -> Result<Verdict, AskError> {
        self.changed(adapt)?;
        let (mut label, mut parents) = (Label::at_ingress(Channel::System, Trust::Trusted), vec![]);
        let mut outcome = needs_owner(authority);
        match &adapt.change {
            Change::Load { weights, made_from, .. } => {
                for entry in made_from {
                    label = label.join(self.label(*entry).ok_or(AskError::UnknownEntry(*entry))?);
                }
                parents.clone_from(made_from);
                parents.sort_unstable();
                parents.dedup();
                if let Some(Eviction { incident, .. }) = self.eviction(*weights) {
                    outcome = outcome.and(Err(Refusal::Evicted { weights: *weights, incident }));
                }
            }
            Change::Fuse { .. } | Change::Unload { .. } => {}
        }
        let answer = outcome.map_or_else(Answer::Refused, |()| Answer::Done);
        Ok(Verdict::new(answer, label, parents))
    }

    /// What the host carries once it is changed so.
    pub(super) fn changed(&self, adapt: &Adapt) -> Result<Carried, AskError> {
        let host = self.host(&adapt.host);
        let mut carried = host.map(|host| host.carried.clone()).unwrap_or_default();
        match &adapt.change {
            Change::Load { weights, .. } => carried.load(*weights),
            Change::Unload { weights } => carried.unload(*weights)?,
            Change::Fuse { weights } => {
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

    pub(super) fn apply_adapt(&mut self, adapt: &Adapt, record: &Record) {
        let Ok(carried) = self.changed(adapt) else { return };
        let base = carried.base();
        let host = self.adapted.hosts.entry(adapt.host.clone()).or_default();
        host.carried = carried;
        match &adapt.change {
            Change::Load { weights, name, .. } => {
                if !record.label.is_good() {
                    let (weights, load, label) = (*weights, record.seq, record.label);
                    host.tainting.push(Tainting { weights, load, label, is_fused: false });
                }
                self.adapted.brought(*weights, Some(name), record.seq);
            }
            Change::Unload { weights } => {
                let is_left = host.carried.loads_of(*weights) > 0;
                host.tainting.retain(|one| one.is_fused || one.weights != *weights || is_left);
                if let Some(eviction) = self.adapted.evicted.get_mut(weights) {
                    eviction.unloaded = eviction.unloaded.saturating_add(1);
                }
            }
            Change::Fuse { weights } => {
                for one in &mut host.tainting {
                    one.is_fused |= weights.contains(&one.weights);
                }
                if let Some(base) = base {
                    self.adapted.fused(weights, base);
                    self.adapted.brought(base, None, record.seq);
                }
            }
        }
        self.carry_on(&adapt.host);
    }

    /// Takes over what a plan evicts.
    pub(super) fn evict(&mut self, incident: IncidentId, by: Seq, weights: &[Digest]) {
        if weights.is_empty() {
            return;
        }
        for one in weights {
            let eviction = Eviction { incident, by, unloaded: 0 };
            self.adapted.evicted.entry(*one).or_insert(eviction);
        }
        let names: Vec<Name> = self.adapted.hosts.keys().cloned().collect();
        for name in names {
            self.carry_on(&name);
        }
    }

    /// Lets the open sessions of a host follow what it carries.
    fn carry_on(&mut self, host: &Name) {
        let theirs = |session: &Session| session.host.as_ref() == Some(host);
        let open = self.sessions.iter().filter(|(_, session)| theirs(session));
        let open: Vec<SessionId> = open.map(|(id, _)| *id).collect();
        for id in open {
            self.carry_into(id);
        }
    }

    /// Lets a session follow what its host carries.
    pub(super) fn carry_into(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(host) = session.host.as_ref().and_then(|name| self.adapted.hosts.get(name)) else {
            return;
        };
        for tainting in &host.tainting {
            if !session.context.parents().contains(&tainting.load) {
                session.context.read(tainting.load, tainting.label);
            }
        }
        let evicted = host.carried.weights().into_iter().find_map(|w| self.adapted.evicted.get(&w));
        if let Some(eviction) = evicted {
            session.context.spoil(eviction.by);
        }
    }

    /// The records that brought the weights which `record` was made with.
    pub(super) fn brought_to<'a>(&'a self, record: &'a Record) -> impl Iterator<Item = Seq> + 'a {
        let adapters = record.weights.iter().filter_map(|weights| self.adapter(*weights));
        adapters.flat_map(|adapter| adapter.brought_by.iter().copied())
    }
}

impl Adapted {
    fn brought(&mut self, weights: Digest, name: Option<&Name>, by: Seq) {
        let new = || Adapter { name: name.cloned(), brought_by: Vec::new(), fused_into: None };
        self.adapters.entry(weights).or_insert_with(new).brought_by.push(by);
    }

    fn fused(&mut self, weights: &[Digest], into: Digest) {
        for one in weights {
            if let Some(adapter) = self.adapters.get_mut(one) {
                adapter.fused_into = Some(into);
            }
        }
    }
}
