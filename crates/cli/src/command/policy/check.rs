//! Checking: is it a policy, and does it do what its author wants?

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Context as _;
use custody_policy::{CaseOutcome, run_cases};
use serde_json::json;

use super::look::{open, word};
use crate::command::session::serve::{manifests, read};
use crate::context::GlobalContext;
use crate::output::{BAD, DIM, ExitStatus, GOOD, count, json_line, line, note, paint};

/// Read a policy and check it against the schema.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The policy
    policy: PathBuf,
    /// Tool manifests; tools that the policy names and none of them describes are likely misspelt
    #[arg(long = "tools", value_name = "FILE")]
    tools: Vec<PathBuf>,
}

/// Decide the calls of a table and compare with what it expects.
///
/// Each case says what was heard, on which channel, and which call is proposed. It is decided as in a session,
/// the floor included. See docs/reference/policy.md.
#[derive(Debug, clap::Args)]
pub(crate) struct Test {
    /// The policy
    policy: PathBuf,
    /// The cases, TOML
    cases: PathBuf,
    /// Tool manifests, besides those in the file of cases
    #[arg(long = "tools", value_name = "FILE")]
    tools: Vec<PathBuf>,
}

pub(super) fn check(context: &GlobalContext, args: &Check) -> anyhow::Result<ExitStatus> {
    let policy = open(&args.policy)?;
    let manifests = manifests(&args.tools)?;
    let mut warnings: Vec<String> = policy.warnings().iter().map(ToString::to_string).collect();
    if !args.tools.is_empty() {
        let unknown = manifests.unknown_to(&policy);
        warnings.extend(unknown.iter().map(|name| format!("no manifest describes {name}")));
    }
    if context.json {
        json_line(&json!({
            "version": policy.version(),
            "statements": policy.statements(),
            "warnings": warnings,
        }))?;
        return Ok(ExitStatus::Success);
    }
    for statement in policy.statements() {
        let description = statement.description.as_deref().unwrap_or_default();
        let place = paint(DIM, format_args!("line {}", statement.line));
        line(format_args!("{} {} {place} {description}", statement.effect.as_str(), statement.id));
    }
    for warning in warnings {
        note(warning);
    }
    line(paint(GOOD, format_args!("{} is a policy.", args.policy.display())));
    line(paint(DIM, policy.version()));
    Ok(ExitStatus::Success)
}

pub(super) fn test(context: &GlobalContext, args: &Test) -> anyhow::Result<ExitStatus> {
    let policy = open(&args.policy)?;
    let manifests = manifests(&args.tools)?;
    let outcomes = run_cases(&policy, &manifests, &read(&args.cases)?)
        .with_context(|| format!("`{}` is no table of cases", args.cases.display()))?;
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    for outcome in &outcomes {
        if context.json {
            json_line(outcome)?;
        } else if !outcome.passed {
            line(paint(BAD, format_args!("{} (line {})", outcome.name, outcome.line)));
            line(format_args!("  {}", difference(outcome)));
        }
    }
    if !context.json {
        let total = count(outcomes.len() as u64, "case");
        let style = if failed == 0 { GOOD } else { BAD };
        line(paint(
            style,
            format_args!("{total}: {} passed, {failed} failed", outcomes.len() - failed),
        ));
    }
    Ok(ExitStatus::failure_if(failed > 0))
}

fn quoted(policies: &BTreeSet<String>) -> String {
    policies.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
}

fn difference(outcome: &CaseOutcome) -> String {
    let mut text = format!("expected {}", word(outcome.expected));
    if let Some(by) = &outcome.expected_by {
        text = format!("{text} by {}", quoted(by));
    }
    text = format!("{text}, decided {}", word(outcome.decided));
    if !outcome.by.is_empty() {
        text = format!("{text} by {}", quoted(&outcome.by));
    }
    match &outcome.because {
        Some(because) => format!("{text}: {because}"),
        None => text,
    }
}
