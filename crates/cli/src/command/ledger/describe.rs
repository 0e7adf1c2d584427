//! A record in words: who asked, for what, in which namespace.

use std::collections::HashMap;

use custody_kernel::adapter::{Adapt, AdapterChange};
use custody_kernel::key::Key;
use custody_kernel::namespace::Scope;
use custody_kernel::principal::{Credential, PrincipalClaim};
use custody_kernel::record::{
    AdminRequest, Author, ObservationKind, Record, Request, SessionRequest,
};
use custody_kernel::tool::basis::BasisKind;
use custody_log::{Digest, PrincipalId, SessionId};
use custody_runtime::store::{content_of, is_kept};
use custody_runtime::{Store, StoreError};

use super::part::Part;
use crate::output::{count, excerpt};

/// How many records are read at once when the log is searched.
pub(super) const CHUNK: u64 = 512;

/// The names behind the ids in records. Sessions that were closed and principals that were revoked are
/// searched for in the log, from its end backwards and no further than needed.
pub(crate) struct Names<'a> {
    store: &'a Store,
    sessions: HashMap<SessionId, PrincipalClaim>,
    principals: HashMap<PrincipalId, String>,
    searched_from: u64,
}

impl<'a> Names<'a> {
    pub(crate) fn new(store: &'a Store) -> Result<Self, StoreError> {
        let (principals, sessions, searched_from) = store.state(|state| {
            let principals = state.principals().map(|known| (known.id, known.name.clone()));
            let sessions = state.sessions().map(|(id, session)| (id, session.who.clone()));
            (principals.collect(), sessions.collect(), state.len())
        })?;
        Ok(Self { store, sessions, principals, searched_from })
    }

    /// Who asked: a name, or what they are when nothing was proven.
    pub(crate) fn asker(&mut self, by: &Author) -> Result<String, StoreError> {
        let who = match by {
            Author::Principal(who) => Some(who.clone()),
            Author::Session(id) => self.opener(*id)?,
        };
        let Some(who) = who else { return Ok("unknown".into()) };
        match who.principal {
            Some(id) => self.principal(id),
            None => Ok(format!("unproven {}", who.role)),
        }
    }

    /// Under whose credential a session was opened.
    pub(super) fn opener(
        &mut self,
        session: SessionId,
    ) -> Result<Option<PrincipalClaim>, StoreError> {
        self.search(|this| this.sessions.contains_key(&session))?;
        Ok(self.sessions.get(&session).cloned())
    }

    pub(super) fn principal(&mut self, id: PrincipalId) -> Result<String, StoreError> {
        self.search(|this| this.principals.contains_key(&id))?;
        Ok(self.principals.get(&id).map_or_else(|| id.to_string(), |name| excerpt(name, 64)))
    }

    fn search(&mut self, found: impl Fn(&Self) -> bool) -> Result<(), StoreError> {
        while self.searched_from > 0 && !found(self) {
            let from = self.searched_from.saturating_sub(CHUNK);
            for record in self.store.records(from..self.searched_from)? {
                match (record.request, record.by) {
                    (
                        Request::Admin(AdminRequest::OpenSession { session, .. }),
                        Author::Principal(who),
                    ) => {
                        self.sessions.insert(session, who);
                    }
                    (Request::Admin(AdminRequest::AddPrincipal(principal)), _) => {
                        self.principals.insert(principal.id, principal.name);
                    }
                    _ => {}
                }
            }
            self.searched_from = from;
        }
        Ok(())
    }

