//! `custody doctor`: is everything in order, and what to do if not.

use std::path::{Path, PathBuf};

use custody_keys::KeyFolder;
use custody_log::Timestamp;
use custody_models::registry::ModelStoreError;
use custody_runtime::store::WatchError;
use custody_runtime::watch::FileState;
use custody_runtime::{Paths, Store};
use custody_service::settings::{GatewaySettings, SignedSettingsError};
use custody_verify::{VerifyError, VerifyReport, verify_ledger};
use serde::Serialize;

use super::keys::open_to_others;
use super::ledger::index_remedy;
use crate::context::GlobalContext;
use crate::credential::has_terminal;
use crate::output::{
    BAD, BOLD, ExitStatus, GOOD, WARN, count, json_line, line, moment, paint, shown,
};
use crate::running_service::ServiceState;
use crate::token_file;

/// Check that store, keys, head and watched files are in order.
///
/// Changes nothing and asks for nothing. One line per check: `ok`, `warn` or `bad`, with what to do. Exits
/// with 1 when anything is bad.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Warn,
    Bad,
}

/// One line of the report.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    level: Level,
    finding: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

#[derive(Default)]
struct Report(Vec<Check>);

impl Report {
    fn ok(&mut self, check: &'static str, finding: impl Into<String>) {
        self.0.push(Check { check, level: Level::Ok, finding: finding.into(), todo: None });
    }

    fn warn(&mut self, check: &'static str, finding: impl Into<String>, todo: &str) {
        let todo = (!todo.is_empty()).then(|| todo.to_owned());
        self.0.push(Check { check, level: Level::Warn, finding: finding.into(), todo });
    }

    fn bad(&mut self, check: &'static str, finding: impl Into<String>, todo: &str) {
        let todo = (!todo.is_empty()).then(|| todo.to_owned());
        self.0.push(Check { check, level: Level::Bad, finding: finding.into(), todo });
    }
}

pub(crate) fn run(context: &GlobalContext, _: &Args) -> anyhow::Result<ExitStatus> {
    let mut report = Report::default();
    // Without a readable configuration no command gets this far.
    report.ok("configuration", "read");
    folders(&mut report, context.paths());
    keys(&mut report, context);
    passphrases(&mut report, &context.key_folder());
    tokens(&mut report, &context.key_folder());
    disk(&mut report, context.paths());
    weights(&mut report, context);
    if has_terminal() {
        report.ok("terminal", "there is one to type passphrases on");
    } else {
        let finding = "none here: owner and reviewer actions will be refused";
        report.warn("terminal", finding, "run those from a terminal of your own");
    }
    match context.open_existing() {
        Ok(store) => {
            if let Err(error) = service(&mut report, &store, &ServiceState::of(context)) {
                report.bad("service", causes(&error), "");
            }
            opened(&mut report, &store);
        }
        Err(error) => report.bad("store", causes(&error), ""),
    }
    let worst = report.0.iter().map(|check| check.level).any(|level| level == Level::Bad);
    for check in &report.0 {
        if context.json {
            json_line(check)?;
        } else {
            print(check);
        }
    }
    Ok(ExitStatus::failure_if(worst))
}

fn print(check: &Check) {
    let level = match check.level {
        Level::Ok => paint(GOOD, "ok  "),
        Level::Warn => paint(WARN, "warn"),
        Level::Bad => paint(BAD, "bad "),
    };
    let todo = check.todo.as_ref().map_or(String::new(), |todo| format!("; {todo}"));
    let finding = shown(&format!("{}{todo}", check.finding));
    line(format_args!("{level}  {} {finding}", paint(BOLD, format_args!("{:14}", check.check))));
}

/// An error with its causes. Store errors say themselves what to do.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn folders(report: &mut Report, paths: &Paths) {
    let folder = paths.store.parent().unwrap_or(&paths.store);
    let (store, keys) = (resolved(folder), resolved(&paths.keys));
    if keys.starts_with(&store) || store.starts_with(&keys) {
        let finding = "the keys and the head stand in the store's own folder";
        let todo = "move them with --keys, or an old copy of the folder cannot be told from it";
        report.warn("folders", finding, todo);
    } else {
        report.ok("folders", "store and head stand apart");
    }
    if let Some(finding) = other_readers(paths) {
        report.warn("permissions", finding, "its texts may be private");
    }
}

/// The path with its links followed; as it is written if it does not exist.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.into())
}

