//! A part of the store as people name it: `main`, `main/shared` or `main/SESSION`.

use custody_kernel::namespace::{Scope, Tenant};
use custody_log::SessionId;

/// A part of the store as people name it: a tenant, or a tenant and a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) tenant: Tenant,
    pub(super) scope: Option<Scope>,
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
    /// The scope in the tenant of a session; the session's own memory if none is named.
    pub(super) fn of_session(
        session: Option<(SessionId, Tenant)>,
        scope: Option<Scope>,
    ) -> Option<Self> {
        let (own, tenant) = session?;
        Some(Self { tenant, scope: scope.or(Some(Scope::Session(own))) })
    }

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
