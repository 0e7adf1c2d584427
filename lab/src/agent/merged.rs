//! Reports of several runs: what a run measured takes the place of what was there, and the rest stays.
//!
//! The unit is one benchmark, played by one kind of agent, against one defence. Which run measured which is part of the
//! report, with its machine and command: figures of two machines stand side by side, and say so.

use super::agentdojo::SUITES;
use super::published;
use super::suite::{Benchmark, DEFENCES};
use crate::report::{EvalReport, Figure, Run};

/// What the figures of the adaptive attacker begin with.
const ADAPTIVE: &str = "adaptive";

/// The word for scenarios that a language model played.
pub(super) const MODEL: &str = "model";

/// What a figure is part of: `agentdojo.custody`, `scenarios.custody.model`. None of what others published.
fn part(id: &str) -> Option<String> {
    let mut names = id.split('.');
    let bench = names.next()?;
    if bench == ADAPTIVE {
        return Some(format!("{bench}.{}", names.next()?));
    }
    Benchmark::ALL.iter().find(|known| known.id() == bench)?;
    let defence = names.find(|name| !SUITES.contains(name))?;
    DEFENCES.iter().find(|known| **known == defence)?;
    Some(match names.next() {
        Some(MODEL) => format!("{bench}.{defence}.{MODEL}"),
        Some(_) | None => format!("{bench}.{defence}"),
    })
}

/// Every part that `figures` have, in their order.
fn parts(figures: &[Figure]) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in figures.iter().filter_map(|figure| part(&figure.id)) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts
}

/// The run that made `report`, of which it says nothing itself.
fn only_run(report: &EvalReport) -> Run {
    Run {
        parts: parts(&report.figures),
        command: report.command.clone(),
        machine: report.machine.clone(),
        version: None,
        model: None,
    }
}

/// `now`, the figures of one run, with what `earlier` has besides, and beside it what others publish.
pub(super) fn merged(
    earlier: Option<EvalReport>,
    now: EvalReport,
    model: Option<&str>,
) -> EvalReport {
    let measured = parts(&now.figures);
    let (mut figures, mut runs, mut data) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(earlier) = earlier {
        runs = earlier.runs.clone();
        if runs.is_empty() {
            runs.push(only_run(&earlier));
        }
        figures.extend(
            earlier
                .figures
                .into_iter()
                .filter(|figure| part(&figure.id).is_some_and(|part| !measured.contains(&part))),
        );
        data = earlier.data;
    }
    for run in &mut runs {
        // A defence that has another name by now is no part of the report any more.
        run.parts.retain(|name| !measured.contains(name) && part(name).as_ref() == Some(name));
    }
    runs.retain(|run| !run.parts.is_empty());
    runs.push(Run {
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        model: model.map(str::to_owned),
        ..only_run(&now)
    });
    figures.extend(now.figures);
    let played: Vec<String> = parts(&figures);
    for (bench, is_model) in
        Benchmark::ALL.into_iter().flat_map(|bench| [(bench, false), (bench, true)])
    {
        if played
            .iter()
            .any(|part| part.starts_with(bench.id()) && part.ends_with(MODEL) == is_model)
        {
            figures.extend(published::figures(bench, is_model));
        }
    }
    figures.sort_by_key(|figure| place(&figure.id));
    data.extend(now.data);
    data.sort_by(|one, other| one.file.cmp(&other.file));
    data.dedup();
    EvalReport { figures, data, runs, ..now }
}

/// Where a figure stands in the report: by benchmark, by who plays, by defence.
fn place(id: &str) -> (usize, usize, usize) {
    let names: Vec<&str> = id.split('.').collect();
    let bench = Benchmark::ALL.iter().position(|bench| names.contains(&bench.id()));
    let defence = DEFENCES.iter().position(|defence| names.contains(defence));
    let player = usize::from(names.contains(&MODEL));
    (bench.unwrap_or(usize::MAX), player, defence.unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(figures: &[(&str, u64)], command: &str) -> EvalReport {
        let figures = figures.iter().map(|(id, hits)| Figure::rate(id, *hits, 10)).collect();
        EvalReport { command: Some(command.to_owned()), ..EvalReport::of("agent", 0, figures) }
    }

    fn shown(report: &EvalReport) -> Vec<(&str, f64)> {
        let measured = report.figures.iter().filter_map(|figure| Some((figure, figure.value?)));
        measured.map(|(figure, value)| (figure.id.as_str(), value)).collect()
    }

    #[test]
    fn what_was_measured_now_replaces_its_part_and_nothing_else() {
        let earlier = report(
            &[
                ("agentdojo.read_only.attack_success", 1),
                ("agentdojo.custody.attack_success", 2),
                ("agentdojo.slack.custody.attack_success", 3),
                ("agentdojo.custody.gone_by_now", 4),
                ("scenarios.read_only.attack_success", 5),
                ("scenarios.read_only.model.attack_success", 6),
            ],
            "first",
        );
        let now = report(
            &[
                ("agentdojo.custody.attack_success", 0),
                ("agentdojo.slack.custody.attack_success", 0),
                ("scenarios.read_only.model.attack_success", 7),
            ],
            "second",
        );
        let both = merged(Some(earlier), now, Some("a model"));
        assert_eq!(
            shown(&both),
            [
                ("agentdojo.read_only.attack_success", 0.1),
                ("agentdojo.custody.attack_success", 0.0),
                ("agentdojo.slack.custody.attack_success", 0.0),
                ("scenarios.read_only.attack_success", 0.5),
                ("scenarios.read_only.model.attack_success", 0.7),
            ]
        );
        let [first, second] = both.runs.as_slice() else { panic!("{:?}", both.runs) };
        assert_eq!(first.parts, ["agentdojo.read_only", "scenarios.read_only"]);
        assert_eq!(second.parts, ["agentdojo.custody", "scenarios.read_only.model"]);
        assert_eq!(
            (first.command.as_deref(), second.command.as_deref()),
            (Some("first"), Some("second"))
        );
        assert_eq!(second.model.as_deref(), Some("a model"));
        assert!(both.figure("agentdojo.camel.attack_success").is_some());
        // A third run takes over where only its own part is left of the second.
        let third = report(&[("agentdojo.custody.attack_success", 9)], "third");
        let all = merged(Some(both), third, None);
        assert_eq!(all.runs[1].parts, ["scenarios.read_only.model"]);
        assert_eq!(EvalReport::from_json(all.to_json().as_bytes()), Ok(all));
    }

    #[test]
    fn what_others_published_is_part_of_no_run() {
        for (id, expected) in [
            ("agentdojo.camel.attack_success", None),
            ("route.custody.attack_success", None),
            ("agentdojo.travel.custody.utility_with_approval", Some("agentdojo.custody")),
            ("scenarios.fath.model.utility", Some("scenarios.fath.model")),
            ("bipia.custody", Some("bipia.custody")),
        ] {
            assert_eq!(part(id).as_deref(), expected, "{id}");
        }
    }
}
