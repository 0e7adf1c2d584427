//! A certificate of a small recovery: what its probes found, and what becomes of it when it is changed. Every change
//! must be refused.
//!
//! The model host and the adapters of this recovery are a rehearsal: the host unloads whatever it is told to, and the
//! weights are digests of words. Their counts show what the record and the certificate say of adapters, not that a
//! model host unloads anything.
//!
//! Source: RVU §5.6 and §5.8, where one byte is changed.

use std::collections::BTreeSet;

use custody_certificate::{Expectations, Probe, ProbeScores};
use custody_incident::adapters::{AdapterHost, Obliging};
use custody_incident::stage::{Incident, Probed};
use custody_incident::{Incidents, Indicator, Settings, Ways};
use custody_kernel::adapter::{AdapterChange, Name};
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_log::{Digest, Seq};
use custody_runtime::Session;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::scratch::Scratch;
use custody_runtime::store::ExportedCheckpoint;

use super::published::setup;
use crate::error::EvalError;
use crate::report::Figure;
use crate::stopwatch::timed;

/// The text that is destroyed, and that the probes look for.
const PLANTED: &str =
    "The reserve of 48213 francs goes to the Marquardt account before Thursday noon.";

/// What is measured on one certificate, and on the recovery that it is about.
pub(super) fn figures() -> Result<Vec<Figure>, EvalError> {
    let scratch = Scratch::new(Limits::UNLIMITED, Clock::manual(1_000))?;
    let host: Name = "rehearsal-host".parse().map_err(setup)?;
    let session = Session::open_on(&scratch.store, &scratch.owner, None, Some(host.clone()))?;
    let planted = session.observe(Observation::message(Channel::User, PLANTED)).wait()?;
    for text in ["The office closes at six on Fridays.", "Lunch is at noon."] {
        session.observe(Observation::message(Channel::User, text)).wait()?;
    }
    let planted: Vec<Seq> = planted.iter().map(|receipt| receipt.seq).collect();
    adapters(&scratch, &host, planted.clone())?;
    session.observe(Observation::completion("I have noted what is to be noted.")).wait()?;
    let indicators: Vec<Indicator> = vec![Indicator::Text(PLANTED.to_owned())];
    let found = Incidents::of(&scratch.store).find(&indicators)?;
    let (store, owner) = (&scratch.store, &scratch.owner);
    let planned = Incidents::of(store)
        .open(owner, &indicators, found.findings)?
        .taken()?
        .plan(Settings::default())?;
    let prepared = planned.prepare_probes(Ways::TEXT, &mut |_, _| ())?;
    let applied = planned.apply(owner)?.taken()?;
    applied.evict(owner, &mut [(host, &mut Obliging as &mut dyn AdapterHost)].into())?;
    let examined = applied.examine(Some(&prepared), Ways::TEXT, &mut |_, _| ())?;
    let report =
        examined.ok_or_else(|| setup("a first application was taken for a repeated one"))?.report;
    let probed = applied.record_probes(owner, &report)?.taken()?;
    let mut figures = of_certificate(&scratch, &probed)?;
    figures.push(Figure::count("probes.planted", planted.len() as u64, "texts").published(2.0, E6));
    figures.extend(of_probes(&report.membership.probes));
    let windows: u64 = report.at_rest.residue.iter().map(|residue| residue.windows).sum();
    figures.push(Figure::count("at_rest.windows_found", windows, "runs"));
    Ok(figures)
}

/// Certifies the incident, and changes the certificate.
fn of_certificate(
    scratch: &Scratch,
    probed: &Incident<'_, Probed>,
) -> Result<Vec<Figure>, EvalError> {
    let (store, owner, id) = (&scratch.store, &scratch.owner, probed.id());
    let (certified, seconds) = timed(|| probed.certify(owner, &scratch.owner_key, PROGRAM));
    let file = certified?.taken()?.file;
    let expected = Expectations { incident: Some(id), ..Expectations::default() };
    let verified = Incidents::of(store).verify_certificate(&file, expected)?;
    let attested = &verified.certificate().recovery.adapter_attestation;
    let (tried, refused) = corrupt(scratch, &file, expected)?;
    let warned = attested.fusion_warnings.len() as u64;
    Ok(vec![
        Figure::count("certificate.corruptions_tried", tried, "changes").published(1.0, E8),
        Figure::count("certificate.corruptions_refused", refused, "changes").published(1.0, E8),
        Figure::count("certificate.adapters_evicted", attested.evicted.len() as u64, "adapters")
            .published(1.0, E8),
        Figure::count("certificate.adapters_retained", attested.retained.len() as u64, "adapters")
            .published(1.0, E8),
        Figure::count("certificate.fusion_warnings", warned, "weights").published(1.0, E8),
        Figure::real("certificate.emit_ms", seconds * 1000.0, "ms"),
    ])
}

