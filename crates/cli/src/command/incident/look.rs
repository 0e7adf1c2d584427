//! `custody incident plan`: what recovery would do, before anything is done.

use std::collections::BTreeSet;

use anstyle::Style;
use custody_incident::Incidents;
use custody_incident::three_way::{Line, LineOrigin, ThreeWay};
use custody_log::{Digest, IncidentId, Seq, Timestamp};
use custody_planner::{
    ActionReason, AdapterAction, FoundEntry, Plan, PlanCounts, PlannedWeights, RecoveryAction,
    Rollback, RollbackTarget, SparedReason,
};
use custody_runtime::Store;
use serde_json::json;

use super::{IncidentArgs, TrustedFindings, trusted_option};
use crate::command::adapter::short;
use crate::command::ledger::describe::Names;
use crate::context::GlobalContext;
use crate::output::{
    BAD, BOLD, DIM, ExitStatus, GOOD, HEAD, WARN, cell, count, excerpt, json_line, line, paint,
    table,
};

/// Show what recovery from an incident would do: the counts, and with --details every entry. Marks nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: IncidentArgs,
    /// List every entry with what is done to it and why
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    trusted: TrustedFindings,
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let id = args.which.of(&store)?;
    let plan = Incidents::of(&store).plan(id, &args.trusted.settings())?;
    let digest = plan.digest()?;
    if context.json {
        let three_ways = Incidents::of(&store).three_ways(&plan)?;
        json_line(&json!({
            "incident": id,
            "digest": digest,
            "plan": plan,
            "three_ways": three_ways,
        }))?;
        return Ok(ExitStatus::Success);
    }
    print(&store, id, &plan, args.details)?;
    line("");
    line(format_args!("{} {digest}", paint(BOLD, "plan")));
    next(id, &plan, &digest);
    Ok(ExitStatus::Success)
}

fn next(id: IncidentId, plan: &Plan, digest: &Digest) {
    if plan.contained.is_none() {
        let hold = format!("custody incident contain {id} --apply");
        line(paint(DIM, format_args!("Hold everything back meanwhile: {hold}")));
    }
    let option = trusted_option(plan);
    line(paint(DIM, format_args!("Do it: custody incident apply {id} --plan {digest}{option}")));
}

/// The counts, and with `details` the lists behind them.
pub(super) fn print(
    store: &Store,
    id: IncidentId,
    plan: &Plan,
    details: bool,
) -> anyhow::Result<()> {
    let counts = &plan.counts;
    line(format_args!("{} reaches {}", paint(HEAD, id), count_entries(counts.entries)));
    for (style, number, what) in rows(counts).into_iter().filter(|(_, number, _)| *number > 0) {
        line(format_args!("  {} {what}", paint(style, format_args!("{number:>6}"))));
    }
    found(store, plan, details)?;
    for rollback in &plan.rollbacks {
        line(format_args!("  {}", in_words(rollback)));
    }
    for weights in plan.weights.iter().filter(|weights| weights.fate != AdapterAction::Retain) {
        line(format_args!("  {}", adapter_in_words(store, weights)?));
    }
    three_ways(&Incidents::of(store).three_ways(plan)?, details);
    if counts.irreversible > 0 {
        irreversible(store, plan)?;
    }
    if details {
        entries(store, plan)?;
    }
    Ok(())
}

/// How many findings are shown without `--details`.
const FOUND_SHOWN: usize = 8;

