//! Looking: the policy in force, why it decided, and what another would have.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use custody_kernel::state::State;
use custody_kernel::tool::call::Permission;
use custody_log::EntryId;
use custody_policy::Policy;
use custody_runtime::Store;
use custody_runtime::tools::{explain as explained, rehearse};
use serde_json::json;

use crate::command::session::serve::{manifests, read};
use crate::context::GlobalContext;
use crate::output::{
    BOLD, DIM, ExitStatus, cell, count, excerpt, json_line, line, moment, note, paint, table,
};

/// Print the policy in force: the one that the owner set, else the one that ships.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// Print the schema instead: everything that a policy can speak of
    #[arg(long)]
    schema: bool,
}

/// Say why a recorded call was decided as it was.
#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// The decision, as in `custody ledger show`
    decision: EntryId,
    /// What another policy would say
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Tool manifests, for policies that speak of groups
    #[arg(long = "tools", value_name = "FILE")]
    tools: Vec<PathBuf>,
}

/// Decide every recorded call again under another policy, and show what would change. Nothing is changed.
#[derive(Debug, clap::Args)]
pub(crate) struct Simulate {
    /// The policy to try
    policy: PathBuf,
    /// Tool manifests, for policies that speak of groups
    #[arg(long = "tools", value_name = "FILE")]
    tools: Vec<PathBuf>,
}

pub(super) fn open(file: &Path) -> anyhow::Result<Policy> {
    Policy::parse(&read(file)?).with_context(|| format!("`{}` is no policy", file.display()))
}

/// The policy in force, and whether the owner set it.
pub(super) fn in_force(store: &Store) -> anyhow::Result<(Policy, bool)> {
    let Some(signed) = store.state(State::policy)? else { return Ok((Policy::standard(), false)) };
    let text = store.content(signed.text)?;
    let policy = Policy::parse(&String::from_utf8_lossy(&text))
        .context("the policy in force cannot be read; set another with `custody policy set`")?;
    Ok((policy, true))
}

pub(super) fn show(context: &GlobalContext, args: &Show) -> anyhow::Result<ExitStatus> {
    if args.schema {
        line(custody_policy::SCHEMA.trim_end());
        return Ok(ExitStatus::Success);
    }
    let (policy, signed) = in_force(&context.open()?)?;
    if context.json {
        json_line(
            &json!({ "version": policy.version(), "signed": signed, "text": policy.text() }),
        )?;
    } else {
        let whose = if signed { "set by the owner" } else { "the one that ships" };
        note(format_args!("{} ({whose})", policy.version()));
        line(policy.text().trim_end());
    }
    Ok(ExitStatus::Success)
}

pub(super) fn explain(context: &GlobalContext, args: &Explain) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let policy = match &args.policy {
        Some(file) => open(file)?,
        None => in_force(&store)?.0,
    };
    let seq = store.position(args.decision)?;
    let record = store.record(seq)?;
    let Some(explanation) = explained(&store, &policy, &manifests(&args.tools)?, seq)? else {
        bail!(
            "`{}` is no tool call whose arguments are kept; what was denied is not kept",
            args.decision
        );
    };
    if context.json {
        let refusal = record.answer.refusal().map(ToString::to_string);
        json_line(&json!({
            "decision": args.decision,
            "answer": record.answer.word(),
            "because": refusal,
            "explanation": explanation,
        }))?;
        return Ok(ExitStatus::Success);
    }
    line(format_args!("{} {}", paint(BOLD, record.answer.word()), paint(DIM, moment(record.at))));
    if let Some(refusal) = record.answer.refusal() {
        line(refusal);
    }
    line(format_args!("\nThe policy says: {}", explanation.to_string().trim_end()));
    Ok(ExitStatus::Success)
}

pub(super) fn simulate(context: &GlobalContext, args: &Simulate) -> anyhow::Result<ExitStatus> {
    let policy = open(&args.policy)?;
    let rehearsal = rehearse(&context.open()?, &policy, &manifests(&args.tools)?)?;
    if context.json {
        let changed: Vec<_> = rehearsal
            .changed
            .iter()
            .map(|c| {
                json!({
                    "entry": c.entry.0,
                    "at": moment(c.at),
                    "tool": c.tool,
                    "was": word(c.was),
                    "now": word(c.now),
                    "because": c.because,
                })
            })
            .collect();
        json_line(&json!({
            "calls": rehearsal.calls,
            "unreadable": rehearsal.unreadable,
            "changed": changed,
        }))?;
        return Ok(ExitStatus::failure_if(!rehearsal.changed.is_empty()));
    }
    let rows: Vec<_> = rehearsal
        .changed
        .iter()
        .map(|c| {
            vec![
                cell(c.entry),
                (moment(c.at), DIM),
                cell(excerpt(&c.tool, 40)),
                cell(format_args!("{} → {}", word(c.was), word(c.now))),
                cell(c.because.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    if !rows.is_empty() {
        table(&["entry", "when", "tool", "decision", "because"], &rows);
    }
    line(format_args!(
        "{} decided again: {} would change.",
        count(rehearsal.calls, "call"),
        rehearsal.changed.len()
    ));
    if rehearsal.unreadable > 0 {
        note(format_args!(
            "{} could not be: what was denied is not kept.",
            count(rehearsal.unreadable, "call")
        ));
    }
    Ok(ExitStatus::failure_if(!rehearsal.changed.is_empty()))
}

pub(super) const fn word(permission: Permission) -> &'static str {
    match permission {
        Permission::Allow => "allow",
        Permission::Ask => "ask",
        Permission::Deny => "deny",
    }
}
