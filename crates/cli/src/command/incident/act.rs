//! The steps that change something: contain, apply, restore, probe, certify.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use custody_certificate::{Expectations, OutcomeState, Verified};
use custody_incident::{Incidents, RefusedStep, Settings, StepResult};
use custody_kernel::state::Mark;
use custody_log::{Digest, EntryId, IncidentId, Seq};
use custody_planner::RecoveryAction;
use custody_runtime::Store;
use serde_json::{Value, json};

use super::hosts::{self, AdapterHosts};
use super::look::{self, count_entries};
use super::open::unlocked;
use super::probing::Probing;
use super::{IncidentArgs, TrustedFindings, pipeline, refused};
use crate::command::cert;
use crate::command::memory::AsHuman;
use crate::context::GlobalContext;
use crate::file_error::unreadable;
use crate::output::{BAD, BOLD, DIM, ExitStatus, GOOD, WARN, json_line, line, paint, preview};

/// Put everything that the incident reached in quarantine at once, and whatever is made from it until a plan is
/// applied. Owner only.
#[derive(Debug, clap::Args)]
pub(crate) struct Contain {
    #[command(flatten)]
    which: IncidentArgs,
    /// Do it; without this, only show what would change
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    who: AsHuman,
}

/// Do what a plan says. Purged contents are destroyed for good; quarantine can be restored. Owner only.
///
/// Takes the plan's digest, so that what is done is what was read. Refused when the record moved and changed the plan.
/// A run that was interrupted can be repeated.
#[derive(Debug, clap::Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    which: IncidentArgs,
    /// The digest of the plan, as `custody incident plan` printed it
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    plan: Digest,
    #[command(flatten)]
    trusted: TrustedFindings,
    #[command(flatten)]
    hosts: AdapterHosts,
    #[command(flatten)]
    probing: Probing,
    #[command(flatten)]
    who: AsHuman,
}

/// Take entries out of quarantine, exactly as they were. Owner, or a reviewer for what is their tenant's.
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The incident
    incident: IncidentId,
    /// The entries (`#12`); all that the incident holds without this
    #[arg(long = "entry", value_name = "ENTRY", value_parser = position)]
    entries: Vec<Seq>,
    /// Do it; without this, only show what would change
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    who: AsHuman,
}

/// Look once more whether anything of it comes back. Needs the texts, which are destroyed: give them as files.
#[derive(Debug, clap::Args)]
pub(crate) struct Probe {
    #[command(flatten)]
    which: IncidentArgs,
    /// A file with a text that was destroyed. May be repeated.
    #[arg(long = "text", value_name = "FILE", required = true)]
    texts: Vec<PathBuf>,
    #[command(flatten)]
    probing: Probing,
}

/// Sign a certificate of what was done, what is left, and how anyone can tell. Owner only.
#[derive(Debug, clap::Args)]
pub(crate) struct Certify {
    #[command(flatten)]
    which: IncidentArgs,
    /// Where to write it [default: INCIDENT.cert.json in this folder]
    #[arg(long, short = 'o', value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    who: AsHuman,
}

fn digest(text: &str) -> Result<Digest, String> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes)
        .map_err(|_| "a plan's digest has 64 hexadecimal digits; see `custody incident plan`")?;
    Ok(Digest(bytes))
}

fn position(text: &str) -> Result<Seq, String> {
    let digits = text.strip_prefix('#').unwrap_or(text);
    digits.parse().map(Seq).map_err(|_| "name an entry by its position, like `#12`".to_owned())
}

