//! `custody completions`: what a shell needs to complete commands.

use clap::CommandFactory;

use super::cli::Cli;
use crate::output::ExitStatus;

/// The shell to print completions for.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "custody", &mut script);
    crate::output::line(String::from_utf8_lossy(&script).trim_end());
    Ok(ExitStatus::Success)
}
