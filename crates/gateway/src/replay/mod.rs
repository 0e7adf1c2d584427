//! Replaying a trace: what the monitor would have decided, had it guarded the agent.
//!
//! A trace is somebody's claim. Roles are taken at their word, `system`, `developer` and `user` as
//! trusted, tool results and unknown roles as untrusted, `assistant` as the join of its context, but
//! only inside a tenant for replays, from which nothing can be promoted.

mod edit;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use custody_kernel::advice::Advice;
use custody_kernel::key::{Key, MemoryKeyError};
use custody_kernel::label::Channel;
use custody_kernel::memory::item::Mode;
use custody_kernel::memory::refusal::Refusal;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::Authority;
use custody_kernel::record::{AdminRequest, Answer, ObservationKind, SessionRequest, Value};
use custody_log::{EntryId, Seq, SessionId};
use custody_runtime::advice::Advisor;
use custody_runtime::anomaly::anomalies;
use custody_runtime::clock::random;
use custody_runtime::ingress::{Observation, observe};
use custody_runtime::store::{Content, Receipt, Transaction};
use custody_runtime::{Store, StoreError};
use serde::Serialize;

use crate::memory_tools::{Edit, MemoryCall, MemoryTools};
use crate::trace::{Conversation, MessageRole, Step, ToolCall};

/// One decision about memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryDecision {
    /// The line of the trace that asked.
    pub line: u64,
    /// The conversation it stood in.
    pub conversation: String,
    /// The tool that was called.
    pub tool: String,
    /// `read`, `write` or `delete`.
    pub action: &'static str,
    /// The item.
    pub key: String,
    /// `accepted`, `pending` or `refused`.
    pub answer: &'static str,
    /// The rule that refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where the taint that decided came in, when it was a line of this trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tainted_by_line: Option<u64>,
    /// What MON's content check noticed. Advice, and no part of the decision.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// The decision id.
    pub id: EntryId,
}

/// What came of one trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Messages read.
    pub messages: u64,
    /// Entries recorded for them.
    pub entries: u64,
    /// Of these, tainted.
    pub tainted_entries: u64,
    /// Conversations.
    pub sessions: u64,
    /// Every decision about memory, in order.
    pub decisions: Vec<MemoryDecision>,
    /// Memory calls that no tool could have carried out, with the reason.
    pub not_understood: Vec<NotUnderstood>,
}

/// A call of a memory tool that says too little.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotUnderstood {
    /// The line.
    pub line: u64,
    /// Why.
    pub why: String,
}

impl Report {
    /// How many decisions had each answer, by action.
    pub fn counts(&self) -> BTreeMap<&'static str, BTreeMap<&'static str, u64>> {
        let mut counts: BTreeMap<_, BTreeMap<_, u64>> = BTreeMap::new();
        for decision in &self.decisions {
            let action = counts.entry(decision.action).or_default();
            *action.entry(decision.answer).or_default() += 1;
        }
        counts
    }

    /// Refused changes and reads of memory.
    pub fn refused(&self) -> u64 {
        self.decisions.iter().filter(|decision| decision.answer == "refused").count() as u64
    }
}

/// Something in a trace that is no trace of anything. It undoes the whole file.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A key outside the grammar.
    #[error("line {line}: `{tool}` names no item")]
    Key {
        /// The line.
        line: u64,
        /// The tool.
        tool: String,
        /// Why it is no key.
        #[source]
        cause: MemoryKeyError,
    },
    /// A key that could be taken for a protected one.
    #[error("line {line}: {refusal}")]
    Confusable {
        /// The line.
        line: u64,
        /// The refusal, with both keys.
        refusal: Refusal,
    },
    /// The tenant is not one for replays.
    #[error("`{0}` is not a tenant for replays; its name must begin with `replay-`")]
    Tenant(Tenant),
}

