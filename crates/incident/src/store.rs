//! The store, as incidents are worked on in it.

use custody_runtime::Store;
use custody_runtime::store::{StoreError, Transaction};

use crate::error::IncidentError;

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

    /// Runs `work` as one step of the store. An error of ours undoes it like one of the store's.
    pub(crate) fn in_one_step<T, F>(self, work: F) -> Result<T, IncidentError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T, IncidentError> + Send + 'static,
    {
        self.store.run(move |step| work(step).map_err(rejected)).wait().map_err(IncidentError::from)
    }
}

/// An error of ours on its way through the store.
fn rejected(error: IncidentError) -> StoreError {
    if let IncidentError::Store(error) = error {
        return error;
    }
    StoreError::Rejected(Box::new(error))
}
