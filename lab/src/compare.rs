//! What became worse between two reports.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::report::{EvalReport, Figure, ReportError, plain, shown};

/// How far a figure may move before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tolerances {
    /// Nothing may get worse; only durations, which no two runs share, may move by half.
    Exact,
    /// Those of the published harness: utility ±0.05 and security ±0.03 absolute; time, tokens, steps
    /// and certificates ±50 %; everything else ±0.05 or ±50 %.
    ///
    /// Source: docs/papers.md §3.6.
    Compatible,
}

impl std::str::FromStr for Tolerances {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "default" => Ok(Self::Exact),
            "compatible" => Ok(Self::Compatible),
            _ => Err(format!("`{}` is no preset; use `default` or `compatible`", shown(name))),
        }
    }
}

/// Which way a figure gets better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better: blocked, defeated, recall.
    Higher,
    /// Less is better: leaks, lost, milliseconds.
    Lower,
    /// The size of the measurement itself: two that differ did not measure the same.
    Same,
}

impl Better {
    /// Which way the figure of this id and unit gets better.
    pub fn of(id: &str, unit: &str) -> Self {
        const LOWER: &[&str] = &[
            "leaks",
            "leaked",
            "changed",
            "lost",
            "divergences",
            "present",
            "unverified",
            "fpr",
            "fnr",
            "asr",
            "missed",
            "false",
            "latency",
            "errors",
            "residual",
            "violations",
            "flagged",
            "fp",
            "fn",
            "sd",
        ];
        const SAME: &[&str] = &[
            "total",
            "cases",
            "controls",
            "sessions",
            "secrets",
            "pairs",
            "runs",
            "rows",
            "steps",
            "payloads",
            "seeds",
            "documents",
            "groups",
            "threshold",
        ];
        let last = id.rsplit('.').next().unwrap_or_default();
        // `f1_without_leaked_rows` is an F1 and no leak.
        let last = last.split("_without_").next().unwrap_or_default();
        if last.split(['_', '-']).any(|word| LOWER.contains(&word))
            || is_duration(unit)
            || matches!(unit, "tokens" | "bytes")
        {
            Self::Lower
        } else if SAME.contains(&last) || last.ends_with("_steps") {
            Self::Same
        } else {
            Self::Higher
        }
    }
}

/// One figure that moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureChange {
    /// The id of the figure.
    pub id: String,
    /// Before; `None` when it was not measured.
    pub old: Option<f64>,
    /// After.
    pub new: Option<f64>,
    /// Which way it would get better.
    pub better: Better,
}

/// What moved from one report to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Worse by more than the tolerance, or no longer measured.
    pub regressions: Vec<FigureChange>,
    /// Better by more than the tolerance, or measured for the first time.
    pub improvements: Vec<FigureChange>,
    /// Ids that only the old report has.
    pub missing: Vec<String>,
    /// Ids that only the new report has.
    pub new: Vec<String>,
    /// Figures that stayed within the tolerance.
    pub unchanged: usize,
    /// What makes the two less comparable: other data, another seed.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Whether a gate should stop here.
    pub fn is_worse(&self) -> bool {
        !self.regressions.is_empty() || !self.missing.is_empty()
    }
}

/// Reads two reports from bytes that anybody may have written and compares them.
///
/// # Errors
/// One line naming the report at fault.
pub fn compare_json(
    old: &[u8],
    new: &[u8],
    tolerances: Tolerances,
) -> Result<Comparison, CompareError> {
    let old = EvalReport::from_json(old).map_err(CompareError::Old)?;
    let new = EvalReport::from_json(new).map_err(CompareError::New)?;
    if old.suite != new.suite {
        return Err(CompareError::Suites(shown(&old.suite), shown(&new.suite)));
    }
    Ok(compare(&old, &new, tolerances))
}

/// Why two reports cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// The old one is none.
    #[error("the old report is {0}")]
    Old(ReportError),
    /// The new one is none.
    #[error("the new report is {0}")]
    New(ReportError),
    /// They measured different things.
    #[error("the old report is of suite `{0}`, the new one of `{1}`; compare two of one suite")]
    Suites(String, String),
}

