//! Attesting adapters: the weights under which the members of a closure were produced, and their status.

use std::collections::BTreeMap;

use custody_certificate::{
    AdapterAttestation, Evicted, EvictionMethod, Fused, ManifestEntry, Ppm, Retained, StillLoaded,
};
use custody_kernel::state::State;
use custody_log::Digest;

use crate::adapters::WeightsStatus;

/// The name of a base without a name.
const BASE: &str = "fused base";

/// Why evicted weights are still in use, if they are.
pub(crate) fn left_loaded(state: &State, weights: &[Digest]) -> Option<&'static str> {
    weights.iter().find_map(|weights| match WeightsStatus::of(state, *weights) {
        WeightsStatus::Loaded(_) => Some("its weights are still loaded"),
        WeightsStatus::PartOf(_) => {
            Some("its weights are part of a model, which has to be replaced")
        }
        WeightsStatus::Kept => Some("its weights are not evicted"),
        WeightsStatus::Gone(_) => None,
    })
}

/// Attests all weights in the rows of the manifest. `scores` has one for each row.
pub(crate) fn attest(
    state: &State,
    rows: &[ManifestEntry],
    scores: impl Iterator<Item = Ppm>,
) -> AdapterAttestation {
    let mut highest: BTreeMap<Digest, Ppm> = BTreeMap::new();
    for (row, score) in rows.iter().zip(scores) {
        for weights in &row.adapters {
            let held = highest.entry(*weights).or_insert(score);
            *held = score.max(*held);
        }
    }
    let mut attested = AdapterAttestation::default();
    for (weights, score_ppm) in highest {
        let name = name_of(state, weights);
        match WeightsStatus::of(state, weights) {
            WeightsStatus::Kept => {
                let why = "nothing speaks against the weights themselves".to_owned();
                attested.retained.push(Retained { name, score_ppm, weights, why });
            }
            WeightsStatus::Gone(loads) => {
                let was_loaded = loads > 0;
                let method =
                    if was_loaded { EvictionMethod::Unloaded } else { EvictionMethod::NotLoaded };
                attested.evicted.push(Evicted { loads, method, name, score_ppm, weights });
            }
            WeightsStatus::PartOf(base) => {
                attested.fusion_warnings.push(Fused { base, name, score_ppm, weights });
            }
            WeightsStatus::Loaded(loads_left) => {
                let why = still_loaded(state, weights);
                let left = StillLoaded { loads_left, name, score_ppm, weights, why };
                attested.unfinished.push(left);
            }
        }
    }
    attested
}

fn name_of(state: &State, weights: Digest) -> String {
    let name = state.adapter(weights).and_then(|adapter| adapter.name.as_ref());
    name.map_or_else(|| BASE.to_owned(), ToString::to_string)
}

fn still_loaded(state: &State, weights: Digest) -> String {
    let carry = state.hosts().filter(|(_, host)| host.carried.loads_of(weights) > 0);
    let hosts: Vec<&str> = carry.map(|(name, _)| name.as_str()).collect();
    format!("not unloaded from {}", hosts.join(", "))
}
