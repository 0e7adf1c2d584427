//! `custody ledger reindex`: the indexes made anew from the record.

use custody_verify::{RebuiltIndexes, rebuild_indexes};

use crate::context::GlobalContext;
use crate::output::{ExitStatus, GOOD, count, json_line, line, paint};

pub(super) fn run(context: &GlobalContext) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    // Draws nothing unless standard error is a terminal.
    let bar = indicatif::ProgressBar::new_spinner().with_message("indexing texts");
    let rebuilt = rebuild_indexes(&store, |_| bar.tick())?;
    bar.finish_and_clear();
    if context.json {
        json_line(&rebuilt)?;
        return Ok(ExitStatus::Success);
    }
    let RebuiltIndexes { edges, fingerprinted, .. } = rebuilt;
    line(format_args!(
        "{}: texts, hashes and {}.",
        paint(GOOD, "indexed anew"),
        count(edges, "edge")
    ));
    if fingerprinted > 0 {
        let texts = count(fingerprinted, "text");
        line(format_args!(
            "Fingerprints that were not those of their text were put right in {texts}."
        ));
    }
    Ok(ExitStatus::Success)
}