/// Compares two reports of one suite.
pub fn compare(old: &EvalReport, new: &EvalReport, tolerances: Tolerances) -> Comparison {
    let mut found = Comparison { notes: notes(old, new), ..Comparison::default() };
    let after: BTreeMap<&str, &Figure> =
        new.figures.iter().map(|figure| (figure.id.as_str(), figure)).collect();
    for figure in &old.figures {
        let Some(now) = after.get(figure.id.as_str()) else {
            found.missing.push(figure.id.clone());
            continue;
        };
        let better = Better::of(&figure.id, &figure.unit);
        let change =
            FigureChange { id: figure.id.clone(), old: figure.value, new: now.value, better };
        match moved(figure, now, better, tolerances) {
            Moved::Worse => found.regressions.push(change),
            Moved::Better => found.improvements.push(change),
            Moved::Stayed => found.unchanged += 1,
        }
    }
    found.new = new
        .figures
        .iter()
        .filter(|figure: &&Figure| old.figure(&figure.id).is_none())
        .map(|figure| figure.id.clone())
        .collect();
    found
}

enum Moved {
    Worse,
    Better,
    Stayed,
}

fn moved(old: &Figure, new: &Figure, better: Better, tolerances: Tolerances) -> Moved {
    let (before, after) = match (old.value, new.value) {
        (None, None) => return Moved::Stayed,
        (Some(_), None) => return Moved::Worse,
        (None, Some(_)) => return Moved::Better,
        (Some(before), Some(after)) => (before, after),
    };
    if old.unit != new.unit {
        return Moved::Worse;
    }
    if within(before, after, tolerances, old) {
        return Moved::Stayed;
    }
    match better {
        Better::Same => Moved::Worse,
        Better::Higher if after > before => Moved::Better,
        Better::Lower if after < before => Moved::Better,
        Better::Higher | Better::Lower => Moved::Worse,
    }
}

/// Whether a part of the figure's id is this word.
fn is_named(figure: &Figure, word: &str) -> bool {
    figure.id.split(['.', '_', '-']).any(|part| part == word)
}

fn within(before: f64, after: f64, tolerances: Tolerances, figure: &Figure) -> bool {
    let moved = (after - before).abs() - 1e-12;
    let half = moved <= before.abs() * 0.5;
    match tolerances {
        Tolerances::Exact if is_duration(&figure.unit) => half,
        Tolerances::Exact => moved <= 0.0,
        Tolerances::Compatible => {
            let measured_in_half = ["time", "tokens", "steps", "certificates"];
            if is_named(figure, "utility") {
                moved <= 0.05
            } else if is_named(figure, "security") {
                moved <= 0.03
            } else if is_duration(&figure.unit)
                || measured_in_half.iter().any(|word| is_named(figure, word))
            {
                half
            } else {
                moved <= 0.05 || half
            }
        }
    }
}

fn is_duration(unit: &str) -> bool {
    matches!(unit, "ns" | "us" | "µs" | "ms" | "s")
}

