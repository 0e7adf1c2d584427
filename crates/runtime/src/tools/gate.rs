//! The gate's setup: which tools there are, and which policies decide their calls.
//!
//! The policy in force is the one that the store's owner signed, else the one that ships. A second one from a
//! file may forbid more and can permit nothing more. Either is replaced while sessions run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use custody_arguments::{
    IntentError, ShownName, ToolEffect, ToolManifest, ToolName, ToolNameError,
};
use custody_kernel::principal::Authority;
use custody_kernel::state::{ApplyError, AskError, SignedPolicy};
use custody_log::Digest;
use custody_policy::{DescribedTool, InForce, Manifests, Policy, PolicyError, pin};
use custody_store::{Receipt, Store, StoreError, Transaction};

/// Manifests and policies. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    setup: Arc<RwLock<Setup>>,
}

#[derive(Debug, Default)]
struct Setup {
    manifests: Manifests,
    local: Option<Arc<Policy>>,
    /// The policy that the owner signed, parsed once.
    signed: Option<(Digest, Arc<Policy>)>,
    standard: Option<Arc<Policy>>,
    /// The descriptions that servers announced first.
    pins: BTreeMap<String, Digest>,
    /// Tools whose description is another than the one pinned.
    changed: BTreeSet<String>,
    /// Tools that a server announced and whose manifest is pinned to no description: nobody knows that it is theirs.
    unpinned: BTreeSet<String>,
}

/// Why a tool call could not be decided, or its result not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tool's name is none. Nothing was recorded.
    #[error(transparent)]
    ToolName(#[from] ToolNameError),
    /// No manifest describes the tool, and its name could be taken for that of one that is described. Nothing was
    /// recorded.
    #[error("no manifest describes the tool `{name}`, and a reader could take it for `{known}`")]
    Lookalike {
        /// The name.
        name: ShownName,
        /// The name that a manifest describes.
        known: String,
    },
    /// No intents, or too many at once.
    #[error("declare 1 to {} intents at once", super::MAX_INTENTS)]
    TooManyIntents,
    /// An intent for a tool that nobody described.
    #[error(
        "no manifest describes the tool `{0}`, so nobody knows what an intent for it would cover"
    )]
    UnknownIntent(String),
    /// An intent that binds nothing, or not enough. Nothing was recorded.
    #[error(transparent)]
    Intent(#[from] IntentError),
    /// The tool's manifest does not say of what kind the field of its output is.
    #[error(
        "the tool's manifest gives no kind for `{0}`; add it to `closed_output`, or read the whole output"
    )]
    NoShape(String),
    /// A policy of the store cannot be read. Nothing is decided without it.
    #[error(
        "the policy that the owner signed cannot be read; set another with `custody policy set`"
    )]
    Policy(#[source] PolicyError),
    /// The policy is not the one that the record names.
    #[error(
        "the text of the policy is not the one that the owner signed; set another with `custody policy set`"
    )]
    OtherPolicy,
    /// The record does not follow from itself.
    #[error("the record cannot be gone through; see `custody ledger verify`")]
    Record(#[source] ApplyError),
}

impl From<AskError> for GateError {
    fn from(error: AskError) -> Self {
        Self::Store(error.into())
    }
}

/// Decides tool calls of `store` by `policy` from here on.
///
/// # Errors
/// [`StoreError`] when the answer could not be recorded.
pub fn set_policy(
    store: &Store,
    owner: &Authority,
    policy: &Policy,
) -> Result<Receipt, StoreError> {
    store.set_policy_text(owner, policy.version(), policy.text())
}

/// What the gate knows of a tool that a server announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// Its name.
    pub name: String,
    /// What it does.
    pub effect: ToolEffect,
    /// Whether a manifest describes it.
    pub known: bool,
    /// Whether its description is another than the one pinned.
    pub changed: bool,
    /// Whether its manifest is pinned to this description.
    pub pinned: bool,
}

impl Gate {
    /// A gate for tools described by `manifests`. `local` may forbid more than the store's policy.
    pub fn new(manifests: Manifests, local: Option<Policy>) -> Self {
        let local = local.map(Arc::new);
        let setup = Setup { manifests, local, ..Setup::default() };
        Self { setup: Arc::new(RwLock::new(setup)) }
    }

    /// Decides by another local policy from here on. Approvals given under the one before no longer hold.
    pub fn reload(&self, local: Option<Policy>) {
        self.setup.write().unwrap_or_else(PoisonError::into_inner).local = local.map(Arc::new);
    }

    /// A server announces its tools, each a JSON object with a name, a description and a schema. The tools of a server
    /// that has a name are called `server/tool`, so that no other server can speak for them. One whose description is
    /// not the one that its manifest is pinned to counts as unknown, and so does one whose manifest is pinned to
    /// none: that could have been written for another server's tool (G16).
    pub fn announce(&self, server: Option<&str>, tools: &[serde_json::Value]) -> Vec<Announced> {
        let mut setup = self.setup.write().unwrap_or_else(PoisonError::into_inner);
        tools.iter().map(|tool| setup.announce(server, tool, None)).collect()
    }

    /// The same of a server of which the owner may have pinned all that it says of its tools, by the digests of that.
    /// A tool that is not pinned there, or otherwise, counts as changed.
    pub fn announce_pinned(
        &self,
        server: &str,
        tools: &[serde_json::Value],
        pins: Option<&BTreeMap<String, Digest>>,
        digest: fn(&serde_json::Value) -> Digest,
    ) -> Vec<Announced> {
        let mut setup = self.setup.write().unwrap_or_else(PoisonError::into_inner);
        let announced = tools.iter().map(|tool| {
            let name = tool.get("name").and_then(serde_json::Value::as_str).unwrap_or_default();
            let is_pinned = pins.map(|pins| pins.get(name) == Some(&digest(tool)));
            setup.announce(Some(server), tool, is_pinned)
        });
        announced.collect()
    }

