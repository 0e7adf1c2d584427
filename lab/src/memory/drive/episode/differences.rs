//! What the store and the model hold, side by side.

use std::collections::{BTreeMap, BTreeSet};

use custody_kernel::label::{Taint, Trust};
use custody_kernel::memory::item::Mode;
use custody_kernel::namespace::Namespace;
use custody_kernel::state::State;

use super::Episode;
use crate::memory::action::Seen;
use crate::memory::drive::{Divergence, RulesModel};

impl<R: RulesModel> Episode<'_, '_, R> {
    /// The first difference between what the store and the model hold now.
    pub(super) fn difference(&self) -> Option<String> {
        let state = self.step.state();
        let (real, expected) = (self.entries.len(), self.rules.entries());
        if real != expected {
            return Some(format!("the store has {real} entries, the model {expected}"));
        }
        let last = real.checked_sub(1)?;
        let (real, expected) = (&self.entries[last].ancestors, self.rules.ancestors(last));
        if *real != expected {
            return Some(format!("entry {last} was made from {real:?}, in the model {expected:?}"));
        }
        if let Some(difference) = self.taint_differs(last) {
            return Some(difference);
        }
        for (session, id) in self.cast.sessions.iter().enumerate() {
            let real = state.session(*id).map(|session| session.context.label().is_tainted());
            let expected = self.rules.context_is_tainted(session);
            if real != Some(expected) {
                return Some(format!("the context of session {session} is tainted: {expected}"));
            }
        }
        for (session, place) in self.places() {
            let real = self.seen(state, &self.namespace(session, place));
            let expected = self.rules.namespace_of(session, place);
            if real != expected {
                let place = self.namespace(session, place);
                return Some(format!("`{place}` holds {real:?}, in the model {expected:?}"));
            }
        }
        let real = state.pending().filter_map(|pending| {
            self.proposals.iter().copied().find(|entry| self.entries[*entry].id == pending.proposal)
        });
        let (real, expected) = (real.collect::<BTreeSet<usize>>(), self.rules.waiting());
        (real != expected)
            .then(|| format!("{real:?} wait for a reviewer, in the model {expected:?}"))
    }

    fn taint_differs(&self, entry: usize) -> Option<String> {
        let real = self.step.state().label(self.entries[entry].seq)?.is_tainted();
        let expected = self.rules.is_tainted(entry);
        (real != expected)
            .then(|| format!("entry {entry} is tainted: {real}, in the model {expected}"))
    }

    /// The taint of every entry once more, now that the graph is whole.
    pub(super) fn recount(&self) -> Option<Divergence> {
        let what = (0..self.entries.len()).find_map(|entry| self.taint_differs(entry))?;
        Some(Divergence { step: self.entries.len(), action: "the end".into(), what })
    }

    fn seen(&self, state: &State, namespace: &Namespace) -> BTreeMap<String, Seen> {
        let mut seen = BTreeMap::new();
        for (key, item) in state.items_in(namespace) {
            if item.current.is_none() && item.mode == Mode::Open {
                continue;
            }
            let value = item.current.map(|version| {
                let text = self.text(version.content);
                (text, version.provenance == Trust::Trusted, version.taint == Taint::Tainted)
            });
            seen.insert(key.to_string(), Seen { mode: item.mode.to_string(), value });
        }
        seen
    }
}
