//! `custody ledger verify`: is the record the one that was signed, and does every answer follow from the
//! rules?

use custody_runtime::clock::Clock;
use custody_runtime::store::ExportedCheckpoint;
use custody_runtime::{OpenError, Store, StoreError};
use custody_verify::{VerifyError, VerifyReport, verify_ledger};
use serde_json::json;

use crate::context::Context;
use crate::output::{BAD, GOOD, Outcome, WARN, count, json_line, line, paint, shown};

/// What was found in order.
struct Sound {
    report: VerifyReport,
    signed: ExportedCheckpoint,
    unacknowledged: u64,
}

pub(super) fn run(context: &Context) -> anyhow::Result<Outcome> {
    match check(context) {
        Ok(sound) => {
            tell(context, &sound)?;
            Ok(Outcome::Fine)
        }
        Err(error) if is_finding(&error) => {
            let finding = shown(&error.to_string());
            if context.json {
                json_line(&json!({ "verified": false, "finding": finding }))?;
            } else {
                line(format_args!("{}: {finding}", paint(BAD, "not verified")));
            }
            Ok(Outcome::Found)
        }
        Err(error) => Err(error.into()),
    }
}

fn check(context: &Context) -> Result<Sound, Unsound> {
    let store = Store::open(context.paths(), Clock::System)?;
    let report = verify_ledger(&store)?;
    let signed = store.checkpoint()?;
    Ok(Sound { report, signed, unacknowledged: store.unacknowledged() })
}

/// Why a store does not verify, or could not be verified.
#[derive(Debug, thiserror::Error)]
enum Unsound {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether the store itself is at fault, rather than how it was looked at.
const fn is_finding(error: &Unsound) -> bool {
    match error {
        Unsound::Open(OpenError::Vanished(..)) => true,
        Unsound::Open(OpenError::Store(error))
        | Unsound::Verify(VerifyError::Store(error))
        | Unsound::Store(error) => {
            matches!(error, StoreError::Tampered(_) | StoreError::NoHead(_))
        }
        Unsound::Open(_) | Unsound::Verify(_) => false,
    }
}

fn tell(context: &Context, sound: &Sound) -> anyhow::Result<()> {
    let Sound { report, signed, unacknowledged } = sound;
    let (size, root) = (signed.checkpoint.size, hex::encode(signed.checkpoint.root));
    let head_size = size.saturating_sub(*unacknowledged);
    if context.json {
        return json_line(&json!({
            "verified": true,
            "records": report.records,
            "contents": report.contents,
            "purged": report.purged,
            "edges": report.edges,
            "breaks": report.breaks,
            "containments": report.containments,
            "echoes_derived": report.echoes_derived,
            "echoes_not_derived": report.echoes_not_derived,
            "root": root,
            "size": size,
            "head_size": head_size,
            "unacknowledged": unacknowledged,
            "checkpoint": signed.note,
            "vkey": signed.vkey,
        }));
    }
    let VerifyReport { records, contents, purged, edges, breaks, containments, .. } = report;
    line(format_args!("{}: the record is the one that was signed.", paint(GOOD, "verified")));
    let row = |name: &str, value: &str| line(format_args!("  {name:9} {value}"));
    row("records", &format!("{records}, each decided again with the same answer"));
    row("contents", &format!("{contents}, each matching its commitment"));
    if *purged > 0 {
        row("purged", &format!("{purged}, destroyed by recovery; their commitments stand"));
    }
    row("edges", &format!("{edges}, as the records name them"));
    if *containments > 0 {
        let times = count(*containments, "containment");
        row("contained", &format!("{times}, each listing what its findings reach"));
    }
    if report.echoes_not_derived > 0 {
        let (derived, not_derived) = (report.echoes_derived, report.echoes_not_derived);
        let texts = count(derived, "text");
        let why = "they or what they repeat were destroyed, or an earlier version recorded them";
        row("repeats", &format!("{texts} compared again; {not_derived} could not be: {why}"));
    }
    row("root", &root);
    row("head", &format!("over {head_size} of {}", count(size, "record")));
    row("", &signed.vkey);
    if *unacknowledged > 0 {
        let tail = count(*unacknowledged, "record");
        row("tail", &paint(WARN, format_args!("{tail} signed, but never acknowledged to anybody")));
    }
    if *breaks > 0 {
        let times = count(*breaks, "time");
        let see = "`custody ledger show --kind admin` says when and why";
        row("breaks", &paint(WARN, format_args!("adopted by an owner {times}; {see}")));
    }
    Ok(())
}
