//! `custody hook install` and `uninstall`.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use custody_gateway::proxy::UserText;
use custody_runtime::store::checked_name;
use custody_service::settings::ConnectionEntry;
use serde_json::json;

use super::super::agent_host::AgentHost;
use super::super::changed_files::ChangedFiles;
use super::super::connect::Surface;
use super::super::connection::{AgentConnection, kept, take_back};
use super::super::service_address::ServicePlace;
use super::{selftest, trust};
use crate::context::GlobalContext;
use crate::output::{BOLD, ExitStatus, json_line, line, note, paint};

/// Install Custody's hooks into a coding agent.
///
/// Makes a connection for the host unless there is one, and changes its settings; the files are kept as they were for
/// `uninstall`. The connection observes until `custody enforce`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The coding agent
    #[arg(value_enum)]
    host: AgentHost,
    /// What the connection is called [default: as the coding agent]
    #[arg(long)]
    name: Option<String>,
    /// Change the settings of this project, not the user's
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Have Codex trust the hooks, in place of /hooks there
    #[arg(long)]
    trust: bool,
    /// Do not try the hooks in the end
    #[arg(long)]
    no_selftest: bool,
    #[command(flatten)]
    service: ServicePlace,
}

/// Take Custody's hooks out of a coding agent again: every file is put back byte for byte.
///
/// The connection stays if it was there before the hooks.
#[derive(Debug, clap::Args)]
pub(crate) struct UninstallArgs {
    /// The coding agent
    #[arg(value_enum)]
    host: AgentHost,
    /// What the connection is called [default: as the coding agent]
    #[arg(long)]
    name: Option<String>,
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let host = args.host;
    ensure!(
        !args.trust || host == AgentHost::Codex,
        "only Codex asks whether hooks are trusted; leave --trust out"
    );
    let store = context.open()?;
    let name = checked_name(args.name.as_deref().unwrap_or(host.name()))?;
    let host_asks = host.hook().can_ask();
    let entry =
        ConnectionEntry { user_text: UserText::Hook, host_asks, ..ConnectionEntry::default() };
    let project = args.project.as_deref().map(std::path::absolute).transpose()?;
    let (project, service, surface) = (project.as_deref(), &args.service, Surface::Hook);
    let connection = AgentConnection { host, name: &name, entry, service, surface, project };
    let file = connection.install(context, &store)?.files.into_iter().next();
    let file = file.context("nothing was installed")?;
    drop(store);
    let trust = trust::ensure(context, (host, &name), (&file, project), args.trust)?;
    if context.json {
        json_line(
            &json!({ "host": host.name(), "connection": name, "file": file, "trust": trust.as_str() }),
        )?;
        return Ok(ExitStatus::Success);
    }
    line(format_args!(
        "Installed into {}. The connection {} observes.",
        file.display(),
        paint(BOLD, &name)
    ));
    match (host.tested_with(), host.version()) {
        (Some(tested), Some(version)) if tested != version => {
            note(format_args!("{} {version} is here; tested with {tested}.", host.title()));
        }
        (Some(_), Some(_)) => {}
        (Some(_), None) => note(format_args!("There is no `{}` here.", host.program())),
        (None, _) => note(format_args!("{} was never run with these hooks.", host.title())),
    }
    trust.print();
    if !args.no_selftest {
        selftest::attempt(host)?.print(host);
    }
    Ok(ExitStatus::Success)
}

pub(super) fn uninstall(
    context: &GlobalContext,
    args: &UninstallArgs,
) -> anyhow::Result<ExitStatus> {
    let name = checked_name(args.name.as_deref().unwrap_or(args.host.name()))?;
    let changed = ChangedFiles::load(&kept(context, &name))?;
    let is_there = changed.is_some_and(|changed| changed.host == args.host.name());
    ensure!(
        is_there,
        "no hooks of {} are installed as `{name}`; see `custody hook status`",
        args.host.title()
    );
    take_back(context, &context.open()?, &name, false)?;
    if context.json {
        json_line(&json!({ "host": args.host.name(), "connection": name, "installed": false }))?;
    } else {
        line(format_args!("{} is as it was before.", args.host.title()));
    }
    Ok(ExitStatus::Success)
}
