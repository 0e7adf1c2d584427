//! A record in words: who asked, for what, in which namespace.

use std::collections::HashMap;

use clap::ValueEnum;
use custody_kernel::adapter::{Adapt, AdapterChange};
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::{Credential, PrincipalClaim};
use custody_kernel::record::{
    AdminRequest, Answer, Author, ObservationKind, Record, Request, SessionRequest,
};
use custody_log::{Digest, PrincipalId, SessionId};
use custody_runtime::store::content_of;
use custody_runtime::{Store, StoreError};

use crate::output::{count, excerpt};

/// How many records are read at once when the log is searched.
pub(super) const CHUNK: u64 = 512;

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Something said to a model
    Message,
    /// Something a model said
    Completion,
    /// A tool call of a model, decided here or only reported
    ToolCall,
    /// The answer of a tool
    ToolOutput,
    /// Documents from an index
    Retrieval,
    /// A change of a file
    FileChange,
    /// A read, write, delete or promotion of memory
    Memory,
    /// Where a suspicious text may go
    Route,
    /// An approval, a denial, a mode or an adopted file
    Review,
    /// A session opened or closed
    Session,
    /// An adapter loaded, unloaded or fused
    Adapter,
    /// A step of an incident
    Recovery,
    /// Principals, limits, keys and the store itself
    Admin,
}

impl Kind {
    pub(super) const fn of(request: &Request) -> Self {
        match request {
            Request::Session(SessionRequest::Observe { kind, .. }) => match kind {
                ObservationKind::Message => Self::Message,
                ObservationKind::Completion => Self::Completion,
                ObservationKind::ToolCall => Self::ToolCall,
                ObservationKind::ToolOutput => Self::ToolOutput,
                ObservationKind::Retrieval => Self::Retrieval,
                ObservationKind::FileChange => Self::FileChange,
            },
            Request::Session(
                SessionRequest::Read { .. }
                | SessionRequest::Write { .. }
                | SessionRequest::Delete { .. }
                | SessionRequest::Promote { .. },
            ) => Self::Memory,
            Request::Session(SessionRequest::Route(_)) => Self::Route,
            Request::Call(_) => Self::ToolCall,
            Request::Session(SessionRequest::Withhold { .. } | SessionRequest::Extract(_)) => {
                Self::ToolOutput
            }
            Request::Admin(
                AdminRequest::Approve { .. }
                | AdminRequest::Deny { .. }
                | AdminRequest::SetMode { .. }
                | AdminRequest::AdoptFile { .. },
            ) => Self::Review,
            Request::Admin(AdminRequest::OpenSession { .. } | AdminRequest::EndSession { .. })
            | Request::Session(SessionRequest::CloseSession) => Self::Session,
            Request::Admin(AdminRequest::Adapt(_)) => Self::Adapter,
            Request::Admin(AdminRequest::Recover(_)) => Self::Recovery,
            Request::Admin(
                AdminRequest::CreateStore(_)
                | AdminRequest::AddPrincipal(_)
                | AdminRequest::RevokePrincipal { .. }
                | AdminRequest::SetLimits(_)
                | AdminRequest::SetPolicy { .. }
                | AdminRequest::RotateLogKey(_)
                | AdminRequest::AdoptLedger { .. },
            ) => Self::Admin,
        }
    }
}

/// A part of the store as people name it: a tenant, or a tenant and a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    tenant: Tenant,
    scope: Option<Scope>,
}

impl std::str::FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tenant, scope) = match text.split_once('/') {
            None => (text, None),
            Some((tenant, "shared")) => (tenant, Some(Scope::Shared)),
            Some((tenant, session)) => {
                let session = session.parse().map_err(|_| {
                    "use TENANT, TENANT/shared or TENANT/SESSION, as in `main/shared`".to_owned()
                })?;
                (tenant, Some(Scope::Session(session)))
            }
        };
        let tenant = tenant.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { tenant, scope })
    }
}

