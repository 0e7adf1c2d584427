//! Running a tool: the floor, then the policy; the stricter of both wins.
//!
//! A call that is asked about waits for a human (see [`review`](super::review)); one that was approved runs once.

use custody_arguments::{ArgumentOrigin, IntentRef, RecordedArgument, ToolEffect};
use custody_log::{Digest, EntryId, Seq, SessionId, Timestamp};

use super::draft::{Draft, InSession, ascending};
use crate::label::{Channel, Label};
use crate::memory::item::Value;
use crate::memory::refusal::Refusal;
use crate::memory::review::Purpose;
use crate::record::{Answer, Record};
use crate::state::{AskError, State};
use crate::tool::asked::{ApprovalStatus, AskedCall};
use crate::tool::call::{Call, Permission};

/// A call that the rules accept. Only [`decide_call`] and [`decide_approved`] make one; committing consumes it and
/// gives an [`AllowedCall`] for it.
#[derive(Debug)]
#[must_use = "a call runs only once its decision is committed"]
pub struct AcceptedCall {
    tool: String,
    arguments: Value,
    /// The approval that it uses up.
    approval: Option<EntryId>,
    policy: Digest,
    /// The intent that covers it.
    intent: Option<IntentRef>,
    /// The fields of its output that its policy lets be taken out.
    extracts: Vec<String>,
}

impl AcceptedCall {
    fn of(call: &Call) -> Self {
        Self {
            tool: call.tool.clone(),
            arguments: call.arguments,
            approval: call.approval,
            policy: call.policy.version,
            intent: call.intent,
            extracts: call.policy.extracts.clone(),
        }
    }
}

/// A call that may run, once: it was accepted, and the record holds that. Only committing the decision makes one, and
/// nothing else runs.
#[derive(Debug)]
#[must_use = "a call that is not run was decided in vain"]
pub struct AllowedCall {
    tool: String,
    arguments: Value,
}

impl AllowedCall {
    /// The tool's name.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Which arguments: those that were judged, and no others.
    pub const fn arguments(&self) -> Value {
        self.arguments
    }
}

/// Why a call does not run now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallRefusal {
    /// A human may approve it.
    Asks(Refusal),
    /// Nobody may.
    Denied(Refusal),
}

/// What is known of the context in which a call is proposed.
#[derive(Debug, Clone, Copy)]
pub struct CallContext {
    /// The join of all that the model has read; nothing if it has read nothing.
    pub label: Option<Label>,
    /// The policy that the store's owner signed.
    pub signed_policy: Option<Digest>,
    /// Whether a declared intent that may still be used covers the call.
    pub is_intended: bool,
}

/// Decides one call. Reads nothing but its arguments.
///
/// In a clean context the policy alone decides. In a tainted one, or one of which nothing is known, a reading
/// call without sinks is allowed, and any other only if the user said every sink and at least one value. A sink that
/// a server made in a trusted field need not be said if another sink was. A call that was declared in a clean context
/// is the user's whatever was read since.
///
/// # Errors
/// Whether a human may approve it, and why it does not run without.
///
/// Source: docs/design.md §5.4.
pub fn decide_call(call: &Call, context: CallContext) -> Result<AcceptedCall, CallRefusal> {
    let floor = below_floor(call, context);
    let by = call.policy.by.clone();
    match (call.policy.answer, floor) {
        (Permission::Deny, _) => Err(CallRefusal::Denied(Refusal::PolicyDenies { by })),
        (Permission::Ask | Permission::Allow, Some(refusal)) => Err(CallRefusal::Asks(refusal)),
        (Permission::Ask, None) => Err(CallRefusal::Asks(Refusal::PolicyAsks { by })),
        (Permission::Allow, None) => Ok(AcceptedCall::of(call)),
    }
}

/// Decides a call that a human approved. What was approved runs, unless the policy denies it by now.
///
/// # Errors
/// Why it does not run.
///
/// Source: docs/design.md §5.6.
pub fn decide_approved(
    call: &Call,
    approved: Result<(), Refusal>,
) -> Result<AcceptedCall, CallRefusal> {
    approved.map_err(CallRefusal::Denied)?;
    match call.policy.answer {
        Permission::Deny => {
            Err(CallRefusal::Denied(Refusal::PolicyDenies { by: call.policy.by.clone() }))
        }
        Permission::Ask | Permission::Allow => Ok(AcceptedCall::of(call)),
    }
}

