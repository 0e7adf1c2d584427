//! The store, as incidents are worked on in it.

use custody_runtime::Store;

/// A store, to find what is bad in it and to take that out.
#[derive(Debug, Clone, Copy)]
pub struct Incidents<'s> {
    pub(crate) store: &'s Store,
}

impl<'s> Incidents<'s> {
    /// Incidents of `store`.
    pub const fn of(store: &'s Store) -> Self {
        Self { store }
    }

    /// The store.
    pub const fn store(self) -> &'s Store {
        self.store
    }
}
