//! The decide-and-commit step of tool calls: trace, ask the policy, decide, commit. Part of the trusted base.
//!
//! Everything happens in one turn of the writer, so that nothing enters a session between what a call is judged
//! by and its decision.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use custody_arguments::{ArgumentOrigin, Arguments, RecordedArgument};
use custody_kernel::label::Channel;
use custody_kernel::memory::refusal::Refusal;
use custody_kernel::record::{Answer, Author, Request, SessionRequest, Value};
use custody_kernel::state::{AskError, SubmittedRequest};
use custody_kernel::tool::asked::{ApprovalStatus, AskedCall};
use custody_kernel::tool::basis::{Basis, BasisKind};
use custody_kernel::tool::call::{Call, ProposedCall};
use custody_log::{EntryId, Seq, SessionId, Timestamp};
use custody_policy::DescribedTool;
use custody_store::{Content, Receipt, StoreError, Ticket, Transaction, WorkBatch};

use super::judge::JudgedBy;
use super::{Decision, Gate, GateError, Granted, Output, Preview, Waiting};
use crate::alike;
use crate::ingress::{Observation, observe_parts};
use crate::session::Session;
use crate::traced::Traced;

/// How often a call is judged again when its session read more meanwhile.
const MAX_TRIES: usize = 4;

impl Session {
    /// Proposes a call of `tool`, and waits until its decision is durable. What runs is what comes back, never what was
    /// proposed. A name that is none, or that could be taken for a described tool's, is an error, and nothing is
    /// recorded.
    ///
    /// The same call is asked about once: while it waits, the same proposal is named again, in other sessions of the
    /// same principal too; when a human answered, that answer holds in the session that asked.
    ///
    /// # Errors
    /// [`GateError`] when the name is none or the store cannot be read or written. Nothing may run then.
    pub fn propose(
        &self,
        gate: &Gate,
        tool: &str,
        arguments: Arguments,
    ) -> Result<Decision, GateError> {
        Ok(self.propose_amid(Vec::new(), gate, tool, arguments, None)?.0)
    }

    /// The same, and in the same turn of the writer what came `before` the call is recorded, and what comes `after` it.
    /// Nothing is decided if the first cannot be recorded. Returns whether the second was: it is not where the call was
    /// not decided in the first turn.
    ///
    /// # Errors
    /// As [`Session::propose`].
    pub fn propose_amid(
        &self,
        before: Vec<Observation>,
        gate: &Gate,
        tool: &str,
        arguments: Arguments,
        after: Option<Observation>,
    ) -> Result<(Decision, bool), GateError> {
        let proposing = self.proposing(gate, tool, arguments);
        self.when_indexed(before, after, move |step| proposing.decide(step))
    }

    /// What would become of a call of `tool`. It is not proposed by this: nobody is asked, and nothing may run by it.
    ///
    /// # Errors
    /// As [`Session::propose`].
    pub fn preview(
        &self,
        gate: &Gate,
        tool: &str,
        arguments: Arguments,
    ) -> Result<Preview, GateError> {
        let proposing = self.proposing(gate, tool, arguments);
        Ok(self.when_indexed(Vec::new(), None, move |step| proposing.preview(step))?.0)
    }

    /// What has become of a proposal. One that was approved runs now, and only now. Where this session was told to wait
    /// for a question of another one, it waits as long as that does, and then asks itself.
    ///
    /// # Errors
    /// As [`Session::propose`], and when this session has no such proposal.
    pub fn decide(&self, gate: &Gate, proposal: EntryId) -> Result<Decision, GateError> {
        let (id, gate, traced) = (self.id(), gate.clone(), self.traced());
        let decided = self.when_indexed(Vec::new(), None, move |step| {
            let own = step.state().session(id).map(|session| &session.who);
            let asked = step.state().asked_call(proposal);
            let asked = asked.filter(|asked| {
                let is_told = asked.requester.principal.is_some() && own == Some(&asked.requester);
                asked.session == id || is_told
            });
            let asked =
                asked.ok_or_else(|| StoreError::UnknownEntry(proposal.to_string()))?.clone();
            let is_waiting =
                asked.standing == ApprovalStatus::Waiting && step.now() < asked.expires;
            if asked.session != id && is_waiting {
                return Ok(Decision::Ask(waiting(step, &asked)?));
            }
            let bytes = step.content(asked.arguments)?;
            let arguments = Arguments::parse(&String::from_utf8_lossy(&bytes))
                .map_err(|_| StoreError::NoContent(asked.entry))?;
            let tool = asked.tool.clone();
            let (gate, traced) = (gate.clone(), Arc::clone(&traced));
            let proposing = Proposing { id, gate, traced, tool, arguments };
            if asked.session == id {
                proposing.resume(step, &asked)
            } else {
                proposing.decide(step)
            }
        });
        Ok(decided?.0)
    }