/// Decides whether `call`, proposed in `session`, may use the approval of `asked`.
///
/// # Errors
/// What differs from what was approved.
///
/// Source: docs/design.md §5.6.
pub fn decide_use(
    asked: &AskedCall,
    session: SessionId,
    call: &Call,
    now: Timestamp,
) -> Result<(), Refusal> {
    let proposal = asked.proposal;
    match asked.standing {
        ApprovalStatus::Approved => {}
        ApprovalStatus::Waiting => return Err(Refusal::NotApproved { proposal }),
        ApprovalStatus::TurnedDown => return Err(Refusal::TurnedDown { proposal }),
        ApprovalStatus::Used => return Err(Refusal::UsedUp { proposal }),
    }
    if now >= asked.expires {
        return Err(Refusal::Expired { proposal });
    }
    // The very content that was shown: equal bytes that arrived otherwise are another proposal.
    let is_same = session == asked.session
        && call.tool == asked.tool
        && call.manifest == asked.manifest
        && call.arguments == Value::Of(asked.arguments);
    if !is_same {
        return Err(Refusal::OtherContent { proposal });
    }
    if call.policy.version != asked.policy {
        return Err(Refusal::OtherPolicy { proposal });
    }
    Ok(())
}

/// What is missing to the floor, if something is.
fn below_floor(call: &Call, context: CallContext) -> Option<Refusal> {
    let is_clean = context.label.is_some_and(|label| !label.is_tainted());
    let is_waived = call.policy.waives_floor && context.signed_policy == Some(call.policy.version);
    if is_clean || is_waived || context.is_intended {
        return None;
    }
    let sinks: Vec<&RecordedArgument> =
        call.leaves.iter().filter(|argument| argument.sink.is_some()).collect();
    match call.effect {
        ToolEffect::Reads if sinks.is_empty() => return None,
        ToolEffect::Reads | ToolEffect::Writes => {}
    }
    // A name that a server made is for a call that the user asked for. It does not show that they did, so a value
    // that is no sink is not enough beside it.
    let (made, chosen): (Vec<_>, Vec<_>) =
        sinks.into_iter().partition(|argument| argument.origin == ArgumentOrigin::Trusted);
    let is_supported = if made.is_empty() {
        call.leaves.iter().any(is_from_user)
    } else {
        chosen.iter().any(|argument| is_from_user(argument))
    };
    let not_from_user: Vec<&RecordedArgument> =
        chosen.into_iter().filter(|argument| !is_from_user(argument)).collect();
    if not_from_user.is_empty() && is_supported {
        return None;
    }
    let named = if not_from_user.is_empty() { made } else { not_from_user };
    Some(Refusal::Floor {
        arguments: named.iter().map(|argument| argument.path.clone()).collect(),
        entries: sources(named),
    })
}

fn is_from_user(argument: &RecordedArgument) -> bool {
    match argument.origin {
        ArgumentOrigin::User => true,
        ArgumentOrigin::Party { .. }
        | ArgumentOrigin::Trusted
        | ArgumentOrigin::Tool { .. }
        | ArgumentOrigin::Model => false,
    }
}

/// The entries that `arguments` came from, ascending.
fn sources<'a>(arguments: impl IntoIterator<Item = &'a RecordedArgument>) -> Vec<Seq> {
    let mut sources: Vec<Seq> = Vec::new();
    for argument in arguments {
        match &argument.origin {
            ArgumentOrigin::Tool { from } | ArgumentOrigin::Party { from } => sources.extend(from),
            ArgumentOrigin::User | ArgumentOrigin::Trusted | ArgumentOrigin::Model => {}
        }
    }
    ascending(sources)
}

/// What a proposed call comes to.
#[derive(Debug)]
pub(crate) enum DecidedCall {
    /// It may run.
    Accepted(AcceptedCall),
    /// A human is asked.
    Waiting(WaitingCall),
    /// It does not run.
    Refused,
}

/// A call that a human is asked about.
#[derive(Debug)]
pub(crate) struct WaitingCall {
    call: Call,
    expires: Timestamp,
}

/// Decides a call that a session proposes. It depends on the whole context and on the texts its values came from.
pub(crate) fn decide(asked: InSession<'_>, call: &Call) -> Result<Draft<DecidedCall>, AskError> {
    let InSession { state, id, session, at } = asked;
    let context = &session.context;
    let mut parents = sources(&call.leaves);
    parents.extend(asked.arrival(Some(call.arguments))?);
    // Only what the call names has to be its tenant's: a context also holds the loads of its host's adapters, which are
    // the owner's.
    let label = Label::at_ingress(Channel::Model, session.on_behalf_of()).join(context.label());
    let label = asked.join_named(label, &parents)?;
    parents.extend_from_slice(context.parents());
    let parents = ascending(parents);
    let has_read = !context.parents().is_empty();
    let label = if has_read { label } else { label.lowered() };
    let outcome = match call.approval {
        None => {
            let signed_policy = state.policy.map(|policy| policy.version);
            let label = has_read.then(|| context.label());
            let intent = call.intent.filter(|intent| state.may_use_intent(id, *intent, at));
            let is_intended = intent.is_some();
            decide_call(call, CallContext { label, signed_policy, is_intended })
        }
        Some(proposal) => decide_approved(call, check_approved(state, proposal, id, call, at)),
    };
    let (answer, witness) = match outcome {
        Ok(accepted) => (Answer::Done, DecidedCall::Accepted(accepted)),
        Err(CallRefusal::Asks(because)) => ask(asked, call, because),
        Err(CallRefusal::Denied(refusal)) => (Answer::Refused(refusal), DecidedCall::Refused),
    };
    Ok(Draft::new(answer, label, parents).with(witness))
}

