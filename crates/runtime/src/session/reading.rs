//! Reading memory: items, and which there are. Whatever a model is shown of memory is a record, so that what it makes
//! of it has an edge.

use std::sync::Arc;

use custody_kernel::actions::list::page;
use custody_kernel::key::Key;
use custody_kernel::memory::item::{Mode, Version};
use custody_kernel::namespace::{Namespace, Scope};
use custody_kernel::record::{Answer, SessionRequest};
use custody_kernel::state::State;
use custody_log::{EntryId, SessionId};
use custody_store::{Receipt, StoreError, Ticket, Transaction};

use super::Session;
use crate::traced::Traced;

/// What a read found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The decision. Its id is that of the entry that has the item's version as parent.
    pub receipt: Receipt,
    /// In which part of the tenant the item stands.
    pub scope: Scope,
    /// How the item may change.
    pub mode: Mode,
    /// The entry of the version that was read, when the read was allowed and there is one.
    pub version: Option<EntryId>,
    /// The value, likewise.
    pub value: Option<Vec<u8>>,
}

/// One page of the items that a session sees in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The decision. Its entry has the listed versions as parents.
    pub receipt: Receipt,
    /// The items, by key.
    pub items: Vec<ItemSummary>,
    /// Whether more follow the last of them.
    pub more: bool,
}

/// An item without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemSummary {
    /// Its key.
    pub key: Key,
    /// How it may change.
    pub mode: Mode,
    /// The entry of its present version.
    pub version: EntryId,
}

impl Session {
    /// Reads an item (rules 1 and 9). What it finds joins the context.
    pub fn read(&self, scope: Scope, key: Key) -> Ticket<Reading> {
        let reader = self.reader();
        self.run(move |step| reader.read(step, scope, key))
    }

    /// Reads what the session sees under `key`: its own item, else the shared one.
    pub fn read_visible(&self, key: Key) -> Ticket<Reading> {
        let reader = self.reader();
        self.run(move |step| {
            let visible = step.state().visible_item(&reader.own, &key);
            let scope = visible.map_or(reader.own.scope, |(home, _)| home.scope);
            reader.read(step, scope, key)
        })
    }

    /// Lists the items that the session sees in its own namespace or in the `shared` one, page by page: those with keys
    /// after `after`. Their keys join the context.
    pub fn list(&self, shared: bool, after: Option<Key>) -> Ticket<Listing> {
        let reader = self.reader();
        self.run(move |step| reader.list(step, shared, after))
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader { id: self.id(), own: self.namespace(), traced: self.traced() }
    }
}

/// Reads for one session.
pub(crate) struct Reader {
    id: SessionId,
    pub(crate) own: Namespace,
    traced: Arc<Traced>,
}

impl Reader {
    pub(crate) fn read(
        &self,
        step: &mut Transaction<'_>,
        scope: Scope,
        key: Key,
    ) -> Result<Reading, StoreError> {
        let (scope, mode, version) = self.place(step.state(), scope, &key);
        // Looked at before the read is recorded, so that a tampered value refuses the read.
        if let Some(version) = version {
            step.content(version.content)?;
        }
        let receipt = step.ask(self.id, SessionRequest::Read { scope, key }, None, Vec::new())?;
        let (version, value) = match receipt.answer {
            Answer::Value { version, content } => {
                (Some(step.record(version)?.id), Some(step.content(content)?))
            }
            Answer::NotFound | Answer::Done | Answer::Pending { .. } | Answer::Refused(_) => {
                (None, None)
            }
        };
        if let Some(value) = &value {
            self.note_text(&receipt, &String::from_utf8_lossy(value));
        }
        Ok(Reading { receipt, scope, mode, version, value })
    }

    /// The item that is read under `key`: an immutable shared one stands in for the session's own.
    fn place(&self, state: &State, scope: Scope, key: &Key) -> (Scope, Mode, Option<Version>) {
        let namespace = Namespace { tenant: self.own.tenant.clone(), scope };
        let (home, item) = match state.visible_item(&self.own, key) {
            Some((home, item)) if namespace == self.own && item.mode == Mode::Immutable => {
                (home.scope, Some(item))
            }
            Some(_) | None => (scope, state.item(&namespace, key)),
        };
        let mode = item.map(|item| item.mode).unwrap_or_default();
        (home, mode, item.and_then(|item| item.current))
    }

    fn list(
        &self,
        step: &mut Transaction<'_>,
        shared: bool,
        after: Option<Key>,
    ) -> Result<Listing, StoreError> {
        let (listed, more) = page(step.state(), &self.own, shared, after.as_ref());
        let items = listed.iter().map(|item| {
            let version = step.record(item.version.entry)?.id;
            Ok(ItemSummary { key: item.key.clone(), mode: item.mode, version })
        });
        let items = items.collect::<Result<Vec<_>, StoreError>>()?;
        let receipt =
            step.ask(self.id, SessionRequest::List { shared, after }, None, Vec::new())?;
        for item in &items {
            self.note_text(&receipt, item.key.as_str());
        }
        Ok(Listing { receipt, items, more })
    }

    /// Adds what was read to the texts that arguments are traced in.
    fn note_text(&self, receipt: &Receipt, text: &str) {
        self.traced.known().note_text(receipt, text, &(0..text.len()));
    }
}
