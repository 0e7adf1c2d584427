//! An action in plain words, asked of the store.

use std::sync::atomic::Ordering;

use custody_cli::attacks::scratch::key;
use custody_kernel::label;
use custody_kernel::memory::item::Mode;
use custody_kernel::principal::Authority;
use custody_kernel::record::{AdminRequest, DependencyRef, ObservationKind, SessionRequest, Value};
use custody_kernel::state::AskError;
use custody_log::{Digest, EntryId, SessionId};
use custody_runtime::StoreError;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::{Observation, observe};
use custody_runtime::store::{Content, Receipt};

use super::Episode;
use crate::memory::action::{Act, Action, ActionChannel, Judge, PlainAnswer, Text};
use crate::memory::drive::RulesModel;

impl<R: RulesModel> Episode<'_, '_, R> {
    /// Acts in the store, notes the entry that the answer became, and says the answer in plain words.
    pub(super) fn act(&mut self, action: &Action) -> Result<PlainAnswer, StoreError> {
        let session = action.session;
        let by = self.cast.sessions[session];
        let asked = match &action.act {
            Act::Internal { channel, parents } => self.observe(session, *channel, parents),
            Act::Read { place, key: name } => self
                .ask(by, SessionRequest::Read { scope: self.cast.scope(*place), key: key(name) }),
            Act::Write { place, key: name, text, depends_on, missing, queue } => {
                let (value, content) = self.value(text)?;
                let depends_on = self.named(depends_on, *missing);
                let (scope, key, queue) = (self.cast.scope(*place), key(name), *queue);
                let request = SessionRequest::Write { scope, key, value, depends_on, queue };
                self.step.ask(by, request, content.as_ref(), Vec::new())
            }
            Act::Delete { place, key: name } => self
                .ask(by, SessionRequest::Delete { scope: self.cast.scope(*place), key: key(name) }),
            Act::Promote { from, key: name } => self.ask(
                by,
                SessionRequest::Promote { from: self.cast.sessions[*from], key: key(name) },
            ),
            Act::Approve { judge, proposal, saw_it } => {
                let proposed = &self.entries[*proposal];
                let shown =
                    if *saw_it { proposed.proposed } else { Some(Digest::of(b"something else")) };
                let request = AdminRequest::Approve { proposal: proposed.id, shown };
                self.administer(*judge, request)
            }
            Act::Deny { judge, proposal } => {
                let request = AdminRequest::Deny { proposal: self.entries[*proposal].id };
                self.administer(*judge, request)
            }
            Act::SetMode { judge, place, key: name, mode } => {
                let tenant = self.cast.tenant_of(session).clone();
                let (scope, key) = (self.cast.scope(*place), key(name));
                let request = AdminRequest::SetMode { tenant, scope, key, mode: mode_of(mode) };
                self.administer(*judge, request)
            }
            Act::SetClock { ms } => {
                self.set_clock(*ms);
                return Ok(PlainAnswer::NothingThere);
            }
        };
        let needs_an_item = matches!(action.act, Act::Delete { .. } | Act::Promote { .. });
        match asked {
            Err(StoreError::Ask(AskError::NoSuchItem { .. })) if needs_an_item => {
                Ok(PlainAnswer::NothingThere)
            }
            receipt => Ok(self.record(session, &receipt?)),
        }
    }

    fn ask(&mut self, by: SessionId, request: SessionRequest) -> Result<Receipt, StoreError> {
        self.step.ask(by, request, None, Vec::new())
    }

    fn administer(&mut self, judge: Judge, request: AdminRequest) -> Result<Receipt, StoreError> {
        let authority: Authority = self.cast.judge(judge);
        self.step.administer(authority, request, None, Vec::new())
    }

    fn set_clock(&self, ms: u64) {
        if let Clock::Manual(now) = &self.clock {
            now.store(ms, Ordering::Relaxed);
        }
    }

    /// The entries a write says that it depends on, and one that does not exist.
    fn named(&self, entries: &[usize], missing: bool) -> Vec<DependencyRef> {
        let named = entries.iter().map(|entry| DependencyRef::Entry(self.entries[*entry].seq));
        let missing = missing.then(|| DependencyRef::Missing(EntryId::from_random([0xEE; 16])));
        named.chain(missing).collect()
    }

    fn observe(
        &mut self,
        session: usize,
        channel: ActionChannel,
        parents: &[usize],
    ) -> Result<Receipt, StoreError> {
        let (kind, channel) = match channel {
            ActionChannel::System => (ObservationKind::Message, label::Channel::System),
            ActionChannel::User => (ObservationKind::Message, label::Channel::User),
            ActionChannel::Web => (ObservationKind::Message, label::Channel::Web),
            ActionChannel::Skill => (ObservationKind::Message, label::Channel::Skill),
            ActionChannel::PeerAgent => (ObservationKind::Message, label::Channel::PeerAgent),
            ActionChannel::Tool => (ObservationKind::ToolOutput, label::Channel::Tool),
            ActionChannel::Retrieval => (ObservationKind::Retrieval, label::Channel::Retrieval),
            ActionChannel::File => (ObservationKind::FileChange, label::Channel::File),
            ActionChannel::Completion => (ObservationKind::Completion, label::Channel::Model),
            ActionChannel::ToolCall => (ObservationKind::ToolCall, label::Channel::Model),
        };
        let parents = parents.iter().map(|entry| self.entries[*entry].seq).collect();
        let text = format!("heard {}", self.entries.len());
        let observation = Observation { kind, parents, ..Observation::message(channel, text) };
        let mut parts = observe(self.step, self.cast.sessions[session], &observation)?;
        parts.pop().ok_or(StoreError::HalfWay)
    }

    fn value(&mut self, text: &Text) -> Result<(Value, Option<Content>), StoreError> {
        if let Text::Of { entry, .. } = text
            && let Some(content) = self.entries[*entry].content
        {
            return Ok((Value::Of(content), None));
        }
        let (Text::New(text) | Text::Of { text, .. }) = text;
        let content = Content::new(text.as_str())?;
        self.texts.insert(content.commitment(), text.clone());
        Ok((Value::New(content.commitment()), Some(content)))
    }
}

fn mode_of(name: &str) -> Mode {
    match name {
        "immutable" => Mode::Immutable,
        "reviewed" => Mode::Reviewed,
        _ => Mode::Open,
    }
}
