//! The other half: running a witness for others.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use custody_keys::fresh_key;
use custody_log::{LogName, LogVerifier};
use custody_witness::{
    AddLogError, LatestCosigned, ServerLimits, WitnessFolder, WitnessFolderError, WitnessServer,
};
use serde_json::json;

use super::owner::cosigned_at;
use crate::context::GlobalContext;
use crate::output::{DIM, ExitStatus, cell, count, json_line, line, moment, note, table};

/// Make a witness: a key, and an empty memory.
///
/// Do it as a user, or on a machine, that the users of the stores cannot write as: a witness is worth what its
/// folder is. The key is never replaced. A folder that was restored from a copy has forgotten what it signed since:
/// make a new witness then, under a new key.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// The witness's folder
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// The name in its signatures, such as `witness.example/w1`: one word without `+`
    #[arg(long, value_name = "NAME")]
    name: String,
}

/// Serve a log from here on.
///
/// The origin and the key are those that `custody witness add` prints on the other side. A log whose key was replaced
/// (`custody keys rotate`) is added again with --replace-key; what was cosigned stays, so that the new key can only
/// extend it.
#[derive(Debug, clap::Args)]
pub(crate) struct AddLog {
    /// The witness's folder
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// The first line of the log's checkpoints, such as `custody.log/store-…`
    #[arg(long, value_name = "ORIGIN")]
    origin: String,
    /// The log's verifier key, such as `custody-log+…`
    #[arg(long, value_name = "VKEY")]
    key: LogVerifier,
    /// Put the key in place of the one that is known
    #[arg(long)]
    replace_key: bool,
}

/// Show the witness's key, and what it cosigned last of each log.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The witness's folder
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
}

/// Answer requests until stopped: `POST /add-checkpoint` of C2SP tlog-witness, and which checkpoint was cosigned last.
///
/// Prints the address when it listens. Heads are no secret and every answer is signed, so plain HTTP does; for
/// another machine put a reverse proxy with TLS before it, or listen on a private network.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The witness's folder
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// Where to listen; port 0 is a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7780")]
    listen: SocketAddr,
}

pub(super) fn init(context: &GlobalContext, args: &Init) -> anyhow::Result<ExitStatus> {
    let name = LogName::new(args.name.as_str())?;
    let witness = WitnessFolder::create(&args.state, name, fresh_key())?;
    let key = witness.cosigner_key().to_string();
    if context.json {
        json_line(&json!({ "key": key }))?;
    } else {
        line(key);
        note("This is the key that owners pin, with `custody witness add`.");
    }
    Ok(ExitStatus::Success)
}

/// Why a log is not served.
#[derive(Debug, thiserror::Error)]
enum ServeLogError {
    #[error(transparent)]
    Folder(#[from] WitnessFolderError),
    #[error(transparent)]
    Log(#[from] AddLogError),
    #[error("`{0}` is not known yet; add it without --replace-key")]
    Unknown(LogName),
}

pub(super) fn add_log(context: &GlobalContext, args: &AddLog) -> anyhow::Result<ExitStatus> {
    let origin = LogName::new(args.origin.as_str())?;
    let mut witness = open(&args.state)?;
    let changed = witness.change(|state| {
        if args.replace_key {
            let replaced = state.replace_key(&origin, args.key.clone());
            replaced.ok_or_else(|| ServeLogError::Unknown(origin.clone()))
        } else {
            Ok(state.add_log(origin.clone(), args.key.clone())?)
        }
    });
    match changed {
        Err(ServeLogError::Log(error)) => {
            return Err(error).context("use --replace-key if the log's owner replaced its key");
        }
        changed => changed?,
    }
    if context.json {
        json_line(&json!({ "added": origin.as_str() }))?;
    } else {
        line(format_args!("`{origin}` is served."));
    }
    Ok(ExitStatus::Success)
}

pub(super) fn show(context: &GlobalContext, args: &Show) -> anyhow::Result<ExitStatus> {
    let (key, state) = WitnessFolder::look(&args.state)?;
    if context.json {
        let logs: Vec<_> = state
            .logs()
            .map(|(origin, log)| {
                json!({
                    "origin": origin.as_str(),
                    "log_key": log.verifier.to_string(),
                    "size": log.size(),
                    "cosigned_at": log.latest.as_ref().map(cosigned_at),
                })
            })
            .collect();
        json_line(&json!({ "key": key.to_string(), "logs": logs }))?;
        return Ok(ExitStatus::Success);
    }
    line(key);
    let rows: Vec<_> = state
        .logs()
        .map(|(origin, log)| {
            let last = log.latest.as_ref().map_or_else(|| "nothing yet".to_owned(), last);
            vec![cell(origin), cell(last), (log.verifier.to_string(), DIM)]
        })
        .collect();
    if rows.is_empty() {
        line("No log is served; see `custody witness add-log --help`.");
    } else {
        table(&["log", "cosigned last", "key"], &rows);
    }
    Ok(ExitStatus::Success)
}

fn last(latest: &LatestCosigned) -> String {
    let size = count(latest.cosigned.checkpoint.size, "record");
    format!("{size}, {}", moment(cosigned_at(latest)))
}

pub(super) fn serve(context: &GlobalContext, args: &Serve) -> anyhow::Result<ExitStatus> {
    let witness = open(&args.state)?;
    let key = witness.cosigner_key().to_string();
    let server = WitnessServer::bind(args.listen, witness, ServerLimits::default())
        .with_context(|| format!("could not listen on `{}`", args.listen))?;
    let url = format!("http://{}", server.address()?);
    if context.json {
        json_line(&json!({ "url": url, "key": key }))?;
    } else {
        line(format_args!("{url} {key}"));
    }
    server.run();
    Ok(ExitStatus::Success)
}

fn open(state: &std::path::Path) -> anyhow::Result<WitnessFolder> {
    WitnessFolder::open(state).map_err(|error| match error {
        WitnessFolderError::InUse(_) => {
            anyhow::Error::new(error).context("stop `custody witness serve` first")
        }
        WitnessFolderError::NoWitness(_) => {
            anyhow::Error::new(error).context("make one with `custody witness init`")
        }
        WitnessFolderError::Exists(_)
        | WitnessFolderError::NoState(_)
        | WitnessFolderError::Key(_)
        | WitnessFolderError::State { .. }
        | WitnessFolderError::File { .. }
        | WitnessFolderError::Write(_) => error.into(),
    })
}