#[cfg(unix)]
fn other_readers(paths: &Paths) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    // Its write-ahead log holds what the database will.
    ["", "-wal", "-shm"].into_iter().find_map(|suffix| {
        let mut path = paths.store.clone().into_os_string();
        path.push(suffix);
        let path = PathBuf::from(path);
        let mode = std::fs::metadata(&path).ok()?.permissions().mode() & 0o777;
        let path = path.display();
        (mode & 0o077 != 0)
            .then(|| format!("`{path}` has mode {mode:04o}; run `chmod 0600 {path}`"))
    })
}

#[cfg(not(unix))]
fn other_readers(_: &Paths) -> Option<String> {
    None
}

fn keys(report: &mut Report, context: &GlobalContext) {
    let found = open_to_others(&context.key_folder());
    if found.is_empty() {
        report.ok("keys", "readable by you alone");
    }
    for finding in found {
        report.bad(
            "keys",
            finding,
            "if others may have read them, `custody keys rotate --apply` too",
        );
    }
}

/// Whether somebody else can read the token files that `custody principal add` wrote.
fn tokens(report: &mut Report, keys: &KeyFolder) {
    let written = token_file::written(keys);
    let problems: Vec<String> = written.iter().filter_map(token_file::problem).collect();
    if problems.is_empty() {
        report
            .ok("tokens", format!("{} readable by you alone", count(written.len() as u64, "file")));
    }
    for problem in problems {
        report.bad(
            "tokens",
            problem,
            "if others may have read it, revoke the principal and add it again",
        );
    }
}

/// The embedder that the detectors beyond the default need. Looks, but does not hash 90 MB.
const EMBEDDER: &str = "all-minilm-l6-v2";

fn weights(report: &mut Report, context: &GlobalContext) {
    match context.models().find(EMBEDDER) {
        Ok(_) => report.ok("weights", format!("{EMBEDDER} is here")),
        Err(ModelStoreError::Absent { command, .. }) => report.ok(
            "weights",
            format!("{EMBEDDER} is not here; the default detector needs none (`{command}`)"),
        ),
        Err(error) => report.warn("weights", error.to_string(), ""),
    }
}

/// Less free space than this is worth a word.
#[cfg(unix)]
const LOW_MIB: u64 = 1_024;
/// With less than this, commits will soon fail.
#[cfg(unix)]
const TOO_LOW_MIB: u64 = 64;

#[cfg(unix)]
fn disk(report: &mut Report, paths: &Paths) {
    let Some(folder) = paths.store.ancestors().skip(1).find(|folder| folder.exists()) else {
        return;
    };
    let Ok(disk) = rustix::fs::statvfs(folder) else { return };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
    let finding = format!("{free} MiB free for the store");
    match free {
        0..TOO_LOW_MIB => report.bad("disk", finding, "make room before commits fail"),
        TOO_LOW_MIB..LOW_MIB => report.warn("disk", finding, "make room"),
        LOW_MIB.. => report.ok("disk", finding),
    }
}

#[cfg(not(unix))]
fn disk(_: &mut Report, _: &Paths) {}

fn opened(report: &mut Report, store: &Store) {
    if store.is_read_only() {
        let finding = "open for reading only: the store, its folder or its head cannot be written";
        report.warn("store", finding, "what is asked of it to write is refused");
    }
    let checked = verify_ledger(store).and_then(|found| Ok((found, store.checkpoint()?)));
    match checked {
        Err(error) => {
            let remedy = if let VerifyError::Store(error) = &error {
                index_remedy(error).trim_start_matches("; ")
            } else {
                ""
            };
            report.bad("record", causes(&error), remedy);
        }
        Ok((VerifyReport { records, contents, breaks, .. }, signed)) => {
            let finding =
                format!("{records} records and {contents} contents verify, by {}", signed.vkey);
            report.ok("record", finding);
            tail(report, store, records, breaks);
        }
    }
    let rest = [owner_key, pending, clock, files];
    for check in rest {
        if let Err(error) = check(report, store) {
            report.bad("store", causes(&error), "");
        }
    }
}

/// Whether `custody serve` answers the hosts that are connected.
fn service(
    report: &mut Report,
    store: &Store,
    state: &ServiceState,
) -> Result<(), SignedSettingsError> {
    let connections = GatewaySettings::signed(store)?.unwrap_or_default().connection.len();
    let finding = state.problem().unwrap_or_else(|| "`custody serve` keeps the record".to_owned());
    let finding = finding.trim_end_matches('.');
    match (state, connections) {
        (ServiceState::Ready, _) => report.ok("service", finding),
        (ServiceState::NotRunning, 0) => report.ok("service", "none runs, and none is needed"),
        (ServiceState::NotRunning, _) => report.warn("service", finding, "run `custody serve`"),
        (ServiceState::Degraded(_), _) => {
            report.bad(
                "service",
                finding,
                "its log says why; make room on the disk, or restart it",
            );
        }
        (ServiceState::Silent(_), _) => report.bad("service", finding, "restart it"),
    }
    Ok(())
}

