//! `custody incident run`: the whole way in one call.

use std::path::PathBuf;

use anyhow::Context as _;
use custody_certificate::{Expectations, OutcomeState};
use custody_incident::{Incidents, Settings, StepResult};
use serde_json::json;

use super::act::{self, PROGRAM};
use super::hosts::{self, AdapterHosts};
use super::open::{self, unlocked};
use super::probing::Probing;
use super::{Indicators, look, pipeline, refused};
use crate::command::memory::As;
use crate::context::GlobalContext;
use crate::credential::confirm;
use crate::output::{BAD, BOLD, DIM, ExitStatus, json_line, line, paint};

/// Go from an indicator to a signed certificate: find, hold back, plan, ask, do, look again, sign. Owner only.
///
/// Shows the plan and asks before anything is destroyed. Until then everything found is held in quarantine, and stays
/// so if the answer is no: `custody incident restore` gives it back.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    what: Indicators,
    /// Where to write the certificate [default: INCIDENT.cert.json in this folder]
    #[arg(long, short = 'o', value_name = "FILE")]
    out: Option<PathBuf>,
    /// List every entry of the plan
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    hosts: AdapterHosts,
    #[command(flatten)]
    probing: Probing,
    #[command(flatten)]
    who: As,
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let models = args.probing.open(context)?;
    let found = args.what.find(context, &store)?;
    if !context.json {
        open::tell(&store, &found)?;
    }
    if found.findings.is_empty() {
        if context.json {
            json_line(&json!({ "incident": null, "findings": [] }))?;
        }
        return Ok(ExitStatus::Failure);
    }
    let (owner, key) = unlocked(context, &store, args.who.name.as_deref())?;
    let opened = match Incidents::of(&store).open(&owner, &args.what.indicators, found.findings)? {
        StepResult::Taken(opened) => opened,
        StepResult::Refused(step) => {
            line(paint(BAD, step));
            return Ok(ExitStatus::Failure);
        }
    };
    let id = opened.id();
    let contained = match opened.contain(&owner)? {
        StepResult::Taken(contained) => contained,
        StepResult::Refused(step) => return refused(context, id, "contain", &step),
    };
    let planned = contained.plan(Settings::default())?;
    let digest = planned.digest();
    if !context.json {
        look::tell(&store, id, planned.plan(), args.details)?;
    }
    if !confirm("Do this? What is purged is destroyed for good.")? {
        line("Nothing was destroyed. All of it is in quarantine:");
        line(paint(DIM, format_args!("  give it back: custody incident restore {id} --apply")));
        line(paint(DIM, format_args!("  go on: custody incident apply {id} --plan {digest}")));
        return Ok(ExitStatus::Failure);
    }
    let prepared = models.before(&planned)?;
    let applied = match planned.apply(&owner)? {
        StepResult::Taken(applied) => applied,
        StepResult::Refused(step) => return refused(context, id, "apply the plan of", &step),
    };
    let evictions = args.hosts.evict(&store, &owner, id)?;
    let (probed, found) = match pipeline::finish(&owner, applied, (&models, Some(prepared)))? {
        (StepResult::Taken(probed), found) => (probed, found),
        (StepResult::Refused(step), _) => {
            return refused(context, id, "record the probes of", &step);
        }
    };
    let file = match probed.certify(&owner, &key, PROGRAM)? {
        StepResult::Taken(certified) => certified.file,
        StepResult::Refused(step) => return refused(context, id, "certify", &step),
    };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{id}.cert.json")));
    std::fs::write(&out, &file).with_context(|| format!("could not write `{}`", out.display()))?;
    let expected = Expectations { incident: Some(id), ..Expectations::default() };
    let verified = Incidents::of(&store).verify_certificate(&file, expected)?;
    let outcome = &verified.certificate().outcome;
    if context.json {
        json_line(&json!({
            "incident": id,
            "counts": probed.plan().counts,
            "plan": digest,
            "evictions": evictions,
            "report": found.as_ref().map(|found| &found.report),
            "probed": found.as_ref().map(|found| &found.reach),
            "certificate": { "file": out, "digest": verified.digest() },
            "outcome": outcome,
        }))?;
    } else {
        hosts::tell(&evictions);
        if let Some(found) = &found {
            pipeline::tell(&found.report, &found.reach);
        }
        act::tell(&verified);
        line(format_args!("Written to {}.", paint(BOLD, out.display())));
    }
    Ok(ExitStatus::failure_if(outcome.state != OutcomeState::Recovered))
}