/// Replays the steps of one trace in `tenant`, all or nothing. What enters is looked at by `advisor`, if there is one.
///
/// # Errors
/// [`StoreError::Rejected`] with a [`ReplayError`] when a line cannot stand; nothing is stored then.
pub fn replay(
    store: &Store,
    tenant: Tenant,
    steps: Vec<Step>,
    tools: MemoryTools,
    advisor: Option<Arc<dyn Advisor>>,
) -> Result<Report, StoreError> {
    let authority = Authority::replayed(tenant.clone())
        .ok_or_else(|| StoreError::Rejected(Box::new(ReplayError::Tenant(tenant.clone()))))?;
    store
        .run(move |step| {
            let mut player = Player::new(step, tenant, authority, tools, advisor);
            player.protect_watched()?;
            for step in &steps {
                player.play(step)?;
            }
            Ok(player.report)
        })
        .wait()
}

struct Player<'a, 'b> {
    step: &'a mut Transaction<'b>,
    tenant: Tenant,
    authority: Authority,
    tools: MemoryTools,
    advisor: Option<Arc<dyn Advisor>>,
    sessions: HashMap<Conversation, SessionId>,
    /// The entry of every call, and the value a memory read found, by message and place in it.
    calls: HashMap<(u64, usize), Called>,
    lines: HashMap<Seq, u64>,
    report: Report,
}

struct Called {
    entry: Seq,
    found: Option<Vec<u8>>,
}

impl<'a, 'b> Player<'a, 'b> {
    fn new(
        step: &'a mut Transaction<'b>,
        tenant: Tenant,
        authority: Authority,
        tools: MemoryTools,
        advisor: Option<Arc<dyn Advisor>>,
    ) -> Self {
        let (sessions, calls, lines) = (HashMap::new(), HashMap::new(), HashMap::new());
        let report = Report::default();
        Self { step, tenant, authority, tools, advisor, sessions, calls, lines, report }
    }

    /// Watched names start immutable.
    fn protect_watched(&mut self) -> Result<(), StoreError> {
        for name in self.tools.watched.clone() {
            let Ok(key) = name.parse() else { continue };
            let (tenant, scope, mode) = (self.tenant.clone(), Scope::Shared, Mode::Immutable);
            let by = self.authority.clone();
            self.step.administer(
                by,
                AdminRequest::SetMode { tenant, scope, key, mode },
                None,
                Vec::new(),
            )?;
        }
        Ok(())
    }

    fn play(&mut self, step: &Step) -> Result<(), StoreError> {
        let session = self.session(&step.conversation)?;
        self.report.messages += 1;
        let message = &step.message;
        let text = message.text.clone();
        match &message.role {
            MessageRole::System | MessageRole::Developer => {
                self.observe(step, session, &Observation::message(Channel::System, text))?;
            }
            MessageRole::User => {
                self.observe(step, session, &Observation::message(Channel::User, text))?;
            }
            MessageRole::Unknown(role) => {
                let foreign = Observation::message(Channel::PeerAgent, text).from(role.clone());
                self.observe(step, session, &foreign)?;
            }
            MessageRole::Tool => self.tool_result(step, session)?,
            MessageRole::Assistant => {
                self.observe(step, session, &Observation::completion(text))?;
                for (place, call) in message.tool_calls.iter().enumerate() {
                    self.call(step, session, place, call)?;
                }
            }
        }
        Ok(())
    }

    fn session(&mut self, conversation: &Conversation) -> Result<SessionId, StoreError> {
        if let Some(session) = self.sessions.get(conversation) {
            return Ok(*session);
        }
        let session = SessionId::from_random(random());
        let alias = Some(name_of(conversation));
        self.step.open_session(self.authority.clone(), session, alias, None)?;
        self.sessions.insert(conversation.clone(), session);
        self.report.sessions += 1;
        Ok(session)
    }

    fn observe(
        &mut self,
        step: &Step,
        session: SessionId,
        observation: &Observation,
    ) -> Result<Option<Seq>, StoreError> {
        let advised =
            self.advisor.as_deref().map(|advisor| observation.clone().advised_by(advisor));
        let receipts = observe(self.step, session, advised.as_ref().unwrap_or(observation))?;
        for receipt in &receipts {
            self.count(step, receipt);
        }
        Ok(receipts.last().map(|receipt| receipt.seq))
    }

