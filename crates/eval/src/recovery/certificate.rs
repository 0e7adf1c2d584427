//! A real certificate, changed in every way that one can think of. Every change must be refused.
//!
//! Source: RVU §5.8 changes one byte.

use custody_kernel::certificate::Expectations;
use custody_kernel::digest::Digest;
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_runtime::Session;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::recovery::certify::ProbeReport;
use custody_runtime::recovery::{Indicator, Settings};
use custody_runtime::scratch::Scratch;
use custody_runtime::store::SignedCheckpoint;

use crate::error::EvalError;
use crate::report::Figure;
use crate::stopwatch::timed;

/// The text that the probes look for.
const PLANTED: &str =
    "The reserve of 48213 francs goes to the Marquardt account before Thursday noon.";

/// What is measured on one certificate, and on the recovery that it is about.
pub(super) fn figures() -> Result<Vec<Figure>, EvalError> {
    let scratch = Scratch::new(Limits::UNLIMITED, Clock::manual(1_000))?;
    let session = Session::open(&scratch.store, &scratch.owner, None)?;
    for text in [PLANTED, "The office closes at six on Fridays.", "Lunch is at noon."] {
        session.observe(Observation::message(Channel::User, text)).wait()?;
    }
    session.observe(Observation::completion("I have noted what is to be noted.")).wait()?;
    let indicators: Vec<Indicator> = vec![Indicator::Text(PLANTED.to_owned())];
    let found = scratch.store.find(&indicators)?;
    let before = found.findings.len() as u64;
    let (store, owner) = (&scratch.store, &scratch.owner);
    let (id, _) = store.open_incident(owner, &indicators, found.findings)?;
    let plan = store.plan(id, &Settings::default())?;
    let digest = plan.digest().map_err(|cause| EvalError::Setup(cause.to_string()))?;
    let applied = store.apply_plan(owner, id, digest, &Settings::default())?;
    let report = ProbeReport {
        at_rest: store.sweep(&applied.destroyed)?,
        membership: store.probe_retrieval(&applied.destroyed)?,
    };
    store.record_probes(owner, id, &report)?;
    let after = store.find(&indicators)?.findings.len() as u64;
    let (file, seconds) = timed(|| store.certify(owner, &scratch.owner_key, id, "custody eval"));
    let (file, _) = file?;
    let expected = Expectations { incident: Some(id), ..Expectations::default() };
    store.verify_certificate(&file, expected)?;
    let (tried, refused) = corrupt(&scratch, &file, expected)?;
    let false_alarms = report.membership.probes.iter().filter(|probe| {
        probe.scores.control.and_then(|control| control.max()) >= Some(probe.detection_limit_ppm)
    });
    let windows: u64 = report.at_rest.residue.iter().map(|residue| residue.windows).sum();
    Ok(vec![
        Figure::count("certificate.corruptions_tried", tried, "changes").published(1.0, E8),
        Figure::count("certificate.corruptions_refused", refused, "changes").published(1.0, E8),
        Figure::real("certificate.emit_ms", seconds * 1000.0, "ms"),
        Figure::count("probes.planted", 1, "texts").published(2.0, E6),
        Figure::count("probes.found_before", before, "texts"),
        Figure::count("probes.found_after", after, "texts"),
        Figure::count("probes.false_alarms", false_alarms.count() as u64, "probes"),
        Figure::count("at_rest.windows_found", windows, "runs"),
    ])
}

const E6: &str = "RVU §5.6, Table 6";
const E8: &str = "RVU §5.8, Table 8";

/// Every byte flipped, bytes taken out and put in, blanks, another store, another incident. How many were tried, and
/// how many refused.
fn corrupt(
    scratch: &Scratch,
    file: &[u8],
    expected: Expectations,
) -> Result<(u64, u64), EvalError> {
    let refuses = |bytes: &[u8], expected: Expectations| {
        u64::from(scratch.store.verify_certificate(bytes, expected).is_err())
    };
    let (mut tried, mut refused) = (0, 0);
    let mut changed = file.to_vec();
    for at in 0..file.len() {
        for mask in [1_u8, 0x20, 0x80] {
            if let Some(byte) = changed.get_mut(at) {
                *byte ^= mask;
            }
            tried += 1;
            refused += refuses(&changed, expected);
            changed.copy_from_slice(file);
        }
    }
    for at in (0..=file.len()).step_by(97) {
        let (head, tail) = file.split_at(at);
        let cut = [head, tail.get(1..).unwrap_or_default()].concat();
        let grown = [head, b" ", tail].concat();
        for other in [head.to_vec(), cut, grown].into_iter().filter(|other| other != file) {
            tried += 1;
            refused += refuses(&other, expected);
        }
    }
    let elsewhere = Scratch::new(Limits::UNLIMITED, Clock::manual(1_000))?;
    tried += 2;
    refused +=
        u64::from(elsewhere.store.verify_certificate(file, Expectations::default()).is_err());
    let SignedCheckpoint { note, .. } = elsewhere.store.checkpoint()?;
    let newer = Expectations { after: Some(Digest::of(note.as_bytes())), ..expected };
    refused += refuses(file, newer);
    Ok((tried, refused))
}
