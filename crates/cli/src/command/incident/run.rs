//! `custody incident run`: the whole way in one call.

use std::path::PathBuf;

use anyhow::Context as _;
use custody_certificate::{Expectations, OutcomeState};
use custody_runtime::recovery::Settings;
use serde_json::json;

use super::act::{self, PROGRAM};
use super::hosts::{self, AdapterHosts};
use super::open::{self, unlocked};
use super::probing::Probing;
use super::{Indicators, look, pipeline};
use crate::command::memory::As;
use crate::context::Context;
use crate::credential::confirm;
use crate::output::{BAD, BOLD, DIM, Outcome, json_line, line, paint};

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

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Outcome> {
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
        return Ok(Outcome::Found);
    }
    let (owner, key) = unlocked(context, &store, args.who.name.as_deref())?;
    let (id, receipt) = store.open_incident(&owner, &args.what.indicators, found.findings)?;
    if let Some(refusal) = receipt.answer.refusal() {
        line(paint(BAD, refusal));
        return Ok(Outcome::Found);
    }
    store.contain(&owner, id)?;
    let plan = store.plan(id, &Settings::default())?;
    let digest = plan.digest()?;
    if !context.json {
        look::tell(&store, id, &plan, args.details)?;
    }
    if !confirm("Do this? What is purged is destroyed for good.")? {
        line("Nothing was destroyed. All of it is in quarantine:");
        line(paint(DIM, format_args!("  give it back: custody incident restore {id} --apply")));
        line(paint(DIM, format_args!("  go on: custody incident apply {id} --plan {digest}")));
        return Ok(Outcome::Found);
    }
    let prepared = models.before(&store, id, &plan)?;
    let applied = store.apply_plan(&owner, id, digest, &Settings::default())?;
    let evictions = args.hosts.evict(&store, &owner, id)?;
    let probed = pipeline::finish(&store, &owner, id, &applied, (&models, Some(prepared)))?;
    let (file, _) = store.certify(&owner, &key, id, PROGRAM)?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{id}.cert.json")));
    std::fs::write(&out, &file).with_context(|| format!("could not write `{}`", out.display()))?;
    let expected = Expectations { incident: Some(id), ..Expectations::default() };
    let verified = store.verify_certificate(&file, expected)?;
    let outcome = &verified.certificate().outcome;
    if context.json {
        json_line(&json!({
            "incident": id,
            "counts": plan.counts,
            "plan": digest,
            "evictions": evictions,
            "report": probed.as_ref().map(|(report, _)| report),
            "probed": probed.as_ref().map(|(_, reach)| reach),
            "certificate": { "file": out, "digest": verified.digest() },
            "outcome": outcome,
        }))?;
    } else {
        hosts::tell(&evictions);
        if let Some((report, reach)) = &probed {
            pipeline::tell(report, reach);
        }
        act::tell(&verified);
        line(format_args!("Written to {}.", paint(BOLD, out.display())));
    }
    Ok(Outcome::found_if(outcome.state != OutcomeState::Recovered))
}