pub(super) fn contain(context: &GlobalContext, args: &Contain) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let id = args.which.of(&store)?;
    if !args.apply {
        let plan = Incidents::of(&store).plan(id, &Settings::default())?;
        let entries = count_entries(plan.counts.entries);
        return preview(context.json, &format!("put {entries} in quarantine for {id}"));
    }
    let owner = context.human(&store, args.who.name.as_deref())?;
    match Incidents::of(&store).opened(id)?.contain(&owner)? {
        StepResult::Taken(contained) if context.json => {
            let (decision, entries) = (contained.decision(), Some(contained.entries()));
            json_line(&contained_json(id, decision, entries, None))?;
        }
        StepResult::Taken(contained) => {
            let entries = count_entries(contained.entries());
            line(format_args!("{entries} in quarantine; what is made from them is held too."));
            line(paint(DIM, format_args!("Next: custody incident plan {id}")));
        }
        StepResult::Refused(step) if context.json => {
            json_line(&contained_json(id, step.decision, None, Some(&step)))?;
            return Ok(ExitStatus::Failure);
        }
        StepResult::Refused(step) => {
            line(paint(BAD, step));
            return Ok(ExitStatus::Failure);
        }
    }
    Ok(ExitStatus::Success)
}

fn contained_json(
    id: IncidentId,
    decision: EntryId,
    entries: Option<u64>,
    refused: Option<&RefusedStep>,
) -> Value {
    json!({
        "incident": id,
        "decision": decision,
        "contained": entries,
        "refused": refused.map(ToString::to_string),
    })
}

pub(super) fn apply(context: &GlobalContext, args: &Apply) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let id = args.which.of(&store)?;
    let models = args.probing.open(context)?;
    let owner = context.human(&store, args.who.name.as_deref())?;
    let planned = Incidents::of(&store).opened(id)?.plan(args.trusted.settings())?;
    // Whoever may not apply it, or names another plan, is told so without waiting for a model.
    let is_due = planned.digest() == args.plan && owner.is_owner();
    let prepared = is_due.then(|| models.before(&planned)).transpose()?;
    let applied = match planned.as_read(args.plan).apply(&owner)? {
        StepResult::Taken(applied) => applied,
        StepResult::Refused(step) => {
            if context.json {
                let refused = step.to_string();
                json_line(&json!({ "incident": id, "applied": false, "refused": refused }))?;
            } else {
                line(paint(BAD, step));
            }
            return Ok(ExitStatus::Failure);
        }
    };
    let (decision, is_repeat) = (applied.decision(), applied.is_repeat());
    let evictions = args.hosts.evict(&store, &owner, id)?;
    let (probed, found) = match pipeline::finish(&owner, applied, (&models, prepared))? {
        (StepResult::Taken(probed), found) => (probed, found),
        (StepResult::Refused(step), _) => {
            return refused(context, id, "record the probes of", &step);
        }
    };
    if context.json {
        json_line(&json!({
            "incident": id,
            "applied": true,
            "again": is_repeat,
            "decision": decision,
            "counts": probed.plan().counts,
            "evictions": evictions,
            "report": found.as_ref().map(|found| &found.report),
            "probed": found.as_ref().map(|found| &found.reach),
        }))?;
        return Ok(ExitStatus::Success);
    }
    if is_repeat {
        line(paint(DIM, "It was applied before, and what was left of it is done."));
    }
    look::print(&store, id, probed.plan(), false)?;
    hosts::print(&evictions);
    if let Some(found) = &found {
        pipeline::print(&found.report, &found.reach);
    }
    line(paint(DIM, format_args!("Next: custody incident certify {id}")));
    Ok(ExitStatus::Success)
}

pub(super) fn restore(context: &GlobalContext, args: &Restore) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let held = held(&store, args.incident)?;
    let entries = if args.entries.is_empty() { held } else { args.entries.clone() };
    let number = count_entries(entries.len() as u64);
    if entries.is_empty() {
        line(format_args!("{} holds nothing in quarantine.", args.incident));
        return Ok(ExitStatus::Failure);
    }
    if !args.apply {
        return preview(context.json, &format!("take {number} out of quarantine"));
    }
    let by = context.human(&store, args.who.name.as_deref())?;
    let receipt = Incidents::of(&store).restore(&by, args.incident, entries)?;
    crate::command::memory::print_receipt(context, &format!("{number} out of quarantine"), &receipt)
}

