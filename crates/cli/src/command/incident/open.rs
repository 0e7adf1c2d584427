//! `custody incident open`: evidence, and nothing else.

use anyhow::Context as _;
use custody_incident::{Found, Incidents, StepResult};
use custody_kernel::evidence::{Evidence, Finding};
use custody_log::IncidentId;
use custody_runtime::Store;
use custody_runtime::store::IndexGap;
use serde_json::{Value, json};

use super::Indicators;
use crate::command::ledger::describe::Names;
use crate::command::memory::AsHuman;
use crate::context::GlobalContext;
use crate::output::{
    BOLD, DIM, ExitStatus, WARN, cell, count, excerpt, json_line, line, moment, paint, table,
};

/// The most findings that are listed one by one.
const LISTED: usize = 20;

/// Look for what is bad, in every tenant, and write down what was found. Marks nothing. Owner only.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    what: Indicators,
    /// Add to this incident instead of opening another
    #[arg(long, value_name = "INCIDENT")]
    to: Option<IncidentId>,
    /// Only look; record nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    who: AsHuman,
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let found = args.what.find(context, &store)?;
    if !context.json {
        print(&store, &found)?;
    }
    if found.findings.is_empty() || args.dry_run {
        if context.json {
            json_line(&as_json(None, &found))?;
        } else if found.findings.is_empty() {
            line("Nothing was recorded.");
        }
        return Ok(ExitStatus::failure_if(found.findings.is_empty()));
    }
    let owner = context.human(&store, args.who.name.as_deref())?;
    let indicators = &args.what.indicators;
    let incidents = Incidents::of(&store);
    let findings = found.findings.clone();
    let recorded = match args.to {
        None => incidents.open(&owner, indicators, findings)?,
        Some(id) => incidents.opened(id)?.add_evidence(&owner, indicators, findings)?,
    };
    match recorded {
        StepResult::Taken(incident) if context.json => {
            json_line(&as_json(Some(incident.id()), &found))?;
        }
        StepResult::Taken(incident) => {
            line(format_args!("Recorded as {}.", paint(BOLD, incident.id())));
            line(paint(DIM, format_args!("Next: custody incident plan {}", incident.id())));
        }
        StepResult::Refused(step) => {
            if context.json {
                let mut all = as_json(None, &found);
                if let Some(all) = all.as_object_mut() {
                    all.insert("refused".into(), step.to_string().into());
                }
                json_line(&all)?;
            } else {
                line(paint(crate::output::BAD, step));
            }
            return Ok(ExitStatus::Failure);
        }
    }
    Ok(ExitStatus::Success)
}

fn as_json(id: Option<IncidentId>, found: &Found) -> Value {
    let hits: Vec<Value> = found
        .hits
        .iter()
        .map(|hits| {
            json!({
                "indicator": hits.indicator,
                "entries": hits.entries,
                "not_searched": hits.not_searched,
            })
        })
        .collect();
    json!({
        "incident": id,
        "indicators": hits,
        "findings": found.findings,
        "index_gaps": found.index_gaps,
    })
}

/// What each indicator found, and the first of the entries.
pub(super) fn print(store: &Store, found: &Found) -> anyhow::Result<()> {
    for gap in &found.index_gaps {
        let IndexGap { index, expected, missing, unexpected, .. } = gap;
        line(format_args!(
            "{}: the index of {index} lacks {missing} of {expected} rows and has {unexpected} that no record has. Every \
             text was read instead; `custody ledger reindex` makes it anew.",
            paint(WARN, "index edited")
        ));
    }
    for hits in &found.hits {
        let what = excerpt(&hits.indicator.to_string(), 72);
        match &hits.not_searched {
            Some(why) => line(format_args!("{}: {what}: {why}", paint(WARN, "not searched"))),
            None => line(format_args!("{} {what}", paint(BOLD, points_to(hits.entries)))),
        }
    }
    if found.findings.is_empty() {
        return Ok(());
    }
    let mut names = Names::new(store)?;
    let mut rows = Vec::new();
    for finding in found.findings.iter().take(LISTED) {
        let record = store.record(finding.entry)?;
        rows.push(vec![
            (finding.entry.to_string(), BOLD),
            (moment(record.at), DIM),
            cell(names.asker(&record.by)?),
            cell(names.what(&record)?),
            cell(by(finding)),
        ]);
    }
    table(&["entry", "when", "who", "what", "by"], &rows);
    let more = found.findings.len().saturating_sub(LISTED);
    if more > 0 {
        line(paint(DIM, format_args!("and {} more", count(more as u64, "finding"))));
    }
    Ok(())
}

fn points_to(entries: u64) -> String {
    match entries {
        0 => "nothing by".to_owned(),
        1 => "1 entry by".to_owned(),
        more => format!("{more} entries by"),
    }
}

fn by(finding: &Finding) -> String {
    match finding.by {
        Evidence::Id => "its id".to_owned(),
        Evidence::Hash => "its hash".to_owned(),
        Evidence::Text => "its text".to_owned(),
        Evidence::Pattern => "a pattern".to_owned(),
        Evidence::Origin => "its origin".to_owned(),
        Evidence::Similarity(strength) => format!("similarity {:.2}", strength.value()),
    }
}

/// The owner, with the key that signs, both by one passphrase.
pub(super) fn unlocked(
    context: &GlobalContext,
    store: &Store,
    name: Option<&str>,
) -> anyhow::Result<(custody_kernel::principal::Authority, custody_keys::HumanKey)> {
    let name = match name {
        Some(name) => name.to_owned(),
        None => store
            .state(|state| state.owner().map(|owner| owner.name.clone()))?
            .context("the store has no owner")?,
    };
    let key = crate::credential::unlock(&context.key_folder(), &name)?;
    Ok((store.authenticate(&name, &key)?, key))
}
