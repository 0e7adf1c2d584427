//! Sessions over JSON Lines: one request a line, one answer a line, by id (`docs/reference/session.md`).
//!
//! A host program that runs an agent opens a session, says what entered it and on which channel, reads memory in it,
//! and proposes what the model wants to do. It carries out what it gets back and nothing else.
//!
//! `request` parses, `answer` writes, `memory` is what is asked of memory, this drives.

mod answer;
mod memory;
mod request;

use std::collections::HashMap;
use std::sync::Arc;

use answer::{Failure, decided, declared, failed, taint};
use custody_arguments::Intent;
use custody_kernel::label::Channel;
use custody_kernel::principal::Authority;
use custody_log::SessionId;
use custody_runtime::advice::Advisor;
use custody_runtime::ingress::Observation;
use custody_runtime::session::Session;
use custody_runtime::session::search::VectorModel;
use custody_runtime::tools::{Decision, Extracted, Gate, INTENT_MS, Output};
use custody_runtime::{Store, StoreError};
use request::{Close, Decide, Intend, Observe, Open, Propose, Proposed, Request, ResultOf, Tools};
use serde_json::{Map, Value, json};

pub(crate) use memory::{FOUND_BY_DEFAULT, MemoryOperation};
pub(crate) use request::WriteLine;

/// The longest line that is read, in bytes.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// The connection of one host program: its sessions, all under its credential.
#[derive(Debug)]
pub struct HostConnection {
    store: Store,
    authority: Authority,
    gate: Gate,
    advisor: Option<Arc<dyn Advisor>>,
    vectors: Option<Arc<dyn VectorModel>>,
    sessions: HashMap<SessionId, Session>,
}

impl HostConnection {
    /// A connection whose sessions run for whoever `authority` proves.
    pub fn new(store: Store, authority: Authority, gate: Gate) -> Self {
        let (advisor, vectors, sessions) = (None, None, HashMap::new());
        Self { store, authority, gate, advisor, vectors, sessions }
    }

    /// The same, in whose sessions `advisor` looks at what enters.
    #[must_use]
    pub fn with_advisor(self, advisor: Arc<dyn Advisor>) -> Self {
        Self { advisor: Some(advisor), ..self }
    }

    /// The same, in whose sessions memory is searched by meaning, with the vectors of `model`.
    #[must_use]
    pub fn with_vectors(self, model: Arc<dyn VectorModel>) -> Self {
        Self { vectors: Some(model), ..self }
    }

    /// Answers one line. The answer is one line of JSON without its end; whatever goes wrong is an answer too.
    pub fn answer(&mut self, line: &str) -> String {
        let (id, outcome) = match request::parse(line) {
            Ok((id, request)) => (id, self.perform(request)),
            Err((id, error)) => (id, Err(Failure::Request(error))),
        };
        let mut answer = outcome.unwrap_or_else(|failure| failed(&failure));
        answer.insert("id".into(), id);
        Value::Object(answer).to_string()
    }

    /// The answer to a line that is longer than [`MAX_LINE_BYTES`].
    pub fn too_long() -> String {
        let mut answer = failed(&Failure::Request(request::RequestError::TooLong));
        answer.insert("id".into(), Value::Null);
        Value::Object(answer).to_string()
    }

