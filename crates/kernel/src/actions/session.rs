//! Opening and closing sessions.

use custody_log::{Digest, SessionId, Timestamp};

use super::adapter::follow_host;
use super::draft::{Draft, InSession, done_or_refused};
use crate::adapter::Name;
use crate::memory::refusal::Refusal;
use crate::namespace::Namespace;
use crate::principal::{Authority, PrincipalClaim};
use crate::record::{Answer, Record};
use crate::state::{AskError, SessionState, State};

/// A session that may be opened under a credential that was shown.
#[derive(Debug)]
pub(crate) struct OpenedSession {
    id: SessionId,
    session: SessionState,
}

/// An open session that ends.
#[derive(Debug)]
pub(crate) struct ClosedSession(SessionId);

pub(crate) fn decide_open(
    state: &State,
    authority: &Authority,
    id: SessionId,
    alias: Option<&str>,
    host: Option<&Name>,
    key: Option<Digest>,
) -> Result<Draft<OpenedSession>, AskError> {
    if key.is_none() {
        return Err(AskError::NoSessionKey(id));
    }
    // Whoever opened a closed session again would see its items, under any credential.
    if !is_new(state, id) {
        return Err(AskError::DuplicateSession(id));
    }
    let session = opened(authority.who(), alias, host, key);
    Ok(Draft::administrative(Ok(OpenedSession { id, session })))
}

pub(crate) fn decide_close(asked: InSession<'_>) -> Draft<ClosedSession> {
    Draft::administrative(Ok(ClosedSession(asked.id)))
}

/// Closes a session from outside, since its process may have ended without: whoever it runs for may, and the owner. One
/// that runs for nobody is the owner's to close.
pub(crate) fn decide_end(
    state: &State,
    authority: &Authority,
    id: SessionId,
) -> Result<Draft<ClosedSession>, AskError> {
    let session = state.session(id).ok_or(AskError::UnknownSession(id))?;
    let (who, holder) = (authority.who(), &session.who);
    let is_holder = who.principal.is_some() && who.principal == holder.principal;
    let may_close = authority.is_owner() || (is_holder && who.tenant == holder.tenant);
    let outcome = if may_close { Ok(ClosedSession(id)) } else { Err(Refusal::NeedsOwner) };
    Ok(Draft::administrative(outcome))
}

impl OpenedSession {
    pub(crate) fn apply(self, state: &mut State, record: &Record) {
        open(state, self.id, self.session, record.at);
    }
}

impl ClosedSession {
    pub(crate) fn apply(self, state: &mut State) {
        close(state, self.0);
    }
}

/// Opens a session that was opened earlier.
pub(crate) fn fold_open(
    state: &mut State,
    record: &Record,
    who: &PrincipalClaim,
    id: SessionId,
    alias: Option<&str>,
    host: Option<&Name>,
    key: Option<Digest>,
) -> Option<()> {
    let is_opened = record.answer == Answer::Done && is_new(state, id);
    is_opened.then(|| open(state, id, opened(who, alias, host, key), record.at))
}

/// Closes a session that was closed earlier.
pub(crate) fn fold_close(state: &mut State, record: &Record, id: SessionId) -> Option<()> {
    (record.answer == Answer::Done).then(|| close(state, id))
}

/// Closes a session that was closed from outside earlier.
pub(crate) fn fold_end(state: &mut State, record: &Record, id: SessionId) -> Option<()> {
    state.session(id)?;
    done_or_refused(record, || close(state, id))
}

fn is_new(state: &State, id: SessionId) -> bool {
    !state.sessions.contains_key(&id) && !state.closed.contains(&id)
}

fn opened(
    who: &PrincipalClaim,
    alias: Option<&str>,
    host: Option<&Name>,
    key: Option<Digest>,
) -> SessionState {
    SessionState::opened(who.clone(), alias.map(str::to_owned), host.cloned(), key)
}

fn open(state: &mut State, id: SessionId, session: SessionState, at: Timestamp) {
    state.sessions.insert(id, SessionState { opened_at: at, active_at: at, ..session });
    follow_host(state, id);
}

fn close(state: &mut State, id: SessionId) {
    let Some(session) = state.sessions.remove(&id) else { return };
    let own = Namespace::session(session.who.tenant, id);
    state.recent.remove(&(session.who.principal, own));
    state.closed.insert(id);
}