    /// The part of the store that a record is about, if it is about one.
    pub(super) fn part(&mut self, record: &Record) -> Result<Option<Part>, StoreError> {
        let in_session = match &record.by {
            Author::Session(id) => self.opener(*id)?.map(|who| (*id, who.tenant)),
            Author::Principal(_) => None,
        };
        let part = match &record.request {
            Request::Session(
                SessionRequest::Read { scope, .. }
                | SessionRequest::Write { scope, .. }
                | SessionRequest::Delete { scope, .. },
            ) => Part::of_session(in_session, Some(*scope)),
            Request::Session(SessionRequest::List { shared: true, .. }) => {
                Part::of_session(in_session, Some(Scope::Shared))
            }
            Request::Session(SessionRequest::Promote { .. }) => {
                Part::of_session(in_session, Some(Scope::Shared))
            }
            Request::Session(SessionRequest::Observe { .. } | SessionRequest::Route(_))
            | Request::Call(_)
            | Request::Session(
                SessionRequest::List { shared: false, .. }
                | SessionRequest::Withhold { .. }
                | SessionRequest::Extract(_)
                | SessionRequest::DeclareIntents(_)
                | SessionRequest::JoinContext
                | SessionRequest::RecordBasis(_)
                | SessionRequest::CloseSession,
            ) => Part::of_session(in_session, None),
            Request::Admin(
                AdminRequest::OpenSession { session, .. } | AdminRequest::EndSession { session },
            ) => match &record.by {
                Author::Principal(who) => {
                    let scope = Some(Scope::Session(*session));
                    Some(Part { tenant: who.tenant.clone(), scope })
                }
                Author::Session(_) => None,
            },
            Request::Admin(AdminRequest::SetMode { tenant, scope, .. }) => {
                Some(Part { tenant: tenant.clone(), scope: Some(*scope) })
            }
            Request::Admin(AdminRequest::AdoptFile { tenant, .. }) => {
                Some(Part { tenant: tenant.clone(), scope: Some(Scope::Shared) })
            }
            Request::Admin(AdminRequest::Approve { .. } | AdminRequest::Deny { .. }) => {
                match record.parents.first() {
                    // The proposal was asked for in a session, so this goes one step and no further.
                    Some(proposal) => {
                        let proposal = self.store.record(*proposal)?;
                        return match proposal.by {
                            Author::Session(_) => self.part(&proposal),
                            Author::Principal(_) => Ok(None),
                        };
                    }
                    None => None,
                }
            }
            Request::Admin(
                AdminRequest::CreateStore(_)
                | AdminRequest::AddPrincipal(_)
                | AdminRequest::RevokePrincipal { .. }
                | AdminRequest::SetLimits(_)
                | AdminRequest::SetPolicy { .. }
                | AdminRequest::Adapt(_)
                | AdminRequest::Recover(_)
                | AdminRequest::RotateLogKey(_)
                | AdminRequest::CloseUnsignedFormat(_)
                | AdminRequest::AdoptLedger { .. },
            ) => None,
        };
        Ok(part)
    }

    /// What was asked for, in a few words.
    pub(crate) fn what(&mut self, record: &Record) -> Result<String, StoreError> {
        match &record.request {
            Request::Session(request) => Ok(session_request(request)),
            Request::Call(call) => Ok(format!("call {}", excerpt(&call.tool, 40))),
            Request::Admin(request) => self.admin_request(request),
        }
    }

    fn admin_request(&mut self, request: &AdminRequest) -> Result<String, StoreError> {
        Ok(match request {
            AdminRequest::CreateStore(_) => "create the store".into(),
            AdminRequest::OpenSession { alias, .. } => {
                format!("open session{}", suffix(alias.as_deref()))
            }
            AdminRequest::EndSession { session } => format!("end session {session}"),
            AdminRequest::Approve { proposal, .. } => {
                format!("approve {}", short(proposal))
            }
            AdminRequest::Deny { proposal } => format!("deny {}", short(proposal)),
            AdminRequest::SetMode { key, mode, .. } => {
                format!("make {} {mode}", key_text(key))
            }
            AdminRequest::AdoptFile { key, path, .. } => {
                format!("adopt {} as {}", excerpt(path, 60), key_text(key))
            }
            AdminRequest::AddPrincipal(principal) => {
                format!("add {} as {}", excerpt(&principal.name, 64), principal.role)
            }
            AdminRequest::RevokePrincipal { principal } => {
                format!("revoke {}", self.principal(*principal)?)
            }
            AdminRequest::SetLimits(_) => "set the limits".into(),
            AdminRequest::SetPolicy { version, .. } => {
                format!("set the policy {}", beginning(version))
            }
            AdminRequest::Adapt(adapt) => adapted(adapt),
            AdminRequest::Recover(recover) => {
                format!("{} {}", recover.step.word(), short(&recover.incident))
            }
            AdminRequest::RotateLogKey(_) => "rotate the log key".into(),
            AdminRequest::CloseUnsignedFormat(_) => "migrate the store".into(),
            AdminRequest::AdoptLedger { reason, .. } => {
                format!("adopt the ledger: {}", excerpt(reason, 60))
            }
        })
    }
}

