//! What waits for a human, by who asked: so that one principal cannot fill the queue of all (G20), and asking
//! whether one more may wait costs no more the more questions the store holds.

use std::collections::{BTreeSet, HashMap};

use custody_log::{EntryId, PrincipalId, Timestamp};

use crate::memory::rate::Limits;
use crate::memory::review::Purpose;
use crate::namespace::Tenant;
use crate::principal::PrincipalClaim;

/// Whoever has no credential asks together with all others of the tenant that have none.
type Asker = (Option<PrincipalId>, Tenant);

/// Questions that nobody answered yet, by asker, with the time at which each expires.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting(HashMap<Asker, Questions>);

#[derive(Debug, Clone, Default)]
struct Questions {
    calls: BTreeSet<(Timestamp, EntryId)>,
    changes: BTreeSet<(Timestamp, EntryId)>,
}

impl Waiting {
    /// The limit that one more question of `who` would exceed at `now`, over all of its sessions.
    pub(crate) fn limit_reached(
        &self,
        limits: &Limits,
        who: &PrincipalClaim,
        purpose: Purpose,
        now: Timestamp,
    ) -> Option<u32> {
        // A trace is read faster than it happened, so its times say nothing, and nobody reviews it.
        if who.tenant.is_replay() {
            return None;
        }
        let limit = match purpose {
            Purpose::Call => limits.waiting_calls,
            Purpose::Review | Purpose::Declassify => limits.waiting_changes,
        };
        let questions = self.0.get(&asker(who)).map(|questions| questions.of(purpose));
        let open = questions.into_iter().flatten().rev().take_while(|(expires, _)| *expires > now);
        (open.count() >= usize::try_from(limit).unwrap_or(usize::MAX)).then_some(limit)
    }

    /// The questions of `who` that wait, expired ones perhaps included.
    pub(crate) fn of(
        &self,
        who: &PrincipalClaim,
        purpose: Purpose,
    ) -> impl Iterator<Item = EntryId> {
        let questions = self.0.get(&asker(who)).map(|questions| questions.of(purpose));
        questions.into_iter().flatten().map(|(_, proposal)| *proposal)
    }

    /// Adds a question that was put at `now`, and forgets those that expired.
    pub(crate) fn add(
        &mut self,
        who: &PrincipalClaim,
        purpose: Purpose,
        question: (Timestamp, EntryId),
        now: Timestamp,
    ) {
        if who.tenant.is_replay() {
            return;
        }
        let questions = self.0.entry(asker(who)).or_default().of_mut(purpose);
        while questions.first().is_some_and(|(expires, _)| *expires <= now) {
            questions.pop_first();
        }
        questions.insert(question);
    }

    /// Removes a question that was answered.
    pub(crate) fn remove(
        &mut self,
        who: &PrincipalClaim,
        purpose: Purpose,
        question: (Timestamp, EntryId),
    ) {
        if let Some(questions) = self.0.get_mut(&asker(who)) {
            questions.of_mut(purpose).remove(&question);
        }
    }
}

impl Questions {
    const fn of(&self, purpose: Purpose) -> &BTreeSet<(Timestamp, EntryId)> {
        match purpose {
            Purpose::Call => &self.calls,
            Purpose::Review | Purpose::Declassify => &self.changes,
        }
    }

    const fn of_mut(&mut self, purpose: Purpose) -> &mut BTreeSet<(Timestamp, EntryId)> {
        match purpose {
            Purpose::Call => &mut self.calls,
            Purpose::Review | Purpose::Declassify => &mut self.changes,
        }
    }
}

fn asker(who: &PrincipalClaim) -> Asker {
    (who.principal, who.tenant.clone())
}
