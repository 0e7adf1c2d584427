//! To be written.

use crate::context::Context;
use crate::output::Outcome;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// To be written
    Todo,
}

pub(crate) fn run(_: &Context, _: Command) -> anyhow::Result<Outcome> {
    Ok(Outcome::Fine)
}
