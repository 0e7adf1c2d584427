//! The `custody` command, and what the laboratory's own command shares with it.
//!
//! `custody` calls [`run`] and nothing else. The rest is for `custody-lab`, which takes the same options and prints in
//! the same way:
//!
//! - [`context`], [`output`], [`programs`]: global options and folders, what is printed, where the other program is.
//! - [`detector`], [`language_model`]: the options that choose them.
//! - [`attacks`]: the ten attacks that `custody demo` plays and `custody eval memory` counts.
//!
//! Exit codes: 0 fine, 1 something was refused or found, 2 wrong usage or an internal error.

pub mod attacks;
mod command;
mod config;
pub mod context;
mod credential;
pub mod output;
pub mod programs;
mod token_file;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use context::{Context, Global};
use output::Outcome;

pub use command::{detector, language_model};

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
    Doctor(command::doctor::Args),
    #[command(flatten)]
    Laboratory(command::laboratory::Command),
    /// Print the completions of a shell
    Completions(command::completions::Args),
}

/// Runs `custody` with the arguments of this process.
pub fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(ended) = command::laboratory::help(&arguments) {
        return output::exit_code(ended, false);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    let json = cli.global.json;
    output::exit_code(perform(cli, &arguments), json)
}

fn perform(cli: Cli, arguments: &[OsString]) -> anyhow::Result<Outcome> {
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
        Command::Doctor(args) => command::doctor::run(&context, &args),
        Command::Laboratory(command) => command::laboratory::run(&command, arguments),
        Command::Completions(args) => command::completions::run(&args),
    }
}