    /// A session that was opened on this connection.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id)
    }

    /// Closes every session of this conversation: its host has ended (G23). One that was closed from outside is closed.
    ///
    /// # Errors
    /// [`StoreError`] when one of them could not be closed; the others are closed all the same.
    pub fn close_all(&mut self) -> Result<(), StoreError> {
        let sessions = std::mem::take(&mut self.sessions);
        let closed = sessions.into_values().map(|session| match session.close() {
            Ok(_) | Err(StoreError::Ask(_)) => Ok(()),
            Err(error) => Err(error),
        });
        closed.fold(Ok(()), Result::and)
    }

    /// The store that is spoken to.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    fn perform(&mut self, request: Request) -> Result<Map<String, Value>, Failure> {
        match request {
            Request::Open(open) => self.open(open),
            Request::Tools(tools) => self.tools(&tools),
            Request::Observe(observe) => self.observe(observe),
            Request::Propose(propose) => self.propose(propose),
            Request::Decide(decide) => self.decide(&decide),
            Request::Intend(intend) => self.intend(intend),
            Request::Result(result) => self.result(result),
            Request::Memory(request) => memory::perform(self.known(request.session)?, request),
            Request::Close(close) => self.close(&close),
        }
    }

    fn open(&mut self, open: Open) -> Result<Map<String, Value>, Failure> {
        let Open { alias, host, .. } = open;
        let mut session = Session::open_on(&self.store, &self.authority, alias, host)?;
        if let Some(advisor) = &self.advisor {
            session = session.with_advisor(Arc::clone(advisor));
        }
        if let Some(model) = &self.vectors {
            session = session.with_vectors(Arc::clone(model));
        }
        let id = session.id();
        self.sessions.insert(id, session);
        Ok(object(json!({ "session": id })))
    }

    fn tools(&self, tools: &Tools) -> Result<Map<String, Value>, Failure> {
        let session = self.known(tools.session)?;
        let announced = self.gate.announce(tools.server.as_deref(), &tools.tools);
        // What a model reads of a tool that nobody pinned is its server's word, and could shape what it declares.
        let unpinned = announced.iter().zip(&tools.tools).filter(|(told, _)| !told.pinned);
        let read: Vec<String> = unpinned.map(|(_, tool)| tool.to_string()).collect();
        let recorded = if read.is_empty() {
            Vec::new()
        } else {
            let read = Observation::message(Channel::Tool, read.join("\n"));
            let origin = tools.server.as_deref().unwrap_or("announced tools");
            session.observe(read.from(origin)).wait()?
        };
        let mut answer = entries(&recorded);
        let announced = announced.into_iter().map(|tool| {
            let effect = tool.effect.as_str();
            json!({
                "name": tool.name, "effect": effect, "known": tool.known, "changed": tool.changed,
                "pinned": tool.pinned,
            })
        });
        answer.insert("tools".into(), announced.collect());
        Ok(answer)
    }

    fn observe(&self, observe: Observe) -> Result<Map<String, Value>, Failure> {
        let session = self.known(observe.session)?;
        let Observe { kind, channel, text, origin, lowered, .. } = observe;
        let (parents, advice) = (Vec::new(), None);
        let observation = Observation { kind, channel, text, origin, parents, lowered, advice };
        Ok(entries(&session.observe(observation).wait()?))
    }

    fn propose(&self, propose: Propose) -> Result<Map<String, Value>, Failure> {
        let session = self.known(propose.session)?;
        match propose.what {
            Proposed::Call { tool, arguments } => {
                let decision = session.propose(&self.gate, &tool, arguments)?;
                self.decision_answer(decision)
            }
            Proposed::Write(write) => memory::write(session, write),
        }
    }

    fn decide(&self, decide: &Decide) -> Result<Map<String, Value>, Failure> {
        let session = self.known(decide.session)?;
        self.decision_answer(session.decide(&self.gate, decide.proposal)?)
    }

    fn intend(&self, intend: Intend) -> Result<Map<String, Value>, Failure> {
        let session = self.known(intend.session)?;
        let covered = self.known(intend.covered.unwrap_or(intend.session))?;
        let for_ms = intend.expires_in.map_or(INTENT_MS, |seconds| seconds.saturating_mul(1_000));
        let asked = session.intend(&self.gate, covered, intend.intents, for_ms);
        let mut answer = declared(&asked.wait()?);
        let open = covered.intents()?.into_iter().map(|(intent, terms)| {
            let Intent { tool, sinks, .. } = intent;
            json!({ "tool": tool, "sinks": sinks, "left": terms.count, "expires": terms.expires.0 })
        });
        answer.insert("intents".into(), open.collect());
        Ok(answer)
    }

    fn result(&self, result: ResultOf) -> Result<Map<String, Value>, Failure> {
        let session = self.known(result.session)?;
        let output = Output { text: result.text, structured: result.structured };
        if let Some(fields) = result.extract {
            let taken = session.extract(&self.gate, result.proposal, output, fields).wait()?;
            return Ok(extracted(&taken));
        }
        Ok(entries(&session.result(&self.gate, result.proposal, output).wait()?))
    }

    fn close(&mut self, close: &Close) -> Result<Map<String, Value>, Failure> {
        let session = self.sessions.remove(&close.session);
        session.ok_or(Failure::UnknownSession(close.session))?.close()?;
        Ok(Map::new())
    }

    fn known(&self, id: SessionId) -> Result<&Session, Failure> {
        self.sessions.get(&id).ok_or(Failure::UnknownSession(id))
    }

    /// A decision with its three reasons. The auditor's comes from the record.
    fn decision_answer(&self, decision: Decision) -> Result<Map<String, Value>, Failure> {
        let id = match &decision {
            Decision::Allow(granted) => granted.decision(),
            Decision::Ask(waiting) => waiting.proposal,
            Decision::Deny { decision, .. } => *decision,
        };
        let record = self.store.record(self.store.position(id)?)?;
        Ok(decided(decision, &record, |seq| self.store.record(seq).map(|record| record.id))?)
    }
}

fn extracted(fields: &[Extracted]) -> Map<String, Value> {
    let fields = fields.iter().map(|field| {
        let refusal = field.receipt.answer.refusal().map(ToString::to_string);
        let mut answer = object(json!({ "entry": field.receipt.id, "value": field.value }));
        answer.extend(refusal.map(|why| ("refused".to_owned(), why.into())));
        (field.field.clone(), Value::Object(answer))
    });
    object(json!({ "extracted": fields.collect::<Map<String, Value>>() }))
}

fn entries(receipts: &[custody_runtime::store::Receipt]) -> Map<String, Value> {
    let entries =
        receipts.iter().map(|receipt| json!({ "entry": receipt.id, "taint": taint(receipt) }));
    object(json!({ "entries": entries.collect::<Vec<_>>() }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}
