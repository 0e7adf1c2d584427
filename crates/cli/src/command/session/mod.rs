//! `custody session`: agents' sessions over JSON Lines, and what their calls ask of humans.

pub(super) mod review;
pub(super) mod serve;

use crate::context::GlobalContext;
use crate::output::ExitStatus;

/// Run agents' sessions over JSON Lines, or answer what their calls ask.
///
/// Without a subcommand, reads one request a line from standard input and prints one answer a line, for host
/// programs: docs/reference/session.md. With one, shows and answers the tool calls that wait for a human.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::Serve,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Pending(review::PendingArgs),
    Approve(review::Approve),
    Deny(review::Deny),
}

pub(crate) fn run(context: &GlobalContext, args: Args) -> anyhow::Result<ExitStatus> {
    match args.command {
        None => serve::serve(context, &args.serve),
        Some(Command::Pending(args)) => review::pending(context, &args),
        Some(Command::Approve(args)) => review::approve(context, &args),
        Some(Command::Deny(args)) => review::deny(context, &args),
    }
}