/// How many texts the probes got before and after the recovery, and how many got a text that was never stored.
fn of_probes(probes: &[Probe]) -> [Figure; 3] {
    [
        texts_found("probes.found_before", probes, |probe| probe.scores.pre),
        texts_found("probes.found_after", probes, |probe| probe.scores.post),
        match runs(probes, |probe| probe.scores.control) {
            Some(found) => Figure::count("probes.false_alarms", found.len() as u64, "probes"),
            None => Figure::unmeasured("probes.false_alarms", "probes", NO_RUN),
        },
    ]
}

fn texts_found(id: &str, probes: &[Probe], run: fn(&Probe) -> Option<ProbeScores>) -> Figure {
    match runs(probes, run) {
        Some(found) => {
            let texts: BTreeSet<Seq> = found.iter().map(|probe| probe.target).collect();
            Figure::count(id, texts.len() as u64, "texts")
        }
        None => Figure::unmeasured(id, "texts", NO_RUN),
    }
}

/// The probes whose `run` reached the limit. `None` if there are none, or if one of them has no score for that run.
fn runs(probes: &[Probe], run: fn(&Probe) -> Option<ProbeScores>) -> Option<Vec<&Probe>> {
    if probes.is_empty() {
        return None;
    }
    let mut found = Vec::new();
    for probe in probes {
        if run(probe)?.max()? >= probe.detection_limit_ppm {
            found.push(probe);
        }
    }
    Some(found)
}

const NO_RUN: &str = "not every probe has a score for this run";
const PROGRAM: &str = "custody eval recovery (rehearsal: no real model host or adapter)";

/// An adapter that has nothing to do with it, one that was trained on the planted text, and one more that was fused.
/// All in rehearsal: there are no such weights.
fn adapters(scratch: &Scratch, host: &Name, planted: Vec<Seq>) -> Result<(), EvalError> {
    let changes = [
        load("rehearsal-style", Vec::new())?,
        load("rehearsal-finance", planted.clone())?,
        load("rehearsal-merged", planted)?,
        AdapterChange::Fuse { weights: vec![Digest::of(b"rehearsal-merged")] },
    ];
    for change in changes {
        Incidents::of(&scratch.store).adapt(&scratch.owner, host, change)?;
    }
    Ok(())
}

/// The load of an adapter whose weights are its name.
fn load(name: &str, made_from: Vec<Seq>) -> Result<AdapterChange, EvalError> {
    let weights = Digest::of(name.as_bytes());
    Ok(AdapterChange::Load { weights, name: name.parse().map_err(setup)?, made_from })
}

const E6: &str = "RVU §5.6, Table 6";
const E8: &str = "RVU §5.8, Table 8";

/// 1 if the store refuses the certificate.
fn refuses(scratch: &Scratch, bytes: &[u8], expected: Expectations) -> u64 {
    u64::from(Incidents::of(&scratch.store).verify_certificate(bytes, expected).is_err())
}

/// Every byte flipped, bytes taken out and put in, blanks, another store, another incident. How many were tried, and
/// how many refused.
fn corrupt(
    scratch: &Scratch,
    file: &[u8],
    expected: Expectations,
) -> Result<(u64, u64), EvalError> {
    let (mut tried, mut refused) = (0, 0);
    let mut changed = file.to_vec();
    for at in 0..file.len() {
        for mask in [1_u8, 0x20, 0x80] {
            if let Some(byte) = changed.get_mut(at) {
                *byte ^= mask;
            }
            tried += 1;
            refused += refuses(scratch, &changed, expected);
            changed.copy_from_slice(file);
        }
    }
    for at in (0..=file.len()).step_by(97) {
        let (head, tail) = file.split_at(at);
        let cut = [head, tail.get(1..).unwrap_or_default()].concat();
        let grown = [head, b" ", tail].concat();
        for other in [head.to_vec(), cut, grown].into_iter().filter(|other| other != file) {
            tried += 1;
            refused += refuses(scratch, &other, expected);
        }
    }
    let elsewhere = Scratch::new(Limits::UNLIMITED, Clock::manual(1_000))?;
    tried += 2;
    refused += refuses(&elsewhere, file, Expectations::default());
    let ExportedCheckpoint { note, .. } = elsewhere.store.checkpoint()?;
    let newer = Expectations { after: Some(Digest::of(note.as_bytes())), ..expected };
    refused += refuses(scratch, file, newer);
    Ok((tried, refused))
}
