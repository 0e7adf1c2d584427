//! A store under attack: what is done to it, and what each step has shown.

use custody_kernel::label::Channel;
use custody_kernel::memory::refusal::{Refusal, TaintSource};
use custody_kernel::namespace::Scope;
use custody_kernel::principal::{Authority, Role};
use custody_log::{Digest, EntryId, Seq};
use custody_runtime::ingress::Observation;
use custody_runtime::session::Write;
use custody_runtime::store::Receipt;
use custody_runtime::{Session, StoreError};

use super::scratch::{ScratchStore, decided_by, key};
use super::{AttackError, AttackStep};

/// A store under attack, and what was seen so far.
pub(super) struct Scene {
    pub(super) scratch: ScratchStore,
    pub(super) evidence: Vec<AttackStep>,
}

impl Scene {
    /// A user, as the agents that work for them prove it.
    pub(super) fn user(&self, name: &str) -> Result<Authority, AttackError> {
        Ok(self.scratch.human(name, Role::User)?.by_token)
    }

    pub(super) fn session(&self, who: &Authority) -> Result<Session, AttackError> {
        self.scratch.open(who)
    }

    pub(super) fn user_message(
        &self,
        session: &Session,
        text: &str,
    ) -> Result<Receipt, AttackError> {
        self.scratch.message(session, Channel::User, text)
    }

    pub(super) fn message(
        &self,
        session: &Session,
        channel: Channel,
        text: &str,
    ) -> Result<Receipt, AttackError> {
        self.scratch.message(session, channel, text)
    }

    pub(super) fn reads_page(&self, session: &Session, text: &str) -> Result<Seq, AttackError> {
        let page = Observation::message(Channel::Web, text).from("https://page.example");
        Ok(self.scratch.observe(session, page)?.seq)
    }

    pub(super) fn completion(&self, session: &Session, text: &str) -> Result<Receipt, AttackError> {
        self.scratch.observe(session, Observation::completion(text))
    }

    pub(super) fn write(
        &self,
        session: &Session,
        name: &str,
        text: &str,
    ) -> Result<Receipt, AttackError> {
        self.scratch.write(session, Scope::Shared, name, text)
    }

    /// A write that waits for a reviewer if a rule refuses it.
    pub(super) fn queue(
        &self,
        session: &Session,
        name: &str,
        text: &str,
    ) -> Result<Receipt, AttackError> {
        let write = Write { queue: true, ..Write::new(Scope::Shared, key(name), text) };
        Ok(session.write(write).wait()?)
    }

    pub(super) fn parents(&self, entry: Seq) -> Result<Vec<Seq>, AttackError> {
        Ok(self.scratch.store.record(entry)?.parents)
    }

    /// The commitment of what a reviewer of `proposal` is shown.
    pub(super) fn shown(&self, proposal: EntryId) -> Result<Option<Digest>, AttackError> {
        Ok(self.scratch.store.state(|state| {
            let value = state.pending_by_id(proposal).and_then(|pending| pending.value);
            value.map(|value| value.commitment)
        })?)
    }

    pub(super) fn check(&mut self, what: &str, decided_by: &str, expected: &str) {
        let [what, decided_by, expected] = [what, decided_by, expected].map(str::to_owned);
        self.evidence.push(AttackStep { what, decided_by, expected });
    }

    pub(super) fn step(&mut self, what: &str, receipt: &Receipt, expected: &str) {
        self.check(what, &decided_by(receipt), expected);
    }

    /// A request about something that is not there for whoever asks.
    pub(super) fn expect_nothing_there(&mut self, what: &str, answer: Result<Receipt, StoreError>) {
        let decided_by = match answer {
            Err(StoreError::Ask(_)) => "nothing there".to_owned(),
            Err(error) => error.to_string(),
            Ok(receipt) => decided_by(&receipt),
        };
        self.check(what, &decided_by, "nothing there");
    }

    /// Rule 4 refused because of exactly that entry.
    pub(super) fn expect_cause(&mut self, what: &str, receipt: &Receipt, culprit: Seq) {
        let named = match receipt.answer.refusal() {
            Some(Refusal::Tainted { source: TaintSource::Entry(seq), .. }) => {
                format!("entry {seq}")
            }
            _ => "nothing".to_owned(),
        };
        self.check(what, &named, &format!("entry {culprit}"));
    }

    pub(super) fn expect_unchanged(
        &mut self,
        what: &str,
        name: &str,
        before: &Option<Vec<u8>>,
    ) -> Result<(), AttackError> {
        let same = self.scratch.shared(name)? == *before;
        self.check(what, if same { "unchanged" } else { "changed" }, "unchanged");
        Ok(())
    }
}