/// The entries that were found, with label and age: trusted ones first, which an attacker may have quoted.
fn found(store: &Store, plan: &Plan, details: bool) -> anyhow::Result<()> {
    let now = store.clock().now();
    let mut found: Vec<&FoundEntry> = plan.found.iter().collect();
    found.sort_by_key(|found| (!found.label.is_good(), found.entry));
    let shown = if details { found.len() } else { FOUND_SHOWN };
    let mut rows = Vec::new();
    for FoundEntry { entry, label, at } in found.iter().take(shown) {
        let at_entry = plan.entries.binary_search_by_key(entry, |planned| planned.entry);
        let planned = at_entry.ok().and_then(|at| plan.entries.get(at));
        let (style, trust) = if label.is_good() { (WARN, "trusted") } else { (DIM, "untrusted") };
        rows.push(vec![
            (entry.to_string(), BOLD),
            (format!("{trust}, {}", label.channel()), style),
            (age(now, *at), DIM),
            cell(planned.map_or_else(String::new, |planned| planned.action.to_string())),
            cell(planned.map_or("", |planned| why(planned.reason)).to_owned()),
        ]);
    }
    table(&["found", "label", "age", "action", "because"], &rows);
    let more = found.len().saturating_sub(shown);
    if more > 0 {
        line(paint(DIM, format_args!("and {} more; see --details", count(more as u64, "finding"))));
    }
    let entries = &plan.entries;
    let kept =
        entries.iter().filter(|planned| planned.reason == ActionReason::OlderTrusted).count();
    if kept > 0 {
        let what = "trusted and older than every untrusted finding, which may quote them";
        let entries = count_entries(kept as u64);
        let only = "only quarantined; --purge-trusted destroys them";
        line(paint(WARN, format_args!("{entries} {what}: {only}")));
    }
    let trusted: BTreeSet<Seq> =
        found.iter().filter(|found| found.label.is_good()).map(|found| found.entry).collect();
    let destroyed = entries.iter().filter(|planned| {
        planned.action >= RecoveryAction::Purge && trusted.contains(&planned.entry)
    });
    let destroyed = destroyed.count();
    if destroyed > 0 {
        let entries = count_entries(destroyed as u64);
        line(paint(BAD, format_args!("{entries} with a trusted label will be destroyed")));
    }
    Ok(())
}

/// How long ago something was recorded.
fn age(now: Timestamp, at: Timestamp) -> String {
    let seconds = now.0.saturating_sub(at.0) / 1_000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        172_800.. => format!("{} d", seconds / 86_400),
    }
}

/// What a plan does, each with how often and the words for it.
fn rows(counts: &PlanCounts) -> [(Style, u64, String); 13] {
    let items = plural(counts.items, "memory item");
    let files = plural(counts.files, "watched file");
    let approvals = plural(counts.approvals, "waiting request");
    let effects = plural(counts.irreversible, "effect");
    let adapters = plural(counts.evicted_weights, "adapter");
    let origins = plural(counts.possible_origins, "possible origin");
    [
        (BAD, counts.purge + counts.evict, "purged: the content is destroyed".to_owned()),
        (
            WARN,
            counts.quarantine,
            "in quarantine: nothing retrieves it until it is restored".to_owned(),
        ),
        (DIM, counts.flag, "flagged".to_owned()),
        (DIM, counts.none, "purged before".to_owned()),
        (
            GOOD,
            counts.spared,
            "of those flagged, spared: they say only what trusted texts say".to_owned(),
        ),
        (WARN, counts.items, format!("{items} rolled back")),
        (WARN, counts.files, format!("{files} rolled back")),
        (WARN, counts.approvals, format!("{approvals} held back")),
        (BAD, counts.irreversible, format!("{effects} that cannot be undone")),
        (BAD, counts.evicted_weights, format!("{adapters} unloaded everywhere")),
        (BAD, counts.fused_weights, "weights in a model, from which nothing takes them".to_owned()),
        (DIM, counts.possible_origins, format!("{origins}, left as found")),
        (DIM, counts.repeated, "left as found: they repeat it, and older trusted texts".to_owned()),
    ]
}

/// `noun` alone, in the number that fits.
fn plural(number: u64, noun: &str) -> String {
    if number == 1 { noun.to_owned() } else { format!("{noun}s") }
}

pub(super) fn count_entries(entries: u64) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") }
}

fn in_words(rollback: &Rollback) -> String {
    let key = paint(BOLD, excerpt(rollback.key.as_str(), 60));
    let place = match &rollback.file {
        Some(file) => format!("{} and its file {}", rollback.namespace, excerpt(file, 60)),
        None => rollback.namespace.to_string(),
    };
    let outcome = match rollback.to {
        RollbackTarget::Current(entry) => format!("keeps {entry}, written since"),
        RollbackTarget::Version(entry) => format!("goes back to {entry}"),
        RollbackTarget::Absent(Some(entry)) => format!("stays deleted, as of {entry}"),
        RollbackTarget::Absent(None) => "is removed: it has no clean version".to_owned(),
    };
    let later =
        if rollback.has_later_clean_writes { ", with a clean write after the bad one" } else { "" };
    format!("{key} in {place} {outcome}{later}")
}

