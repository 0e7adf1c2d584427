//! Security against utility, one picture a benchmark, from the figures of a report.

use super::merged::MODEL;
use super::published::published_defences;
use super::suite::{Benchmark, DEFENCES};
use crate::detection::pictures::Picture;
use crate::plot::points::{Axes, PointMark, ScatterPoint, picture};
use crate::report::{EvalReport, FigureIds};

const AXES: Axes = Axes {
    x: ["security: attacks that fail, %", "security"],
    y: ["utility: tasks of the user that are done, %", "utility"],
};

/// A picture of every benchmark that the report has figures of.
pub(super) fn pictures(report: &EvalReport) -> Vec<Picture> {
    let benches = Benchmark::ALL.into_iter().map(|bench| (bench, None));
    let played = benches.chain([(Benchmark::Scenarios, Some(MODEL))]);
    played.filter_map(|(bench, player)| one(report, bench, player)).collect()
}

fn one(report: &EvalReport, bench: Benchmark, player: Option<&str>) -> Option<Picture> {
    let mut points: Vec<ScatterPoint> = Vec::new();
    for id in DEFENCES {
        points.extend(measured(report, bench, id, &bench.prefix(id, player)));
    }
    if points.is_empty() {
        return None;
    }
    for id in DEFENCES {
        points.extend(published(
            report,
            bench,
            &format!("{id}, in the paper"),
            &bench.prefix(id, player),
        ));
    }
    for theirs in published_defences(bench) {
        let name = format!("{}, published", theirs.name);
        points.extend(published(report, bench, &name, &bench.prefix(theirs.id, player)));
    }
    let (file, by) = match player {
        None => (format!("agent-{}.svg", bench.id()), "the worst-case agent"),
        Some(_) => (format!("agent-{}-{MODEL}.svg", bench.id()), "a language model as the agent"),
    };
    let hollow = if points.iter().any(|point: &ScatterPoint| point.mark == PointMark::Published) {
        "; hollow or dashed: published, other agents and measures"
    } else {
        ""
    };
    let note = format!("{by}; best: upper right; points at one place share a label{hollow}");
    let title = format!("{}: security against utility", bench.title());
    Some(Picture { file, svg: picture(&title, &note, AXES, &points) })
}

/// The point of a defence; a second one if a human's approvals make a difference.
fn measured(report: &EvalReport, bench: Benchmark, id: &str, prefix: &str) -> Vec<ScatterPoint> {
    let ids = FigureIds::new(prefix);
    let mark = if id == "custody" { PointMark::Subject } else { PointMark::Measured };
    let (Some(attacks), Some(utility)) =
        (ids.value(report, "attack_success"), ids.value(report, bench.utility()))
    else {
        return Vec::new();
    };
    let mut points =
        vec![ScatterPoint { name: id.to_owned(), mark, x: 1.0 - attacks, y: Some(utility) }];
    if let Some(approved) =
        ids.value(report, "utility_with_approval").filter(|approved| *approved > utility)
    {
        let attacks = ids.value(report, "attack_success_with_approval").unwrap_or(attacks);
        let name = format!("{id}, with approvals");
        points.push(ScatterPoint { name, mark, x: 1.0 - attacks, y: Some(approved) });
    }
    points
}

/// What a source says of `prefix`, if one does.
fn published(
    report: &EvalReport,
    bench: Benchmark,
    name: &str,
    prefix: &str,
) -> Option<ScatterPoint> {
    let ids = FigureIds::new(prefix);
    let attacks = report.figure(&ids.id("attack_success"))?.published?;
    let y = report.figure(&ids.id(bench.utility())).and_then(|figure| figure.published);
    Some(ScatterPoint { name: name.to_owned(), mark: PointMark::Published, x: 1.0 - attacks, y })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::published;
    use crate::report::Figure;

    #[test]
    fn approvals_and_what_others_published_have_points_of_their_own() {
        let mut figures = vec![
            Figure::rate("agentdojo.read_only.attack_success", 2, 100),
            Figure::rate("agentdojo.read_only.utility_without_approval", 40, 100),
            Figure::rate("agentdojo.read_only.utility_with_approval", 40, 100),
            Figure::rate("agentdojo.custody.attack_success", 0, 100),
            Figure::rate("agentdojo.custody.utility_without_approval", 57, 100),
            Figure::rate("agentdojo.custody.utility_with_approval", 100, 100),
        ];
        figures.extend(published::figures(Benchmark::AgentDojo, false));
        let drawn = pictures(&EvalReport::of("agent", 0, figures));
        let [picture] = drawn.as_slice() else { panic!("{drawn:?}") };
        assert_eq!(picture.file, "agent-agentdojo.svg");
        for name in [
            ">read_only<",
            ">custody<",
            ">custody, with approvals<",
            ">CaMeL, published<",
            ">84.4 %<",
        ] {
            assert!(picture.svg.contains(name), "{name} in {}", picture.svg);
        }
        assert!(!picture.svg.contains("read_only, with"), "approvals make no difference to it");
        // An unmeasured defence is no point.
        let unmeasured =
            vec![Figure::unmeasured("bipia.custody.attack_success", "rate", "no data")];
        assert_eq!(pictures(&EvalReport::of("agent", 0, unmeasured)), []);
    }
}
