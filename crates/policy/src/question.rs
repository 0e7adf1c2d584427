//! What a policy is asked.

use std::collections::BTreeSet;

use custody_arguments::{Arguments, RecordedArgument, ToolManifest};
use custody_kernel::label::{Channel, Taint, Trust};
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::Role;

/// A call that a model proposes, and what is known around it.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Whom the session runs for.
    pub caller: Caller<'a>,
    /// With which tool.
    pub tool: Described<'a>,
    /// What it is called with.
    pub arguments: &'a Arguments,
    /// Where the values came from: the kernel's [`leaves`](custody_arguments::trace) of this call.
    pub leaves: &'a [RecordedArgument],
    /// The taint of all that was read; tainted if nothing is known of it.
    pub taint: Taint,
    /// Through which text entered the session.
    pub channels: &'a BTreeSet<Channel>,
}

/// Whom a session runs for.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// What people call them; empty if nothing was proven.
    pub name: &'a str,
    /// In which role.
    pub role: Role,
    /// Whether somebody trusted stands behind the session.
    pub trust: Trust,
    /// Whose data they act on.
    pub tenant: &'a Tenant,
}

/// A tool, as the manifests describe it. [`Manifests::tool`](crate::manifests::Manifests::tool) finds it.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it does.
    pub tool: &'a ToolManifest,
    /// Whether it has a manifest.
    pub known: bool,
    /// The groups it is in.
    pub groups: &'a [String],
}
