//! Calls as they are proposed and recorded.

use custody_arguments::{IntentRef, MatchedIntent, RecordedArgument, ToolEffect, TracedArguments};
use custody_log::{Digest, EntryId};
use serde::{Deserialize, Serialize};

use crate::memory::item::Value;

/// A call that a model proposes, with all that its decision depends on besides the context.
///
/// Where its arguments came from was computed, not declared: only [`trace`](custody_arguments::trace) makes
/// [`TracedArguments`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedCall {
    /// The tool's name.
    pub tool: String,
    /// What it does, by its manifest.
    pub effect: ToolEffect,
    /// Whether it has a manifest.
    pub known: bool,
    /// What the tool is: the digest of its [basis](crate::tool::basis).
    pub manifest: Digest,
    /// The canonical arguments.
    pub arguments: Value,
    /// Where they came from.
    pub traced: TracedArguments,
    /// What the policy says.
    pub policy: PolicyAnswer,
    /// The operator's own policy that was asked as well, if there is one: the digest of its
    /// [basis](crate::tool::basis).
    pub local_policy: Option<Digest>,
    /// The intent that covers it, if one was declared.
    pub intent: Option<MatchedIntent>,
    /// The approval that it uses.
    pub approval: Option<EntryId>,
}

impl From<ProposedCall> for Call {
    fn from(proposed: ProposedCall) -> Self {
        let ProposedCall {
            tool,
            effect,
            known,
            manifest,
            arguments,
            traced,
            policy,
            local_policy,
            intent,
            approval,
        } = proposed;
        let leaves = traced.into_recorded();
        let intent = intent.map(MatchedIntent::recorded);
        Self {
            tool,
            effect,
            known,
            manifest,
            arguments,
            leaves,
            policy,
            local_policy,
            intent,
            approval,
        }
    }
}

/// A proposed call as its record keeps it. Anybody may parse one; none is run because of that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// What it does, by its manifest.
    pub effect: ToolEffect,
    /// Whether it has a manifest.
    pub known: bool,
    /// What the tool is: the digest of its [basis](crate::tool::basis).
    pub manifest: Digest,
    /// The canonical arguments.
    pub arguments: Value,
    /// Where they came from.
    pub leaves: Vec<RecordedArgument>,
    /// What the policy says.
    pub policy: PolicyAnswer,
    /// The operator's own policy that was asked as well, if there is one: the digest of its
    /// [basis](crate::tool::basis).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_policy: Option<Digest>,
    /// The intent that covers it, if one was declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<IntentRef>,
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
