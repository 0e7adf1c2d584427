//! `custody adapter`: which weights the models of agents carry.

mod scan;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use custody_incident::Incidents;
use custody_kernel::adapter::{AdapterChange, Name};
use custody_kernel::state::State;
use custody_log::{Digest, EntryId, Seq};
use custody_models::incoming::hash_of;
use custody_runtime::Store;
use serde_json::json;

use crate::command::memory::{AsHuman, print_receipt};
use crate::context::GlobalContext;
use crate::output::{BAD, BOLD, DIM, ExitStatus, cell, excerpt, json_line, line, paint, table};

/// Track the adapters that model hosts load, unload and fuse.
///
/// Custody loads nothing itself: these commands record what a host did. Whatever a model says is recorded with the
/// weights that it carried, so that a bad adapter is found in everything that was made under it. An agent's session
/// names its host when it is opened.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Scan(scan::Scan),
    Load(Load),
    Unload(Unload),
    Fuse(Fuse),
    /// List every host with what it carries, and what incidents evicted
    List,
}

/// Record that a host loaded an adapter. Owner only.
///
/// Weights that an incident evicted are refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Load {
    /// The file with its weights, or their SHA-256
    adapter: Weights,
    #[command(flatten)]
    host: Host,
    /// The name of the adapter [default: the file's name]
    #[arg(long = "name", value_name = "NAME")]
    called: Option<Name>,
    /// An entry that it was trained on (`e-…` or `#12`). May be repeated.
    ///
    /// If one of them is untrusted, whatever a model says that carries the adapter is untrusted too.
    #[arg(long = "made-from", value_name = "ENTRY")]
    made_from: Vec<Entry>,
    #[command(flatten)]
    who: AsHuman,
}

/// Record that a host unloaded an adapter. Owner only.
#[derive(Debug, clap::Args)]
pub(crate) struct Unload {
    /// The file with its weights, their SHA-256, or the name it was loaded under
    adapter: String,
    #[command(flatten)]
    host: Host,
    #[command(flatten)]
    who: AsHuman,
}

/// Record that a host made adapters part of its model, from which no unload takes them. Owner only.
#[derive(Debug, clap::Args)]
pub(crate) struct Fuse {
    /// The files with their weights, their SHA-256, or the names they were loaded under
    #[arg(required = true)]
    adapters: Vec<String>,
    #[command(flatten)]
    host: Host,
    #[command(flatten)]
    who: AsHuman,
}

#[derive(Debug, clap::Args)]
struct Host {
    /// The host, by the name under which sessions are opened on it
    #[arg(long, value_name = "NAME")]
    host: Name,
}

/// Weights, by the file that holds them or by hash.
#[derive(Debug, Clone)]
enum Weights {
    Hash(Digest),
    File(String),
}

impl FromStr for Weights {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(hash(text).map_or_else(|| Self::File(text.to_owned()), Self::Hash))
    }
}

fn hash(text: &str) -> Option<Digest> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok().map(|()| Digest(bytes))
}

impl Weights {
    fn digest(&self) -> anyhow::Result<Digest> {
        match self {
            Self::Hash(digest) => Ok(*digest),
            Self::File(path) => of_file(Path::new(path)),
        }
    }

    /// The file's name, so far as it is one.
    fn name(&self) -> Option<Name> {
        let Self::File(path) = self else { return None };
        Path::new(path).file_stem()?.to_str()?.parse().ok()
    }
}

/// SHA-256 of a file, however large.
fn of_file(path: &Path) -> anyhow::Result<Digest> {
    let mut file = File::open(path).with_context(|| unreadable_weights(path))?;
    let (hash, bytes) = hash_of(&mut file).with_context(|| unreadable_weights(path))?;
    if bytes == 0 {
        bail!("`{}` is empty; an adapter has weights", path.display());
    }
    Ok(Digest(hash.bytes()))
}

fn unreadable_weights(path: &Path) -> String {
    format!("could not read the weights `{}`", excerpt(&path.to_string_lossy(), 80))
}

/// An entry, by id or by position.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Id(EntryId),
    At(Seq),
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let position = text.strip_prefix('#').and_then(|digits| digits.parse().ok());
        if let Some(position) = position {
            return Ok(Self::At(Seq(position)));
        }
        let id = text.parse().map(Self::Id);
        id.map_err(|_| "name an entry by its id or position, like `e-…` or `#12`".to_owned())
    }
}

impl Entry {
    fn position(self, store: &Store) -> anyhow::Result<Seq> {
        match self {
            Self::At(seq) => Ok(seq),
            Self::Id(id) => Ok(store.position(id)?),
        }
    }
}

pub(crate) fn run(context: &GlobalContext, command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Scan(args) => scan::run(context, &args),
        Command::Load(args) => load(context, args),
        Command::Unload(args) => unload(context, &args),
        Command::Fuse(args) => fuse(context, &args),
        Command::List => list(context),
    }
}