fn check_approved(
    state: &State,
    proposal: EntryId,
    session: SessionId,
    call: &Call,
    at: Timestamp,
) -> Result<(), Refusal> {
    let asked = state.asked_call(proposal).ok_or(Refusal::NotPending { proposal })?;
    if state.is_out(asked.entry) {
        return Err(Refusal::InQuarantine { entry: asked.entry });
    }
    decide_use(asked, session, call, at)
}

/// Has a human decide, unless too many calls of whoever asks wait already: a full queue is a denial of service on the
/// reviewer.
fn ask(asked: InSession<'_>, call: &Call, because: Refusal) -> (Answer, DecidedCall) {
    let InSession { state, session, at, .. } = asked;
    let purpose = Purpose::Call;
    if let Some(limit) = state.waiting.limit_reached(&state.limits, &session.who, purpose, at) {
        let refusal = Refusal::TooManyWaiting { purpose, limit };
        return (Answer::Refused(refusal), DecidedCall::Refused);
    }
    let expires = at.plus_ms(state.limits.proposal_ttl_ms);
    let answer = Answer::Pending { purpose, expires, because: Some(because) };
    (answer, DecidedCall::Waiting(WaitingCall { call: call.clone(), expires }))
}

impl DecidedCall {
    /// Enters the call into the context that proposed it, whatever was decided: the model has said it.
    pub(crate) fn apply(
        self,
        state: &mut State,
        id: SessionId,
        record: &Record,
    ) -> Option<AllowedCall> {
        enter(state, id, record);
        match self {
            Self::Accepted(accepted) => {
                let AcceptedCall { tool, arguments, approval, policy, intent, extracts } = accepted;
                intent.into_iter().for_each(|intent| state.use_intent(id, intent));
                remember(state, id, record, approval, policy, &extracts);
                Some(AllowedCall { tool, arguments })
            }
            Self::Waiting(WaitingCall { call, expires }) => {
                wait(state, id, record, &call, expires);
                None
            }
            Self::Refused => None,
        }
    }
}

/// Enters a call of earlier. It does not run again.
pub(crate) fn fold(state: &mut State, id: SessionId, record: &Record, call: &Call) -> Option<()> {
    match record.answer {
        Answer::Done => {
            enter(state, id, record);
            call.intent.into_iter().for_each(|intent| state.use_intent(id, intent));
            remember(state, id, record, call.approval, call.policy.version, &call.policy.extracts);
        }
        Answer::Pending { expires, .. } if !state.knows_proposal(record.id) => {
            enter(state, id, record);
            wait(state, id, record, call, expires);
        }
        Answer::Refused(_) => enter(state, id, record),
        Answer::Pending { .. } | Answer::Value { .. } | Answer::NotFound => return None,
    }
    Some(())
}

fn enter(state: &mut State, id: SessionId, record: &Record) {
    if let Some(session) = state.sessions.get_mut(&id) {
        session.context.read(record.seq, record.label);
    }
}

/// Keeps what an accepted call leaves behind: its approval is used up, and the fields that a signed policy names may be
/// taken out of its output.
fn remember(
    state: &mut State,
    id: SessionId,
    record: &Record,
    approval: Option<EntryId>,
    policy: Digest,
    extracts: &[String],
) {
    let is_signed = state.policy.is_some_and(|signed| signed.version == policy);
    if is_signed
        && !extracts.is_empty()
        && let Some(session) = state.sessions.get_mut(&id)
    {
        session.extractable.insert(record.seq, extracts.to_vec());
    }
    if let Some(proposal) = approval {
        answer(state, proposal, ApprovalStatus::Used);
    }
}

fn wait(state: &mut State, id: SessionId, record: &Record, call: &Call, expires: Timestamp) {
    let Some(requester) = state.session(id).map(|session| session.who.clone()) else { return };
    let asked = AskedCall {
        proposal: record.id,
        entry: record.seq,
        session: id,
        tenant: requester.tenant.clone(),
        tool: call.tool.clone(),
        manifest: call.manifest,
        arguments: call.arguments.content(record.seq),
        policy: call.policy.version,
        requester,
        expires,
        standing: ApprovalStatus::Waiting,
    };
    let question = (expires, record.id);
    state.waiting.add(&asked.requester, Purpose::Call, question, record.at);
    state.asked_calls.insert(record.id, asked);
}

/// Keeps what became of a call that a human was asked about.
pub(super) fn answer(state: &mut State, proposal: EntryId, standing: ApprovalStatus) {
    if let Some(asked) = state.asked_calls.get_mut(&proposal) {
        asked.standing = standing;
        state.waiting.remove(&asked.requester, Purpose::Call, (asked.expires, proposal));
    }
}
