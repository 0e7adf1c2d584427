//! The credential that a request shows, and the connection that it opens.

use std::sync::Arc;

use axum::extract::State;

use crate::connections::{Guarded, RefusedCredential};
use crate::incoming::Incoming;
use crate::shared::Shared;
use crate::times::Times;

/// What answers a request gets.
pub(crate) type Here = State<Arc<Shared>>;

/// The key that a request shows, if any, and where.
pub(crate) struct Shown {
    key: Option<String>,
    is_in_address: bool,
}

impl Shown {
    pub(crate) fn header(incoming: &Incoming) -> Self {
        Self { key: incoming.key(), is_in_address: false }
    }

    pub(crate) fn address(key: String) -> Self {
        Self { key: Some(key), is_in_address: true }
    }
}

impl Shown {
    /// The connection that it opens. May wait for the store.
    pub(crate) fn open(self, shared: &Shared) -> Result<Guarded, RefusedCredential> {
        let token = self.key.ok_or(RefusedCredential::Missing)?;
        shared.connections.of_token(&token, self.is_in_address)
    }
}

/// Looks a credential up on a thread that may wait for the store.
pub(crate) async fn guarded(
    shared: &Arc<Shared>,
    shown: Shown,
    times: &mut Times,
) -> Result<Guarded, RefusedCredential> {
    let shared = Arc::clone(shared);
    let found = times.on_thread(move || shown.open(&shared));
    found.await.unwrap_or(Err(RefusedCredential::Thread))
}
