//! Listing the items that a session sees: MON rules 1 and 9.
//!
//! Keys are an input of the model as values are: somebody wrote them, and a key can hold an instruction. So a listing
//! has the listed versions as parents and the join of their labels, and joins the context. A namespace in which nothing
//! is listed adds nothing to it, as a read that finds nothing.

use custody_log::SessionId;

use super::draft::{Draft, InSession, ascending};
use super::read::{enter, label_of};
use crate::key::Key;
use crate::label::{Channel, Label, Trust};
use crate::memory::item::{Mode, Version};
use crate::namespace::{Namespace, Scope};
use crate::record::{Answer, Record};
use crate::state::State;

/// The most items in one listing.
pub const LISTED_AT_ONCE: usize = 256;

/// One item of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedItem<'a> {
    /// Its key.
    pub key: &'a Key,
    /// How it may change.
    pub mode: Mode,
    /// Its present version.
    pub version: Version,
}

/// Items whose keys a model sees.
#[derive(Debug)]
pub(crate) struct ListedItems;

/// The items that a session of `reader`'s namespace sees in it, or in the shared one of its tenant, in no particular
/// order: those that hold a value which no incident took out. An item of its own in whose place an immutable shared one
/// is read is not among them.
///
/// Source: MON §3.3 rule 9.
pub fn visible_items<'a>(
    state: &'a State,
    reader: &Namespace,
    shared: bool,
) -> impl Iterator<Item = ListedItem<'a>> + use<'a> {
    let beside = Namespace::shared(reader.tenant.clone());
    let asked = if shared { beside.clone() } else { reader.clone() };
    let items = state.items.in_namespace(&asked).filter(move |(key, _)| {
        let in_shared = state.item(&beside, key).filter(|_| asked.scope != Scope::Shared);
        in_shared.is_none_or(|item| item.mode != Mode::Immutable)
    });
    items
        .filter_map(|(key, item)| Some(ListedItem { key, mode: item.mode, version: item.current? }))
}

/// The first [`LISTED_AT_ONCE`] of these by key, of those after `after`, and whether more follow. Linear in the items.
pub fn page<'a>(
    state: &'a State,
    reader: &Namespace,
    shared: bool,
    after: Option<&Key>,
) -> (Vec<ListedItem<'a>>, bool) {
    let mut items: Vec<_> = visible_items(state, reader, shared)
        .filter(|item| after.is_none_or(|after| item.key > after))
        .collect();
    let more = items.len() > LISTED_AT_ONCE;
    if more {
        items.select_nth_unstable_by_key(LISTED_AT_ONCE, |item| item.key);
        items.truncate(LISTED_AT_ONCE);
    }
    items.sort_unstable_by_key(|item| item.key);
    (items, more)
}

pub(crate) fn decide(
    asked: InSession<'_>,
    shared: bool,
    after: Option<&Key>,
) -> Draft<ListedItems> {
    let (listed, _) = page(asked.state, &asked.own(), shared, after);
    let label = Label::at_ingress(Channel::Memory, Trust::Trusted);
    let labels = listed.iter().map(|item| label_of(item.version.provenance, item.version.taint));
    let label = labels.fold(label, Label::join);
    let parents = ascending(listed.iter().map(|item| item.version.entry).collect());
    Draft::new(Answer::Done, label, parents).with(ListedItems)
}

impl ListedItems {
    pub(crate) fn apply(self, state: &mut State, id: SessionId, record: &Record) {
        enter_listed(state, id, record);
    }
}

/// Enters what was listed earlier.
pub(crate) fn fold(state: &mut State, id: SessionId, record: &Record) -> Option<()> {
    (record.answer == Answer::Done).then(|| enter_listed(state, id, record))
}

fn enter_listed(state: &mut State, id: SessionId, record: &Record) {
    if !record.parents.is_empty() {
        enter(state, id, record);
    }
}
