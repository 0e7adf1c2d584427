//! Which weights a model carries: what every entry that it produces is recorded with.
//!
//! Weights are known by the hash of what they are, so the same file loaded twice is one adapter, and loading it
//! again after an unload makes it active again. Fusing gives the model another base, which no unload takes away.

use std::collections::BTreeMap;

use custody_log::Digest;
use sha2::{Digest as _, Sha256};

/// What one model host carries at a moment.
///
/// Closes R10 (a set, not one column), R11 (keyed by weights, not by load), R12 (a fused base stays) and
/// R13 (a load after an unload counts).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    /// The base that fusing made; `None` while the model is as it was shipped.
    base: Option<Digest>,
    /// How many loads of each adapter are in force.
    loads: BTreeMap<Digest, u64>,
}

/// An adapter was named that is not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("weights `{0}` are not loaded; load them first")]
pub struct NotLoaded(pub Digest);

impl Carried {
    /// The adapter `weights` is loaded.
    pub fn load(&mut self, weights: Digest) {
        let count = self.loads.entry(weights).or_default();
        *count = count.saturating_add(1);
    }

    /// One load of `weights` is taken back. The adapter is active until all are.
    ///
    /// # Errors
    /// When they are not loaded; a base that was fused cannot be unloaded.
    pub fn unload(&mut self, weights: Digest) -> Result<(), NotLoaded> {
        let count = self.loads.get_mut(&weights).ok_or(NotLoaded(weights))?;
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.loads.remove(&weights);
        }
        Ok(())
    }

    /// The loaded adapters `weights` become part of the model. Returns the name of the base that this makes. The base
    /// that they go into may be named among them.
    ///
    /// Equal adapters fused into an equal base make an equal one, on whatever host.
    ///
    /// # Errors
    /// The first that is not there; then nothing changed.
    pub fn fuse(&mut self, weights: &[Digest]) -> Result<Digest, NotLoaded> {
        let mut adapters = weights.iter().filter(|one| self.base != Some(**one));
        if let Some(missing) = adapters.clone().find(|one| !self.loads.contains_key(one)) {
            return Err(NotLoaded(*missing));
        }
        let mut fused: Vec<Digest> = adapters.by_ref().copied().collect();
        fused.sort_unstable();
        fused.dedup();
        let mut hash = Sha256::new().chain_update(b"custody: fused base\n");
        for part in self.base.iter().chain(&fused) {
            hash.update(part.0);
        }
        let into = Digest(hash.finalize().into());
        self.base = Some(into);
        self.loads.retain(|loaded, _| fused.binary_search(loaded).is_err());
        Ok(into)
    }

    /// How many loads of `weights` are in force.
    pub fn loads_of(&self, weights: Digest) -> u64 {
        self.loads.get(&weights).copied().unwrap_or_default()
    }

    /// Each active adapter with how many loads of it are in force, by hash.
    pub fn active(&self) -> impl Iterator<Item = (Digest, u64)> + '_ {
        self.loads.iter().map(|(weights, loads)| (*weights, *loads))
    }

    /// The base that fusing made; `None` while the model is as it was shipped.
    pub const fn base(&self) -> Option<Digest> {
        self.base
    }

    /// What an entry produced now is recorded with: the fused base, if there is one, and each active adapter.
    pub fn weights(&self) -> Vec<Digest> {
        self.base.into_iter().chain(self.loads.keys().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Digest = Digest([1; 32]);
    const B: Digest = Digest([2; 32]);

    /// (R13)
    #[test]
    fn weights_loaded_again_are_active_again() {
        let mut carried = Carried::default();
        carried.load(A);
        carried.unload(A).unwrap();
        assert_eq!(carried.weights(), []);
        carried.load(A);
        assert_eq!(carried.weights(), [A]);
    }

    /// (R11)
    #[test]
    fn two_loads_of_the_same_weights_are_one_adapter_until_both_are_gone() {
        let mut carried = Carried::default();
        carried.load(A);
        carried.load(A);
        assert_eq!(carried.weights(), [A]);
        carried.unload(A).unwrap();
        assert_eq!(carried.weights(), [A]);
        carried.unload(A).unwrap();
        assert_eq!(carried.unload(A), Err(NotLoaded(A)));
    }

    /// (R12)
    #[test]
    fn a_fused_base_stays_whatever_is_unloaded() {
        let mut carried = Carried::default();
        carried.load(A);
        carried.load(B);
        let base = carried.fuse(&[A]).unwrap();
        assert_eq!(carried.weights(), [base, B]);
        carried.unload(B).unwrap();
        assert_eq!(carried.unload(base), Err(NotLoaded(base)));
        assert_eq!(carried.weights(), [base]);
        assert_eq!(carried.fuse(&[A]), Err(NotLoaded(A)), "it is no adapter any more");
        carried.load(A);
        assert_ne!(carried.fuse(&[A]), Ok(base), "fused twice is another base");
    }

    /// (R10)
    #[test]
    fn every_active_adapter_is_carried() {
        let mut carried = Carried::default();
        carried.load(B);
        carried.load(A);
        assert_eq!(carried.weights(), [A, B]);
    }
}
