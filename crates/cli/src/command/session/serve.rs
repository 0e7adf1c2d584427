//! The loop over lines.

use std::io::{BufRead, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use anyhow::{Context as _, anyhow};
use custody_gateway::lines::{HostConnection, MAX_LINE_BYTES};
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::Authority;
use custody_pipeline::DetectorAdvice;
use custody_policy::{Manifests, Policy};
use custody_runtime::Store;
use custody_runtime::tools::Gate;

use super::meaning::InstalledModel;
use super::open_sessions;
use crate::context::GlobalContext;
use crate::file_error::unreadable;
use crate::output::{ExitStatus, note};
use crate::token_file;

#[derive(Debug, clap::Args)]
pub(super) struct Serve {
    /// The file that holds the token the sessions run for; nobody else may be able to read it [default: they run for
    /// nobody]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A file of tool manifests; may be repeated. See `custody policy init`
    #[arg(long = "tools", value_name = "FILE")]
    tools: Vec<PathBuf>,
    /// A policy that forbids more than the store's own. Read again whenever the file changes
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

pub(super) fn serve(context: &GlobalContext, args: &Serve) -> anyhow::Result<ExitStatus> {
    let manifests = manifests(&args.tools)?;
    let mut policy = args.policy.as_deref().map(PolicyFile::open).transpose()?;
    let gate = Gate::new(manifests, policy.as_mut().and_then(|file| file.policy.take()));
    let store = context.open()?;
    let authority = authority(&store, args.token_file.as_deref())?;
    if let Some(hours) = context.config.session.close_idle_hours {
        let idle_ms = u64::from(hours.get()) * 3_600_000;
        open_sessions::close_idle(&store, &authority, idle_ms)?;
    }
    let mut connection =
        HostConnection::new(store, authority, gate.clone()).with_advisor(Arc::new(DetectorAdvice));
    if let Some(model) = InstalledModel::find(context) {
        connection = connection.with_vectors(Arc::new(model));
    }
    let running = Arc::new(Mutex::new(Some(connection)));
    close_when_ended(&running)?;
    let served = answer_lines(&running, &gate, policy);
    end(&running)?;
    served.map(|()| ExitStatus::Success)
}

/// A connection, until whoever notices first that its host has ended takes it and closes its sessions.
type Running = Mutex<Option<HostConnection>>;

/// Answers line by line until there are no more, or nobody reads the answers.
fn answer_lines(
    running: &Running,
    gate: &Gate,
    mut policy: Option<PolicyFile>,
) -> anyhow::Result<()> {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    loop {
        let answer = match next_line(&mut input).context("could not read standard input")? {
            Line::End => return Ok(()),
            Line::TooLong => HostConnection::too_long(),
            Line::Text(line) if line.trim().is_empty() => continue,
            Line::Text(line) => {
                if let Some(policy) = &mut policy {
                    policy.refresh(gate);
                }
                match locked(running).as_mut() {
                    Some(connection) => connection.answer(&line),
                    None => return Ok(()),
                }
            }
        };
        // Whoever has stopped reading has stopped asking.
        if writeln!(output, "{answer}").and_then(|()| output.flush()).is_err() {
            return Ok(());
        }
    }
}

/// Closes the sessions when this process is asked to end: by a host that ends, a service manager or Ctrl-C.
/// What is being answered is answered first.
fn close_when_ended(running: &Arc<Running>) -> anyhow::Result<()> {
    let running = Arc::clone(running);
    let set = ctrlc::set_handler(move || {
        let ended = end(&running);
        std::process::exit(if ended.is_ok() { 0 } else { 2 });
    });
    set.context("could not prepare for the end of this process")
}

/// Closes the sessions, unless that was done, and then the store.
fn end(running: &Running) -> anyhow::Result<()> {
    match locked(running).take() {
        Some(mut connection) => Ok(connection.close_all()?),
        None => Ok(()),
    }
}

fn locked(running: &Running) -> MutexGuard<'_, Option<HostConnection>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn manifests(files: &[PathBuf]) -> anyhow::Result<Manifests> {
    let mut manifests = Manifests::default();
    for file in files {
        let text = read(file)?;
        let more = Manifests::parse(&text);
        let more =
            more.with_context(|| format!("`{}` is no file of tool manifests", file.display()))?;
        manifests = manifests.joined(more).map_err(|tool| {
            anyhow!("`{}` describes `{tool}`, and so does a file before it", file.display())
        })?;
    }
    Ok(manifests)
}

pub(crate) fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| unreadable(file))
}

pub(super) fn authority(store: &Store, token: Option<&Path>) -> anyhow::Result<Authority> {
    let Some(file) = token else {
        note("No --token-file: the sessions run for nobody, and what they write is refused.");
        return Ok(Authority::unproven(Tenant::main()));
    };
    Ok(store.authenticate_token(&token_file::read(file)?)?)
}

/// A policy in a file, which may change while sessions run.
struct PolicyFile {
    path: PathBuf,
    modified: Option<SystemTime>,
    policy: Option<Policy>,
}

impl PolicyFile {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let modified = modified(path);
        let policy = Policy::parse(&read(path)?)
            .with_context(|| format!("`{}` is no policy", path.display()))?;
        Ok(Self { path: path.to_owned(), modified, policy: Some(policy) })
    }

    /// Takes a changed file up. One that is no policy changes nothing.
    fn refresh(&mut self, gate: &Gate) {
        let now = modified(&self.path);
        if now == self.modified {
            return;
        }
        self.modified = now;
        let parsed = read(&self.path).and_then(|text| Ok(Policy::parse(&text)?));
        match parsed {
            Ok(policy) => {
                gate.reload(Some(policy));
                note(format_args!("`{}` changed and is in force.", self.path.display()));
            }
            Err(error) => note(format_args!(
                "`{}` changed and is no policy, so the one before stays in force: {error:#}",
                self.path.display()
            )),
        }
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|data| data.modified()).ok()
}

enum Line {
    Text(String),
    TooLong,
    End,
}

/// Reads one line. One that is too long is skipped to its end, so that the next one is read as itself.
fn next_line(input: &mut impl BufRead) -> std::io::Result<Line> {
    let limit = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let read = input.by_ref().take(limit).read_until(b'\n', &mut bytes)?;
    if read == 0 {
        return Ok(Line::End);
    }
    if bytes.last() != Some(&b'\n') && bytes.len() >= MAX_LINE_BYTES {
        input.skip_until(b'\n')?;
        return Ok(Line::TooLong);
    }
    // What is no UTF-8 becomes no JSON, and is answered as such.
    Ok(Line::Text(String::from_utf8_lossy(&bytes).into_owned()))
}
