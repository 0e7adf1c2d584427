//! Deciding a call: the floor, then the policy; the stricter of both wins.

use custody_arguments::{ArgumentOrigin, RecordedArgument, ToolEffect};
use custody_log::{Digest, EntryId, Seq};
use serde::{Deserialize, Serialize};

use crate::label::Label;
use crate::memory::refusal::Refusal;
use crate::record::Value;

/// A call that a model proposes, with all that its decision depends on besides the context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// What it does, by its manifest.
    pub effect: ToolEffect,
    /// Whether it has a manifest.
    pub known: bool,
    /// That manifest, as [`ToolManifest::digest`](custody_arguments::ToolManifest::digest) has it.
    pub manifest: Digest,
    /// The canonical arguments.
    pub arguments: Value,
    /// Where they came from.
    pub leaves: Vec<RecordedArgument>,
    /// What the policy says.
    pub policy: PolicyAnswer,
    /// The approval that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<EntryId>,
}

/// A policy's word on one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyAnswer {
    /// SHA-256 of the policy's text.
    pub version: Digest,
    /// The strictest answer of those that apply.
    pub answer: Permission,
    /// Whether it permits the call in spite of the floor. Counts only in a policy that the owner signed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waives_floor: bool,
    /// The fields of the call's output that may be taken out alone. Counts only in a policy that the owner signed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extracts: Vec<String>,
    /// The ids of the policies that decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
}

/// Allow, ask or deny, in rising strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// It may run.
    Allow,
    /// A human decides.
    Ask,
    /// It may not run, whoever approves.
    Deny,
}

/// A call that may run, once. Only [`decide_call`] and [`decide_approved`] make one, and nothing else runs.
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

    fn of(call: &Call) -> Self {
        Self { tool: call.tool.clone(), arguments: call.arguments }
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
pub struct Around {
    /// The join of all that the model has read; nothing if it has read nothing.
    pub context: Option<Label>,
    /// The policy that the store's owner signed.
    pub signed_policy: Option<Digest>,
}

/// Decides one call. Reads nothing but its arguments.
///
/// In a clean context the policy alone decides. In a tainted one, or one of which nothing is known, a reading
/// call without sinks is allowed, and any other only if the user said every sink and at least one value.
///
/// # Errors
/// Whether a human may approve it, and why it does not run without.
///
/// Source: docs/design.md §5.4.
pub fn decide_call(call: &Call, around: Around) -> Result<AllowedCall, CallRefusal> {
    let by = || call.policy.by.clone();
    match (call.policy.answer, below_floor(call, around)) {
        (Permission::Deny, _) => Err(CallRefusal::Denied(Refusal::PolicyDenies { by: by() })),
        (Permission::Ask | Permission::Allow, Some(refusal)) => Err(CallRefusal::Asks(refusal)),
        (Permission::Ask, None) => Err(CallRefusal::Asks(Refusal::PolicyAsks { by: by() })),
        (Permission::Allow, None) => Ok(AllowedCall::of(call)),
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
) -> Result<AllowedCall, CallRefusal> {
    approved.map_err(CallRefusal::Denied)?;
    match call.policy.answer {
        Permission::Deny => {
            Err(CallRefusal::Denied(Refusal::PolicyDenies { by: call.policy.by.clone() }))
        }
        Permission::Ask | Permission::Allow => Ok(AllowedCall::of(call)),
    }
}

/// What is missing to the floor, if something is.
fn below_floor(call: &Call, around: Around) -> Option<Refusal> {
    let is_clean = around.context.is_some_and(|label| !label.is_tainted());
    let is_waived = call.policy.waives_floor && around.signed_policy == Some(call.policy.version);
    if is_clean || is_waived {
        return None;
    }
    let is_user = |leaf: &&RecordedArgument| leaf.origin == ArgumentOrigin::User;
    let sinks = || call.leaves.iter().filter(|leaf| leaf.sink.is_some());
    let unfounded: Vec<&RecordedArgument> = sinks().filter(|leaf| !is_user(leaf)).collect();
    match call.effect {
        ToolEffect::Reads if sinks().next().is_none() => return None,
        ToolEffect::Reads | ToolEffect::Writes => {}
    }
    if unfounded.is_empty() && call.leaves.iter().any(|leaf| is_user(&leaf)) {
        return None;
    }
    Some(Refusal::Floor {
        arguments: unfounded.iter().map(|leaf| leaf.path.clone()).collect(),
        entries: sources(unfounded),
    })
}

/// The entries that `leaves` came from, ascending.
pub(crate) fn sources<'a>(leaves: impl IntoIterator<Item = &'a RecordedArgument>) -> Vec<Seq> {
    let mut sources: Vec<Seq> = Vec::new();
    for leaf in leaves {
        match &leaf.origin {
            ArgumentOrigin::Tool { from } => sources.extend(from),
            ArgumentOrigin::User | ArgumentOrigin::Model => {}
        }
    }
    sources.sort_unstable();
    sources.dedup();
    sources
}