fn adapted(adapt: &Adapt) -> String {
    let host = excerpt(adapt.host.as_str(), 40);
    match &adapt.change {
        AdapterChange::Load { name, .. } => {
            format!("load {} into {host}", excerpt(name.as_str(), 40))
        }
        AdapterChange::Unload { weights } => format!("unload {} from {host}", beginning(weights)),
        AdapterChange::Fuse { weights } => {
            format!("fuse {} into {host}", count(weights.len() as u64, "adapter"))
        }
    }
}

fn session_request(request: &SessionRequest) -> String {
    match request {
        SessionRequest::CloseSession => "close session".into(),
        SessionRequest::Observe { kind, origin, .. } => match kind {
            ObservationKind::Message => format!("message{}", suffix(origin.as_deref())),
            ObservationKind::Completion => format!("completion{}", suffix(origin.as_deref())),
            ObservationKind::ToolCall => format!("tool call{}", suffix(origin.as_deref())),
            ObservationKind::ToolOutput => format!("tool output{}", suffix(origin.as_deref())),
            ObservationKind::Retrieval => format!("retrieval{}", suffix(origin.as_deref())),
            ObservationKind::FileChange => format!("file change{}", suffix(origin.as_deref())),
        },
        SessionRequest::Read { key, scope } => {
            format!("read {}{}", key_text(key), owner_of(scope))
        }
        SessionRequest::List { shared, .. } => {
            format!("list items{}", if *shared { "" } else { " for the session" })
        }
        SessionRequest::Write { key, scope, .. } => {
            format!("write {}{}", key_text(key), owner_of(scope))
        }
        SessionRequest::Delete { key, scope } => {
            format!("delete {}{}", key_text(key), owner_of(scope))
        }
        SessionRequest::Promote { key, .. } => {
            format!("promote {}", key_text(key))
        }
        SessionRequest::Route(route) => match route.heard.last() {
            Some(last) => format!("route, to the {}", last.stage().name()),
            None => "route".into(),
        },
        SessionRequest::Withhold { .. } => "withhold an output".into(),
        SessionRequest::Extract(extract) => {
            format!("take out {}", excerpt(&extract.field, 40))
        }
        SessionRequest::DeclareIntents(declared) => {
            format!("declare {}", count(declared.terms.len() as u64, "intent"))
        }
        SessionRequest::JoinContext => "join context".into(),
        SessionRequest::RecordBasis(basis) => match basis.of {
            BasisKind::Tool { .. } => "record a tool's manifest".into(),
            BasisKind::LocalPolicy { .. } => "record the local policy".into(),
            BasisKind::Output { .. } => "record a structured output".into(),
        },
    }
}

/// What follows the word for a request: where a text came from, or what a session calls itself.
fn suffix(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" {}", excerpt(name, 40)))
}

fn key_text(key: &Key) -> String {
    excerpt(key.as_str(), 48)
}

const fn owner_of(scope: &Scope) -> &'static str {
    match scope {
        Scope::Shared => "",
        Scope::Session(_) => " for the session",
    }
}

/// The beginning of a hash.
fn beginning(digest: &Digest) -> String {
    digest.to_string().chars().take(8).collect::<String>() + "…"
}

/// How somebody proved who they are.
pub(super) const fn proof(credential: Credential) -> &'static str {
    match credential {
        Credential::Passphrase => "by passphrase",
        Credential::Token => "by token",
        Credential::None => "unproven",
    }
}

/// The beginning of an id. Enough to recognise it, not to name it.
pub(super) fn short(id: &impl ToString) -> String {
    let id = id.to_string();
    let (prefix, digits) = id.split_once('-').unwrap_or(("", &id));
    format!("{prefix}-{}…", digits.chars().take(8).collect::<String>())
}

/// The bytes that belong to a record, if they can be retrieved: what was refused is not kept, but for a call's
/// arguments, and what an incident took out is not shown.
pub(super) fn kept_content(store: &Store, record: &Record) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(content) = content_of(record) else { return Ok(None) };
    if content.arrival == record.seq && !is_kept(record) {
        return Ok(None);
    }
    store.retrieve(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_tenant_or_one_of_its_scopes() {
        let session = SessionId::from_random([7; 16]);
        let part = |text: &str| text.parse::<Part>().unwrap();
        let own = part(&format!("main/{session}"));
        assert!(part("main").holds(&own) && own.holds(&own));
        assert!(!part("main/shared").holds(&own) && !part("other").holds(&own));
        for text in ["", "main/", "main/x", "A", "main/shared/x"] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
    }
}
