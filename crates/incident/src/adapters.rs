//! Adapters: the record of what hosts load, unload and fuse, and the unloading of what an incident evicts.
//!
//! The store loads nothing itself. A host that can be reached is asked to unload what an incident evicted, and each
//! unload is recorded after it happened; a host that cannot be reached is reported as *unfinished*.

use std::collections::BTreeMap;

use custody_kernel::adapter::{Adapt, AdapterChange, Name};
use custody_kernel::principal::Authority;
use custody_kernel::record::{AdminRequest, Answer, Record, Request};
use custody_kernel::state::State;
use custody_log::{Digest, IncidentId, Seq};
use custody_runtime::store::Receipt;
use serde::Serialize;

use crate::error::IncidentError;
use crate::store::Incidents;

/// A model host that can be asked to unload adapters.
pub trait AdapterHost {
    /// Unloads one load of an adapter. Returns once the model does not use it any more.
    ///
    /// # Errors
    /// Why it could not be unloaded, in one line.
    fn unload(&mut self, weights: Digest, name: Option<&Name>) -> Result<(), String>;
}

/// A host for rehearsals: it reports every unload as done.
#[derive(Debug, Clone, Copy)]
pub struct Obliging;

impl AdapterHost for Obliging {
    fn unload(&mut self, _weights: Digest, _name: Option<&Name>) -> Result<(), String> {
        Ok(())
    }
}

/// The hosts that can be reached, by name.
pub type Hosts<'a> = BTreeMap<Name, &'a mut dyn AdapterHost>;

/// The unloading of evicted weights from one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unloading {
    /// The host.
    pub host: Name,
    /// The hash of the weights.
    pub weights: Digest,
    /// The name of the adapter, if it has one.
    pub name: Option<Name>,
    /// The number of loads that were unloaded.
    pub unloaded: u64,
    /// The number of loads that are left.
    pub left: u64,
    /// Why loads are left, if any are.
    pub why: Option<String>,
}

