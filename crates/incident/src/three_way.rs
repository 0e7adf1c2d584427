//! Three-way views: items that were written cleanly after they were poisoned. A rollback keeps what was written since,
//! so somebody has to look whether that carries on what is taken out.

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

/// One item, seen three ways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreeWay {
    /// Where it is.
    pub namespace: Namespace,
    /// Under which key.
    pub key: Key,
    /// The last clean version before the first that is taken out; `None` if there was none.
    pub before: Option<Side>,
    /// The versions that are taken out, ascending.
    pub out: Vec<Side>,
    /// What it holds afterwards: the newest clean version.
    pub after: Side,
    /// The lines of that, each with where it stood first.
    pub lines: Vec<Line>,
}

/// One version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// The entry that made it.
    pub entry: Seq,
    /// What it says; `None` if it was a delete, or its content is destroyed or no text.
    pub text: Option<String>,
}

/// A line of what stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Where it stood first.
    pub first: StoodFirst,
    /// What it says, without its end.
    pub text: String,
}

/// Where a line stood first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoodFirst {
    /// In the version before the poison.
    Before,
    /// In a version that is taken out: the clean write carried it on.
    TakenOut,
    /// In a later clean one.
    Later,
}

impl Incidents<'_> {
    /// Every item of `plan` that was written cleanly after the first version that is taken out.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn three_ways(&self, plan: &Plan) -> Result<Vec<ThreeWay>, IncidentError> {
        self.store.look(|view| {
            let looking = Looking { view };
            let later = plan.rollbacks.iter().filter(|rollback| rollback.has_later_clean_writes);
            let seen = later.map(|rollback| looking.three_way(rollback));
            Ok(seen.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        })
    }
}

struct Looking<'a> {
    view: View<'a>,
}

impl Looking<'_> {
    fn three_way(&self, rollback: &Rollback) -> Result<Option<ThreeWay>, IncidentError> {
        let Rollback { namespace, key, out, to, .. } = rollback;
        let (RollbackTarget::Current(after)
        | RollbackTarget::Version(after)
        | RollbackTarget::Absent(Some(after))) = *to
        else {
            return Ok(None);
        };
        let first = out.first().copied().unwrap_or(after);
        let changes = changes(self.view.state(), namespace, key);
        let before = changes.iter().rev().find(|(entry, _)| *entry < first);
        let side = |entry: Seq| {
            let change = changes.iter().find(|(made, _)| *made == entry);
            self.side(entry, change.and_then(|(_, content)| *content))
        };
        let before = before.map(|(entry, _)| side(*entry)).transpose()?;
        let out = out.iter().map(|entry| side(*entry)).collect::<Result<Vec<_>, _>>()?;
        let after = side(after)?;
        let lines = lines(before.as_ref(), &out, &after);
        let (namespace, key) = (namespace.clone(), key.clone());
        Ok(Some(ThreeWay { namespace, key, before, out, after, lines }))
    }

    fn side(&self, entry: Seq, content: Option<ContentRef>) -> Result<Side, IncidentError> {
        let bytes = content.map(|content| self.view.any_content(content));
        let text = bytes.transpose()?.flatten().and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(Side { entry, text })
    }
}

/// The changes of an item with their contents, the oldest first.
fn changes(state: &State, namespace: &Namespace, key: &Key) -> Vec<(Seq, Option<ContentRef>)> {
    let changes = state.item(namespace, key).map(|item| item.changes.as_slice());
    let content = |change: &custody_kernel::memory::item::VersionChange| {
        (change.entry, change.version.map(|version| version.content))
    };
    changes.unwrap_or_default().iter().map(content).collect()
}

fn lines(before: Option<&Side>, out: &[Side], after: &Side) -> Vec<Line> {
    let of = |side: &Side| -> Vec<String> {
        side.text.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
    };
    let before: HashSet<String> = before.map(of).unwrap_or_default().into_iter().collect();
    let taken: HashSet<String> = out.iter().flat_map(of).collect();
    let first = |text: &String| match (before.contains(text), taken.contains(text)) {
        // An empty line says nothing that could be carried on.
        (true, _) => StoodFirst::Before,
        (false, true) if !text.trim().is_empty() => StoodFirst::TakenOut,
        (false, _) => StoodFirst::Later,
    };
    of(after).into_iter().map(|text| Line { first: first(&text), text }).collect()
}
