//! `custody hook status`: which hooks are installed, and whether they are asked.

use std::path::{Path, PathBuf};

use custody_log::Timestamp;
use custody_runtime::Store;
use custody_service::settings::GatewaySettings;
use serde::Serialize;

use super::super::agent_host::AgentHost;
use super::super::changed_files::ChangedFiles;
use super::super::connection::kept;
use super::trust;
use crate::context::GlobalContext;
use crate::output::{BAD, BOLD, DIM, ExitStatus, GOOD, json_line, line, moment, paint};
use crate::running_service::ServiceState;

/// Show the hooks that are installed: whether each file is as Custody wrote it, whether the host runs it, and when it
/// was asked last.
///
/// Says whether `custody serve` runs and can keep the record: without it nothing goes on. Exits with 1 if a file was
/// changed, a host does not run its hooks, or the service is degraded.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// The hooks of one connection.
#[derive(Debug, Serialize)]
struct HookStatus {
    host: &'static str,
    connection: String,
    file: PathBuf,
    /// Whether every file is as it was written.
    as_written: bool,
    version: Option<String>,
    tested_with: Option<&'static str>,
    trust: &'static str,
    /// When it was asked something last, as far as sessions are open.
    asked_at: Option<Timestamp>,
    /// `observing` or `guarding`; nothing if there is no connection.
    mode: Option<&'static str>,
    /// Whether `custody serve` is `ready`, `degraded`, `silent` or `not_running`.
    service: &'static str,
}

pub(super) fn run(context: &GlobalContext, _: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open_existing()?;
    let settings = GatewaySettings::signed(&store)?.unwrap_or_default();
    let service = ServiceState::of(context);
    let mut found = Vec::new();
    for (name, entry) in &settings.connection {
        let Some(changed) = ChangedFiles::load(&kept(context, name))? else { continue };
        let host = AgentHost::ALL.into_iter().find(|host| host.name() == changed.host);
        let Some(host) = host else { continue };
        let mut files = changed.files.iter().map(|file| file.path.clone());
        let Some(file) = files.find(|file| host.keeps_hooks_in(file)) else { continue };
        let trust = trust::of(host, &file, project_of(host, &file));
        found.push(HookStatus {
            host: host.name(),
            connection: name.clone(),
            as_written: changed.are_ours(),
            version: host.version(),
            tested_with: host.tested_with(),
            trust: trust.as_str(),
            asked_at: asked_at(&store, name)?,
            mode: Some(entry.mode.as_str()),
            service: service.word(),
            file,
        });
    }
    let is_degraded = matches!(service, ServiceState::Degraded(_));
    let has_problem =
        is_degraded || found.iter().any(|hook| !hook.as_written || hook.trust == "untrusted");
    for hook in &found {
        if context.json { json_line(hook)? } else { print(hook) }
    }
    if found.is_empty() && !context.json {
        line("No hooks are installed; install them with `custody hook install`.");
    }
    if found.is_empty() {
        service.warn_if_it_runs();
    } else {
        service.warn();
    }
    Ok(ExitStatus::failure_if(has_problem))
}

/// The project whose settings `file` is, if it is not the user's.
fn project_of(host: AgentHost, file: &Path) -> Option<&Path> {
    let folder = host.folder().and_then(|folder| Ok(folder.canonicalize()?));
    let is_users = folder.is_ok_and(|folder| file.starts_with(folder));
    if is_users { None } else { file.ancestors().nth(2) }
}

fn print(hook: &HookStatus) {
    let mode = hook.mode.unwrap_or("not connected");
    let file = if hook.as_written {
        paint(GOOD, hook.file.display())
    } else {
        paint(BAD, format_args!("{} was changed", hook.file.display()))
    };
    let version = hook.version.as_deref().unwrap_or("not here");
    let tested =
        hook.tested_with.map_or("never run".to_owned(), |tested| format!("tested with {tested}"));
    let last =
        hook.asked_at.map_or("never asked".to_owned(), |at| format!("asked last {}", moment(at)));
    line(format_args!(
        "{}  {}  {mode}  {file}  {version} ({tested})  {}  {}",
        paint(BOLD, &hook.connection),
        hook.host,
        hook.trust,
        paint(DIM, last)
    ));
}

/// When something was asked last in a session of the connection.
fn asked_at(store: &Store, name: &str) -> anyhow::Result<Option<Timestamp>> {
    Ok(store.state(|state| {
        let id = state.principal(name).map(|principal| principal.id);
        let ours =
            state.sessions().filter(|(_, session)| id.is_some() && session.who.principal == id);
        ours.map(|(_, session)| session.active_at).max()
    })?)
}
