//! What follows an applied plan: sweep the disk, look for what is left, try to get it back, write down what came of it.

use custody_kernel::certificate::probe::{MembershipProbe, Verdict};
use custody_kernel::id::IncidentId;
use custody_kernel::principal::Authority;
use custody_runtime::Store;
use custody_runtime::recovery::Applied;
use custody_runtime::recovery::at_rest::AtRest;
use custody_runtime::recovery::certify::ProbeReport;

use crate::output::{BAD, DIM, GOOD, WARN, count, line, paint, size};

/// Sees to the disk, probes and records what was found. `None` when it was all done before.
pub(super) fn finish(
    store: &Store,
    owner: &Authority,
    id: IncidentId,
    applied: &Applied,
) -> anyhow::Result<Option<ProbeReport>> {
    let at_rest = store.sweep(&applied.destroyed)?;
    if applied.again {
        let was_probed = store.state(|state| state.incident(id)?.probed)?.is_some();
        if was_probed {
            return Ok(None);
        }
    }
    let report = ProbeReport { membership: look(store, applied)?, at_rest };
    store.record_probes(owner, id, &report)?;
    Ok(Some(report))
}

fn look(store: &Store, applied: &Applied) -> anyhow::Result<MembershipProbe> {
    if !applied.destroyed.is_empty() {
        return Ok(store.probe_retrieval(&applied.destroyed)?);
    }
    Ok(MembershipProbe::not_run(if applied.again {
        "the texts were destroyed before a probe ran, and nobody kept them"
    } else {
        "nothing was destroyed"
    }))
}

/// What was found, in a few lines.
pub(super) fn tell(report: &ProbeReport) {
    let AtRest { files, windows, too_short, residue } = &report.at_rest;
    if *windows == 0 {
        line(format_args!("{}  nothing to search the files for", paint(WARN, "at rest")));
    } else if residue.is_empty() {
        let bytes = size(files.iter().map(|(_, bytes)| bytes).sum());
        line(format_args!(
            "{}  none of {windows} runs of the destroyed texts is in the files of the store ({bytes})",
            paint(GOOD, "at rest")
        ));
    }
    for left in residue {
        let file = left.file.display();
        line(format_args!(
            "{}  {} still in {file}",
            paint(BAD, "at rest"),
            count(left.windows, "run")
        ));
    }
    if *too_short > 0 {
        let texts = count(*too_short, "text");
        line(paint(DIM, format_args!("         {texts} too short to be looked for")));
    }
    let probes = &report.membership;
    let style = match probes.verdict {
        Verdict::Pass => GOOD,
        Verdict::Partial | Verdict::Inconclusive | Verdict::NotRun => WARN,
        Verdict::Fail => BAD,
    };
    let what = match &probes.why {
        Some(why) => why.clone(),
        None => format!("{} by retrieval", count(probes.probes.len() as u64, "probe")),
    };
    line(format_args!(
        "{}   {what}: {}",
        paint(style, "probes"),
        paint(style, word(probes.verdict))
    ));
}

pub(super) const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "PASS",
        Verdict::Partial => "PARTIAL",
        Verdict::Fail => "FAIL",
        Verdict::Inconclusive => "INCONCLUSIVE",
        Verdict::NotRun => "NOT_RUN",
    }
}
