//! What was made from what: the edges of every record, in memory and in flat arrays.
//!
//! Recovery builds its graph from these without reading the disk. Which edges matter, and how far contamination
//! follows them, is not the store's to know.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use custody_kernel::adapter::AdapterChange;
use custody_kernel::record::{AdminRequest, Answer, Record, Request, SessionRequest};
use custody_log::{Digest, Seq};

/// The edges of every record, in the order of the log.
#[derive(Debug, Clone, Default)]
pub struct Edges {
    /// Where the parents of each entry end.
    ends: Vec<usize>,
    parents: Vec<Seq>,
    /// Which of `weights` each entry was recorded with.
    carried: Vec<u32>,
    /// Every different list of weights. Few: it changes only when a host loads or unloads something.
    weights: Vec<Arc<[Digest]>>,
    numbers: HashMap<Arc<[Digest]>, u32>,
    changes: BTreeMap<Seq, AdapterChange>,
    purged: Vec<Seq>,
    discounted: Vec<(Seq, Seq)>,
}

/// The edges of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryEdges<'a> {
    /// The entries it was made from.
    pub parents: &'a [Seq],
    /// The weights that its host carried.
    pub weights: &'a [Digest],
    /// What it changed about the weights of a host, if it did.
    pub change: Option<&'a AdapterChange>,
}

impl Edges {
    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The edges of every entry, in the order of the log.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = EntryEdges<'_>> {
        self.since(0)
    }

    /// The edges of the entries after the first `size`.
    pub fn since(&self, size: u64) -> impl ExactSizeIterator<Item = EntryEdges<'_>> {
        let from = usize::try_from(size).unwrap_or(usize::MAX).min(self.ends.len());
        (from..self.ends.len()).map(|at| {
            let before = at.checked_sub(1).and_then(|before| self.ends.get(before));
            let start = before.copied().unwrap_or_default();
            let end = self.ends.get(at).copied().unwrap_or_default();
            let carried = self.carried.get(at).map(|carried| *carried as usize);
            EntryEdges {
                parents: self.parents.get(start..end).unwrap_or_default(),
                weights: carried.and_then(|at| self.weights.get(at)).map_or(&[], |list| list),
                change: self.changes.get(&Seq(at as u64)),
            }
        })
    }

    /// Whether an entry after the first `size` changed the weights of a host.
    pub fn is_changed_since(&self, size: u64) -> bool {
        self.changes.range(Seq(size)..).next().is_some()
    }

    /// The entries whose content a plan destroyed, in the order in which that happened.
    pub fn purged(&self) -> &[Seq] {
        &self.purged
    }

    /// Each entry that repeats an untrusted one without being tainted by it, and that one; in the order of the log.
    /// Only recovery looks at these.
    pub fn discounted(&self) -> &[(Seq, Seq)] {
        &self.discounted
    }

    pub(crate) fn push(&mut self, record: &Record) {
        self.parents.extend_from_slice(&record.parents);
        self.ends.push(self.parents.len());
        let carried = self.number(&record.weights);
        self.carried.push(carried);
        match (&record.request, &record.answer) {
            (Request::Admin(AdminRequest::Adapt(adapt)), Answer::Done) => {
                self.changes.insert(record.seq, adapt.change.clone());
            }
            (Request::Admin(AdminRequest::Recover(recover)), Answer::Done) => {
                if let Some(effects) = recover.step.effects() {
                    self.purged.extend_from_slice(effects.purged);
                }
            }
            (Request::Session(SessionRequest::Observe { discounted, .. }), _) => {
                self.discounted.extend(discounted.iter().map(|of| (record.seq, *of)));
            }
            _ => {}
        }
    }

    /// The number of a list of weights.
    fn number(&mut self, weights: &[Digest]) -> u32 {
        if let Some(number) = self.numbers.get(weights) {
            return *number;
        }
        // A log that could number more lists than this would not fit in memory.
        let number = u32::try_from(self.weights.len()).unwrap_or(u32::MAX);
        let weights: Arc<[Digest]> = weights.into();
        self.weights.push(Arc::clone(&weights));
        self.numbers.insert(weights, number);
        number
    }
}
