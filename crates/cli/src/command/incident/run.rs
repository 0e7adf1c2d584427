//! `custody incident run`: the whole way in one call.

use std::path::PathBuf;

use custody_certificate::{Expectations, OutcomeState};
use custody_incident::stage::Planned;
use custody_incident::{Incident, Incidents, StepResult};
use custody_kernel::principal::Authority;
use custody_keys::HumanKey;
use custody_log::{Digest, IncidentId};
use custody_planner::Plan;
use custody_runtime::Store;
use serde_json::json;

use super::act::{self, PROGRAM};
use super::hosts::{self, AdapterHosts};
use super::open::{self, unlocked};
use super::probing::{ProbeModels, Probing};
use super::{Indicators, TrustedFindings, look, pipeline, refused, trusted_option};
use crate::command::cert;
use crate::command::memory::AsHuman;
use crate::context::GlobalContext;
use crate::credential::confirm;
use crate::output::{BAD, DIM, ExitStatus, json_line, line, paint};

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
    trusted: TrustedFindings,
    #[command(flatten)]
    hosts: AdapterHosts,
    #[command(flatten)]
    probing: Probing,
    #[command(flatten)]
    who: AsHuman,
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let models = args.probing.open(context)?;
    let found = args.what.find(context, &store)?;
    if !context.json {
        open::print(&store, &found)?;
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
    let planned = contained.plan(args.trusted.settings())?;
    if !context.json {
        look::print(&store, id, planned.plan(), args.details)?;
    }
    if !confirm("Do this? What is purged is destroyed for good.")? {
        print_declined(id, planned.plan(), planned.digest());
        return Ok(ExitStatus::Failure);
    }
    Recovery { context, args, store: &store, models: &models, owner, key }.carry_out(planned)
}

fn print_declined(id: IncidentId, plan: &Plan, digest: Digest) {
    line("Nothing was destroyed. All of it is in quarantine:");
    line(paint(DIM, format_args!("  give it back: custody incident restore {id} --apply")));
    let option = trusted_option(plan);
    line(paint(DIM, format_args!("  go on: custody incident apply {id} --plan {digest}{option}")));
}

/// What the steps after the confirmation need.
struct Recovery<'a> {
    context: &'a GlobalContext,
    args: &'a Args,
    store: &'a Store,
    models: &'a ProbeModels,
    owner: Authority,
    key: HumanKey,
}

impl Recovery<'_> {
    /// Applies the plan, has adapters unloaded, probes, signs and verifies the certificate.
    fn carry_out(&self, planned: Incident<'_, Planned>) -> anyhow::Result<ExitStatus> {
        let (context, owner, id) = (self.context, &self.owner, planned.id());
        let plan = planned.digest();
        let prepared = self.models.before(&planned)?;
        let applied = match planned.apply(owner)? {
            StepResult::Taken(applied) => applied,
            StepResult::Refused(step) => return refused(context, id, "apply the plan of", &step),
        };
        let evictions = self.args.hosts.evict(self.store, owner, id)?;
        let (probed, found) = match pipeline::finish(owner, applied, (self.models, Some(prepared)))?
        {
            (StepResult::Taken(probed), found) => (probed, found),
            (StepResult::Refused(step), _) => {
                return refused(context, id, "record the probes of", &step);
            }
        };
        let signed = match probed.certify(owner, &self.key, PROGRAM)? {
            StepResult::Taken(certified) => certified,
            StepResult::Refused(step) => return refused(context, id, "certify", &step),
        };
        let named = self.args.out.clone();
        let out = named.unwrap_or_else(|| PathBuf::from(format!("{id}.cert.json")));
        let entries = cert::write(&out, &signed)?;
        let expected = Expectations { incident: Some(id), ..Expectations::default() };
        let verified = Incidents::of(self.store).verify_certificate(&signed.file, expected)?;
        let outcome = &verified.certificate().outcome;
        if context.json {
            json_line(&json!({
                "incident": id,
                "counts": probed.plan().counts,
                "plan": plan,
                "evictions": evictions,
                "report": found.as_ref().map(|found| &found.report),
                "probed": found.as_ref().map(|found| &found.reach),
                "certificate": { "file": out, "digest": verified.digest(), "entries": entries },
                "outcome": outcome,
            }))?;
        } else {
            hosts::print(&evictions);
            if let Some(found) = &found {
                pipeline::print(&found.report, &found.reach);
            }
            act::print(&verified);
            act::print_written(&out, entries.as_deref());
        }
        Ok(ExitStatus::failure_if(outcome.state != OutcomeState::Recovered))
    }
}
