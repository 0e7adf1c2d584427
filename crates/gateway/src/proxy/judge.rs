//! One call of a model, on its way through a proxy or from a hook: decided, or only observed.

use custody_arguments::Arguments;
use custody_kernel::memory::refusal::Refusal;
use custody_log::EntryId;
use custody_runtime::advice::{Advice, DryRun, Version1, WouldDecide};
use custody_runtime::ingress::Observation;
use custody_runtime::tools::{Decision, Gate, GateError, Preview};

use super::conversation::{Conversation, Decided, DecidedCall};
use super::settings::{ConnectionSettings, GuardMode};
use crate::wire::WireCall;

/// What was decided of a call, with what to say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It goes on.
    Allowed,
    /// It waits for a human.
    Asked {
        /// Under which name.
        proposal: EntryId,
        /// Why it does not run without.
        because: Option<Refusal>,
    },
    /// It does not go on.
    Denied {
        /// The decision, if there is one.
        decision: Option<EntryId>,
        /// Why.
        because: String,
    },
}

/// Decides a call, or says what would have been decided. A call that goes on is noted in the conversation.
///
/// # Errors
/// When the store cannot be read or written. The call may not go on then.
pub(super) fn judge(
    conversation: &Conversation,
    settings: &ConnectionSettings,
    gate: &Gate,
    call: &WireCall,
) -> Result<Judgement, GateError> {
    let tool = tool_name(&call.name);
    let Ok(arguments) = Arguments::parse(&call.arguments) else {
        return unreadable(conversation, settings, &tool, call);
    };
    if let Some(judged) = judged_before(conversation, gate, &tool, &arguments, call)? {
        return Ok(judged);
    }
    match settings.mode {
        GuardMode::Observe => observe(conversation, gate, tool, arguments, call),
        GuardMode::Guard => decide(conversation, settings, gate, tool, arguments, call),
    }
}

/// The name of a tool in manifests and records: that of an MCP server's tool has the server's before it (G16).
pub(super) fn tool_name(wire: &str) -> String {
    let parts = wire.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
    parts.map_or_else(|| wire.to_owned(), |(server, tool)| format!("{server}/{tool}"))
}

/// The same call, if it was judged before: by the proxy, when a hook asks, or the other way round.
fn judged_before(
    conversation: &Conversation,
    gate: &Gate,
    tool: &str,
    arguments: &Arguments,
    call: &WireCall,
) -> Result<Option<Judgement>, GateError> {
    let before = conversation.known().calls.get(&call.id).cloned();
    let Some(before) = before.filter(|_| !call.id.is_empty()) else { return Ok(None) };
    let is_same = before.tool == tool
        && before.arguments.as_ref().is_some_and(|it| it.canonical() == arguments.canonical());
    if !is_same || before.is_answered {
        let because = "another call has the same id".to_owned();
        return Ok(Some(Judgement::Denied { decision: None, because }));
    }
    Ok(Some(match before.decided {
        Decided::Allowed(_) | Decided::Observed => Judgement::Allowed,
        Decided::Asked(proposal) => {
            settle(conversation, call, conversation.session.decide(gate, proposal)?, before)
        }
    }))
}

fn decide(
    conversation: &Conversation,
    settings: &ConnectionSettings,
    gate: &Gate,
    tool: String,
    arguments: Arguments,
    call: &WireCall,
) -> Result<Judgement, GateError> {
    let decision = match conversation.session.propose(gate, &tool, arguments.clone()) {
        Err(error @ (GateError::ToolName(_) | GateError::Lookalike { .. })) => {
            let because = error.to_string();
            return Ok(Judgement::Denied { decision: None, because });
        }
        decision => decision?,
    };
    let arguments = Some(arguments);
    let undecided = DecidedCall { tool, arguments, decided: Decided::Observed, is_answered: false };
    let judged = settle(conversation, call, decision, undecided);
    if let (Judgement::Asked { .. }, false) = (&judged, settings.host_asks) {
        // It does not go on, so nothing is known of it under this id.
        conversation.known().calls.remove(&call.id);
    }
    Ok(judged)
}

/// Notes a call that may go on.
fn settle(
    conversation: &Conversation,
    call: &WireCall,
    decision: Decision,
    noted: DecidedCall,
) -> Judgement {
    let (decided, judgement) = match decision {
        Decision::Allow(granted) => (Decided::Allowed(granted.decision()), Judgement::Allowed),
        Decision::Ask(waiting) => {
            let (proposal, because) = (waiting.proposal, waiting.because);
            (Decided::Asked(proposal), Judgement::Asked { proposal, because })
        }
        Decision::Deny { decision, because } => {
            let (decision, because) = (Some(decision), because.to_string());
            return Judgement::Denied { decision, because };
        }
    };
    conversation.known().calls.insert(call.id.clone(), DecidedCall { decided, ..noted });
    judgement
}

fn observe(
    conversation: &Conversation,
    gate: &Gate,
    tool: String,
    arguments: Arguments,
    call: &WireCall,
) -> Result<Judgement, GateError> {
    let (would, why) = match conversation.session.preview(gate, &tool, arguments.clone()) {
        Ok(Preview::Allow) => (WouldDecide::Allow, None),
        Ok(Preview::Ask(because)) => (WouldDecide::Ask, because.map(|because| because.to_string())),
        Ok(Preview::Deny(because)) => (WouldDecide::Deny, Some(because.to_string())),
        Err(error @ (GateError::ToolName(_) | GateError::Lookalike { .. })) => {
            (WouldDecide::Deny, Some(error.to_string()))
        }
        Err(error) => return Err(error),
    };
    note_observed(conversation, tool, Some(arguments), call, would, why)
}

/// A call whose arguments no two readers read alike.
fn unreadable(
    conversation: &Conversation,
    settings: &ConnectionSettings,
    tool: &str,
    call: &WireCall,
) -> Result<Judgement, GateError> {
    let because = "its arguments are not one JSON object that every reader reads alike".to_owned();
    match settings.mode {
        GuardMode::Guard => Ok(Judgement::Denied { decision: None, because }),
        GuardMode::Observe => {
            let tool = tool.to_owned();
            note_observed(conversation, tool, None, call, WouldDecide::Deny, Some(because))
        }
    }
}

fn note_observed(
    conversation: &Conversation,
    tool: String,
    arguments: Option<Arguments>,
    call: &WireCall,
    would: WouldDecide,
    why: Option<String>,
) -> Result<Judgement, GateError> {
    let advice = Some(Advice::DryRun(DryRun { v: Version1, would, why }));
    let made = Observation::tool_call(tool.clone(), call.arguments.clone());
    conversation.session.observe(Observation { advice, ..made }).wait()?;
    let noted = DecidedCall { tool, arguments, decided: Decided::Observed, is_answered: false };
    conversation.known().calls.insert(call.id.clone(), noted);
    Ok(Judgement::Allowed)
}
