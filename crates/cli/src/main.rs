//! The `custody` command.
//!
//! Exit codes: 0 fine, 1 something was refused or found, 2 wrong usage or an internal error.

mod command;
mod config;
mod context;
mod credential;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use context::{Context, Global};
use output::{Outcome, error_line};

/// Keeps the chain of custody for LLM agents.
///
/// Everything an agent reads, remembers or acts on is recorded with where it came from; memory writes and
/// tool calls are decided by that provenance, never by what a text says.
///
/// Start with `custody demo`.
#[derive(Debug, Parser)]
#[command(name = "custody", version, about, long_about, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 fine, 1 refused or found something, 2 usage or internal error."
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(command::demo::Args),
    Replay(command::replay::Args),
    Screen(command::screen::Args),
    Route(command::route::Args),
    Session(Box<command::session::Args>),
    #[command(subcommand)]
    Policy(command::policy::Command),
    /// Read, write and review what agents remember
    #[command(subcommand)]
    Memory(command::memory::Command),
    #[command(subcommand)]
    Ledger(command::ledger::Command),
    #[command(subcommand)]
    Incident(command::incident::Command),
    #[command(subcommand)]
    Cert(command::cert::Command),
    #[command(subcommand)]
    Adapter(command::adapter::Command),
    #[command(subcommand)]
    Keys(command::keys::Command),
    #[command(subcommand)]
    Principal(command::principal::Command),
    #[command(subcommand)]
    Models(command::models::Command),
    Data(command::data::Args),
    Doctor(command::doctor::Args),
    /// Train detectors
    #[command(subcommand)]
    Train(command::train::Command),
    /// Measure whether the claims hold
    #[command(subcommand)]
    Eval(command::eval::Command),
    /// Print the completions of a shell
    Completions(command::completions::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let json = cli.global.json;
    match run(cli) {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::from(1),
        Ok(Outcome::Failed) => ExitCode::from(2),
        Err(error) => {
            error_line(&error, json);
            ExitCode::from(2)
        }
    }
}

/// Help goes to standard output; everything else is wrong usage. What was typed may come from a model or
/// a script, so it is shown with nothing in it that steers the terminal.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Help and version; a closed pipe is no concern here.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let refused_value = std::error::Error::source(error)
        .filter(|_| error.kind() == clap::error::ErrorKind::ValueValidation);
    match refused_value {
        Some(why) => error_line(&anyhow::anyhow!("{why}"), false),
        None => anstream::eprint!("{}", output::shown(&error.render().to_string())),
    }
    ExitCode::from(2)
}

fn run(cli: Cli) -> anyhow::Result<Outcome> {
    let context = Context::new(cli.global)?;
    match cli.command {
        Command::Demo(args) => command::demo::run(&context, &args),
        Command::Replay(args) => command::replay::run(&context, &args),
        Command::Screen(args) => command::screen::run(&context, &args),
        Command::Route(args) => command::route::run(&context, &args),
        Command::Session(args) => command::session::run(&context, *args),
        Command::Policy(command) => command::policy::run(&context, command),
        Command::Memory(command) => command::memory::run(&context, command),
        Command::Ledger(command) => command::ledger::run(&context, command),
        Command::Incident(command) => command::incident::run(&context, command),
        Command::Cert(command) => command::cert::run(&context, command),
        Command::Adapter(command) => command::adapter::run(&context, command),
        Command::Keys(command) => command::keys::run(&context, command),
        Command::Principal(command) => command::principal::run(&context, command),
        Command::Models(command) => command::models::run(&context, command),
        Command::Data(args) => command::data::run(&context, args),
        Command::Doctor(args) => command::doctor::run(&context, &args),
        Command::Train(command) => command::train::run(&context, &command),
        Command::Eval(command) => command::eval::run(&context, command),
        Command::Completions(args) => command::completions::run(&args),
    }
}
