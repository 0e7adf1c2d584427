//! Namespaces: who may see an item (MON rule 9).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use custody_log::SessionId;
use serde::{Deserialize, Serialize};

/// One customer of a store. Nothing is ever visible across tenants.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tenant(Arc<str>);

/// Why a text is not a tenant name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a tenant name; use 1 to 64 of a-z, 0-9, `-`, `_` and `.`")]
pub struct TenantError(String);

impl Tenant {
    /// The tenant of a store that only one person uses.
    pub fn main() -> Self {
        Self("main".into())
    }

    /// Whether this tenant holds replayed traces, which are somebody's claim. Nothing in it
    /// can be promoted.
    pub fn is_replay(&self) -> bool {
        self.0.starts_with("replay-")
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const fn is_of_name(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.')
}

impl FromStr for Tenant {
    type Err = TenantError;

    fn from_str(name: &str) -> Result<Self, TenantError> {
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_of_name) {
            return Err(TenantError(name.chars().take(64).flat_map(char::escape_debug).collect()));
        }
        Ok(Self(name.into()))
    }
}

impl TryFrom<String> for Tenant {
    type Error = TenantError;

    fn try_from(name: String) -> Result<Self, TenantError> {
        name.parse()
    }
}

impl From<Tenant> for String {
    fn from(tenant: Tenant) -> Self {
        tenant.0.as_ref().to_owned()
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The part of a tenant that an item belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Visible to every session of the tenant.
    Shared,
    /// Visible to this session alone.
    Session(SessionId),
}

/// Tenant / (session or shared).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Namespace {
    /// Whose it is.
    pub tenant: Tenant,
    /// The scope of the item: the session's own, or shared.
    pub scope: Scope,
}

impl Namespace {
    /// The tenant's shared namespace.
    pub fn shared(tenant: Tenant) -> Self {
        Self { tenant, scope: Scope::Shared }
    }

    /// A session's own namespace.
    pub fn session(tenant: Tenant, session: SessionId) -> Self {
        Self { tenant, scope: Scope::Session(session) }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope {
            Scope::Shared => write!(f, "{}/shared", self.tenant),
            Scope::Session(session) => write!(f, "{}/{session}", self.tenant),
        }
    }
}