impl Part {
    /// Whether `other`, if it is anywhere at all, is in this part.
    pub(super) fn holds(&self, other: &Self) -> bool {
        self.tenant == other.tenant && (self.scope.is_none() || self.scope == other.scope)
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.scope {
            None => write!(f, "{}", self.tenant),
            Some(Scope::Shared) => write!(f, "{}/shared", self.tenant),
            Some(Scope::Session(session)) => write!(f, "{}/{session}", self.tenant),
        }
    }
}

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
        let here = |scope: Option<Scope>| {
            let (own, tenant) = in_session.clone()?;
            Some(Part { tenant, scope: scope.or(Some(Scope::Session(own))) })
        };
        let part = match &record.request {
            Request::Session(
                SessionRequest::Read { scope, .. }
                | SessionRequest::Write { scope, .. }
                | SessionRequest::Delete { scope, .. },
            ) => here(Some(*scope)),
            Request::Session(SessionRequest::Promote { .. }) => here(Some(Scope::Shared)),
            Request::Session(SessionRequest::Observe { .. } | SessionRequest::Route(_))
            | Request::Call(_)
            | Request::Session(
                SessionRequest::Withhold { .. }
                | SessionRequest::Extract(_)
                | SessionRequest::CloseSession,
            ) => here(None),
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
                | AdminRequest::AdoptLedger { .. },
            ) => None,
        };
        Ok(part)
    }

    /// What was asked for, in a few words.
    pub(crate) fn what(&mut self, record: &Record) -> Result<String, StoreError> {
        let of = |origin: &Option<String>| match origin {
            Some(origin) => format!(" {}", excerpt(origin, 40)),
            None => String::new(),
        };
        let key = |key: &custody_kernel::key::Key| excerpt(key.as_str(), 48);
        let own = |scope: &Scope| match scope {
            Scope::Shared => "",
            Scope::Session(_) => " for the session",
        };
        Ok(match &record.request {
            Request::Admin(AdminRequest::CreateStore(_)) => "found the store".into(),
            Request::Admin(AdminRequest::OpenSession { alias, .. }) => {
                format!("open session{}", of(alias))
            }
            Request::Admin(AdminRequest::EndSession { session }) => {
                format!("end session {session}")
            }
            Request::Session(SessionRequest::CloseSession) => "close session".into(),
            Request::Session(SessionRequest::Observe { kind, origin, .. }) => match kind {
                ObservationKind::Message => format!("message{}", of(origin)),
                ObservationKind::Completion => format!("completion{}", of(origin)),
                ObservationKind::ToolCall => format!("tool call{}", of(origin)),
                ObservationKind::ToolOutput => format!("tool output{}", of(origin)),
                ObservationKind::Retrieval => format!("retrieval{}", of(origin)),
                ObservationKind::FileChange => format!("file change{}", of(origin)),
            },
            Request::Session(SessionRequest::Read { key: k, scope }) => {
                format!("read {}{}", key(k), own(scope))
            }
            Request::Session(SessionRequest::Write { key: k, scope, .. }) => {
                format!("write {}{}", key(k), own(scope))
            }
            Request::Session(SessionRequest::Delete { key: k, scope }) => {
                format!("delete {}{}", key(k), own(scope))
            }
            Request::Session(SessionRequest::Promote { key: k, .. }) => {
                format!("promote {}", key(k))
            }
            Request::Session(SessionRequest::Route(route)) => match route.heard.last() {
                Some(last) => format!("route, to the {}", last.stage().name()),
                None => "route".into(),
            },
            Request::Call(call) => format!("call {}", excerpt(&call.tool, 40)),
            Request::Session(SessionRequest::Withhold { .. }) => "withhold an output".into(),
            Request::Session(SessionRequest::Extract(extract)) => {
                format!("take out {}", excerpt(&extract.field, 40))
            }
            Request::Admin(AdminRequest::Approve { proposal, .. }) => {
                format!("approve {}", short(proposal))
            }
            Request::Admin(AdminRequest::Deny { proposal }) => format!("deny {}", short(proposal)),
            Request::Admin(AdminRequest::SetMode { key: k, mode, .. }) => {
                format!("make {} {mode}", key(k))
            }
            Request::Admin(AdminRequest::AdoptFile { key: k, path, .. }) => {
                format!("adopt {} as {}", excerpt(path, 60), key(k))
            }
            Request::Admin(AdminRequest::AddPrincipal(principal)) => {
                format!("add {} as {}", excerpt(&principal.name, 64), principal.role)
            }
            Request::Admin(AdminRequest::RevokePrincipal { principal }) => {
                format!("revoke {}", self.principal(*principal)?)
            }
            Request::Admin(AdminRequest::SetLimits(_)) => "set the limits".into(),
            Request::Admin(AdminRequest::SetPolicy { version, .. }) => {
                format!("set the policy {}", beginning(version))
            }
            Request::Admin(AdminRequest::Adapt(adapt)) => adapted(adapt),
            Request::Admin(AdminRequest::Recover(recover)) => {
                format!("{} {}", recover.step.word(), short(&recover.incident))
            }
            Request::Admin(AdminRequest::RotateLogKey(_)) => "rotate the log key".into(),
            Request::Admin(AdminRequest::AdoptLedger { reason, .. }) => {
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

/// The bytes that belong to a record, if they can be retrieved: what was refused is not kept, and what an incident
/// took out is not shown.
pub(super) fn kept_content(store: &Store, record: &Record) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(content) = content_of(record) else { return Ok(None) };
    let refused = matches!(record.answer, Answer::Refused(_));
    if refused && content.arrival == record.seq {
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