    fn count(&mut self, step: &Step, receipt: &Receipt) {
        self.report.entries += 1;
        self.report.tainted_entries += u64::from(receipt.label.is_tainted());
        self.lines.insert(receipt.seq, step.line);
    }

    /// A tool's answer is untrusted, but for a read of memory that answers what the record holds: that
    /// entry stands in the context already, with the label of the version read.
    fn tool_result(&mut self, step: &Step, session: SessionId) -> Result<(), StoreError> {
        let call = step.answers.and_then(|call| self.calls.get(&(call.step, call.call)));
        let text = &step.message.text;
        if call.and_then(|call| call.found.as_deref()) == Some(text.as_bytes()) {
            return Ok(());
        }
        let parents = call.map(|call| call.entry).into_iter().collect();
        let output = Observation {
            kind: ObservationKind::ToolOutput,
            parents,
            origin: step.message.name.clone(),
            ..Observation::message(Channel::Tool, text.clone())
        };
        self.observe(step, session, &output)?;
        Ok(())
    }

    fn call(
        &mut self,
        step: &Step,
        session: SessionId,
        place: usize,
        call: &ToolCall,
    ) -> Result<(), StoreError> {
        let said = Observation::tool_call(call.name.clone(), call.arguments_raw.clone());
        let entry = self.observe(step, session, &said)?.unwrap_or(Seq(0));
        let found = match self.tools.recognise(call) {
            None => None,
            Some(Err(error)) => {
                let why = error.to_string();
                self.report.not_understood.push(NotUnderstood { line: step.line, why });
                None
            }
            Some(Ok(memory)) => self.memory(&Place { step, session, call }, memory)?,
        };
        self.calls.insert((step.number, place), Called { entry, found });
        Ok(())
    }

    fn memory(&mut self, at: &Place<'_>, call: MemoryCall) -> Result<Option<Vec<u8>>, StoreError> {
        match call {
            MemoryCall::Read { key: Some(key) } => {
                let key = at.key(&key)?;
                let scope = self.scope_of(at.session, &key);
                return self.read(at, scope, &key);
            }
            MemoryCall::Read { key: None } => {
                let own = Namespace::session(self.tenant.clone(), at.session);
                let shared = Namespace::shared(self.tenant.clone());
                for namespace in [own, shared] {
                    let items = self.step.state().items_in(&namespace);
                    let held = items.iter().filter(|(_, item)| item.current.is_some());
                    let keys: Vec<Key> = held.map(|(key, _)| (*key).clone()).collect();
                    for key in keys {
                        self.read(at, namespace.scope, &key)?;
                    }
                }
            }
            MemoryCall::Write { key, value, watched } => self.write(at, &key, &value, watched)?,
            MemoryCall::Delete { key, watched } => {
                let key = at.key(&key)?;
                let scope = self.target(at.session, watched);
                self.delete(at, scope, &key)?;
            }
            MemoryCall::Rename { from, to, watched } => {
                let (from, to) = (at.key(&from)?, at.key(&to)?);
                let scope = self.target(at.session, watched);
                let found = self.read(at, scope, &from)?;
                let text = found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                self.write_text(at, scope, &to, text.unwrap_or_default())?;
                self.delete(at, scope, &from)?;
            }
        }
        Ok(None)
    }

    /// Watched files are shared; what else an agent notes is its session's own until somebody promotes
    /// it.
    fn target(&self, session: SessionId, watched: bool) -> Scope {
        if watched { Scope::Shared } else { Scope::Session(session) }
    }

    fn scope_of(&self, session: SessionId, key: &Key) -> Scope {
        let own = Namespace::session(self.tenant.clone(), session);
        let visible = self.step.state().visible_item(&own, key);
        visible.map_or(Scope::Session(session), |(namespace, _)| namespace.scope)
    }

