//! `custody keys`: the keys of a store, and its founding.

use std::fs;

use anyhow::{Context as _, bail, ensure};
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::{Authority, Principal};
use custody_kernel::record::AdminRequest;
use custody_keys::{Existing, HumanKey, KeyFolder};
use custody_log::{Digest, LogKey};
use custody_runtime::clock::Clock;
use custody_runtime::store::checked_name;
use custody_runtime::{OpenError, Store};
use serde::Serialize;

use super::memory::tell;
use crate::context::Context;
use crate::credential::{confirm, has_terminal, new_passphrase, unlock};
use crate::output::{BOLD, GOOD, Outcome, WARN, count, json_line, line, paint, preview, shown};

/// The name of the owner when none is given.
pub(crate) const OWNER: &str = "owner";

/// Found a store, show its keys, replace them.
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

/// Found a store.
///
/// Asks for a passphrase, twice, on the terminal. Then makes the store's database, the owner's key
/// (encrypted under that passphrase) and the log key, and signs the first head. The keys and the head
/// stand in another folder than the store, so that an old copy of the store put back later is noticed.
///
/// Whoever knows the passphrase can approve, unlock and register. One that could be guessed is refused;
/// four unrelated words, or 12 random characters, are accepted. It is asked for on the terminal and nowhere
/// else, and nobody can recover it. A founding that was interrupted can be begun again.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// What to call the owner: 1 to 64 of a-z, 0-9 and `-`
    #[arg(long, value_name = "NAME", default_value = OWNER)]
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

pub(crate) fn run(context: &Context, command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Init(args) => init(context, &args),
        Command::Show => show(context),
        Command::Rotate(Rotate { passphrase: Some(name), .. }) => rephrase(context, &name),
        Command::Rotate(Rotate { apply, .. }) => rotate(context, apply),
    }
}

/// Offers to found the store at its first use.
pub(crate) fn offer_init(context: &Context) -> anyhow::Result<Store> {
    let paths = context.paths();
    not_founded(context)?;
    let question = format!("There is no store at {} yet. Make one now?", paths.store.display());
    if !confirm(&question)? {
        return Err(OpenError::NoKeys(paths.keys.clone()).into());
    }
    let store = found(context, OWNER)?;
    anstream::eprintln!(
        "Made {}; its keys are in {}. See `custody keys show`.",
        paths.store.display(),
        paths.keys.display()
    );
    Ok(store)
}

fn init(context: &Context, args: &Init) -> anyhow::Result<Outcome> {
    not_founded(context)?;
    ensure!(
        has_terminal(),
        "a store is founded by a human: run `custody keys init` on a terminal, where the owner's \
         passphrase is typed"
    );
    let store = found(context, &args.owner)?;
    let facts = Facts::of(context, Some(&store))?;
    if context.json {
        json_line(&facts)?;
        return Ok(Outcome::Fine);
    }
    line(paint(GOOD, "The store is founded."));
    facts.print();
    line("");
    line("Next:");
    line("  custody principal add NAME --role user     the people agents work for");
    line("  custody principal add NAME --role agent    a token for an agent");
    line("  custody doctor                             check that everything is in order");
    line("");
    line("Back the two folders up separately. Nobody can recover the passphrase.");
    Ok(Outcome::Fine)
}

