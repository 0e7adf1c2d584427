//! Declaring intents: only a context that nothing untrusted has entered can say what calls are meant (G12).

use custody_arguments::IntentRef;
use custody_log::{SessionId, Timestamp};

use super::draft::{Draft, InSession, ascending};
use crate::label::{Channel, Label};
use crate::memory::refusal::{Refusal, TaintSource};
use crate::record::{Answer, Record};
use crate::state::{AskError, State};
use crate::tool::intent::{IntentDeclaration, IntentTerms, MAX_INTENT_MS};

/// Intents that were declared in a clean context.
#[derive(Debug)]
pub(crate) struct DeclaredIntents(IntentDeclaration);

/// Decides whether a session may declare intents, for itself or for another session of its principal.
///
/// # Errors
/// The first entry of its context that is not clean.
pub fn decide_declaration(context: Option<Label>, tainted_by: TaintSource) -> Result<(), Refusal> {
    match context {
        Some(label) if label.is_good() => Ok(()),
        Some(_) | None => Err(Refusal::IntentInTaintedContext { source: tainted_by }),
    }
}

pub(crate) fn decide(
    asked: InSession<'_>,
    declaration: &IntentDeclaration,
) -> Result<Draft<DeclaredIntents>, AskError> {
    let InSession { state, id, session, at } = asked;
    let target = declaration.for_session.unwrap_or(id);
    let covered = state.session(target).ok_or(AskError::UnknownSession(target))?;
    // Somebody without a credential is nobody, and shares no session with anybody.
    if target != id && (covered.who != session.who || session.who.principal.is_none()) {
        return Err(AskError::UnknownSession(target));
    }
    let latest = at.plus_ms(MAX_INTENT_MS);
    if declaration.terms.iter().any(|terms| terms.expires > latest) {
        return Err(AskError::IntentTooLong);
    }
    let context = &session.context;
    let arrival = asked.arrival(Some(declaration.text))?;
    let parents = ascending([context.parents(), arrival.as_slice()].concat());
    let label = Label::at_ingress(Channel::Model, session.on_behalf_of()).join(context.label());
    let has_read = !context.parents().is_empty();
    let source = context.tainted_by().map_or(TaintSource::NoOrigin, TaintSource::Entry);
    let draft = Draft::new(Answer::Done, label, parents);
    Ok(match decide_declaration(has_read.then_some(label), source) {
        Ok(()) => draft.with(DeclaredIntents(declaration.clone())),
        Err(refusal) => Draft { answer: Answer::Refused(refusal), ..draft },
    })
}

impl DeclaredIntents {
    pub(crate) fn apply(self, state: &mut State, id: SessionId, record: &Record) {
        declare(state, id, record, &self.0);
    }
}

/// Declares what was declared earlier.
pub(crate) fn fold(
    state: &mut State,
    id: SessionId,
    record: &Record,
    declaration: &IntentDeclaration,
) -> Option<()> {
    super::draft::done_or_refused(record, || declare(state, id, record, declaration))
}

fn declare(state: &mut State, id: SessionId, record: &Record, declaration: &IntentDeclaration) {
    if let Some(session) = state.sessions.get_mut(&id) {
        session.context.read(record.seq, record.label);
    }
    let target = declaration.for_session.unwrap_or(id);
    if let Some(session) = state.sessions.get_mut(&target) {
        let named = (0..).map(|index| IntentRef { declared: record.seq, index });
        session.intents.extend(named.zip(declaration.terms.iter().copied()));
    }
}

impl State {
    /// Whether a call of `session` at `at` may use an intent: it was declared for that session, is neither used up nor
    /// expired, and no incident took it out.
    pub fn may_use_intent(&self, session: SessionId, named: IntentRef, at: Timestamp) -> bool {
        let terms = self.session(session).and_then(|session| session.intents.get(&named));
        let is_open =
            terms.is_some_and(|IntentTerms { count, expires }| *count > 0 && at < *expires);
        is_open && !self.is_out(named.declared)
    }

    /// The intents that calls of `session` may use at `at`, with what is left of each.
    pub fn open_intents(
        &self,
        session: SessionId,
        at: Timestamp,
    ) -> impl Iterator<Item = (IntentRef, IntentTerms)> {
        let all = self.session(session).into_iter().flat_map(|session| &session.intents);
        all.map(|(named, terms)| (*named, *terms))
            .filter(move |(named, _)| self.may_use_intent(session, *named, at))
    }

    /// One call less may use an intent.
    pub(super) fn use_intent(&mut self, session: SessionId, named: IntentRef) {
        let session = self.sessions.get_mut(&session);
        if let Some(terms) = session.and_then(|session| session.intents.get_mut(&named)) {
            terms.count = terms.count.saturating_sub(1);
        }
    }
}
