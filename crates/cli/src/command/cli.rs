//! The arguments of `custody`: one subcommand for each module beside this one.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::{
    adapter, cert, completions, demo, doctor, gateway, incident, keys, laboratory, ledger, memory,
    models, policy, principal, replay, route, screen, session, witness,
};
use crate::context::{GlobalContext, GlobalOptions};
use crate::output::{self, ExitStatus};

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
pub(super) struct Cli {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Init(gateway::init::Args),
    Connect(Box<gateway::connect::Args>),
    /// Install Custody's hooks into coding agents, and see whether they work
    #[command(subcommand)]
    Hook(gateway::hook::Command),
    Serve(gateway::serve::Args),
    Enforce(gateway::enforce::Args),
    Mcp(gateway::mcp::Args),
    McpMemory(gateway::mcp::memory::Args),
    Replay(replay::Args),
    Screen(screen::Args),
    Route(route::Args),
    Session(Box<session::Args>),
    #[command(subcommand)]
    Policy(policy::Command),
    /// Read, write and review what agents remember
    #[command(subcommand)]
    Memory(memory::Command),
    #[command(subcommand)]
    Ledger(ledger::Command),
    #[command(subcommand)]
    Incident(incident::Command),
    #[command(subcommand)]
    Cert(cert::Command),
    #[command(subcommand)]
    Adapter(adapter::Command),
    #[command(subcommand)]
    Keys(keys::Command),
    #[command(subcommand)]
    Principal(principal::Command),
    #[command(subcommand)]
    Witness(witness::Command),
    #[command(subcommand)]
    Models(models::Command),
    Doctor(doctor::Args),
    #[command(flatten)]
    Laboratory(laboratory::Command),
    /// Print the completions of a shell
    Completions(completions::Args),
}

/// Runs `custody` with the arguments of this process.
pub fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(code) = gateway::hook::run::intercept(&arguments) {
        return code;
    }
    if let Some(ended) = laboratory::help(&arguments) {
        return output::exit_code(ended, false);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    let json = cli.global.json;
    output::exit_code(perform(cli, &arguments), json)
}

/// Runs `custody hook run …` with the arguments of this process, and nothing else.
pub fn run_hook() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    gateway::hook::run::intercept(&arguments).unwrap_or_else(|| {
        anstream::eprintln!(
            "error: this program answers hooks; write custody-hook hook run HOST …"
        );
        ExitCode::from(2)
    })
}

fn perform(cli: Cli, arguments: &[OsString]) -> anyhow::Result<ExitStatus> {
    let context = GlobalContext::new(cli.global)?;
    match cli.command {
        Command::Demo(args) => demo::run(&context, &args),
        Command::Init(args) => gateway::init::run(&context, &args),
        Command::Connect(args) => gateway::connect::run(&context, &args),
        Command::Hook(command) => gateway::hook::run(&context, command),
        Command::Serve(args) => gateway::serve::run(&context, &args),
        Command::Enforce(args) => gateway::enforce::run(&context, &args),
        Command::Mcp(args) => gateway::mcp::run(&context, &args),
        Command::McpMemory(args) => gateway::mcp::memory::run(&args),
        Command::Replay(args) => replay::run(&context, &args),
        Command::Screen(args) => screen::run(&context, &args),
        Command::Route(args) => route::run(&context, &args),
        Command::Session(args) => session::run(&context, *args),
        Command::Policy(command) => policy::run(&context, command),
        Command::Memory(command) => memory::run(&context, command),
        Command::Ledger(command) => ledger::run(&context, command),
        Command::Incident(command) => incident::run(&context, command),
        Command::Cert(command) => cert::run(&context, command),
        Command::Adapter(command) => adapter::run(&context, command),
        Command::Keys(command) => keys::run(&context, command),
        Command::Principal(command) => principal::run(&context, command),
        Command::Witness(command) => witness::run(&context, command),
        Command::Models(command) => models::run(&context, command),
        Command::Doctor(args) => doctor::run(&context, &args),
        Command::Laboratory(command) => laboratory::run(&command, arguments),
        Command::Completions(args) => completions::run(&args),
    }
}
