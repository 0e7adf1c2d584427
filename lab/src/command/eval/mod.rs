//! `custody eval`: whether the claims hold.

mod agent;
mod behaviour;
mod buried;
mod compare;
mod detection;
mod gateway;
mod memory;
mod output;
mod overdefence;
mod prefilter;
mod progress;
mod recovery;
mod route;

use custody_cli::context::GlobalContext;
use custody_cli::output::ExitStatus;
use custody_lab::size::Size;

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Agent(agent::Agent),
    Detection(detection::Detection),
    Overdefence(overdefence::Overdefence),
    Behaviour(behaviour::Behaviour),
    Buried(buried::Buried),
    Prefilter(prefilter::Prefilter),
    Recovery(recovery::Recovery),
    Baseline(route::Baseline),
    Gateway(gateway::Gateway),
    Route(route::Route),
    Memory(memory::Memory),
    Compare(compare::Compare),
    #[command(hide = true)]
    CrashWriter(memory::CrashWriter),
}

pub(crate) fn run(context: &GlobalContext, command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Agent(args) => agent::run(context, &args),
        Command::Detection(args) => detection::run(context, &args),
        Command::Overdefence(args) => overdefence::run(context, &args),
        Command::Behaviour(args) => behaviour::run(context, &args),
        Command::Buried(args) => buried::run(context, &args),
        Command::Prefilter(args) => prefilter::run(context, &args),
        Command::Recovery(args) => recovery::run(context, &args),
        Command::Baseline(args) => route::run_baseline(context, &args),
        Command::Gateway(args) => gateway::run(context, &args),
        Command::Route(args) => route::run(context, &args),
        Command::Memory(args) => memory::run(context, &args),
        Command::Compare(args) => compare::run(context, &args),
        Command::CrashWriter(args) => memory::write_until_killed(context, &args),
    }
}

/// How much the suites of detectors measure.
fn parse_size(text: &str) -> Result<Size, String> {
    match text {
        "smoke" => Ok(Size::Smoke),
        "full" => Ok(Size::Full),
        _ => Err("use smoke or full".to_owned()),
    }
}
