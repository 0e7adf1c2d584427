//! A real certificate, changed in every way that one can think of. Every change must be refused.
//!
//! Source: RVU §5.8 changes one byte.

use custody_certificate::Expectations;
use custody_incident::adapters::{AdapterHost, Obliging};
use custody_incident::certify::ProbeReport;
use custody_incident::{Incidents, Indicator, Settings};
use custody_kernel::adapter::{Change, Name};
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_log::{Digest, Seq};
use custody_runtime::Session;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::scratch::Scratch;
use custody_runtime::store::SignedCheckpoint;

use super::published::setup;
use crate::error::EvalError;
use crate::report::Figure;
use crate::stopwatch::timed;

/// The text that the probes look for.
const PLANTED: &str =
    "The reserve of 48213 francs goes to the Marquardt account before Thursday noon.";

/// What is measured on one certificate, and on the recovery that it is about.
pub(super) fn figures() -> Result<Vec<Figure>, EvalError> {
    let scratch = Scratch::new(Limits::UNLIMITED, Clock::manual(1_000))?;
    let host: Name = "host".parse().map_err(setup)?;
    let session = Session::open_on(&scratch.store, &scratch.owner, None, Some(host.clone()))?;
    let planted = session.observe(Observation::message(Channel::User, PLANTED)).wait()?;
    for text in ["The office closes at six on Fridays.", "Lunch is at noon."] {
        session.observe(Observation::message(Channel::User, text)).wait()?;
    }
    adapters(&scratch, &host, planted.iter().map(|receipt| receipt.seq).collect())?;
    session.observe(Observation::completion("I have noted what is to be noted.")).wait()?;
    let indicators: Vec<Indicator> = vec![Indicator::Text(PLANTED.to_owned())];
    let found = Incidents::of(&scratch.store).find(&indicators)?;
    let before = found.findings.len() as u64;
    let (store, owner) = (&scratch.store, &scratch.owner);
    let opened = Incidents::of(store).open(owner, &indicators, found.findings)?.taken()?;
    let id = opened.id();
    let applied = opened.plan(Settings::default())?.apply(owner)?.taken()?;
    applied.evict(owner, &mut [(host, &mut Obliging as &mut dyn AdapterHost)].into())?;
    let report = ProbeReport {
        at_rest: Incidents::of(store).sweep(applied.destroyed())?,
        membership: Incidents::of(store).probe_retrieval(applied.destroyed())?,
    };
    let probed = applied.record_probes(owner, &report)?.taken()?;
    let after = Incidents::of(store).find(&indicators)?.findings.len() as u64;
    let (certified, seconds) = timed(|| probed.certify(owner, &scratch.owner_key, "custody eval"));
    let file = certified?.taken()?.file;
    let expected = Expectations { incident: Some(id), ..Expectations::default() };
    let verified = Incidents::of(store).verify_certificate(&file, expected)?;
    let attested = &verified.certificate().recovery.adapter_attestation;
    let (tried, refused) = corrupt(&scratch, &file, expected)?;
    let false_alarms = report.membership.probes.iter().filter(|probe| {
        probe.scores.control.and_then(|control| control.max()) >= Some(probe.detection_limit_ppm)
    });
    let warned = attested.fusion_warnings.len() as u64;
    let windows: u64 = report.at_rest.residue.iter().map(|residue| residue.windows).sum();
    Ok(vec![
        Figure::count("certificate.corruptions_tried", tried, "changes").published(1.0, E8),
        Figure::count("certificate.corruptions_refused", refused, "changes").published(1.0, E8),
        Figure::count("certificate.adapters_evicted", attested.evicted.len() as u64, "adapters")
            .published(1.0, E8),
        Figure::count("certificate.adapters_retained", attested.retained.len() as u64, "adapters")
            .published(1.0, E8),
        Figure::count("certificate.fusion_warnings", warned, "weights").published(1.0, E8),
        Figure::real("certificate.emit_ms", seconds * 1000.0, "ms"),
        Figure::count("probes.planted", 1, "texts").published(2.0, E6),
        Figure::count("probes.found_before", before, "texts"),
        Figure::count("probes.found_after", after, "texts"),
        Figure::count("probes.false_alarms", false_alarms.count() as u64, "probes"),
        Figure::count("at_rest.windows_found", windows, "runs"),
    ])
}

/// An adapter that has nothing to do with it, one that was trained on the planted text, and one more that was fused.
fn adapters(scratch: &Scratch, host: &Name, planted: Vec<Seq>) -> Result<(), EvalError> {
    let weights = |name: &str| Digest::of(name.as_bytes());
    let load = |name: &str, made_from: Vec<Seq>| -> Result<Change, EvalError> {
        let weights = weights(name);
        Ok(Change::Load { weights, name: name.parse().map_err(setup)?, made_from })
    };
    let changes = [
        load("style", Vec::new())?,
        load("finance", planted.clone())?,
        load("merged", planted)?,
        Change::Fuse { weights: vec![weights("merged")] },
    ];
    for change in changes {
        Incidents::of(&scratch.store).adapt(&scratch.owner, host, change)?;
    }
    Ok(())
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
        u64::from(Incidents::of(&scratch.store).verify_certificate(bytes, expected).is_err())
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
    refused += u64::from(
        Incidents::of(&elsewhere.store).verify_certificate(file, Expectations::default()).is_err(),
    );
    let SignedCheckpoint { note, .. } = elsewhere.store.checkpoint()?;
    let newer = Expectations { after: Some(Digest::of(note.as_bytes())), ..expected };
    refused += refuses(file, newer);
    Ok((tried, refused))
}