    /// What the manifests say of a tool, or of all tools of a server, is no longer believed.
    pub fn distrust(&self, tool_or_server: &str) {
        let mut setup = self.setup.write().unwrap_or_else(PoisonError::into_inner);
        setup.changed.insert(tool_or_server.to_owned());
    }

    /// Whether a tool of that name may be asked for at all.
    pub(super) fn check_name(&self, name: &str) -> Result<(), GateError> {
        let name = ToolName::parse(name)?;
        let setup = self.read();
        let tools = setup.manifests.tools();
        if tools.contains_key(name.as_str()) {
            return Ok(());
        }
        match tools.keys().find(|known| name.resembles(known)) {
            None => Ok(()),
            Some(known) => {
                let (name, known) = (ShownName::of(name.as_str()), known.clone());
                Err(GateError::Lookalike { name, known })
            }
        }
    }

    /// What the manifests say of a tool.
    pub fn tool(&self, name: &str) -> DescribedTool {
        self.read().tool(name)
    }

    /// The policies that are in force.
    pub(super) fn policies(&self, step: &Transaction<'_>) -> Result<Policies, GateError> {
        self.prepare(step)?;
        let setup = self.read();
        let base = match (step.state().policy(), &setup.signed) {
            (Some(wanted), Some((version, policy))) if *version == wanted.version => Some(policy),
            (None, _) => setup.standard.as_ref(),
            (Some(_), _) => None,
        };
        let base = Arc::clone(base.ok_or(GateError::OtherPolicy)?);
        Ok(Policies { base, local: setup.local.clone() })
    }

    /// Reads the policy in force, if it is not the one read last.
    fn prepare(&self, step: &Transaction<'_>) -> Result<(), GateError> {
        let wanted = step.state().policy();
        if self.read().holds(wanted) {
            return Ok(());
        }
        let policy = match wanted {
            None => Arc::new(Policy::standard()),
            Some(signed) => Arc::new(read_signed(step, signed)?),
        };
        let mut setup = self.setup.write().unwrap_or_else(PoisonError::into_inner);
        match wanted {
            None => setup.standard = Some(policy),
            Some(signed) => setup.signed = Some((signed.version, policy)),
        }
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, Setup> {
        self.setup.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The policies that are in force at one moment.
pub(super) struct Policies {
    base: Arc<Policy>,
    local: Option<Arc<Policy>>,
}

impl Policies {
    pub(super) fn in_force(&self) -> InForce<'_> {
        InForce { base: &self.base, local: self.local.as_deref() }
    }

    pub(super) fn local(&self) -> Option<&Policy> {
        self.local.as_deref()
    }
}

impl Setup {
    fn holds(&self, wanted: Option<SignedPolicy>) -> bool {
        match wanted {
            None => self.standard.is_some(),
            Some(wanted) => self.signed.as_ref().is_some_and(|(have, _)| *have == wanted.version),
        }
    }

    fn tool(&self, name: &str) -> DescribedTool {
        let described = self.manifests.tool(name);
        if self.unpinned.contains(name) {
            return DescribedTool::unknown(described);
        }
        DescribedTool::of(described, self.is_changed(name))
    }

    fn is_changed(&self, name: &str) -> bool {
        let server = name.split_once('/').map(|(server, _)| server);
        self.changed.contains(name) || server.is_some_and(|server| self.changed.contains(server))
    }

    /// Notes what a server says of a tool. `is_pinned` is whether the owner pinned just that, of a server whose
    /// tools are pinned.
    fn announce(
        &mut self,
        server: Option<&str>,
        announced: &serde_json::Value,
        is_pinned: Option<bool>,
    ) -> Announced {
        let name = announced.get("name").and_then(serde_json::Value::as_str).unwrap_or_default();
        let name = server.map_or_else(|| name.to_owned(), |server| format!("{server}/{name}"));
        if ToolName::parse(&name).is_err() {
            // No call of it is ever decided.
            let effect = ToolManifest::unknown().effect;
            return Announced { name, effect, known: false, changed: false, pinned: false };
        }
        let found = pin(announced);
        let first = *self.pins.entry(name.clone()).or_insert(found);
        let manifest = self.manifests.get(&name);
        let pinned = manifest.and_then(|manifest| manifest.description_sha256);
        if manifest.is_some() && pinned.is_none() && is_pinned.is_none() {
            self.unpinned.insert(name.clone());
        }
        // For good: a server that says the first one again has still said the other.
        if found != pinned.unwrap_or(first) || is_pinned == Some(false) {
            self.changed.insert(name.clone());
        }
        let changed = self.is_changed(&name);
        let DescribedTool { name, manifest, known, .. } = self.tool(&name);
        let pinned = pinned == Some(found) || is_pinned == Some(true) && !changed;
        Announced { name, effect: manifest.effect, known, changed, pinned }
    }
}

fn read_signed(step: &Transaction<'_>, signed: SignedPolicy) -> Result<Policy, GateError> {
    let text = step.content(signed.text)?;
    let text = String::from_utf8_lossy(&text);
    let policy = Policy::parse(&text).map_err(GateError::Policy)?;
    if policy.version() != signed.version {
        return Err(GateError::OtherPolicy);
    }
    Ok(policy)
}
