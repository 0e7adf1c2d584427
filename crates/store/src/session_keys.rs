//! The keys of the sessions that this process opened.
//!
//! A session's key is made when it is opened, signs each of its records, and is never written down. A session whose
//! process has ended therefore cannot be continued, by anybody (G1).

use std::collections::HashMap;

use custody_keys::fresh_key;
use custody_log::{Digest, SessionId};
use ed25519_dalek::SigningKey;
use parking_lot::Mutex;

#[derive(Default)]
pub(crate) struct SessionKeys(Mutex<HashMap<SessionId, SigningKey>>);

impl SessionKeys {
    /// Makes the key of a session that is about to be opened, and returns its public half.
    pub(crate) fn make(&self, session: SessionId) -> Digest {
        let key = fresh_key();
        let public = Digest(key.verifying_key().to_bytes());
        // An id that is drawn twice keeps the key of the session that is open.
        self.0.lock().entry(session).or_insert(key);
        public
    }

    /// The key of a session that this process opened.
    pub(crate) fn get(&self, session: SessionId) -> Option<SigningKey> {
        self.0.lock().get(&session).cloned()
    }

    /// Forgets the key of a session that is closed.
    pub(crate) fn forget(&self, session: SessionId) {
        self.0.lock().remove(&session);
    }
}
