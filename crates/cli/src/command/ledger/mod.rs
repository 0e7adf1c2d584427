//! `custody ledger`: the record itself: look at it, follow it, verify it, take it along.

mod adopt;
mod cosign;
pub(crate) mod describe;
mod export;
mod kind;
mod migrate;
mod part;
mod reindex;
mod show;
mod trace;
mod verify;
mod witnesses;

pub(crate) use verify::index_remedy;

use anyhow::Context as _;
use custody_log::{EntryId, Seq};
use custody_runtime::Store;

use crate::context::GlobalContext;
use crate::output::ExitStatus;

/// Look at the record, follow where a text came from and went, verify everything, take it along.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Show(show::Args),
    Trace(trace::Args),
    Verify(verify::Args),
    /// Have the pinned witnesses cosign the head of the record as it is now
    ///
    /// Each witness gets the signed head and a proof that it extends what that witness cosigned before, and nothing
    /// else of the record. What was cosigned can no longer be rolled back without `custody ledger verify --witness`
    /// noticing; what came after it can, so run this often: from a timer, and after whatever must not be forgotten.
    Cosign,
    Export(export::Args),
    Adopt(adopt::Args),
    /// Make the indexes anew from the record: texts, hashes, edges and fingerprints
    ///
    /// Indexes only say where to look. Rows that were removed from one hide texts from searches, and `custody ledger
    /// verify` names them; this puts them back. Changes no record and needs no passphrase. Others can write meanwhile.
    Reindex,
    Migrate(migrate::Args),
}

pub(crate) fn run(context: &GlobalContext, command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Show(args) => show::run(context, &args),
        Command::Trace(args) => trace::run(context, &args),
        Command::Verify(args) => verify::run(context, &args),
        Command::Cosign => cosign::run(context),
        Command::Export(args) => export::run(context, &args),
        Command::Adopt(args) => adopt::run(context, &args),
        Command::Reindex => reindex::run(context),
        Command::Migrate(args) => migrate::run(context, &args),
    }
}

/// An entry as people name it: by its id, or by its position as `12` or `#12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Id(EntryId),
    At(Seq),
}

impl std::str::FromStr for Entry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        let position = text.strip_prefix('#').unwrap_or(text).parse();
        position.map(|position| Self::At(Seq(position))).map_err(|_| {
            "name an entry by its position (`12`) or by its id (`e-` and 32 hexadecimal digits)"
                .to_owned()
        })
    }
}

impl Entry {
    fn find(self, store: &Store) -> anyhow::Result<Seq> {
        match self {
            Self::Id(id) => Ok(store.position(id)?),
            Self::At(seq) => {
                let label = store.state(|state| state.label(seq))?;
                label
                    .map(|_| seq)
                    .with_context(|| format!("there is no entry {seq}; see `custody ledger show`"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_named_by_position_or_by_its_whole_id() {
        let id = EntryId::from_random([7; 16]);
        assert_eq!(id.to_string().parse(), Ok(Entry::Id(id)));
        for text in ["12", "#12"] {
            assert_eq!(text.parse(), Ok(Entry::At(Seq(12))), "{text}");
        }
        for text in ["", "#", "-1", "e-07", "##1", "s-07070707070707070707070707070707"] {
            assert!(text.parse::<Entry>().is_err(), "{text}");
        }
    }
}
