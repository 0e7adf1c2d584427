//! `custody keys`: create a store, show its keys, replace them.

use std::fs;
#[cfg(unix)]
use std::path::Path;

use anyhow::{Context as _, ensure};
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::{Authority, Principal};
use custody_kernel::record::AdminRequest;
use custody_keys::{Existing, KeyFolder};
use custody_log::{Digest, LogKey};
use custody_runtime::Store;
use serde::Serialize;

use super::memory::print_receipt;
use crate::context::GlobalContext;
use crate::credential::{has_terminal, new_passphrase, unlock};
use crate::new_store;
use crate::output::{
    BOLD, ExitStatus, GOOD, WARN, count, fact, json_line, line, paint, preview, shown,
};

/// Create a store, show its keys, replace them.
///
/// The log key signs the head of the record, so that the program can write without anybody present. The
/// owner's key, under a passphrase, signs for everything that only a human may do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Init(Init),
    /// Show where the keys are, whose they are, and their fingerprints
    Show,
    Rotate(Rotate),
}

/// Create a store.
///
/// Asks for a passphrase, twice, on the terminal. Then creates the store's database, the owner's key
/// (encrypted under that passphrase) and the log key, and signs the first head. The keys and the head
/// stand in another folder than the store, so that an old copy of the store put back later is noticed.
///
/// Whoever knows the passphrase can approve, unlock and register. One that could be guessed is refused;
/// four unrelated words, or 12 random characters, are accepted. It is asked for on the terminal and nowhere
/// else, and nobody can recover it. If the command is interrupted, run it again.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// What to call the owner: 1 to 64 of a-z, 0-9 and `-`
    #[arg(long, value_name = "NAME", default_value = new_store::OWNER)]
    owner: String,
}

/// Sign the head of the record with a fresh log key from here on. Owner only.
///
/// Do this when somebody else may have read the log key's file. Heads signed before stay valid for what
/// they covered. With --passphrase, change the passphrase of one human instead: theirs is asked for, then
/// the new one twice.
#[derive(Debug, clap::Args)]
pub(crate) struct Rotate {
    /// Do it; without this, only show what would change
    #[arg(long)]
    apply: bool,
    /// Change the passphrase of this human's key
    #[arg(long, value_name = "NAME", conflicts_with = "apply")]
    passphrase: Option<String>,
}

pub(crate) fn run(context: &GlobalContext, command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Init(args) => init(context, &args),
        Command::Show => show(context),
        Command::Rotate(Rotate { passphrase: Some(name), .. }) => rephrase(context, &name),
        Command::Rotate(Rotate { apply, .. }) => rotate(context, apply),
    }
}

fn init(context: &GlobalContext, args: &Init) -> anyhow::Result<ExitStatus> {
    new_store::ensure_none(context.paths())?;
    ensure!(
        has_terminal(),
        "only a human may create a store; run `custody keys init` on a terminal, where the owner's \
         passphrase is typed"
    );
    let store = new_store::create(context.paths(), &args.owner)?;
    let facts = Facts::of(context, Some(&store))?;
    if context.json {
        json_line(&facts)?;
        return Ok(ExitStatus::Success);
    }
    line(paint(GOOD, "The store is created."));
    facts.print();
    line("");
    line("Next:");
    line("  custody principal add NAME --role user     the people agents work for");
    line("  custody principal add NAME --role agent    a token for an agent");
    line("  custody doctor                             check that everything is in order");
    line("");
    line("Back the two folders up separately. Nobody can recover the passphrase.");
    Ok(ExitStatus::Success)
}

fn show(context: &GlobalContext) -> anyhow::Result<ExitStatus> {
    let opened = context.open_existing();
    let facts = Facts::of(context, opened.as_ref().ok())?;
    if context.json {
        json_line(&facts)?;
    } else {
        facts.print();
    }
    opened?;
    Ok(ExitStatus::Success)
}

fn rotate(context: &GlobalContext, apply: bool) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let (owner, log_key) =
        store.state(|state| (state.owner().cloned(), state.log_key().cloned()))?;
    let owner = owner.context("the store has no owner")?;
    let log_key = log_key.context("the store has no log key")?;
    if !apply {
        let now = fingerprint(&log_key.public_key);
        return preview(context.json, &format!("replace the log key, now SHA-256 {now}"));
    }
    if !has_terminal() {
        return refused(context, &store, log_key);
    }
    let key = unlock(store.keys(), &owner.name)?;
    let authority = store.authenticate(&owner.name, &key)?;
    let receipt = store.rotate_log_key(&authority, &key)?;
    let checkpoint = store.checkpoint()?;
    print_receipt(context, &format!("heads are now signed by `{}`", checkpoint.vkey), &receipt)
}

/// Asks as nobody proven, so that the attempt stands in the record.
fn refused(context: &GlobalContext, store: &Store, log_key: LogKey) -> anyhow::Result<ExitStatus> {
    let nobody = Authority::unproven(Tenant::main());
    let receipt = store.ask(&nobody, AdminRequest::RotateLogKey(log_key))?;
    print_receipt(context, "the log key is rotated", &receipt)
}

