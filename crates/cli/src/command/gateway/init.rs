//! `custody init`: the store and the keys, with a word on each, and the way back.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use custody_runtime::{Paths, Store};
use serde_json::json;

use super::service_user::ServiceUserPlan;
use crate::context::GlobalContext;
use crate::credential::{confirm, has_terminal};
use crate::new_store::{OWNER, create, ensure_none};
use crate::output::{BOLD, ExitStatus, json_line, line, paint};

/// Create the store and its keys, and say what to do next.
///
/// Asks for one passphrase: the owner's, who approves, unlocks and signs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Take back what `custody init` made, as long as nothing was recorded since; with --service-user, the user too
    #[arg(long)]
    undo: bool,
    /// Give the service a user of its own, whose keys an agent's shell cannot read: as root, after a question; else
    /// print the commands
    #[arg(long, value_name = "NAME")]
    service_user: Option<String>,
}

pub(crate) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(user) = &args.service_user {
        return service_user(user, args.undo);
    }
    if args.undo {
        undo(context)?;
    } else {
        init(context)?;
    }
    Ok(ExitStatus::Success)
}

fn init(context: &GlobalContext) -> anyhow::Result<()> {
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
        return json_line(&json!({ "store": paths.store, "keys": paths.keys }));
    }
    line(format_args!("Made {} and {}.", paths.store.display(), paths.keys.display()));
    line(format_args!(
        "Next: {} and {}. Take it back with {}.",
        paint(BOLD, "custody connect claude-code --apply"),
        paint(BOLD, "custody serve"),
        paint(BOLD, "custody init --undo")
    ));
    Ok(())
}

/// Removes a store in which nothing was recorded but that it was made.
fn undo(context: &GlobalContext) -> anyhow::Result<()> {
    let (store, paths) = (context.open_existing()?, context.paths());
    let (file, keys) = (paths.store.display(), paths.keys.display());
    let records = records_of_use(&store)?;
    ensure!(
        records == 0,
        "something was recorded since; if nobody needs it, remove {file} and {keys} yourself"
    );
    drop(store);
    ensure!(
        confirm(&format!("Remove {file} and {keys}?"))?,
        "nothing was removed; run this on a terminal and answer y"
    );
    remove(paths)?;
    if context.json {
        return json_line(&json!({ "removed": [paths.store, paths.keys] }));
    }
    line(format_args!("Removed {file} and {keys}."));
    Ok(())
}

/// The number of records besides those that every store begins with.
fn records_of_use(store: &Store) -> anyhow::Result<u64> {
    Ok(store.state(|state| state.len())?.saturating_sub(RECORDS_OF_INIT))
}

/// Every store begins with the record that it was made.
const RECORDS_OF_INIT: u64 = 1;

fn remove(paths: &Paths) -> anyhow::Result<()> {
    let database = paths.store.as_os_str();
    for suffix in ["", "-wal", "-shm"] {
        let mut file = database.to_owned();
        file.push(suffix);
        remove_file(Path::new(&file))?;
    }
    fs::remove_dir_all(&paths.keys).with_context(|| unremoved(&paths.keys))
}

fn remove_file(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| unremoved(path)),
    }
}

fn unremoved(path: &Path) -> String {
    format!("could not remove `{}`", path.display())
}

/// Makes a system user for the service, or removes it. Without root's rights, or a terminal to confirm on, prints the
/// commands instead.
fn service_user(user: &str, is_undone: bool) -> anyhow::Result<ExitStatus> {
    let program = std::env::current_exe().context("could not find the program")?;
    let plan = ServiceUserPlan::new(user, &program)?;
    let script = if is_undone { plan.undo_script() } else { plan.script() };
    line(&script);
    if !is_root() || !has_terminal() {
        return Ok(ExitStatus::Success);
    }
    let question = if is_undone {
        "Run these commands, which take the user, its store and the service away?"
    } else {
        "You are root: run these commands now?"
    };
    if !confirm(question)? {
        line("Nothing was changed.");
        return Ok(ExitStatus::Failure);
    }
    if is_undone {
        plan.take_back()?;
        line(format_args!("The user {} and its service are gone.", paint(BOLD, user)));
    } else {
        plan.apply()?;
        line(format_args!(
            "The service runs as {}. Connect clients with {}. Take it back with {}.",
            paint(BOLD, user),
            paint(BOLD, plan.connect()),
            paint(BOLD, format_args!("custody init --undo --service-user {user}"))
        ));
    }
    Ok(ExitStatus::Success)
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}
