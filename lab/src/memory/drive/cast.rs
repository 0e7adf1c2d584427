//! Who acts in an episode.

use std::collections::BTreeMap;

use custody_cli::attacks::scratch::ScratchStore;
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::{Authority, Principal, Role};
use custody_keys::HumanKey;
use custody_log::{Digest, PrincipalId, SessionId};
use custody_runtime::PrincipalError;
use custody_runtime::principals::prove;

use crate::error::EvalError;
use crate::memory::action::{ActionSpeaker, Judge, Place};

/// The principals and sessions of one episode, in tenants of their own.
pub(super) struct Cast {
    pub(super) tenant: Tenant,
    pub(super) replay: Tenant,
    pub(super) owner: Authority,
    /// To be registered, with what proves each.
    pub(super) principals: Vec<Principal>,
    judges: BTreeMap<&'static str, Authority>,
    /// Under which authority each session is opened.
    pub(super) openers: Vec<Authority>,
    pub(super) sessions: Vec<SessionId>,
}

impl Cast {
    pub(super) fn new(
        episode: u64,
        scratch: &ScratchStore,
        humans: &BTreeMap<&'static str, HumanKey>,
    ) -> Result<Self, EvalError> {
        let tenant = tenant_named(&format!("t{episode}"))?;
        let elsewhere = tenant_named(&format!("other{episode}"))?;
        let replay = tenant_named(&format!("replay-{episode}"))?;
        let mut principals = Vec::new();
        let mut judges = BTreeMap::from([("owner", scratch.owner.clone())]);
        let mut tokens = BTreeMap::new();
        let roles = [
            ("ann", Role::User, &tenant),
            ("bob", Role::User, &tenant),
            ("bot", Role::Agent, &tenant),
            ("rex", Role::Reviewer, &tenant),
            ("stranger", Role::Reviewer, &elsewhere),
        ];
        for (number, (name, role, tenant)) in (1..).zip(roles) {
            let token = format!("{name}-{episode}");
            let principal = Principal {
                id: PrincipalId::from_random(id(episode, number)),
                name: token.clone(),
                role,
                tenant: tenant.clone(),
                public_key: humans.get(name).map(HumanKey::public_key),
                token_hash: Some(Digest::of(token.as_bytes())),
            };
            if let Some(human) = humans.get(name) {
                judges.insert(name, prove(human, &principal).map_err(PrincipalError::from)?);
            }
            let by_token = Authority::by_token(&principal, token.as_bytes());
            tokens.insert(name, by_token.map_err(PrincipalError::from)?);
            principals.push(principal);
        }
        let replayed = Authority::replayed(replay.clone());
        let openers = [
            tokens.remove("ann"),
            tokens.remove("bob"),
            tokens.remove("bot"),
            judges.get("ann").cloned(),
            replayed,
        ];
        let openers: Vec<Authority> = openers.into_iter().flatten().collect();
        let sessions =
            (1..).zip(&openers).map(|(n, _)| SessionId::from_random(id(episode, n))).collect();
        let owner = scratch.owner.clone();
        Ok(Self { tenant, replay, owner, principals, judges, openers, sessions })
    }

    pub(super) fn speakers(&self) -> Vec<ActionSpeaker> {
        let cast = [
            ("ann", &self.tenant, true, false),
            ("bob", &self.tenant, true, false),
            ("bot", &self.tenant, false, false),
            ("ann", &self.tenant, true, true),
            ("", &self.replay, true, false),
        ];
        cast.map(|(principal, tenant, trusted, in_person): (&str, &Tenant, bool, bool)| {
            let (tenant, principal) = (tenant.to_string(), principal.to_owned());
            ActionSpeaker { tenant, principal, trusted, in_person }
        })
        .into()
    }

    pub(super) fn tenant_of(&self, session: usize) -> &Tenant {
        if session == self.sessions.len() - 1 { &self.replay } else { &self.tenant }
    }

    pub(super) fn scope(&self, place: Place) -> Scope {
        match place {
            Place::Shared => Scope::Shared,
            Place::Session(session) => Scope::Session(self.sessions[session]),
        }
    }

    pub(super) fn judge(&self, judge: Judge) -> Authority {
        let name = match judge {
            Judge::Owner => "owner",
            Judge::Reviewer => "rex",
            Judge::Stranger => "stranger",
            Judge::Ann => "ann",
            Judge::Bob => "bob",
            Judge::AnnsToken => return self.openers[0].clone(),
        };
        self.judges[name].clone()
    }
}

fn tenant_named(name: &str) -> Result<Tenant, EvalError> {
    name.parse::<Tenant>().map_err(|error| EvalError::Setup(error.to_string()))
}

/// An id that no other episode and number have.
fn id(episode: u64, number: u8) -> [u8; 16] {
    let mut id = [number; 16];
    id[..8].copy_from_slice(&episode.to_be_bytes());
    id
}