fn tail(report: &mut Report, store: &Store, records: u64, breaks: u64) {
    match store.unacknowledged() {
        0 => report.ok("head", format!("over all of {}", count(records, "record"))),
        tail => report.warn(
            "head",
            format!("{} behind it, signed but never acknowledged", count(tail, "record")),
            if store.is_read_only() {
                "they cannot be acknowledged where nothing is written"
            } else {
                "they are kept; the next write takes them in"
            },
        ),
    }
    match breaks {
        0 => report.ok("breaks", "none"),
        breaks => report.warn(
            "breaks",
            format!("an owner adopted the store {}", count(breaks, "time")),
            "`custody ledger show --kind admin` says when and why",
        ),
    }
}

fn owner_key(report: &mut Report, store: &Store) -> Result<(), WatchError> {
    let owner = store.state(|state| state.owner().map(|owner| owner.name.clone()))?;
    let owner = owner.unwrap_or_default();
    let keys = store.keys();
    if !keys.humans().contains(&owner) {
        let finding = format!("the key of `{owner}` is not in `{}`", keys.path().display());
        report.warn("owner's key", finding, "nobody can approve here until it is back");
        return Ok(());
    }
    report.ok("owner's key", format!("`{owner}`"));
    Ok(())
}

/// Whether a guess at each passphrase costs what it should.
fn passphrases(report: &mut Report, keys: &KeyFolder) {
    let mut findings = 0;
    for name in keys.humans() {
        match keys.is_cheap_to_guess(&name) {
            Ok(false) => continue,
            Ok(true) => report.warn(
                "passphrases",
                format!("a guess at the one of `{name}` costs less than at one that is new"),
                &format!("`custody keys rotate --passphrase {name}` stores the key anew"),
            ),
            Err(error) => report.bad("passphrases", causes(&error), ""),
        }
        findings += 1;
    }
    if findings == 0 {
        report.ok("passphrases", "a guess takes about a second of one core");
    }
}

fn pending(report: &mut Report, store: &Store) -> Result<(), WatchError> {
    let now = store.clock().now();
    let (waiting, expired) = store.state(|state| {
        let (expired, waiting): (Vec<_>, Vec<_>) =
            state.pending().partition(|pending| pending.expires <= now);
        (waiting.len(), expired.len())
    })?;
    match (waiting, expired) {
        (0, 0) => report.ok("proposals", "none wait"),
        (waiting, 0) => report.ok(
            "proposals",
            format!("{waiting} wait for a reviewer; see `custody memory pending`"),
        ),
        (waiting, expired) => report.warn(
            "proposals",
            format!("{waiting} wait for a reviewer, {expired} expired"),
            "`custody memory deny` clears an expired one",
        ),
    }
    Ok(())
}

fn clock(report: &mut Report, store: &Store) -> Result<(), WatchError> {
    let last: Timestamp = store.state(|state| state.now())?;
    let now = store.clock().now();
    if now < last {
        let finding = format!("it is {} here, the last record is of {}", moment(now), moment(last));
        report.warn(
            "clock",
            finding,
            "set the clock; until then, decisions use the time of the last record",
        );
    } else {
        report.ok("clock", "not behind the last record");
    }
    Ok(())
}

fn files(report: &mut Report, store: &Store) -> Result<(), WatchError> {
    let files = store.check_files()?;
    let matching = files.iter().filter(|file| file.state == FileState::Matches).count();
    if matching == files.len() {
        report.ok("watched files", format!("{matching}, all as recorded"));
    }
    for file in files {
        let (key, path) = (file.watched.key, file.watched.path);
        let what = match file.state {
            FileState::Matches => continue,
            FileState::Edited => "was edited outside Custody".to_owned(),
            FileState::Missing => "is missing".to_owned(),
            FileState::Unreadable(why) => format!("cannot be read ({why})"),
        };
        let todo = format!("see `custody memory diff {key}`, then `custody memory rollback {key}`");
        report.bad("watched files", format!("`{path}` {what}"), &todo);
    }
    Ok(())
}