    fn read(
        &mut self,
        at: &Place<'_>,
        scope: Scope,
        key: &Key,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let request = SessionRequest::Read { scope, key: key.clone() };
        let receipt = self.step.ask(at.session, request, None, Vec::new())?;
        let found = match &receipt.answer {
            Answer::Value { content, .. } => Some(self.step.content(*content)?),
            Answer::NotFound | Answer::Done | Answer::Pending { .. } | Answer::Refused(_) => None,
        };
        self.decided(at, "read", key, &receipt, Vec::new())?;
        Ok(found)
    }

    fn write(
        &mut self,
        at: &Place<'_>,
        key: &str,
        edit: &Edit,
        watched: bool,
    ) -> Result<(), StoreError> {
        let key = at.key(key)?;
        let scope = self.target(at.session, watched);
        let namespace = Namespace { tenant: self.tenant.clone(), scope };
        let held = self.step.state().item(&namespace, &key).is_some_and(|i| i.current.is_some());
        // An edit is made out of the present value, so making it reads that value.
        let present = if edit::reads(edit) && held { self.read(at, scope, &key)? } else { None };
        let present = present.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = edit::applied(present.as_deref(), edit).unwrap_or_else(|| edit::added(edit));
        self.write_text(at, scope, &key, text)
    }

    fn write_text(
        &mut self,
        at: &Place<'_>,
        scope: Scope,
        key: &Key,
        text: String,
    ) -> Result<(), StoreError> {
        let advice = anomalies(&text);
        let content = Content::new(text)?;
        let value = Value::New(content.commitment());
        let (depends_on, queue) = (Vec::new(), false);
        let request = SessionRequest::Write { scope, key: key.clone(), value, depends_on, queue };
        let receipt = self.step.ask(at.session, request, Some(&content), advice.clone())?;
        self.decided(at, "write", key, &receipt, advice)
    }

    fn delete(&mut self, at: &Place<'_>, scope: Scope, key: &Key) -> Result<(), StoreError> {
        let request = SessionRequest::Delete { scope, key: key.clone() };
        match self.step.ask(at.session, request, None, Vec::new()) {
            Ok(receipt) => self.decided(at, "delete", key, &receipt, Vec::new()),
            // Deleting what is not there changes nothing.
            Err(StoreError::Ask(error)) => {
                let why = error.to_string();
                self.report.not_understood.push(NotUnderstood { line: at.step.line, why });
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn decided(
        &mut self,
        at: &Place<'_>,
        action: &'static str,
        key: &Key,
        receipt: &Receipt,
        advice: Vec<Advice>,
    ) -> Result<(), StoreError> {
        self.count(at.step, receipt);
        let refusal = receipt.answer.refusal();
        if let Some(refusal @ Refusal::Confusable { .. }) = refusal {
            let (line, refusal) = (at.step.line, refusal.clone());
            return Err(StoreError::Rejected(Box::new(ReplayError::Confusable { line, refusal })));
        }
        let culprit = refusal.and_then(Refusal::tainted_entry);
        self.report.decisions.push(MemoryDecision {
            line: at.step.line,
            conversation: name_of(&at.step.conversation),
            tool: at.call.name.clone(),
            action,
            key: key.to_string(),
            answer: receipt.answer.word(),
            rule: refusal.map(|refusal| refusal.rule().to_string()),
            reason: refusal.map(ToString::to_string),
            tainted_by_line: culprit.and_then(|entry| self.lines.get(&entry).copied()),
            advice,
            id: receipt.id,
        });
        Ok(())
    }
}

/// Where in a trace a memory call stands.
struct Place<'a> {
    step: &'a Step,
    session: SessionId,
    call: &'a ToolCall,
}

impl Place<'_> {
    fn key(&self, text: &str) -> Result<Key, StoreError> {
        text.parse().map_err(|cause| {
            let (line, tool) = (self.step.line, crate::excerpt::excerpt(&self.call.name));
            StoreError::Rejected(Box::new(ReplayError::Key { line, tool, cause }))
        })
    }
}

fn name_of(conversation: &Conversation) -> String {
    match conversation {
        Conversation::Default => "main".to_owned(),
        Conversation::Named(name) => name.clone(),
        Conversation::Fresh(number) => format!("#{number}"),
    }
}