    /// Records what a call brought back. One result for each call that was allowed.
    pub fn result(
        &self,
        gate: &Gate,
        decision: EntryId,
        output: impl Into<Output>,
    ) -> Ticket<Vec<Receipt>, GateError> {
        let (id, gate, traced) = (self.id(), gate.clone(), self.traced());
        let Output { text, structured } = output.into();
        let advice = self.advice_on_output(&text, structured.as_ref());
        // The call is known only in the writer's turn, and is no concern of an advisor's nor of a comparison.
        let output = Observation { advice, ..Observation::message(Channel::Tool, text) };
        let arrival = self.prepare(output);
        self.run(move |step| {
            let (seq, call) = allowed(step, id, decision)?;
            let mut known = traced.known();
            if known.answered.contains(&decision) {
                return Err(AskError::UnknownEntry(seq).into());
            }
            let arrival = arrival?.answering(seq, &call.tool);
            let text = arrival.text().to_owned();
            let parts = observe_parts(step, arrival)?;
            for (range, receipt) in &parts {
                known.note_text(receipt, &text, range);
            }
            known.answered.insert(decision);
            if let Some(structured) = structured {
                let texts: Vec<_> = parts.iter().map(|(_, receipt)| receipt.seq).collect();
                let tool = gate.tool(&call.tool);
                // Of a tool that changed since no field is believed, nor of one that nobody described.
                if tool.digest() == call.manifest && tool.manifest.reads_output() {
                    let of = BasisKind::Output { call: seq, texts: texts.clone() };
                    record_output(step, id, of, &structured)?;
                    known.note(move |noted| {
                        noted.add_output(&structured, &tool.manifest, &call, &texts);
                    });
                }
            }
            Ok(parts.into_iter().map(|(_, receipt)| receipt).collect())
        })
    }

    /// Records `before` and then decides, when all texts of the session are indexed. That happens outside the writer's
    /// turn, unless more arrives again and again meanwhile. Records `after` too if the first turn decided.
    fn when_indexed<T: Send + 'static>(
        &self,
        before: Vec<Observation>,
        after: Option<Observation>,
        decide: impl Fn(&mut Transaction<'_>) -> Result<T, GateError> + Send + Sync + 'static,
    ) -> Result<(T, bool), GateError> {
        let decide = Arc::new(decide);
        let has_after = after.is_some();
        let mut before = self.prepare_all(before.into_iter().chain(after).collect());
        let mut after = if has_after { before.pop() } else { None };
        for _ in 1..MAX_TRIES {
            let (decide, traced) = (Arc::clone(&decide), self.traced());
            traced.index();
            let mut batch = WorkBatch::default();
            let (count, recorded) = (before.len(), Arc::<AtomicUsize>::default());
            let arrivals = before.drain(..);
            let recording: Vec<_> =
                arrivals.map(|arrival| self.record_in(&mut batch, arrival, &recorded)).collect();
            let decided = Arc::<AtomicBool>::default();
            let is_decided = Arc::clone(&decided);
            let turn: Ticket<Option<T>, GateError> = batch.add(move |step| {
                // Whoever waits for what is not recorded is told why.
                if recorded.load(Ordering::Relaxed) != count {
                    return Err(StoreError::HalfWay.into());
                }
                if !traced.is_indexed() {
                    return Ok(None);
                }
                let decision = decide(step)?;
                decided.store(true, Ordering::Relaxed);
                Ok(Some(decision))
            });
            let last = after.take().map(|arrival| self.record_if(&mut batch, arrival, is_decided));
            self.run_batch(batch);
            for recorded in recording {
                recorded.wait()?;
            }
            let decision = turn.wait();
            let last = last.map_or(Ok(false), Ticket::wait)?;
            if let Some(decision) = decision? {
                return Ok((decision, last));
            }
        }
        let traced = self.traced();
        let turn = self.run(move |step| {
            traced.index();
            decide(step)
        });
        Ok((turn.wait()?, false))
    }