fn rephrase(context: &GlobalContext, name: &str) -> anyhow::Result<ExitStatus> {
    let keys = context.key_folder();
    let key = unlock(&keys, name)?;
    let passphrase = new_passphrase(name)?;
    keys.store_human(name, &key, &passphrase, Existing::Replace)?;
    if context.json {
        json_line(&serde_json::json!({ "passphrase_changed": name }))?;
    } else {
        line(format_args!("{} has a new passphrase.", paint(BOLD, name)));
        line("Copies of the old key file, backups included, still open under the old one.");
    }
    Ok(ExitStatus::Success)
}

/// What names a public key to people: its SHA-256.
pub(crate) fn fingerprint(public_key: &Digest) -> String {
    Digest::of(&public_key.0).to_string()
}

/// Where everything is, and whose.
#[derive(Debug, Serialize)]
struct Facts {
    store: String,
    keys: String,
    head: String,
    #[serde(rename = "founded", skip_serializing_if = "Option::is_none")]
    log: Option<LogFacts>,
    humans: Vec<Human>,
    warnings: Vec<String>,
}

/// What is read from the store itself.
#[derive(Debug, Serialize)]
struct LogFacts {
    store_id: String,
    records: u64,
    head_size: u64,
    log_key: String,
    vkey: String,
}

/// A human whose key is here.
#[derive(Debug, Serialize)]
struct Human {
    name: String,
    role: Option<String>,
    public_key: Option<Digest>,
    fingerprint: Option<String>,
}

impl Facts {
    fn of(context: &GlobalContext, store: Option<&Store>) -> anyhow::Result<Self> {
        let paths = context.paths();
        let keys = context.key_folder();
        let mut humans = Vec::new();
        for name in keys.humans() {
            let known = match store {
                Some(store) => store.state(|state| state.principal(&name).cloned())?,
                None => None,
            };
            let public_key = known.as_ref().and_then(|known: &Principal| known.public_key);
            humans.push(Human {
                role: known.as_ref().map(|known| known.role.to_string()),
                fingerprint: public_key.as_ref().map(fingerprint),
                public_key,
                name,
            });
        }
        Ok(Self {
            store: paths.store.display().to_string(),
            keys: keys.path().display().to_string(),
            head: keys.head().display().to_string(),
            log: store.map(LogFacts::of).transpose()?,
            humans,
            warnings: open_to_others(&keys),
        })
    }

    fn print(&self) {
        fact("store", &shown(&self.store));
        fact("keys", &shown(&self.keys));
        fact("head", &shown(&self.head));
        if let Some(log) = &self.log {
            fact("", &format!("over {} of {}", log.head_size, count(log.records, "record")));
            fact("id", &log.store_id);
            fact("log key", &format!("SHA-256 {}", log.log_key));
            fact("", &log.vkey);
        }
        for human in &self.humans {
            let name = paint(BOLD, shown(&human.name));
            match (&human.role, &self.log) {
                (Some(role), _) => fact(role, &name),
                (None, Some(_)) => fact("key of", &format!("{name}, not registered or revoked")),
                (None, None) => fact("key of", &name),
            }
            if let Some(public_key) = &human.public_key {
                fact("", &format!("public key {public_key}"));
            }
            if let Some(fingerprint) = &human.fingerprint {
                fact("", &format!("SHA-256 {fingerprint}"));
            }
        }
        for warning in &self.warnings {
            line(format_args!("{}: {}", paint(WARN, "warning"), shown(warning)));
        }
    }
}

impl LogFacts {
    fn of(store: &Store) -> anyhow::Result<Self> {
        let (id, log_key) = store.state(|state| (state.store(), state.log_key().cloned()))?;
        let signed = store.checkpoint()?;
        let records = signed.checkpoint.size;
        Ok(Self {
            store_id: id.context("the store has no first record")?.to_string(),
            records,
            head_size: records.saturating_sub(store.unacknowledged()),
            log_key: fingerprint(&log_key.context("the store has no log key")?.public_key),
            vkey: signed.vkey,
        })
    }
}

/// What in the folder of the keys others than its holder can read or change, with the cure.
#[cfg(unix)]
pub(crate) fn open_to_others(keys: &KeyFolder) -> Vec<String> {
    let humans = keys.path().join("humans");
    let key_files = keys.humans().into_iter().map(|name| humans.join(format!("{name}.pem")));
    let log_keys = ["log.key", "log.key.next"].map(|file| keys.path().join(file));
    let private_files = log_keys.into_iter().chain(key_files);
    let folders = [keys.path().to_owned(), humans.clone()].into_iter().map(|path| (path, 0o700));
    let checked = folders.chain(private_files.map(|path| (path, 0o600)));
    checked.filter_map(|(path, mode)| wider_than(&path, mode)).collect()
}

/// What to do about a file or folder with more permissions than `mode`. What is missing has none.
#[cfg(unix)]
fn wider_than(path: &Path, mode: u32) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    let has = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let path = path.display();
    (has & !mode != 0)
        .then(|| format!("`{path}` has mode {has:04o}; run `chmod {mode:04o} {path}`"))
}

#[cfg(not(unix))]
pub(crate) fn open_to_others(_: &KeyFolder) -> Vec<String> {
    Vec::new()
}
