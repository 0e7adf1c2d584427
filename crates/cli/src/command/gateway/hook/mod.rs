//! `custody hook`: hooks in coding agents, which ask Custody about prompts and tool calls.

mod install;
pub(crate) mod run;
mod scripted_model;
mod selftest;
mod status;
pub(super) mod trust;

use crate::context::GlobalContext;
use crate::output::ExitStatus;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Install(install::Args),
    Uninstall(install::UninstallArgs),
    Selftest(selftest::Args),
    Status(status::Args),
    #[command(hide = true)]
    Run(run::Args),
}

pub(crate) fn run(context: &GlobalContext, command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Install(args) => install::run(context, &args),
        Command::Uninstall(args) => install::uninstall(context, &args),
        Command::Selftest(args) => selftest::run(context, &args),
        Command::Status(args) => status::run(context, &args),
        Command::Run(args) => Ok(run::run(args)),
    }
}
