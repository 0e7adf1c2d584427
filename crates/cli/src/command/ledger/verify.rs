//! `custody ledger verify`: is the record the one that was signed, and does every answer follow from the
//! rules?

use custody_runtime::store::{ExportedCheckpoint, Tampering};
use custody_runtime::{OpenError, StoreError};
use custody_verify::{VerifyError, VerifyReport, verify_ledger};
use serde_json::json;

use super::witnesses::{self, WitnessArgs, WitnessResult};
use crate::context::GlobalContext;
use crate::output::{BAD, ExitStatus, GOOD, WARN, count, fact, json_line, line, paint, shown};

/// Check every record, content and index against the signed head.
///
/// That the head is the newest, no store can show: an older database with its older head is a sound store too, and a
/// holder of the log key can sign any. With --witness, ask each witness that the owner pinned which head it cosigned
/// last, and fail if the store has less or other records, or if a witness gives no answer that counts.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    witness: WitnessArgs,
}

/// What was found in order.
struct Sound {
    report: VerifyReport,
    signed: ExportedCheckpoint,
    unacknowledged: u64,
    witnesses: Vec<WitnessResult>,
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    match check(context, args) {
        Ok(sound) if sound.witnesses.iter().all(WitnessResult::is_fine) => {
            print(context, &sound)?;
            Ok(ExitStatus::Success)
        }
        Ok(Sound { witnesses, .. }) => {
            witnesses::print_findings(context, &witnesses)?;
            Ok(ExitStatus::Failure)
        }
        Err(error) if is_finding(&error) => {
            let finding = shown(&format!("{error}{}", remedy(&error)));
            if context.json {
                json_line(&json!({ "verified": false, "finding": finding }))?;
            } else {
                line(format_args!("{}: {finding}", paint(BAD, "not verified")));
            }
            Ok(ExitStatus::Failure)
        }
        Err(error) => Err(error.into()),
    }
}

fn check(context: &GlobalContext, args: &Args) -> Result<Sound, Unsound> {
    let store = context.open_existing()?;
    let report = verify_ledger(&store)?;
    let signed = store.checkpoint()?;
    let witnesses = witnesses::check(&store, &args.witness)?;
    Ok(Sound { report, signed, unacknowledged: store.unacknowledged(), witnesses })
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

/// What to do about a finding, if there is something.
fn remedy(error: &Unsound) -> &'static str {
    match error {
        Unsound::Verify(VerifyError::Store(error)) => index_remedy(error),
        Unsound::Open(_) | Unsound::Verify(_) | Unsound::Store(_) => "",
    }
}

/// What to do about a store of which an index is at fault.
pub(crate) const fn index_remedy(error: &StoreError) -> &'static str {
    let is_index =
        matches!(error, StoreError::Tampered(Tampering::Index { .. } | Tampering::IndexRows(_)));
    if is_index {
        "; somebody edited the database, and `custody ledger reindex` makes its indexes anew"
    } else {
        ""
    }
}

fn print(context: &GlobalContext, sound: &Sound) -> anyhow::Result<()> {
    let Sound { report, signed, unacknowledged, witnesses } = sound;
    let (size, root) = (signed.checkpoint.size, hex::encode(signed.checkpoint.root));
    let head_size = size.saturating_sub(*unacknowledged);
    if context.json {
        return json_line(&json!({
            "verified": true,
            "records": report.records,
            "contents": report.contents,
            "purged": report.purged,
            "edges": report.edges,
            "searched": report.searched,
            "breaks": report.breaks,
            "containments": report.containments,
            "unsigned": report.unsigned,
            "calls_judged": report.calls_judged,
            "calls_not_judged": report.calls_not_judged,
            "echoes_derived": report.echoes_derived,
            "echoes_not_derived": report.echoes_not_derived,
            "root": root,
            "size": size,
            "head_size": head_size,
            "unacknowledged": unacknowledged,
            "checkpoint": signed.note,
            "vkey": signed.vkey,
            "witnesses": witnesses,
        }));
    }
    let VerifyReport { records, contents, purged, searched, edges, breaks, .. } = report;
    let VerifyReport { containments, unsigned, .. } = report;
    line(format_args!("{}: the record is the one that was signed.", paint(GOOD, "verified")));
    let again = records - unsigned;
    fact(
        "records",
        &format!("{again}, each decided again with the same answer, signatures included"),
    );
    if *unsigned > 0 {
        let what = "of format 1: unchanged, and neither signed nor decided again";
        fact("", &paint(WARN, format_args!("{unsigned} {what}")));
    }
    fact("contents", &format!("{contents}, each matching its commitment"));
    // Texts are indexed before a search, so that a store which was never searched has none.
    if *searched > 0 {
        fact("search", &format!("finds {searched} by their hash, and a sample by their letters"));
    }
    if *purged > 0 {
        fact("purged", &format!("{purged}, destroyed by recovery; their commitments stand"));
    }
    fact("edges", &format!("{edges}, as the records name them"));
    if *containments > 0 {
        let times = count(*containments, "containment");
        fact("contained", &format!("{times}, each listing what its findings reach"));
    }
    if report.calls_judged > 0 {
        let calls = report.calls_judged;
        let what = "traced again in the recorded texts, policies asked again";
        fact("tool calls", &format!("{calls}, {what}"));
    }
    if report.calls_not_judged > 0 {
        let calls = report.calls_not_judged;
        let why = "a text they rest on was destroyed, or an earlier version recorded them";
        fact("", &paint(WARN, format_args!("{calls} could not be judged again: {why}")));
    }
    if report.echoes_not_derived > 0 {
        let (derived, not_derived) = (report.echoes_derived, report.echoes_not_derived);
        let texts = count(derived, "text");
        let why = "they or what they repeat were destroyed, or an earlier version recorded them";
        fact("repeats", &format!("{texts} compared again; {not_derived} could not be: {why}"));
    }
    fact("root", &root);
    fact("head", &format!("over {head_size} of {}", count(size, "record")));
    fact("", &signed.vkey);
    if *unacknowledged > 0 {
        let tail = count(*unacknowledged, "record");
        fact(
            "tail",
            &paint(WARN, format_args!("{tail} signed, but never acknowledged to anybody")),
        );
    }
    witnesses.iter().for_each(|witness| fact("witness", &shown(&witness.sentence())));
    if *breaks > 0 {
        let times = count(*breaks, "time");
        let see = "`custody ledger show --kind admin` says when and why";
        fact("breaks", &paint(WARN, format_args!("adopted by an owner {times}; {see}")));
    }
    Ok(())
}
