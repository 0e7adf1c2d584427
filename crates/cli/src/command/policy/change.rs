//! Setting the policy in force. Owner only.

use std::path::PathBuf;

use super::look::{in_force, open};
use crate::command::memory::show::print_diff;
use crate::context::GlobalContext;
use crate::output::{DIM, ExitStatus, answer_style, json_line, line, paint, preview};

/// Decide tool calls by this policy from here on. Owner only; the policy becomes part of the record.
#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    /// The policy
    policy: PathBuf,
    /// Do it; without this, only show what would change. See `custody policy simulate` too
    #[arg(long)]
    apply: bool,
    /// Who you are; your passphrase is asked for [default: the owner]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

pub(super) fn set(context: &GlobalContext, args: &Set) -> anyhow::Result<ExitStatus> {
    let policy = open(&args.policy)?;
    let store = context.open()?;
    if !context.json {
        let (now, _) = in_force(&store)?;
        print_diff(now.text(), policy.text());
    }
    if !args.apply {
        return preview(context.json, "set this policy");
    }
    let owner = context.human(&store, args.name.as_deref())?;
    let receipt = custody_runtime::tools::set_policy(&store, &owner, &policy)?;
    let refusal = receipt.answer.refusal().map(ToString::to_string);
    if context.json {
        json_line(&serde_json::json!({
            "decision": receipt.id,
            "answer": receipt.answer.word(),
            "version": policy.version(),
            "reason": refusal,
        }))?;
    } else {
        let text = refusal.clone().unwrap_or_else(|| "the policy is in force".to_owned());
        line(paint(answer_style(receipt.answer.word()), text));
        line(paint(DIM, policy.version()));
    }
    Ok(ExitStatus::failure_if(refusal.is_some()))
}