fn notes(old: &EvalReport, new: &EvalReport) -> Vec<String> {
    let mut notes = Vec::new();
    if old.suite != new.suite {
        notes.push(format!(
            "the suites differ: `{}`, now `{}`",
            shown(&old.suite),
            shown(&new.suite)
        ));
    }
    if old.seed != new.seed {
        notes.push(format!("the seeds differ: {}, now {}", old.seed, new.seed));
    }
    if old.machine != new.machine {
        notes.push("the machines differ; durations do not compare".to_owned());
    }
    for data in &old.data {
        let same = new.data.iter().find(|other| other.file == data.file);
        match same {
            Some(other) if other.sha256 == data.sha256 && other.rows == data.rows => {}
            Some(_) => notes.push(format!("the data `{}` differs", shown(&data.file))),
            None => notes.push(format!("the data `{}` is not used any more", shown(&data.file))),
        }
    }
    notes
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = [("worse", &self.regressions), ("better", &self.improvements)];
        for (word, changes) in changes {
            for change in changes {
                let [old, new] = [change.old, change.new]
                    .map(|value| value.map_or("not measured".to_owned(), plain));
                writeln!(f, "{word}: {} from {old} to {new}", change.id)?;
            }
        }
        for (word, ids) in [("missing", &self.missing), ("new", &self.new)] {
            for id in ids {
                writeln!(f, "{word}: {id}")?;
            }
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        writeln!(
            f,
            "{} worse, {} better, {} missing, {} new, {} unchanged",
            self.regressions.len(),
            self.improvements.len(),
            self.missing.len(),
            self.new.len(),
            self.unchanged
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn report(figures: Vec<Figure>) -> EvalReport {
        let machine = Machine { cpu: "c".into(), cores: 1, memory_bytes: 0, os: "linux".into() };
        EvalReport { machine, ..EvalReport::of("memory", 1, figures) }
    }

    fn verdict(id: &str, unit: &str, old: f64, new: f64, tolerances: Tolerances) -> &'static str {
        let one = |value| report(vec![Figure::real(id, value, unit)]);
        let found = compare(&one(old), &one(new), tolerances);
        match (found.regressions.len(), found.improvements.len()) {
            (1, 0) => "worse",
            (0, 1) => "better",
            _ => "same",
        }
    }

    #[test]
    fn each_figure_knows_which_way_it_gets_better() {
        use Tolerances::{Compatible, Exact};
        let cases = [
            ("payloads.blocked", "cases", 1194.0, 1193.0, Exact, "worse"),
            ("isolation.leaks", "pairs", 0.0, 1.0, Exact, "worse"),
            ("isolation.leaks", "pairs", 1.0, 0.0, Exact, "better"),
            ("crash.lost_acknowledged", "writes", 0.0, 1.0, Exact, "worse"),
            ("crash.refused_present", "values", 0.0, 1.0, Exact, "worse"),
            ("protected_files.changed", "files", 0.0, 1.0, Exact, "worse"),
            ("payloads.total", "payloads", 199.0, 200.0, Exact, "worse"),
            ("rules.model_steps", "steps", 100.0, 200.0, Exact, "worse"),
            ("deepset.d2.f1", "rate", 0.90, 0.91, Exact, "better"),
            ("deepset.d2.f1_without_leaked_rows", "rate", 0.90, 0.91, Exact, "better"),
            ("deepset.d4.f1_sd", "rate", 0.01, 0.02, Exact, "worse"),
            ("deepset.d2.fp", "rows", 1.0, 2.0, Exact, "worse"),
            ("deepset.d2.tp", "rows", 50.0, 51.0, Exact, "better"),
            ("notinject.de.full.flagged_rate", "rate", 0.01, 0.02, Exact, "worse"),
            ("write.p50", "ms", 1.0, 1.4, Exact, "same"),
            ("write.p50", "ms", 1.0, 1.6, Exact, "worse"),
            ("agent.utility", "rate", 0.60, 0.56, Compatible, "same"),
            ("agent.utility", "rate", 0.60, 0.54, Compatible, "worse"),
            ("agent.security", "rate", 0.60, 0.56, Compatible, "worse"),
            ("agent.tokens", "tokens", 100.0, 149.0, Compatible, "same"),
            ("agent.tokens", "tokens", 100.0, 151.0, Compatible, "worse"),
            ("closure.size", "entries", 4.0, 5.0, Compatible, "same"),
            ("deepset.d2.f1", "rate", 0.90, 0.40, Compatible, "worse"),
        ];
        for (id, unit, old, new, tolerances, expected) in cases {
            assert_eq!(verdict(id, unit, old, new, tolerances), expected, "{id} {old} → {new}");
        }
    }

    #[test]
    fn what_is_no_longer_measured_is_worse_and_what_vanished_is_missing() {
        let old = report(vec![
            Figure::count("a.blocked", 1, "cases"),
            Figure::count("b.blocked", 1, "cases"),
            Figure::unmeasured("c.blocked", "cases", "no data"),
        ]);
        let new = report(vec![
            Figure::unmeasured("a.blocked", "cases", "no data"),
            Figure::count("c.blocked", 1, "cases"),
            Figure::count("d.blocked", 1, "cases"),
        ]);
        let found = compare(&old, &new, Tolerances::Exact);
        assert!(found.is_worse());
        let lines = [
            "worse: a.blocked from 1 to not measured",
            "better: c.blocked from not measured to 1",
            "missing: b.blocked",
            "new: d.blocked",
            "1 worse, 1 better, 1 missing, 1 new, 0 unchanged\n",
        ];
        assert_eq!(found.to_string(), lines.join("\n"));
    }

    #[test]
    fn a_hostile_report_is_named_in_one_line() {
        let good = report(vec![]).to_json();
        let error = compare_json(b"\x1b[2J{", good.as_bytes(), Tolerances::Exact).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("the old report is not a report"), "{text}");
        assert!(!text.contains(char::is_control), "{text:?}");
        let other = good.replace("\"memory\"", "\"detect\"");
        let error = compare_json(good.as_bytes(), other.as_bytes(), Tolerances::Exact).unwrap_err();
        assert!(error.to_string().contains("suite `memory`, the new one of `detect`"), "{error}");
    }
}
