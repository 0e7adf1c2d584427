//! One call of a model, on its way through a proxy or from a hook: decided, or only observed.

use custody_arguments::Arguments;
use custody_kernel::memory::refusal::Refusal;
use custody_log::EntryId;
use custody_runtime::advice::{Advice, DryRun, Version1, WouldDecide};
use custody_runtime::ingress::Observation;
use custody_runtime::tools::{Decision, Gate, GateError, Preview};

use super::conversation::{Conversation, Decided, DecidedCall, Surface};
use super::settings::{ConnectionSettings, GuardMode};
use crate::wire::WireCall;

/// What was decided of a call, with what to say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judgement {
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
        /// The reason.
        because: String,
    },
}

/// Decides a call that comes by `surface`, or says what would have been decided. A call that goes on is noted in the
/// conversation.
///
/// # Errors
/// When the store cannot be read or written. The call may not go on then.
pub(crate) fn judge(
    conversation: &Conversation,
    settings: &ConnectionSettings,
    gate: &Gate,
    surface: Surface,
    call: &WireCall,
) -> Result<Judgement, GateError> {
    Ok(judge_amid(Beside::default(), conversation, settings, gate, surface, call)?.0)
}

/// What stands beside a call in an answer.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// What the model said before it.
    pub(super) said: Option<Observation>,
    /// What the answer ends with, if nothing else comes between.
    pub(super) last: Option<Observation>,
}

/// The same of a call in an answer. What was said before it is recorded first; where the call is decided, in the same
/// turn of the writer, and what the answer ends with too. Returns whether that was recorded.
///
/// # Errors
/// As [`judge`].
pub(super) fn judge_amid(
    beside: Beside,
    conversation: &Conversation,
    settings: &ConnectionSettings,
    gate: &Gate,
    surface: Surface,
    call: &WireCall,
) -> Result<(Judgement, bool), GateError> {
    let tool = conversation.judged_tool(&call.name, &call.arguments)?;
    let judging = Judging { conversation, settings, gate, surface, call, tool };
    let arguments = Arguments::parse(&call.arguments).ok();
    let before = arguments.map(|arguments| (judging.before(&arguments), arguments));
    if let (GuardMode::Guard, Some((Before::Unknown, arguments))) = (settings.mode, &before) {
        return judging.decide(beside, arguments.clone());
    }
    if let Some(said) = beside.said {
        conversation.session.observe(said).wait()?;
    }
    let Some((before, arguments)) = before else { return Ok((judging.unreadable()?, false)) };
    let judgement = match (settings.mode, before) {
        (GuardMode::Observe, Before::Joined(_)) => Ok(Judgement::Allowed),
        (GuardMode::Observe, Before::Unknown | Before::Other) => judging.observe(arguments),
        (GuardMode::Guard, Before::Other) => {
            let because = "another call has the same id".to_owned();
            Ok(Judgement::Denied { decision: None, because })
        }
        (GuardMode::Guard, Before::Joined(before)) => judging.join(before, arguments),
        (GuardMode::Guard, Before::Unknown) => judging.decide_alone(arguments),
    };
    Ok((judgement?, false))
}

/// The name of a tool in manifests and records: that of an MCP server's tool has the server's before it (G16).
pub(super) fn tool_name(wire: &str) -> String {
    let parts = wire.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
    parts.map_or_else(|| wire.to_owned(), |(server, tool)| format!("{server}/{tool}"))
}

/// What is known of the id of a call.
enum Before {
    /// Nothing, or that an earlier call of that id has its result: some servers number the calls of each answer
    /// from 0.
    Unknown,
    /// The same call came by another surface, and is joined with it.
    Joined(DecidedCall),
    /// It is another call's.
    Other,
}

/// A call on its way to a decision.
struct Judging<'a> {
    conversation: &'a Conversation,
    settings: &'a ConnectionSettings,
    gate: &'a Gate,
    surface: Surface,
    call: &'a WireCall,
    tool: String,
}

