//! `custody incident list` and `show`: how far each incident got.

use custody_incident::Incidents;
use custody_kernel::state::IncidentState;
use custody_log::Seq;
use custody_runtime::Store;
use serde_json::{Value, json};

use super::IncidentArgs;
use crate::context::GlobalContext;
use crate::output::{
    BOLD, DIM, ExitStatus, GOOD, HEAD, WARN, cell, count, json_line, line, moment, paint, shown,
    table,
};

/// Show one incident: its evidence, and every step that was taken.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: IncidentArgs,
}

pub(super) fn list(context: &GlobalContext) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let all: Vec<IncidentState> =
        store.state(|state| state.incidents().into_iter().cloned().collect())?;
    if context.json {
        for incident in &all {
            json_line(&as_json(&store, incident)?)?;
        }
        return Ok(ExitStatus::Success);
    }
    if all.is_empty() {
        line("There is no incident.");
        return Ok(ExitStatus::Success);
    }
    let rows: Vec<_> = all
        .iter()
        .map(|incident| {
            vec![
                (incident.id.to_string(), BOLD),
                (moment(incident.at), DIM),
                cell(incident.findings.len()),
                (stage(incident).to_owned(), style(incident)),
            ]
        })
        .collect();
    table(&["incident", "opened", "findings", "stage"], &rows);
    Ok(ExitStatus::Success)
}

fn style(incident: &IncidentState) -> anstyle::Style {
    if incident.certified.is_some() && incident.left == 0 { GOOD } else { WARN }
}

/// The last step that was taken.
const fn stage(incident: &IncidentState) -> &'static str {
    if incident.left > 0 {
        "being applied"
    } else if incident.certified.is_some() {
        "certified"
    } else if incident.probed.is_some() {
        "probed"
    } else if incident.applied.is_some() {
        "applied"
    } else if incident.contained.is_some() {
        "contained"
    } else {
        "open"
    }
}

fn as_json(store: &Store, incident: &IncidentState) -> anyhow::Result<Value> {
    let indicators = Incidents::of(store).indicators_of(incident.id)?;
    Ok(json!({
        "incident": incident.id,
        "opened": moment(incident.at),
        "stage": stage(incident),
        "holds_descendants": incident.holds(),
        "indicators": indicators,
        "findings": incident.findings,
        "contained": incident.contained,
        "plan": incident.applied.map(|applied| applied.plan),
        "applied": incident.applied.map(|applied| applied.record),
        "left": incident.left,
        "restored": incident.restored,
        "probed": incident.probed,
        "certificate": incident.certified.map(|(_, digest)| digest),
    }))
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let id = args.which.of(&store)?;
    let incident = store.state(|state| state.incident(id).cloned())?;
    let Some(incident) = incident else { return Ok(ExitStatus::Failure) };
    if context.json {
        json_line(&as_json(&store, &incident)?)?;
        return Ok(ExitStatus::Success);
    }
    line(format_args!("{} {}", paint(HEAD, id), paint(style(&incident), stage(&incident))));
    line(format_args!("opened     {} {}", moment(incident.at), paint(DIM, incident.opened)));
    match Incidents::of(&store).indicators_of(id)? {
        Some(indicators) => {
            for indicator in indicators {
                line(format_args!("indicator  {}", shown(&indicator.to_string())));
            }
        }
        None => line(paint(DIM, "indicator  destroyed with what it quoted")),
    }
    line(format_args!("evidence   {}", count(incident.findings.len() as u64, "finding")));
    print_step("contained", incident.contained);
    if incident.holds() {
        line(paint(
            WARN,
            "           what is made from its entries is held until a plan is applied",
        ));
    }
    print_step("applied", incident.applied.map(|applied| applied.record));
    if incident.left > 0 {
        let left =
            format!("           to all but {} entries; apply it again to go on", incident.left);
        line(paint(WARN, left));
    }
    for restored in &incident.restored {
        print_step("restored", Some(*restored));
    }
    print_step("probed", incident.probed);
    if let Some((seq, digest)) = incident.certified {
        line(format_args!("certified  {seq} {}", paint(DIM, digest)));
    }
    Ok(ExitStatus::Success)
}

fn print_step(name: &str, record: Option<Seq>) {
    if let Some(record) = record {
        line(format_args!("{name:10} {record}"));
    }
}