/// Items that somebody wrote cleanly since: whether that carries on what is taken out.
fn three_ways(items: &[ThreeWay], details: bool) {
    for item in items {
        let key = paint(BOLD, excerpt(item.key.as_str(), 60));
        let carried =
            item.lines.iter().filter(|line| line.first == LineOrigin::TakenOut).count() as u64;
        let (style, what) = match carried {
            0 => (DIM, "no line of it stood first in a version that is taken out".to_owned()),
            lines => (
                BAD,
                format!("{} first stood in a version that is taken out", count(lines, "line")),
            ),
        };
        line(format_args!(
            "  {key} was written since, in {}: {}",
            item.after.entry,
            paint(style, what)
        ));
        let shown = item.lines.iter().filter(|line| details || line.first == LineOrigin::TakenOut);
        for Line { first, text } in shown {
            let (sign, style) = match first {
                LineOrigin::Before => (" ", DIM),
                LineOrigin::TakenOut => ("!", BAD),
                LineOrigin::Later => ("+", GOOD),
            };
            line(format_args!(
                "    {}",
                paint(style, format_args!("{sign} {}", excerpt(text, 100)))
            ));
        }
    }
}

fn adapter_in_words(store: &Store, planned: &PlannedWeights) -> anyhow::Result<String> {
    let PlannedWeights { weights, fate, loads, .. } = planned;
    let (name, left) = store.state(|state| {
        let name = state.adapter(*weights).and_then(|adapter| adapter.name.clone());
        (name, state.loads_left(*weights))
    })?;
    let name = name.map_or_else(|| "the fused base".to_owned(), |name| excerpt(name.as_str(), 60));
    let (name, hash) = (paint(BOLD, name), paint(DIM, short(*weights)));
    let what = match fate {
        AdapterAction::CannotBeEvicted => "is part of a model, which has to be replaced".to_owned(),
        AdapterAction::Evict | AdapterAction::Retain => {
            let loads = count(loads.len() as u64, "load");
            format!("is unloaded: {left} in force of {loads}")
        }
    };
    Ok(format!("{name} {hash} {what}"))
}

fn irreversible(store: &Store, plan: &Plan) -> anyhow::Result<()> {
    line(paint(BOLD, "What ran and cannot be undone:"));
    for effect in &plan.irreversible {
        let record = store.record(effect.entry)?;
        let when = crate::output::moment(record.at);
        line(format_args!(
            "  {} {} {}",
            effect.entry,
            paint(BAD, excerpt(&effect.tool, 48)),
            paint(DIM, when)
        ));
    }
    Ok(())
}

fn entries(store: &Store, plan: &Plan) -> anyhow::Result<()> {
    let mut names = Names::new(store)?;
    let mut rows = Vec::new();
    for planned in &plan.entries {
        let record = store.record(planned.entry)?;
        let style = match planned.action {
            RecoveryAction::None | RecoveryAction::Flag => DIM,
            RecoveryAction::Quarantine => WARN,
            RecoveryAction::Purge | RecoveryAction::Evict => BAD,
        };
        rows.push(vec![
            (planned.entry.to_string(), BOLD),
            (planned.action.to_string(), style),
            cell(why(planned.reason)),
            cell(format!("{:.4}", planned.score.value())),
            cell(names.what(&record)?),
        ]);
    }
    table(&["entry", "action", "because", "score", "what"], &rows);
    for spared in &plan.spared {
        let by = match spared.because {
            SparedReason::Blank => "it says nothing".to_owned(),
            SparedReason::RepeatsTrusted => {
                format!("said before by {}", listed(&spared.covered_by))
            }
        };
        line(format_args!("{} {}: {by}", paint(GOOD, "spared"), spared.entry));
    }
    if !plan.possible_origins.is_empty() {
        let from = listed(&plan.possible_origins);
        line(format_args!("{}: {from}", paint(BOLD, "possible origins")));
    }
    if !plan.repeated.is_empty() {
        let entries: Vec<Seq> = plan.repeated.iter().map(|one| one.entry).collect();
        let title = paint(BOLD, "repeat it, and older trusted texts");
        line(format_args!("{title}: {}", listed(&entries)));
    }
    Ok(())
}

fn listed(entries: &[Seq]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = entries.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = entries.len().saturating_sub(SHOWN);
    if more == 0 {
        return shown.join(", ");
    }
    format!("{} and {}", shown.join(", "), count(more as u64, "other"))
}

const fn why(reason: ActionReason) -> &'static str {
    match reason {
        ActionReason::AlreadyPurged => "purged before",
        ActionReason::BadWeights => "bad weights",
        ActionReason::DirectEvidence => "direct evidence",
        ActionReason::OlderTrusted => "trusted, and older",
        ActionReason::Derived => "made from it",
        ActionReason::Held => "made from it since it was contained",
        ActionReason::Spared => "says nothing new",
        ActionReason::OnlySimilar => "only similar",
        ActionReason::Score => "score",
    }
}
