//! `custody policy`: what tool calls may do, written down, tested and rehearsed.

mod change;
mod check;
mod init;
mod look;

use crate::context::GlobalContext;
use crate::output::ExitStatus;

/// Write, test, rehearse and set the policy of tool calls.
///
/// A policy is Cedar text: `permit` and `forbid` over the tool, whom the session runs for, and what is known of the
/// call. `@answer("ask")` on a `forbid` asks a human; no `permit` denies; the strictest wins.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Init(init::Init),
    Check(check::Check),
    Test(check::Test),
    Explain(look::Explain),
    Simulate(look::Simulate),
    Show(look::Show),
    Set(change::Set),
}

pub(crate) fn run(context: &GlobalContext, command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Init(args) => init::run(context, &args),
        Command::Check(args) => check::check(context, &args),
        Command::Test(args) => check::test(context, &args),
        Command::Explain(args) => look::explain(context, &args),
        Command::Simulate(args) => look::simulate(context, &args),
        Command::Show(args) => look::show(context, &args),
        Command::Set(args) => change::set(context, &args),
    }
}
