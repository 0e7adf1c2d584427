//! What became of the adapters that members were made under.
//!
//! Fields are declared in the order of RFC 8785.

use custody_log::Digest;
use serde::{Deserialize, Serialize};

use crate::ppm::Ppm;

/// How an adapter left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvictionMethod {
    /// Every load of its weights was unloaded.
    Unloaded,
    /// It was not loaded any more; it may not be loaded again.
    NotLoaded,
}

/// An adapter that no host has loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evicted {
    /// How many loads of these weights were unloaded.
    pub loads: u64,
    /// How.
    pub method: EvictionMethod,
    /// What it calls itself.
    pub name: String,
    /// Its risk.
    pub score_ppm: Ppm,
    /// SHA-256 of its weights.
    pub weights: Digest,
}

/// An adapter whose weights are part of a base model, from which nothing can take them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fused {
    /// The identity of the base that now holds them.
    pub base: Digest,
    /// What it calls itself.
    pub name: String,
    /// Its risk.
    pub score_ppm: Ppm,
    /// SHA-256 of its weights.
    pub weights: Digest,
}

/// An adapter that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retained {
    /// What it calls itself.
    pub name: String,
    /// Its risk.
    pub score_ppm: Ppm,
    /// SHA-256 of its weights.
    pub weights: Digest,
    /// Why it stays.
    pub why: String,
}

/// An adapter that was to go and is still loaded somewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StillLoaded {
    /// How many loads of its weights are left.
    pub loads_left: u64,
    /// What it calls itself.
    pub name: String,
    /// Its risk.
    pub score_ppm: Ppm,
    /// SHA-256 of its weights.
    pub weights: Digest,
    /// Why they are left.
    pub why: String,
}

/// Every adapter that a member was made under, in exactly one of these lists, each ascending by weights.
///
/// Source: RVU §3.8.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterAttestation {
    /// Gone.
    pub evicted: Vec<Evicted>,
    /// Cannot go.
    pub fusion_warnings: Vec<Fused>,
    /// Stay.
    pub retained: Vec<Retained>,
    /// Should have gone.
    pub unfinished: Vec<StillLoaded>,
}
