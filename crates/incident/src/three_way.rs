//! Three-way views: items that were written cleanly after they were poisoned. A rollback keeps the later versions, so a
//! person has to check whether they repeat what is taken out.

use std::collections::HashSet;

use custody_kernel::key::Key;
use custody_kernel::memory::item::ContentRef;
use custody_kernel::namespace::Namespace;
use custody_kernel::state::State;
use custody_log::Seq;
use custody_planner::{Plan, Rollback, RollbackTarget};
use custody_runtime::store::View;
use serde::Serialize;

use crate::error::IncidentError;
use crate::store::Incidents;

/// The versions of one item before, during and after the poison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreeWay {
    /// The namespace of the item.
    pub namespace: Namespace,
    /// The key of the item.
    pub key: Key,
    /// The last clean version before the first that is taken out; `None` if there was none.
    pub before: Option<Side>,
    /// The versions that are taken out, ascending.
    pub out: Vec<Side>,
    /// The version afterwards: the newest clean one.
    pub after: Side,
    /// The lines of that version, each with the version in which it first appears.
    pub lines: Vec<Line>,
}

/// One version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// The entry that wrote the version.
    pub entry: Seq,
    /// The text; `None` for a delete, and for content that is destroyed or not UTF-8.
    pub text: Option<String>,
}

/// A line of the version that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The version in which the line first appears.
    pub first: LineOrigin,
    /// The text without the line break.
    pub text: String,
}

/// The version in which a line first appears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineOrigin {
    /// The version before the poison.
    Before,
    /// A version that is taken out: the later write repeats the line.
    TakenOut,
    /// A later clean version.
    Later,
}

impl Incidents<'_> {
    /// Every item of `plan` that was written cleanly after the first version that is taken out.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn three_ways(&self, plan: &Plan) -> Result<Vec<ThreeWay>, IncidentError> {
        self.store.look(|view| {
            let later = plan.rollbacks.iter().filter(|rollback| rollback.has_later_clean_writes);
            later.filter_map(|rollback| three_way(view, rollback).transpose()).collect()
        })
    }
}

/// The three-way view of one item; `None` if it has no version afterwards.
fn three_way(view: View<'_>, rollback: &Rollback) -> Result<Option<ThreeWay>, IncidentError> {
    let Rollback { namespace, key, out, to, .. } = rollback;
    let (RollbackTarget::Current(after)
    | RollbackTarget::Version(after)
    | RollbackTarget::Absent(Some(after))) = *to
    else {
        return Ok(None);
    };
    let first = out.first().copied().unwrap_or(after);
    let history = History { view, changes: changes(view.state(), namespace, key) };
    let before = history.changes.iter().rev().find(|(entry, _)| *entry < first);
    let before = before.map(|(entry, _)| history.side(*entry)).transpose()?;
    let out = out.iter().map(|entry| history.side(*entry)).collect::<Result<Vec<_>, _>>()?;
    let after = history.side(after)?;
    let lines = lines(before.as_ref(), &out, &after);
    let (namespace, key) = (namespace.clone(), key.clone());
    Ok(Some(ThreeWay { namespace, key, before, out, after, lines }))
}

/// The changes of one item.
struct History<'a> {
    view: View<'a>,
    /// The entry of each change with its content, the oldest first.
    changes: Vec<(Seq, Option<ContentRef>)>,
}

impl History<'_> {
    fn side(&self, entry: Seq) -> Result<Side, IncidentError> {
        let change = self.changes.iter().find(|(changed_by, _)| *changed_by == entry);
        let content = change.and_then(|(_, content)| *content);
        let bytes = content.map(|content| self.view.any_content(content)).transpose()?.flatten();
        Ok(Side { entry, text: bytes.and_then(|bytes| String::from_utf8(bytes).ok()) })
    }
}

/// The changes of an item with their contents, the oldest first.
fn changes(state: &State, namespace: &Namespace, key: &Key) -> Vec<(Seq, Option<ContentRef>)> {
    let changes = state.item(namespace, key).into_iter().flat_map(|item| &item.changes);
    changes.map(|change| (change.entry, change.version.map(|version| version.content))).collect()
}

fn lines(before: Option<&Side>, out: &[Side], after: &Side) -> Vec<Line> {
    let before: HashSet<&str> = before.into_iter().flat_map(Side::lines).collect();
    let taken_out: HashSet<&str> = out.iter().flat_map(Side::lines).collect();
    let lines = after.lines().map(|text| {
        let first = if before.contains(text) {
            LineOrigin::Before
        // A blank line carries nothing over.
        } else if taken_out.contains(text) && !text.trim().is_empty() {
            LineOrigin::TakenOut
        } else {
            LineOrigin::Later
        };
        Line { first, text: text.to_owned() }
    });
    lines.collect()
}

impl Side {
    fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.iter().flat_map(|text| text.lines())
    }
}
