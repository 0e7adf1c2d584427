//! `custody session`: agents' sessions over JSON Lines, and what their calls ask of humans.

mod meaning;
mod open_sessions;
pub(super) mod review;
pub(super) mod serve;
mod show;
mod usage;

pub(in crate::command) use meaning::InstalledModel;

use crate::context::GlobalContext;
use crate::output::ExitStatus;

/// Run agents' sessions over JSON Lines, or answer what their calls ask.
///
/// Without a subcommand, reads one request a line from standard input and prints one answer a line, for host
/// programs: docs/reference/session.md; the sessions close when the input ends. With one, shows and answers the
/// tool calls that wait for a human, or shows and closes the sessions that are open.
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
    /// List the open sessions, the longest idle first, with the requests that were answered in each and the tokens that
    /// the vendors say
    List,
    Show(show::Show),
    Close(open_sessions::Close),
}

pub(crate) fn run(context: &GlobalContext, args: Args) -> anyhow::Result<ExitStatus> {
    match args.command {
        None => serve::serve(context, &args.serve),
        Some(Command::Pending(args)) => review::pending(context, &args),
        Some(Command::Approve(args)) => review::approve(context, &args),
        Some(Command::Deny(args)) => review::deny(context, &args),
        Some(Command::List) => open_sessions::list(context),
        Some(Command::Show(args)) => show::run(context, &args),
        Some(Command::Close(args)) => open_sessions::close(context, &args),
    }
}