fn load(context: &GlobalContext, args: Load) -> anyhow::Result<ExitStatus> {
    let weights = args.adapter.digest()?;
    let named = args.called.or_else(|| args.adapter.name());
    let name = named.context("give the adapter a name with --name")?;
    let store = context.open()?;
    let made_from = args.made_from.iter().map(|entry| entry.position(&store));
    let made_from = made_from.collect::<Result<_, _>>()?;
    let owner = context.human(&store, args.who.name.as_deref())?;
    let done = format!("{} carries {name} ({})", args.host.host, short(weights));
    let receipt = Incidents::of(&store).adapt(
        &owner,
        &args.host.host,
        AdapterChange::Load { weights, name, made_from },
    )?;
    print_receipt(context, &done, &receipt)
}

fn unload(context: &GlobalContext, args: &Unload) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let weights = store.state(|state| known(state, &args.adapter))??;
    let owner = context.human(&store, args.who.name.as_deref())?;
    let receipt =
        Incidents::of(&store).adapt(&owner, &args.host.host, AdapterChange::Unload { weights })?;
    let left = store.state(|state| {
        state.host(&args.host.host).map_or(0, |host| host.carried.loads_of(weights))
    })?;
    let done = match left {
        0 => format!("{} does not carry {} any more", args.host.host, short(weights)),
        left => format!("{} loads of {} are left on {}", left, short(weights), args.host.host),
    };
    print_receipt(context, &done, &receipt)
}

fn fuse(context: &GlobalContext, args: &Fuse) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let weights = store.state(|state| {
        let mut weights = Vec::new();
        for adapter in &args.adapters {
            weights.push(known(state, adapter)?);
        }
        // What was fused before is part of what is fused now.
        weights.extend(state.host(&args.host.host).and_then(|host| host.carried.base()));
        anyhow::Ok(weights)
    })??;
    let owner = context.human(&store, args.who.name.as_deref())?;
    let receipt =
        Incidents::of(&store).adapt(&owner, &args.host.host, AdapterChange::Fuse { weights })?;
    let base = store.state(|state| state.host(&args.host.host).and_then(|h| h.carried.base()))?;
    let base = base.map(short).unwrap_or_default();
    print_receipt(context, &format!("{} carries the base {base}", args.host.host), &receipt)
}

/// Weights that the record knows, by hash, by name or by their file.
fn known(state: &State, given: &str) -> anyhow::Result<Digest> {
    if let Some(digest) = hash(given) {
        return Ok(digest);
    }
    let named = state
        .adapters()
        .filter(|(_, adapter)| adapter.name.as_ref().is_some_and(|name| name.as_str() == given));
    let named: Vec<Digest> = named.map(|(weights, _)| weights).collect();
    match named.as_slice() {
        [weights] => Ok(*weights),
        [] if Path::new(given).is_file() => of_file(Path::new(given)),
        [] => bail!("no adapter `{}` was loaded; see `custody adapter list`", excerpt(given, 80)),
        [_, _, ..] => bail!(
            "{} adapters were loaded as `{}`; give the SHA-256 of the one you mean",
            named.len(),
            excerpt(given, 80)
        ),
    }
}

/// One adapter on one host, for the reader.
struct Row {
    host: String,
    name: String,
    weights: Digest,
    loads: u64,
    evicted: bool,
}

impl Row {
    fn new(state: &State, host: &str, weights: Digest, loads: u64) -> Self {
        let name = state.adapter(weights).and_then(|adapter| adapter.name.as_ref());
        Self {
            host: excerpt(host, 32),
            name: name.map_or_else(|| "(fused base)".to_owned(), |name| excerpt(name.as_str(), 48)),
            weights,
            loads,
            evicted: state.eviction(weights).is_some(),
        }
    }
}

fn list(context: &GlobalContext) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let rows = store.state(rows)?;
    if context.json {
        for row in &rows {
            json_line(&json!({
                "host": row.host,
                "name": row.name,
                "weights": row.weights,
                "loads": row.loads,
                "evicted": row.evicted,
            }))?;
        }
        return Ok(ExitStatus::Success);
    }
    if rows.is_empty() {
        line("No host carries an adapter.");
        line(paint(DIM, "custody adapter load FILE --host NAME"));
        return Ok(ExitStatus::Success);
    }
    let cells = rows.iter().map(|row| {
        let (standing, style) = if row.evicted { ("evicted", BAD) } else { ("", DIM) };
        vec![
            (row.host.clone(), BOLD),
            cell(&row.name),
            (short(row.weights), DIM),
            cell(row.loads),
            (standing.to_owned(), style),
        ]
    });
    table(&["host", "adapter", "weights", "loads", ""], &cells.collect::<Vec<_>>());
    Ok(ExitStatus::Success)
}

/// What hosts carry, and what is evicted and carried by none.
fn rows(state: &State) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut evicted: BTreeMap<Digest, Row> = BTreeMap::new();
    for (weights, _) in state.adapters().filter(|(weights, _)| state.eviction(*weights).is_some()) {
        evicted.insert(weights, Row::new(state, "", weights, 0));
    }
    for (name, host) in state.hosts() {
        let base = host.carried.base().map(|base| (base, 1));
        for (weights, loads) in base.into_iter().chain(host.carried.active()) {
            evicted.remove(&weights);
            rows.push(Row::new(state, name.as_str(), weights, loads));
        }
    }
    rows.extend(evicted.into_values());
    rows
}

/// The beginning of a hash, long enough to tell adapters apart.
pub(crate) fn short(weights: Digest) -> String {
    weights.to_string().chars().take(12).collect::<String>() + "…"
}
