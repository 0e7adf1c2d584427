//! Looking at a store: the state, records, contents and histories, each checked before it is returned.

use std::collections::BTreeMap;

use custody_kernel::key::Key;
use custody_kernel::memory::item::ContentRef;
use custody_kernel::namespace::Namespace;
use custody_kernel::record::Record;
use custody_kernel::state::State;
use custody_log::{EntryId, Hash, Seq};
use ed25519_dalek::SigningKey;
use parking_lot::RwLockReadGuard;
use rusqlite::Connection;

use crate::clock::moment;
use crate::error::StoreError;
use crate::ledger::{Held, Ledger};
use crate::store::Store;
use crate::view::View;
use crate::writer::add_commit_wait;
use crate::{open, read};

impl Store {
    /// Looks at the state, brought up to what other processes have written.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when the store was changed behind our back.
    pub fn state<R>(&self, look: impl FnOnce(&State) -> R) -> Result<R, StoreError> {
        self.read(|_, ledger| Ok(look(ledger.state())))
    }

    /// Whether `signer` is the log key that signs now.
    pub(crate) fn is_signed_by(&self, signer: &SigningKey) -> Result<bool, StoreError> {
        self.read(|_, ledger| Ok(ledger.is_signed_by(signer)))
    }

    /// The number of records and their root.
    ///
    /// # Errors
    /// As [`Store::state`].
    pub fn root(&self) -> Result<(u64, Hash), StoreError> {
        self.read(|_, ledger| Ok((ledger.len(), ledger.root())))
    }

    /// One record, checked.
    ///
    /// # Errors
    /// [`StoreError::UnknownEntry`], or [`StoreError::Tampered`].
    pub fn record(&self, seq: Seq) -> Result<Record, StoreError> {
        self.read(|connection, ledger| read::record(connection, ledger, seq))
    }

    /// The position of an entry, from its id.
    ///
    /// # Errors
    /// [`StoreError::UnknownEntry`], or [`StoreError::Tampered`].
    pub fn position(&self, id: EntryId) -> Result<Seq, StoreError> {
        self.read(|connection, ledger| read::position(connection, ledger, id))
    }

    /// Looks at the bytes of the first `size` records, or of all if there are fewer, in order and each checked.
    /// All are of one moment, and nobody else reads meanwhile: `look` is quick and asks the store for nothing.
    pub fn scan<E: From<StoreError>>(
        &self,
        size: u64,
        look: impl FnMut(Seq, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.read(|connection, ledger| Ok(read::scan(connection, ledger, size, look)))?
    }

    /// A content, checked against its commitment.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when it is missing or another.
    pub fn content(&self, content: ContentRef) -> Result<Vec<u8>, StoreError> {
        self.read(|connection, ledger| read::content(connection, ledger.state(), content))
    }

    /// The same; `None` when an incident took it out, into quarantine or for good.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when it is missing or not the one that was recorded.
    pub fn retrieve(&self, content: ContentRef) -> Result<Option<Vec<u8>>, StoreError> {
        match self.content(content) {
            Err(StoreError::Quarantined(_) | StoreError::Purged(_)) => Ok(None),
            kept => kept.map(Some),
        }
    }

    /// The entries made directly from `parent`.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when the index of edges does not agree with the records.
    pub fn children(&self, parent: Seq) -> Result<Vec<Seq>, StoreError> {
        self.read(|connection, ledger| read::children(connection, ledger, parent))
    }

    /// Every change of an item, the last first. Walks the chain that the changes themselves form.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when a record on the way is not the one that was signed.
    pub fn history(&self, namespace: &Namespace, key: &Key) -> Result<Vec<Record>, StoreError> {
        self.read(|connection, ledger| {
            let mut next = ledger.state().item(namespace, key).and_then(|item| item.last_change);
            let mut changes = Vec::new();
            while let Some(seq) = next {
                let change = read::record(connection, ledger, seq)?;
                next = change.after;
                changes.push(change);
            }
            Ok(changes)
        })
    }

    /// The present values of one namespace, by key, with their bytes checked.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when one of them is missing or another.
    pub fn values(&self, namespace: &Namespace) -> Result<BTreeMap<Key, Vec<u8>>, StoreError> {
        self.read(|connection, ledger| {
            let mut values = BTreeMap::new();
            for (key, item) in ledger.state().items_in(namespace) {
                if let Some(version) = &item.current {
                    values.insert(
                        key.clone(),
                        read::content(connection, ledger.state(), version.content)?,
                    );
                }
            }
            Ok(values)
        })
    }

    /// Looks at one moment of the store, brought up to what other processes have written.
    pub fn look<R, E: From<StoreError>>(
        &self,
        look: impl FnOnce(View<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.read(|connection, ledger| Ok(look(View::new(connection, ledger))))?
    }

    /// The same, with the connection itself.
    pub(crate) fn read<R>(
        &self,
        look: impl FnOnce(&Connection, &Ledger) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        // A group that is being committed is waited for side by side, before anybody has a connection.
        let held = self.held();
        let look = match held.ledger() {
            None => look,
            Some(ledger) => match self.read_current(ledger, look)? {
                Ok(seen) => return Ok(seen),
                Err(look) => look,
            },
        };
        drop(held);
        // Others wrote, or a commit failed. Looking happens under the same lock, so that however fast
        // others write, one round is enough.
        let mut held = self.shared.ledger.write();
        self.shared.readers.with(|connection, head| {
            self.shared.place.check()?;
            let slots = head.slots()?;
            let snapshot = open::snapshot(connection)?;
            look(&snapshot, open::bring_up(&snapshot, Some(&slots), &mut held)?)
        })
    }

    /// Looks if `ledger` is all that there is. Gives `look` back if it is not.
    fn read_current<R, F>(&self, ledger: &Ledger, look: F) -> Result<Result<R, F>, StoreError>
    where
        F: FnOnce(&Connection, &Ledger) -> Result<R, StoreError>,
    {
        self.shared.readers.with(|connection, head| {
            self.shared.place.check()?;
            let slots = head.slots()?;
            let snapshot = open::snapshot(connection)?;
            if open::is_current(&snapshot, &slots, ledger)? {
                look(&snapshot, ledger).map(Ok)
            } else {
                Ok(Err(look))
            }
        })
    }

    /// What is held of the log, once no group is being committed.
    fn held(&self) -> RwLockReadGuard<'_, Held> {
        let asked = moment();
        let held = self.shared.ledger.read();
        add_commit_wait(asked.elapsed());
        held
    }
}
