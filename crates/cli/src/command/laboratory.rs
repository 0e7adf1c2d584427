//! `custody data`, `train` and `eval`: passed on to `custody-lab`.
//!
//! What only measures and trains is a program of its own and no part of the product. These names stay, with the same
//! arguments, output and exit codes, for whoever has built it.

use std::ffi::OsString;
use std::path::Path;
use std::process;

use anyhow::{Context as _, bail};
use clap::CommandFactory;

use super::cli::Cli;
use crate::output::ExitStatus;
use crate::programs;

const PROGRAM: &str = "custody-lab";
const COMMANDS: [&str; 3] = ["data", "train", "eval"];

/// The laboratory's commands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Fetch, import and verify the benchmark data
    Data(Args),
    /// Train detectors
    Train(Args),
    /// Measure whether the claims hold
    Eval(Args),
}

/// Arguments that are passed on unread.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "This is done by the laboratory, a separate program: `custody-lab` is neither beside `custody` nor on \
                  PATH.\nBuild it with `cargo build --release -p custody-lab`; then this help lists its commands."
)]
pub(crate) struct Args {
    /// Arguments of the laboratory
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Command {
    fn parts(&self) -> (&'static str, &Args) {
        match self {
            Self::Data(args) => ("data", args),
            Self::Train(args) => ("train", args),
            Self::Eval(args) => ("eval", args),
        }
    }
}

impl Args {
    fn has_help_flag(&self) -> bool {
        self.arguments.iter().any(|argument| argument == "--help" || argument == "-h")
    }
}

/// Runs the laboratory with `arguments`, all that this process was given. On Unix it returns only if that fails.
///
/// # Errors
/// When the laboratory is not here, or does not start.
pub(crate) fn run(command: &Command, arguments: &[OsString]) -> anyhow::Result<ExitStatus> {
    let (name, args) = command.parts();
    match programs::find(PROGRAM) {
        Some(program) => pass_on(&program, arguments),
        None if args.has_help_flag() => print_help(name),
        None => bail!(
            "`custody {name}` is part of the laboratory, a separate program: `{PROGRAM}` is neither beside `custody` nor \
             on PATH; build it with `cargo build --release -p {PROGRAM}`"
        ),
    }
}

/// Answers `custody help eval …`, where the laboratory has more to say than stands here; `None` for other arguments.
pub(crate) fn help(arguments: &[OsString]) -> Option<anyhow::Result<ExitStatus>> {
    let [help, name, ..] = arguments else { return None };
    let name = COMMANDS.into_iter().find(|command| help == "help" && name == command)?;
    Some(match programs::find(PROGRAM) {
        Some(program) => pass_on(&program, arguments),
        None => print_help(name),
    })
}

/// Replaces this process by `program`, so that input, output, signals and exit code are its own.
#[cfg(unix)]
fn pass_on(program: &Path, arguments: &[OsString]) -> anyhow::Result<ExitStatus> {
    use std::os::unix::process::CommandExt;

    let mut command = process::Command::new(program);
    // Its usage lines then name the command that was typed.
    command.arg0(std::env::args_os().next().unwrap_or_else(|| "custody".into()));
    Err(command.args(arguments).exec())
        .with_context(|| format!("could not run `{}`", program.display()))
}

/// Runs `program` and ends with its exit code.
#[cfg(not(unix))]
fn pass_on(program: &Path, arguments: &[OsString]) -> anyhow::Result<ExitStatus> {
    let status = process::Command::new(program).args(arguments).status();
    let status = status.with_context(|| format!("could not run `{}`", program.display()))?;
    process::exit(status.code().unwrap_or(2))
}

fn print_help(name: &str) -> anyhow::Result<ExitStatus> {
    let mut cli = Cli::command();
    cli.build();
    if let Some(command) = cli.find_subcommand_mut(name) {
        command.print_long_help()?;
    }
    Ok(ExitStatus::Success)
}