impl Incidents<'_> {
    /// Records a change of the adapters on a host.
    ///
    /// # Errors
    /// [`IncidentError::Store`] when an adapter is unloaded that is not loaded, or when it could not be recorded.
    pub fn adapt(
        &self,
        owner: &Authority,
        host: &Name,
        change: AdapterChange,
    ) -> Result<Receipt, IncidentError> {
        let adapt = Adapt { host: host.clone(), change };
        Ok(self.store.ask(owner, AdminRequest::Adapt(Box::new(adapt)))?)
    }

    /// Asks every host to unload what `incident` evicted, and records each unload. May be repeated: what is unloaded
    /// is not requested twice.
    ///
    /// # Errors
    /// When the store cannot be read or written. The failure of a host is no error; the result states it.
    pub fn evict(
        &self,
        owner: &Authority,
        incident: IncidentId,
        hosts: &mut Hosts<'_>,
    ) -> Result<Vec<Unloading>, IncidentError> {
        let mut evictions = self.to_evict(incident)?;
        for eviction in &mut evictions {
            let Some(host) = hosts.get_mut(&eviction.host) else {
                eviction.why = Some(format!("nobody told how to reach the host {}", eviction.host));
                continue;
            };
            self.unload(owner, eviction, &mut **host)?;
        }
        Ok(evictions)
    }

    /// The loads in force of the weights that an incident evicted, by host.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn to_evict(&self, incident: IncidentId) -> Result<Vec<Unloading>, IncidentError> {
        Ok(self.store.state(|state| {
            let mut all = Vec::new();
            for (host, carries) in state.hosts() {
                let evicted = carries.carried.active().filter(|(weights, _)| {
                    state.eviction(*weights).is_some_and(|by| by.incident == incident)
                });
                all.extend(evicted.map(|(weights, left)| Unloading {
                    host: host.clone(),
                    weights,
                    name: state.adapter(weights).and_then(|adapter| adapter.name.clone()),
                    unloaded: 0,
                    left,
                    why: None,
                }));
            }
            all
        })?)
    }

    /// The entries that brought the weights of `record` into its model: for each weights, the newest load or fusion
    /// before the record.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn brought_to(&self, record: &Record) -> Result<Vec<Seq>, IncidentError> {
        if matches!(record.request, Request::Admin(AdminRequest::Adapt(_))) {
            return Ok(Vec::new());
        }
        Ok(self.store.state(|state| {
            let adapters = record.weights.iter().filter_map(|weights| state.adapter(*weights));
            let newest = adapters.filter_map(|adapter| {
                adapter.brought_by.iter().rev().find(|brought| **brought < record.seq).copied()
            });
            newest.collect()
        })?)
    }

    /// The entries produced under the weights that `record` brought into a model, under any load of them. Ascending;
    /// linear in the store.
    ///
    /// # Errors
    /// As [`Incidents::graph`].
    pub fn made_under(&self, record: &Record) -> Result<Vec<Seq>, IncidentError> {
        if !matches!(
            (&record.request, &record.answer),
            (Request::Admin(AdminRequest::Adapt(_)), Answer::Done)
        ) {
            return Ok(Vec::new());
        }
        let graph = self.graph()?;
        let under = graph.brings(record.seq).flat_map(|weights| graph.under(weights));
        let mut made: Vec<Seq> = under.filter(|entry| *entry > record.seq).collect();
        made.sort_unstable();
        made.dedup();
        Ok(made)
    }

    fn unload(
        &self,
        owner: &Authority,
        eviction: &mut Unloading,
        host: &mut dyn AdapterHost,
    ) -> Result<(), IncidentError> {
        while eviction.left > 0 {
            if let Err(why) = host.unload(eviction.weights, eviction.name.as_ref()) {
                eviction.why = Some(why);
                return Ok(());
            }
            let change = AdapterChange::Unload { weights: eviction.weights };
            let receipt = self.adapt(owner, &eviction.host, change)?;
            if let Answer::Refused(refusal) = receipt.answer {
                eviction.why = Some(refusal.to_string());
                return Ok(());
            }
            eviction.unloaded = eviction.unloaded.saturating_add(1);
            eviction.left = eviction.left.saturating_sub(1);
        }
        Ok(())
    }
}

/// The status of weights on the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightsStatus {
    /// No incident evicted them.
    Kept,
    /// All loads were unloaded; the number of unloads.
    Gone(u64),
    /// They are fused into this base, or are this base.
    PartOf(Digest),
    /// Loads are in force; their number.
    Loaded(u64),
}

impl WeightsStatus {
    /// The status of `weights` in `state`.
    pub fn of(state: &State, weights: Digest) -> Self {
        let Some(eviction) = state.eviction(weights) else { return Self::Kept };
        let adapter = state.adapter(weights);
        let is_base = adapter.is_some_and(|adapter| adapter.name.is_none());
        let base = adapter.and_then(|adapter| adapter.fused_into).or(is_base.then_some(weights));
        match (state.loads_left(weights), base) {
            (0, None) => Self::Gone(eviction.unloaded),
            (0, Some(base)) => Self::PartOf(base),
            (left, _) => Self::Loaded(left),
        }
    }
}

/// The weights under which an entry was produced, or which it brought into a model, ascending.
pub fn adapters_of(record: &Record) -> Vec<Digest> {
    let mut weights = match (&record.request, &record.answer) {
        (Request::Admin(AdminRequest::Adapt(adapt)), Answer::Done) => match &adapt.change {
            AdapterChange::Load { weights, .. } => vec![*weights],
            AdapterChange::Unload { .. } => Vec::new(),
            AdapterChange::Fuse { .. } => record.weights.first().copied().into_iter().collect(),
        },
        _ => record.weights.clone(),
    };
    weights.sort_unstable();
    weights
}
