//! The question to a policy: a proposed call in its session.

use std::collections::BTreeSet;

use custody_arguments::{Arguments, RecordedArgument, ToolManifest};
use custody_kernel::label::{Channel, Taint, Trust};
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::Role;

/// A call that a model proposes, with its session.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The principal of the session.
    pub caller: Caller<'a>,
    /// The tool.
    pub tool: Described<'a>,
    /// The arguments of the call.
    pub arguments: &'a Arguments,
    /// The argument values with their origins, as [`trace`](custody_arguments::trace) found them.
    pub leaves: &'a [RecordedArgument],
    /// The taint of the context; tainted if the context is unknown.
    pub taint: Taint,
    /// The channels through which text entered the session.
    pub channels: &'a BTreeSet<Channel>,
    /// Whether a declared intent covers the call.
    pub is_intended: bool,
}

/// The principal of a session.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The name; empty without a credential.
    pub name: &'a str,
    /// The role.
    pub role: Role,
    /// Whether the principal is trusted.
    pub trust: Trust,
    /// The tenant whose data the session uses.
    pub tenant: &'a Tenant,
}

/// A tool, as the manifests describe it. [`Manifests::tool`](crate::manifests::Manifests::tool) finds it.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    /// The name of the tool.
    pub name: &'a str,
    /// The manifest, or that of an unknown tool.
    pub tool: &'a ToolManifest,
    /// Whether the tool has a manifest.
    pub known: bool,
    /// The groups that list the tool.
    pub groups: &'a [String],
}