    fn proposing(&self, gate: &Gate, tool: &str, arguments: Arguments) -> Proposing {
        let (gate, traced) = (gate.clone(), self.traced());
        Proposing { id: self.id(), gate, traced, tool: tool.to_owned(), arguments }
    }
}

/// A call of `session` that was allowed, and where it stands.
pub(super) fn allowed(
    step: &Transaction<'_>,
    session: SessionId,
    decision: EntryId,
) -> Result<(Seq, Box<Call>), StoreError> {
    let seq = step.position(decision)?;
    let record = step.record(seq)?;
    let is_allowed = record.by == Author::Session(session) && record.answer == Answer::Done;
    if let Request::Call(call) = record.request
        && is_allowed
    {
        return Ok((seq, call));
    }
    Err(AskError::UnknownEntry(seq).into())
}

/// Records what a call brought back as a value.
pub(super) fn record_output(
    step: &mut Transaction<'_>,
    session: SessionId,
    of: BasisKind,
    structured: &serde_json::Value,
) -> Result<(), StoreError> {
    record_basis(step, session, of, structured.to_string())
}

fn record_basis(
    step: &mut Transaction<'_>,
    session: SessionId,
    of: BasisKind,
    text: String,
) -> Result<(), StoreError> {
    let content = Content::new(text)?;
    let text = Value::New(content.commitment());
    let request = SessionRequest::RecordBasis(Box::new(Basis { of, text }));
    step.ask(session, request, Some(&content), Vec::new())?;
    Ok(())
}

/// A question that was put already.
fn waiting(step: &Transaction<'_>, asked: &AskedCall) -> Result<Waiting, StoreError> {
    let because = step.record(asked.entry)?.answer.refusal().cloned();
    Ok(Waiting { proposal: asked.proposal, expires: asked.expires, because, again: true })
}

/// Whether the user has said a value of `call` that they had not said when it was turned down. No text of anybody
/// else's makes a question anew.
fn is_said_since(
    step: &Transaction<'_>,
    asked: &AskedCall,
    call: &ProposedCall,
) -> Result<bool, StoreError> {
    if asked.standing != ApprovalStatus::TurnedDown {
        return Ok(false);
    }
    let Request::Call(before) = step.record(asked.entry)?.request else { return Ok(false) };
    let said = said_by_user(&before.leaves);
    Ok(said_by_user(call.traced.recorded()).iter().any(|path| !said.contains(path)))
}

/// The paths of the values that the user said, whatever else is known of them.
fn said_by_user(leaves: &[RecordedArgument]) -> Vec<&str> {
    let said = leaves
        .iter()
        .filter(|leaf| matches!(leaf.origin, ArgumentOrigin::User | ArgumentOrigin::Party { .. }));
    said.map(|leaf| leaf.path.as_str()).collect()
}

/// A call that was judged.
struct Judged {
    call: ProposedCall,
    /// The tool as it was judged by. The gate may have another by now.
    tool: DescribedTool,
    at: Timestamp,
}

/// A call on its way to a decision.
struct Proposing {
    id: SessionId,
    gate: Gate,
    traced: Arc<Traced>,
    tool: String,
    arguments: Arguments,
}

impl Proposing {
    fn decide(&self, step: &mut Transaction<'_>) -> Result<Decision, GateError> {
        self.gate.check_name(&self.tool)?;
        let content = Content::new(self.arguments.canonical())?;
        let judged = self.judge(step, Value::New(content.commitment()), None)?;
        let call = &judged.call;
        let (manifest, policy) = (call.manifest, call.policy.version);
        // A question that was put already is not put again. What needs none does not care.
        let request = SubmittedRequest::Call(self.id, Box::new(call.clone()));
        if alike::is_question(&step.would_answer(request)?) {
            if let Some(asked) = self.asked_before(step)
                && asked.still_stands(manifest, policy)
                && !is_said_since(step, &asked, call)?
            {
                return self.resume(step, &asked);
            }
            let arguments = self.arguments.canonical().as_bytes();
            let elsewhere = alike::call_elsewhere(step, self.id, arguments, |asked| {
                asked.tool == self.tool && asked.still_stands(manifest, policy)
            })?;
            if let Some(asked) = elsewhere {
                return Ok(Decision::Ask(waiting(step, &asked)?));
            }
        }
        self.commit(step, judged, Some(&content))
    }

