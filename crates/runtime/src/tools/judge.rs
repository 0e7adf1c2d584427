//! Judging a call: tracing its arguments and asking the policies. The gate does it when a call is proposed, and whoever
//! verifies a store does it again. Part of the trusted base.

use custody_arguments::{Arguments, DeclaredIntents, trace};
use custody_kernel::label::Taint;
use custody_kernel::record::Value;
use custody_kernel::state::{AskError, SessionState, State};
use custody_kernel::tool::call::ProposedCall;
use custody_log::{Digest, EntryId, SessionId, Timestamp};
use custody_policy::{Caller, Described, DescribedTool, InForce, Question};

use crate::session_texts::SessionTexts;

/// A call with everything that it is judged by, besides the state of the store.
#[derive(Debug, Clone, Copy)]
pub struct JudgedBy<'a> {
    /// The session that proposes it.
    pub session: SessionId,
    /// The tool.
    pub tool: &'a DescribedTool,
    /// The digest of its text.
    pub manifest: Digest,
    /// The texts of the session.
    pub texts: &'a SessionTexts,
    /// The intents that were declared for the session.
    pub intents: &'a DeclaredIntents,
    /// The policies in force.
    pub policies: InForce<'a>,
    /// When the call is decided.
    pub at: Timestamp,
}

impl JudgedBy<'_> {
    /// The call of the tool with `arguments`, whose content is `value`, as it is put to the monitor. It has the same
    /// result for the same record.
    ///
    /// # Errors
    /// [`AskError::UnknownSession`] when the session is not open in `state`.
    pub fn judge(
        &self,
        state: &State,
        arguments: &Arguments,
        value: Value,
        approval: Option<EntryId>,
    ) -> Result<ProposedCall, AskError> {
        let Self { session, tool, manifest, texts, intents, policies, at } = *self;
        let open = state.session(session).ok_or(AskError::UnknownSession(session))?;
        let traced = trace(&tool.manifest, arguments, texts.index());
        let described = tool.as_described();
        let leaves = traced.recorded();
        let intent = intents.matching(&tool.name, &tool.manifest, arguments, leaves, |named| {
            state.may_use_intent(session, named, at)
        });
        let question = Question {
            is_intended: intent.is_some(),
            ..question(state, open, described, arguments, leaves)
        };
        Ok(ProposedCall {
            tool: tool.name.clone(),
            effect: tool.manifest.effect,
            known: tool.known,
            manifest,
            arguments: value,
            policy: policies.answer(tool, &question),
            local_policy: policies.local.map(custody_policy::Policy::version),
            traced,
            intent,
            approval,
        })
    }
}

/// What a policy is asked of a call in `session` that no intent covers.
pub(super) fn question<'a>(
    state: &'a State,
    session: &'a SessionState,
    tool: Described<'a>,
    arguments: &'a Arguments,
    leaves: &'a [custody_arguments::RecordedArgument],
) -> Question<'a> {
    let who = &session.who;
    let known = who.principal.and_then(|id| state.principal_by_id(id));
    let caller = Caller {
        name: known.map_or("", |principal| &principal.name),
        role: who.role,
        trust: session.on_behalf_of(),
        tenant: &who.tenant,
    };
    let context = &session.context;
    // Nothing is known of what nobody read.
    let is_clean = !context.parents().is_empty() && !context.label().is_tainted();
    let taint = if is_clean { Taint::Clean } else { Taint::Tainted };
    let channels = context.channels();
    Question { caller, tool, arguments, leaves, taint, channels, is_intended: false }
}
