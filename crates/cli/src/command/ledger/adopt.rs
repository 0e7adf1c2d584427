//! `custody ledger adopt`: going on although the store and its head disagree.

use anyhow::ensure;
use custody_kernel::memory::refusal::Refusal;
use custody_runtime::clock::Clock;
use custody_runtime::{OpenError, Store, StoreError};
use serde_json::json;

use crate::command::memory::print_receipt;
use crate::context::GlobalContext;
use crate::credential::{has_terminal, unlock};
use crate::new_store::OWNER;
use crate::output::{BAD, ExitStatus, count, json_line, line, paint, preview};

/// Go on from a store whose head was lost, or which was deliberately restored from a copy. Owner only.
///
/// The records that are there are taken as they are, if they are signed to their end; what stood behind
/// them is lost. The break, your reason and the size that the old head spoke of stand in the record from
/// then on, and show in every later verification. If the log key is gone too, a new one is made.
///
/// Without --apply, say what disagrees and change nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The reason, which stands in the record
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The owner's name
    #[arg(long, value_name = "NAME", default_value = OWNER)]
    owner: String,
    /// Do it; without this, only say what disagrees
    #[arg(long)]
    apply: bool,
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    ensure!(!args.reason.trim().is_empty(), "an adoption needs a reason; say why with --reason");
    let disagrees = match Store::open(context.paths(), Clock::System) {
        Ok(store) => return agrees(context, &store),
        Err(error) => match disagreement(&error).filter(|_| context.paths().store.exists()) {
            Some(disagrees) => disagrees,
            None => return Err(error.into()),
        },
    };
    if !args.apply {
        let would = format!("go on from the records that are there, although {disagrees}");
        return preview(context.json, &would);
    }
    if !has_terminal() {
        return refused(context);
    }
    let key = unlock(&context.key_folder(), &args.owner)?;
    let (store, receipt) = Store::adopt(context.paths(), &key, &args.reason, Clock::System)?;
    let (size, _) = store.root()?;
    print_receipt(
        context,
        &format!("the store goes on, with {} and a break", count(size, "record")),
        &receipt,
    )
}

/// What an adoption would pass over: a head or a log key at fault. Everything else is no disagreement, or
/// leaves nothing to go on from.
fn disagreement(error: &OpenError) -> Option<String> {
    if let OpenError::Store(StoreError::Tampered(tampering)) = error {
        return Some(tampering.to_string());
    }
    let at_fault = [
        (matches!(error, OpenError::Store(StoreError::NoHead(_))), "its signed head is missing"),
        (matches!(error, OpenError::NoKeys(_)), "its log key is missing"),
        (
            matches!(error, OpenError::Store(StoreError::ForeignKeys(_))),
            "its log key is another store's",
        ),
        (matches!(error, OpenError::Store(StoreError::Keys(_))), "its log key cannot be read"),
    ];
    at_fault.into_iter().find(|(is, _)| *is).map(|(_, what)| what.to_owned())
}

fn agrees(context: &GlobalContext, store: &Store) -> anyhow::Result<ExitStatus> {
    let (size, _) = store.root()?;
    if context.json {
        json_line(&json!({ "applied": false, "agrees": true, "records": size }))?;
    } else {
        line(format_args!(
            "The store agrees with its head over {}; there is nothing to adopt.",
            count(size, "record")
        ));
    }
    Ok(ExitStatus::Success)
}

/// The store cannot be opened, so this refusal alone is not recorded.
fn refused(context: &GlobalContext) -> anyhow::Result<ExitStatus> {
    let refusal = Refusal::NeedsOwner;
    if context.json {
        json_line(&json!({
            "answer": "refused",
            "rule": refusal.rule().to_string(),
            "reason": refusal.to_string(),
            "id": null,
        }))?;
    } else {
        let word = paint(BAD, "refused");
        line(format_args!(
            "{word} by {}: {refusal}. Not recorded: the store is closed.",
            refusal.rule()
        ));
    }
    Ok(ExitStatus::Failure)
}
