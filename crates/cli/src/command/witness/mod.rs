//! `custody witness`: who cosigns the head of the record. One half is for the owner of a store, the other for whoever
//! runs a witness.

mod operator;
mod owner;

use crate::context::GlobalContext;
use crate::output::ExitStatus;

pub(crate) use owner::{Pinned, PinnedError, cosigned_at, origin_of, pinned};

/// Have others cosign the head of the record, or cosign for others.
///
/// A witness is a process of another user or machine that remembers the largest head it saw of a store, and cosigns
/// only what extends it. `custody ledger cosign` shows it the head, `custody ledger verify --witness` asks it back: a
/// store that was rolled back or forked shows, even when the log key signed the result.
///
/// The owner of a store uses `add`, `list`, `remove` and `reset`; whoever runs a witness uses `init`, `add-log`,
/// `show` and `serve`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Add(owner::Add),
    /// List the witnesses that the owner pinned, and what each cosigned last
    List,
    Remove(owner::Remove),
    Reset(owner::Reset),
    Init(operator::Init),
    AddLog(operator::AddLog),
    Show(operator::Show),
    Serve(operator::Serve),
}

pub(crate) fn run(context: &GlobalContext, command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Add(args) => owner::add(context, args),
        Command::List => owner::list(context),
        Command::Remove(args) => owner::remove(context, &args),
        Command::Reset(args) => owner::reset(context, &args),
        Command::Init(args) => operator::init(context, &args),
        Command::AddLog(args) => operator::add_log(context, &args),
        Command::Show(args) => operator::show(context, &args),
        Command::Serve(args) => operator::serve(context, &args),
    }
}