/// What the incident holds in quarantine.
fn held(store: &Store, id: IncidentId) -> anyhow::Result<Vec<Seq>> {
    Ok(store.state(|state| {
        let marked = state.marked().filter(|(_, marks)| {
            marks.marks().any(|(incident, mark)| incident == id && mark == Mark::Quarantined)
        });
        marked.map(|(entry, _)| entry).collect()
    })?)
}

pub(super) fn probe(context: &GlobalContext, args: &Probe) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let id = args.which.of(&store)?;
    let plan = Incidents::of(&store).applied_plan(id)?;
    let mut purged = plan.with_action(RecoveryAction::Purge).into_iter();
    let mut texts = Vec::new();
    for path in &args.texts {
        let bytes = std::fs::read(path).with_context(|| unreadable(path))?;
        // Which of the destroyed entries said it nobody can tell any more; one stands for it.
        let entry = purged.next().context("the plan purged fewer entries than texts are given")?;
        texts.push(custody_incident::act::Destroyed { entry, bytes: bytes.into() });
    }
    let models = args.probing.open(context)?;
    let prepared = Incidents::of(&store).prepare_probes(&texts, models.ways())?;
    let probed = models.after(&store, &prepared)?;
    let report = custody_incident::certify::ProbeReport {
        at_rest: Incidents::of(&store).search_at_rest(&texts)?,
        membership: probed.membership,
    };
    if context.json {
        json_line(&report)?;
    } else {
        pipeline::print(&report, &probed.reach);
    }
    let is_clean = report.at_rest.residue.is_empty()
        && report.membership.verdict == custody_certificate::ProbeVerdict::Pass;
    Ok(ExitStatus::failure_if(!is_clean))
}

pub(super) fn certify(context: &GlobalContext, args: &Certify) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let id = args.which.of(&store)?;
    // Asked before the passphrase is.
    let applied = Incidents::of(&store).applied(id)?;
    let (owner, key) = unlocked(context, &store, args.who.name.as_deref())?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{id}.cert.json")));
    let signed = match applied.skip_probes().certify(&owner, &key, PROGRAM)? {
        StepResult::Taken(certified) => certified,
        StepResult::Refused(step) => return refused(context, id, "certify", &step),
    };
    let entries = cert::write(&out, &signed)?;
    let expected = Expectations { incident: Some(id), ..Expectations::default() };
    let verified = Incidents::of(&store).verify_certificate(&signed.file, expected)?;
    if context.json {
        json_line(&json!({
            "incident": id,
            "file": out,
            "digest": verified.digest(),
            "entries": entries,
            "outcome": verified.certificate().outcome,
        }))?;
    } else {
        print(&verified);
        print_written(&out, entries.as_deref());
    }
    Ok(ExitStatus::failure_if(verified.certificate().outcome.state != OutcomeState::Recovered))
}

/// The files that were written.
pub(super) fn print_written(out: &Path, entries: Option<&Path>) {
    line(format_args!("Written to {}.", paint(BOLD, out.display())));
    if let Some(entries) = entries {
        let path = paint(BOLD, entries.display());
        line(format_args!("Its entries are in {path}; keep both."));
    }
}

/// What signs itself in certificates.
pub(super) const PROGRAM: &str = concat!("custody ", env!("CARGO_PKG_VERSION"));

/// The outcome, in one line and its reasons.
pub(super) fn print(verified: &Verified) {
    let outcome = &verified.certificate().outcome;
    match outcome.state {
        OutcomeState::Recovered => {
            line(format_args!("{}: all is done, and nothing came back.", paint(GOOD, "recovered")));
        }
        OutcomeState::Incomplete => {
            line(format_args!("{}: this is what is missing:", paint(WARN, "incomplete")));
            for reason in &outcome.reasons {
                let word = serde_json::to_value(reason.missing).unwrap_or_default();
                let word = word.as_str().unwrap_or_default().replace('_', " ");
                line(format_args!("  {} ({})", word, reason.count));
            }
        }
    }
    line(paint(DIM, format_args!("certificate {}", verified.digest())));
}
