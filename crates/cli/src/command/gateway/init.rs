//! `custody init`: the store and the keys, with a word on each, and the way back.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use custody_runtime::{Paths, Store};
use serde_json::json;

use crate::context::GlobalContext;
use crate::credential::confirm;
use crate::new_store::{OWNER, create, ensure_none};
use crate::output::{BOLD, ExitStatus, json_line, line, paint};

/// Create the store and its keys, and say what to do next.
///
/// Asks for one passphrase: the owner's, who approves, unlocks and signs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Take back what `custody init` made, as long as nothing was recorded since
    #[arg(long, conflicts_with = "service_user")]
    undo: bool,
    /// Print the commands that give the service a user of its own, whose keys an agent's shell cannot read
    #[arg(long, value_name = "NAME")]
    service_user: Option<String>,
}

pub(crate) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(user) = &args.service_user {
        print_service_user(user)?;
    } else if args.undo {
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

/// Prints what makes a user of its own for the service. Nothing is changed: it needs the rights of root.
fn print_service_user(user: &str) -> anyhow::Result<()> {
    let is_name = !user.is_empty()
        && user.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && user.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-".contains(&c));
    if !is_name {
        bail!("`{user}` is not a name of a user; write lower-case letters, digits, `_` and `-`");
    }
    let program = std::env::current_exe().context("could not find the program")?;
    let program = program.display();
    line(format_args!(
        "# A user of its own for the service: an agent's shell cannot read its keys or its store.
sudo useradd --system --home-dir /var/lib/{user} --create-home --shell /usr/sbin/nologin {user}
sudo chmod 700 /var/lib/{user}
sudo -u {user} -H {program} init
sudo tee /etc/systemd/system/{user}.service <<'END'
[Unit]
Description=Custody gateway
After=network.target

[Service]
User={user}
Environment=HOME=/var/lib/{user}
ExecStart={program} serve
Restart=on-failure
NoNewPrivileges=true
ProtectSystem=strict
ReadWritePaths=/var/lib/{user}

[Install]
WantedBy=multi-user.target
END
sudo systemctl enable --now {user}.service
# Then connect clients as that user, and write what it prints into your own settings:
sudo -u {user} -H {program} connect claude-code"
    ));
    Ok(())
}
