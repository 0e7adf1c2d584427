//! `custody init`: the store and the keys, with a word on each.

use crate::context::GlobalContext;
use crate::new_store::{OWNER, create, ensure_none};
use crate::output::{BOLD, ExitStatus, json_line, line, paint};
use serde_json::json;

/// Create the store and its keys, and say what to do next.
///
/// Asks for one passphrase: the owner's, who approves, unlocks and signs. Nothing else is changed, so removing the
/// folders that it names undoes it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(context: &GlobalContext, _: &Args) -> anyhow::Result<ExitStatus> {
    let paths = context.paths();
    ensure_none(paths)?;
    if !context.json {
        anstream::eprintln!(
            "The store, {}, records what agents read and do.\nThe keys go into {}: one of the log, and the owner's, which \
             opens with a passphrase.\nWho knows the passphrase approves calls and changes settings, so an agent must not \
             see it.",
            paths.store.display(),
            paths.keys.display()
        );
    }
    create(paths, OWNER)?;
    if context.json {
        json_line(&json!({ "store": paths.store, "keys": paths.keys }))?;
        return Ok(ExitStatus::Success);
    }
    line(format_args!("Made {} and {}.", paths.store.display(), paths.keys.display()));
    line(format_args!(
        "Next: {} and {}.",
        paint(BOLD, "custody connect claude-code --apply"),
        paint(BOLD, "custody serve")
    ));
    Ok(ExitStatus::Success)
}