impl Judging<'_> {
    fn before(&self, arguments: &Arguments) -> Before {
        // An earlier call of that place is one that the client left out, or whose answer it never got.
        if self.surface == Surface::Proxy && self.call.has_id_made_here() {
            return Before::Unknown;
        }
        let mut known = self.conversation.known();
        let before = known.calls.get_mut(&self.call.id).filter(|_| !self.call.id.is_empty());
        let Some(before) = before.filter(|before| !before.is_answered) else {
            return Before::Unknown;
        };
        if !before.is_of(&self.tool, Some(arguments)) || !before.join(self.surface) {
            return Before::Other;
        }
        Before::Joined(before.clone())
    }

    fn join(&self, before: DecidedCall, arguments: Arguments) -> Result<Judgement, GateError> {
        match before.decided {
            Decided::Allowed(_) => Ok(Judgement::Allowed),
            Decided::Asked(proposal) => {
                let decision = self.conversation.session.decide(self.gate, proposal)?;
                Ok(self.settle(decision, before))
            }
            // The connection guards since.
            Decided::Observed => self.decide_alone(arguments),
        }
    }

    fn decide_alone(&self, arguments: Arguments) -> Result<Judgement, GateError> {
        Ok(self.decide(Beside::default(), arguments)?.0)
    }

    fn decide(&self, beside: Beside, arguments: Arguments) -> Result<(Judgement, bool), GateError> {
        let Beside { said, last } = beside;
        let (session, said) = (&self.conversation.session, said.into_iter().collect());
        let made = arguments.clone();
        let (decision, is_over) =
            match session.propose_amid(said, self.gate, &self.tool, made, last) {
                Err(error @ (GateError::ToolName(_) | GateError::Lookalike { .. })) => {
                    let because = error.to_string();
                    return Ok((Judgement::Denied { decision: None, because }, false));
                }
                decision => decision?,
            };
        let judged = self.settle(decision, self.noted(Some(arguments)));
        if let (Judgement::Asked { .. }, false) = (&judged, self.settings.host_asks) {
            // It does not go on, so nothing is known of it under this id.
            self.conversation.known().calls.remove(&self.call.id);
        }
        Ok((judged, is_over))
    }

    /// Notes a call that may go on.
    fn settle(&self, decision: Decision, noted: DecidedCall) -> Judgement {
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
        self.note(DecidedCall { decided, ..noted });
        judgement
    }

    fn observe(&self, arguments: Arguments) -> Result<Judgement, GateError> {
        let previewed = self.conversation.session.preview(self.gate, &self.tool, arguments.clone());
        let (would, why) = match previewed {
            Ok(Preview::Allow) => (WouldDecide::Allow, None),
            Ok(Preview::Ask(because)) => {
                (WouldDecide::Ask, because.map(|because| because.to_string()))
            }
            Ok(Preview::Deny(because)) => (WouldDecide::Deny, Some(because.to_string())),
            Err(error @ (GateError::ToolName(_) | GateError::Lookalike { .. })) => {
                (WouldDecide::Deny, Some(error.to_string()))
            }
            Err(error) => return Err(error),
        };
        self.let_pass(Some(arguments), would, why)
    }

    /// A call whose arguments no two readers read alike.
    fn unreadable(&self) -> Result<Judgement, GateError> {
        let because = "its arguments are not one JSON object that every reader reads alike";
        match self.settings.mode {
            GuardMode::Guard => {
                Ok(Judgement::Denied { decision: None, because: because.to_owned() })
            }
            GuardMode::Observe => self.let_pass(None, WouldDecide::Deny, Some(because.to_owned())),
        }
    }

    /// Records a call that goes on because the connection observes, with what would have become of it.
    fn let_pass(
        &self,
        arguments: Option<Arguments>,
        would: WouldDecide,
        why: Option<String>,
    ) -> Result<Judgement, GateError> {
        let advice = Some(Advice::DryRun(DryRun { v: Version1, would, why }));
        let made = Observation::tool_call(self.tool.clone(), self.call.arguments.clone());
        self.conversation.session.observe(Observation { advice, ..made }).wait()?;
        self.note(self.noted(arguments));
        Ok(Judgement::Allowed)
    }

    fn noted(&self, arguments: Option<Arguments>) -> DecidedCall {
        DecidedCall::new(self.surface, self.tool.clone(), arguments, Decided::Observed)
    }

    fn note(&self, call: DecidedCall) {
        self.conversation.known().calls.insert(self.call.id.clone(), call);
    }
}
