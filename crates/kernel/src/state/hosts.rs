//! Hosts: which weights each model carries, what is known of adapters, and which nobody may load any more.

use std::collections::BTreeMap;

use custody_log::{Digest, IncidentId, Seq};

use super::State;
use crate::adapter::Name;
use crate::carried::Carried;
use crate::label::Label;

/// A model host.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// What it carries.
    pub carried: Carried,
    /// Loads in force whose weights were trained on untrusted text, and those fused into the base.
    pub(crate) tainting: Vec<Tainting>,
}

/// A load that taints the sessions of its host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tainting {
    pub(crate) weights: Digest,
    pub(crate) load: Seq,
    pub(crate) label: Label,
    pub(crate) is_fused: bool,
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
    /// The incident.
    pub incident: IncidentId,
    /// The record of the plan that says so.
    pub by: Seq,
    /// How many loads were unloaded since.
    pub unloaded: u64,
}

/// Every host, and all weights.
#[derive(Debug, Clone, Default)]
pub(crate) struct Adapted {
    pub(crate) hosts: BTreeMap<Name, Host>,
    pub(crate) adapters: BTreeMap<Digest, Adapter>,
    pub(crate) evicted: BTreeMap<Digest, Eviction>,
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
}

impl Adapted {
    pub(crate) fn brought(&mut self, weights: Digest, name: Option<&Name>, by: Seq) {
        let adapter = self.adapters.entry(weights).or_insert_with(|| Adapter {
            name: name.cloned(),
            brought_by: Vec::new(),
            fused_into: None,
        });
        adapter.brought_by.push(by);
    }

    pub(crate) fn fused(&mut self, weights: &[Digest], into: Digest) {
        for one in weights {
            if let Some(adapter) = self.adapters.get_mut(one) {
                adapter.fused_into = Some(into);
            }
        }
    }
}
