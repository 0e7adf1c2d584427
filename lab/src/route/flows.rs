//! The picture of the routes: how many texts took which way.

use custody_kernel::route::{Reason, Stage};

use super::figures::REASONS;
use super::trial::{MeasuredCase, RouteTrial};
use crate::detection::pictures::Picture;
use crate::plot::sankey::{self, End, Flow, To};

/// The stages as columns. The last are the comparison, and the prefilter and the sandbox on the repaired text.
const STAGES: [&str; 4] = ["prefilter", "sandbox", "repair", "verify"];

/// The Sankey diagram of the routes.
pub(super) fn picture(model: &str, measured: &[MeasuredCase]) -> Picture {
    let ends = REASONS.map(|reason| {
        let is_released = matches!(reason, Reason::Clean | Reason::FalseAlarm | Reason::Repaired);
        let place = if is_released { "to production" } else { "refused" };
        End {
            name: reason.name().replace('_', " "),
            note: place.to_owned(),
            // Repaired texts come out of the last stage, beside which nothing passes.
            is_above: is_released,
        }
    });
    let series = ["ordinary texts".to_owned(), "attacks".to_owned()];
    let title = format!("Where texts go ({model})");
    let svg = sankey::picture(&title, &STAGES, &ends, &series, &flows(measured));
    Picture { file: "route.svg".to_owned(), svg }
}

fn flows(measured: &[MeasuredCase]) -> Vec<Flow> {
    let mut flows: Vec<Flow> = Vec::new();
    for one in measured {
        let Some(trial) = &one.trial else { continue };
        for (from, to) in way(trial) {
            let known = flows.iter_mut().find(|flow| flow.from == from && flow.to == to);
            let counts = match known {
                Some(flow) => &mut flow.counts,
                None => {
                    flows.push(Flow { from, to, counts: [0, 0] });
                    let last = flows.len() - 1;
                    &mut flows[last].counts
                }
            };
            counts[usize::from(one.case.is_attack)] += 1;
        }
    }
    flows
}

/// The steps of one text, stage by stage and to its end.
fn way(trial: &RouteTrial) -> Vec<(usize, To)> {
    let last = [Stage::Sandbox, Stage::Repair, Stage::Compare]
        .into_iter()
        .take_while(|stage| trial.has_passed(*stage))
        .count();
    let end = REASONS.iter().position(|reason| *reason == trial.reason()).unwrap_or_default();
    let steps = (0..last).map(|from| (from, To::Next));
    steps.chain([(last, To::End(end))]).collect()
}
