//! Taking a file as it is on disk for the value of a shared item, and watching it.

use super::draft::{Draft, done_or_refused};
use super::settings::check_owner;
use crate::key::Key;
use crate::label::{Taint, Trust};
use crate::memory::item::{Item, Mode, Value, Version};
use crate::memory::refusal::Refusal;
use crate::namespace::{Namespace, Tenant};
use crate::principal::Authority;
use crate::record::Record;
use crate::state::{AskError, State, Watched};

/// A file that the owner takes for the value of an item.
#[derive(Debug)]
pub(crate) struct AdoptedFile {
    watched: Watched,
    value: Value,
}

/// An owner takes a file for the value of a watched item. What arrived earlier they may declare
/// clean; the graph keeps where it came from. An immutable item keeps its value until it is unlocked (rule 3; G11).
pub(crate) fn decide(
    state: &State,
    authority: &Authority,
    tenant: &Tenant,
    key: &Key,
    path: &str,
    value: Value,
) -> Result<Draft<AdoptedFile>, AskError> {
    let adopted = AdoptedFile { watched: watched(tenant, key, path), value };
    let item = state.item(&adopted.watched.namespace, key);
    let outcome = check_owner(authority).and_then(|()| check_unlocked(item, key, value));
    let draft = Draft::administrative(outcome.map(|()| adopted)).changing(item);
    let Value::Of(content) = value else { return Ok(draft) };
    let arrived = state.label(content.arrival).ok_or(AskError::UnknownEntry(content.arrival))?;
    let label = draft.label.join(arrived);
    Ok(Draft { label, parents: vec![content.arrival], ..draft })
}

/// Rule 3: what an immutable item holds is adopted again only as it is. One that was taken out by an incident changes
/// as well if a file is put in its place.
fn check_unlocked(item: Option<&Item>, key: &Key, value: Value) -> Result<(), Refusal> {
    let Some(item) = item.filter(|item| item.mode == Mode::Immutable) else { return Ok(()) };
    let is_same = match (item.current, value) {
        (Some(version), Value::Of(content)) => version.content == content,
        (Some(_), Value::New(_)) => false,
        (None, Value::Of(_) | Value::New(_)) => item.last_change.is_none(),
    };
    if is_same { Ok(()) } else { Err(Refusal::Immutable { key: key.clone() }) }
}

impl AdoptedFile {
    pub(crate) fn apply(self, state: &mut State, record: &Record) {
        adopt(state, record, self.watched, self.value);
    }
}

/// Adopts a file that was adopted earlier.
pub(crate) fn fold(
    state: &mut State,
    record: &Record,
    tenant: &Tenant,
    key: &Key,
    path: &str,
    value: Value,
) -> Option<()> {
    done_or_refused(record, || adopt(state, record, watched(tenant, key, path), value))
}

fn watched(tenant: &Tenant, key: &Key, path: &str) -> Watched {
    let namespace = Namespace::shared(tenant.clone());
    Watched { namespace, key: key.clone(), path: path.to_owned() }
}

fn adopt(state: &mut State, record: &Record, watched: Watched, value: Value) {
    let Watched { namespace, key, .. } = &watched;
    let is_new = state.item(namespace, key).is_none_or(|item| item.current.is_none());
    let version = Version {
        entry: record.seq,
        content: value.content(record.seq),
        provenance: Trust::Trusted,
        taint: Taint::Clean,
    };
    state.items.change(namespace, key, record.seq, Some(version));
    if is_new {
        state.items.set_mode(namespace, key, Mode::Immutable);
    }
    state.watched.insert((namespace.clone(), key.clone()), watched);
}
