//! The `custody-lab` command: what measures Custody and makes its detectors.
//!
//! `custody data`, `custody train` and `custody eval` run it with the same arguments.
//!
//! Exit codes: 0 fine, 1 something was refused or found, 2 wrong usage or an internal error.

mod command;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use custody_cli::context::{GlobalContext, GlobalOptions};
use custody_cli::output::{self, ExitStatus};

/// Measures whether Custody's claims hold, and makes its detectors.
#[derive(Debug, Parser)]
#[command(name = "custody-lab", version, about, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 fine, 1 refused or found something, 2 usage or internal error."
)]
struct Cli {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Data(command::data::Args),
    /// Train detectors
    #[command(subcommand)]
    Train(command::train::Command),
    /// Measure whether the claims hold
    #[command(subcommand)]
    Eval(command::eval::Command),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    let json = cli.global.json;
    output::exit_code(run(cli), json)
}

fn run(cli: Cli) -> anyhow::Result<ExitStatus> {
    let context = GlobalContext::new(cli.global)?;
    match cli.command {
        Command::Data(args) => command::data::run(&context, args),
        Command::Train(command) => command::train::run(&context, &command),
        Command::Eval(command) => command::eval::run(&context, command),
    }
}
