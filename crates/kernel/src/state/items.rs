//! The items of a store by namespace and key, with an index of protected look-alikes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, DefaultHasher, Hasher};

use custody_log::{Digest, Seq, StoreId};
use sha2::{Digest as _, Sha256};

use super::incidents::is_kept;
use crate::key::Key;
use crate::label::{Taint, Trust};
use crate::lists::is_in;
use crate::memory::item::{Item, Mode, Version, VersionChange};
use crate::namespace::{Namespace, Scope, Tenant};

/// Seeds the table with the store's random id, so that an attacker who chooses keys cannot choose
/// collisions, and no randomness is needed here.
#[derive(Debug, Clone, Default)]
struct Seed([u8; 16]);

impl BuildHasher for Seed {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0);
        hasher
    }
}

/// The newest version that is not out; `None` where a delete is newer.
fn newest(item: &Item, is_out: impl Fn(Seq) -> bool) -> Option<Version> {
    let kept = |change: &&VersionChange| match &change.version {
        Some(version) => is_kept(version, &is_out),
        None => !is_out(change.entry),
    };
    item.changes.iter().rev().find(kept).and_then(|change| change.version)
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Items {
    seed: Seed,
    shelves: HashMap<Namespace, HashMap<Key, Item, Seed>, Seed>,
    /// Protected shared keys by what they look like. Few, so ordered look-up beats hashing.
    protected: BTreeMap<u64, Vec<(Tenant, Key)>>,
}

impl Items {
    pub(crate) fn seeded_by(store: StoreId) -> Self {
        let seed = Seed(*store.as_bytes());
        Self { shelves: HashMap::with_hasher(seed.clone()), protected: BTreeMap::new(), seed }
    }

    pub(crate) fn get(&self, namespace: &Namespace, key: &Key) -> Option<&Item> {
        self.shelves.get(namespace)?.get(key)
    }

    /// A protected shared key of `tenant` that `key` could be taken for.
    pub(crate) fn look_alike(&self, tenant: &Tenant, key: &Key) -> Option<&Key> {
        if self.protected.is_empty() {
            return None;
        }
        let looks = key.looks();
        let mut candidates = looks.iter().filter_map(|look| self.protected.get(look)).flatten();
        let found = candidates.find(|(of, protected)| of == tenant && protected.resembles(key));
        found.map(|(_, protected)| protected)
    }

    pub(crate) fn entry(&mut self, namespace: &Namespace, key: &Key) -> &mut Item {
        let shelf = self
            .shelves
            .entry(namespace.clone())
            .or_insert_with(|| HashMap::with_hasher(self.seed.clone()));
        shelf.entry(key.clone()).or_default()
    }

    /// Puts a change on top of an item, and takes what it made for the present value.
    pub(crate) fn change(
        &mut self,
        namespace: &Namespace,
        key: &Key,
        entry: Seq,
        version: Option<Version>,
    ) -> &mut Item {
        let item = self.entry(namespace, key);
        item.changes.push(VersionChange { entry, version });
        item.current = version;
        item.last_change = Some(entry);
        item
    }

    /// Takes the newest change that is not out for the present value, in every item with a change of `marked`, which is
    /// ascending. Linear in all changes.
    pub(crate) fn recompute(&mut self, marked: &[Seq], is_out: impl Fn(Seq) -> bool) {
        for item in self.shelves.values_mut().flat_map(HashMap::values_mut) {
            let is_marked = item.changes.iter().any(|change| {
                let arrival = change.version.map(|version| version.content.arrival);
                is_in(marked, &change.entry) || arrival.is_some_and(|entry| is_in(marked, &entry))
            });
            if is_marked {
                item.current = newest(item, &is_out);
            }
        }
    }

    /// The same, in one item.
    pub(crate) fn recompute_one(
        &mut self,
        namespace: &Namespace,
        key: &Key,
        is_out: impl Fn(Seq) -> bool,
    ) {
        let item = self.entry(namespace, key);
        item.current = newest(item, is_out);
    }

    pub(crate) fn set_mode(&mut self, namespace: &Namespace, key: &Key, mode: Mode) {
        self.entry(namespace, key).mode = mode;
        if namespace.scope != Scope::Shared {
            return;
        }
        for look in key.looks() {
            let keys = self.protected.entry(look).or_default();
            keys.retain(|(tenant, protected)| *tenant != namespace.tenant || protected != key);
            if mode != Mode::Open {
                keys.push((namespace.tenant.clone(), key.clone()));
            }
        }
    }

    /// Taints the versions that `entries` made, the present ones too.
    pub(crate) fn taint_versions(&mut self, entries: &BTreeSet<Seq>) {
        let items = self.shelves.values_mut().flat_map(HashMap::values_mut);
        let versions = items.flat_map(|item| {
            item.changes
                .iter_mut()
                .filter_map(|change| change.version.as_mut())
                .chain(&mut item.current)
        });
        for version in versions.filter(|version| entries.contains(&version.entry)) {
            (version.provenance, version.taint) = (Trust::Untrusted, Taint::Tainted);
        }
    }

    pub(crate) fn in_namespace<'a>(
        &'a self,
        namespace: &Namespace,
    ) -> impl Iterator<Item = (&'a Key, &'a Item)> + use<'a> {
        self.shelves.get(namespace).into_iter().flatten()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Namespace, &Key, &Item)> {
        self.shelves.iter().flat_map(|(namespace, shelf)| {
            shelf.iter().map(move |(key, item)| (namespace, key, item))
        })
    }

    pub(crate) fn namespaces(&self) -> Vec<&Namespace> {
        let mut namespaces: Vec<_> = self.shelves.keys().collect();
        namespaces.sort_unstable();
        namespaces
    }

    pub(crate) fn len(&self) -> usize {
        self.shelves.values().map(HashMap::len).sum()
    }

    pub(crate) fn hash(&self) -> Digest {
        let mut hasher = Sha256::new();
        let mut field = |bytes: &[u8]| {
            hasher.update((bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        };
        for namespace in self.namespaces() {
            let mut items: Vec<_> = self.in_namespace(namespace).collect();
            items.sort_unstable_by_key(|(key, _)| *key);
            for (key, item) in items {
                // An open item without a value holds nothing: as if it had never been there.
                if item.mode == Mode::Open && item.current.is_none() {
                    continue;
                }
                field(namespace.to_string().as_bytes());
                field(key.as_str().as_bytes());
                field(item.mode.as_str().as_bytes());
                if let Some(version) = &item.current {
                    field(&version.content.commitment.0);
                    field(&[
                        u8::from(version.provenance == Trust::Trusted),
                        u8::from(version.taint == Taint::Tainted),
                    ]);
                }
            }
        }
        Digest(hasher.finalize().into())
    }
}