    fn preview(&self, step: &mut Transaction<'_>) -> Result<Preview, GateError> {
        self.gate.check_name(&self.tool)?;
        let content = Content::new(self.arguments.canonical())?;
        let Judged { call, .. } = self.judge(step, Value::New(content.commitment()), None)?;
        let request = SubmittedRequest::Call(self.id, Box::new(call));
        Ok(match step.would_answer(request)? {
            Answer::Done => Preview::Allow,
            Answer::Pending { because, .. } => Preview::Ask(because),
            Answer::Refused(because) => Preview::Deny(because),
            // No answer to a call.
            Answer::Value { .. } | Answer::NotFound => {
                Preview::Deny(Refusal::PolicyDenies { by: Vec::new() })
            }
        })
    }

    /// The same call, if a human was asked about it and the answer is still worth something.
    fn asked_before(&self, step: &Transaction<'_>) -> Option<AskedCall> {
        let key = (self.tool.clone(), self.arguments.canonical().to_owned());
        let proposal = self.traced.known().asked.get(&key).copied()?;
        let asked = step.state().asked_call(proposal)?;
        let is_open = matches!(asked.standing, ApprovalStatus::Waiting | ApprovalStatus::Approved);
        (!is_open || step.now() < asked.expires).then(|| asked.clone())
    }

    /// Goes on with a call that a human was asked about.
    fn resume(&self, step: &mut Transaction<'_>, asked: &AskedCall) -> Result<Decision, GateError> {
        if asked.standing == ApprovalStatus::Waiting && step.now() < asked.expires {
            return Ok(Decision::Ask(waiting(step, asked)?));
        }
        let judged = self.judge(step, Value::Of(asked.arguments), Some(asked.proposal))?;
        self.commit(step, judged, None)
    }

    /// Judges the call. What it is judged by is recorded before, where the store does not hold it already.
    fn judge(
        &self,
        step: &mut Transaction<'_>,
        arguments: Value,
        approval: Option<EntryId>,
    ) -> Result<Judged, GateError> {
        let tool = self.gate.tool(&self.tool);
        let manifest = tool.digest();
        let policies = self.gate.policies(step)?;
        self.record_once(step, BasisKind::Tool { digest: manifest }, || tool.text())?;
        if let Some(local) = policies.local() {
            let basis = BasisKind::LocalPolicy { digest: local.version() };
            self.record_once(step, basis, || local.text().to_owned())?;
        }
        let at = step.now();
        let texts = self.traced.texts();
        let known = self.traced.known();
        let by = JudgedBy {
            session: self.id,
            tool: &tool,
            manifest,
            texts: &texts,
            intents: &known.intents,
            policies: policies.in_force(),
            at,
        };
        let call = by.judge(step.state(), &self.arguments, arguments, approval)?;
        drop((known, texts));
        Ok(Judged { call, tool, at })
    }

    fn record_once(
        &self,
        step: &mut Transaction<'_>,
        of: BasisKind,
        text: impl FnOnce() -> String,
    ) -> Result<(), StoreError> {
        let is_recorded = of.digest().is_some_and(|digest| step.state().basis(digest).is_some());
        if is_recorded { Ok(()) } else { record_basis(step, self.id, of, text()) }
    }

    fn commit(
        &self,
        step: &mut Transaction<'_>,
        Judged { call, tool, at }: Judged,
        content: Option<&Content>,
    ) -> Result<Decision, GateError> {
        let (receipt, allowed) = step.ask_call(self.id, call, at, content)?;
        let Receipt { id, seq, answer, .. } = receipt;
        Ok(match (answer, allowed) {
            (Answer::Done, Some(allowed)) => {
                let made = self.arguments.clone();
                self.traced.known().note(move |texts| texts.add_call(seq, &tool.manifest, &made));
                let arguments = self.arguments.canonical().to_owned();
                Decision::Allow(Granted { allowed, arguments, decision: id })
            }
            (Answer::Pending { expires, because, .. }, _) => {
                let key = (self.tool.clone(), self.arguments.canonical().to_owned());
                self.traced.known().asked.insert(key, id);
                Decision::Ask(Waiting { proposal: id, expires, because, again: false })
            }
            (Answer::Refused(because), _) => Decision::Deny { decision: id, because },
            // A call is answered in one of these ways, and only a witness makes one run.
            (Answer::Done | Answer::Value { .. } | Answer::NotFound, _) => {
                Decision::Deny { decision: id, because: Refusal::PolicyDenies { by: Vec::new() } }
            }
        })
    }
}