/// Nothing may be replaced once a head was signed, whatever else is missing.
fn not_founded(context: &Context) -> anyhow::Result<()> {
    let paths = context.paths();
    match Store::open(paths, Clock::System) {
        Ok(_) => Err(OpenError::KeysExist(paths.keys.clone()).into()),
        Err(OpenError::NoKeys(_)) if head_is_signed(&context.key_folder()) => bail!(
            "the store is founded, but its log key is gone from `{}`; restore it, or run `custody \
             ledger adopt`",
            paths.keys.display()
        ),
        Err(OpenError::NoKeys(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn head_is_signed(keys: &KeyFolder) -> bool {
    match fs::read(keys.head()) {
        Ok(bytes) => bytes.iter().any(|byte| *byte != b'\n'),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

fn found(context: &Context, owner: &str) -> anyhow::Result<Store> {
    let keys = context.key_folder();
    let owner = checked_name(owner)?;
    if keys.humans().contains(&owner) {
        let question = format!(
            "{} has a key of {owner} already, of a store that is not here. Replace it?",
            keys.path().display()
        );
        ensure!(confirm(&question)?, OpenError::KeysExist(keys.path().into()));
    }
    let passphrase = new_passphrase(&owner)?;
    let key = HumanKey::generate();
    keys.store_human(&owner, &key, &passphrase, Existing::Replace)?;
    Ok(Store::create(context.paths(), &owner, &key, Limits::default(), Clock::System)?)
}

fn show(context: &Context) -> anyhow::Result<Outcome> {
    let opened = context.open_existing();
    let facts = Facts::of(context, opened.as_ref().ok())?;
    if context.json {
        json_line(&facts)?;
    } else {
        facts.print();
    }
    opened?;
    Ok(Outcome::Fine)
}

fn rotate(context: &Context, apply: bool) -> anyhow::Result<Outcome> {
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
    tell(context, &format!("heads are now signed by `{}`", checkpoint.vkey), &receipt)
}

/// Asks as nobody proven, so that the attempt stands in the record.
fn refused(context: &Context, store: &Store, log_key: LogKey) -> anyhow::Result<Outcome> {
    let nobody = Authority::unproven(Tenant::main());
    let receipt = store.ask(&nobody, AdminRequest::RotateLogKey(log_key))?;
    tell(context, "the log key is rotated", &receipt)
}

fn rephrase(context: &Context, name: &str) -> anyhow::Result<Outcome> {
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
    Ok(Outcome::Fine)
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
    #[serde(skip_serializing_if = "Option::is_none")]
    founded: Option<Founded>,
    humans: Vec<Human>,
    warnings: Vec<String>,
}

/// What only the store itself can say.
#[derive(Debug, Serialize)]
struct Founded {
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
    fn of(context: &Context, store: Option<&Store>) -> anyhow::Result<Self> {
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
            founded: store.map(Founded::of).transpose()?,
            humans,
            warnings: open_to_others(&keys),
        })
    }

    fn print(&self) {
        let row = |name: &str, value: &str| line(format_args!("  {name:9} {value}"));
        row("store", &shown(&self.store));
        row("keys", &shown(&self.keys));
        row("head", &shown(&self.head));
        if let Some(founded) = &self.founded {
            row("", &format!("over {} of {}", founded.head_size, count(founded.records, "record")));
            row("id", &founded.store_id);
            row("log key", &format!("SHA-256 {}", founded.log_key));
            row("", &founded.vkey);
        }
        for human in &self.humans {
            let name = paint(BOLD, shown(&human.name));
            match (&human.role, &self.founded) {
                (Some(role), _) => row(role, &name),
                (None, Some(_)) => row("key of", &format!("{name}, not registered or revoked")),
                (None, None) => row("key of", &name),
            }
            if let Some(public_key) = &human.public_key {
                row("", &format!("public key {public_key}"));
            }
            if let Some(fingerprint) = &human.fingerprint {
                row("", &format!("SHA-256 {fingerprint}"));
            }
        }
        for warning in &self.warnings {
            line(format_args!("{}: {}", paint(WARN, "warning"), shown(warning)));
        }
    }
}

impl Founded {
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
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    let mut check = |path: std::path::PathBuf, mode: u32| {
        let Ok(metadata) = fs::metadata(&path) else { return };
        let is = metadata.permissions().mode() & 0o777;
        if is & !mode != 0 {
            let path = path.display();
            found.push(format!("`{path}` has mode {is:04o}; run `chmod {mode:04o} {path}`"));
        }
    };
    let humans = keys.path().join("humans");
    check(keys.path().into(), 0o700);
    check(humans.clone(), 0o700);
    for file in ["log.key", "log.key.next"] {
        check(keys.path().join(file), 0o600);
    }
    for name in keys.humans() {
        check(humans.join(format!("{name}.pem")), 0o600);
    }
    found
}

#[cfg(not(unix))]
pub(crate) fn open_to_others(_: &KeyFolder) -> Vec<String> {
    Vec::new()
}
