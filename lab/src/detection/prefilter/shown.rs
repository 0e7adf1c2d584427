//! From scores to the figures, the curves and the table of the prefilter's report.

use super::splits::{BY_ROW, Held};
use crate::detection::bootstrap::{RESAMPLES, intervals};
use crate::detection::detector::{Detector, Failure};
use crate::detection::pictures::curve;
use crate::detection::unit::MeasuredUnit;
use crate::error::EvalError;
use crate::metrics::{Measures, Scored, percentile, reliability};
use crate::plot::roc;
use crate::report::{Figure, Shows, Table, TableColumn, TableRow};
use crate::sets::Labelled;

/// What ids of figures begin with, and what a reader is told.
pub(super) type Name<'a> = [&'a str; 2];

pub(super) const OUTSIDE: Name<'static> = ["prefilter.qualifire", "Qualifire benchmark (outside)"];
pub(super) const SHIPPED_ROWS: Name<'static> =
    ["prefilter.shipped", "shipped weights, rows held back of other sources"];
pub(super) const SHIPPED_OUTSIDE: Name<'static> =
    ["prefilter.qualifire.shipped", "shipped weights, Qualifire benchmark (outside)"];

/// What the report shows so far.
pub(super) struct Shown {
    seed: u64,
    pub(super) figures: Vec<Figure>,
    pub(super) curves: Vec<roc::Curve>,
}

impl Shown {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, figures: Vec::new(), curves: Vec::new() }
    }

    pub(super) fn add(
        &mut self,
        name: Name<'_>,
        rows: &[Labelled],
        measured: &MeasuredUnit,
    ) -> Result<(), EvalError> {
        let labels: Vec<bool> = rows.iter().map(|row| row.label).collect();
        let scored = Scored::new(&measured.scores, &labels, measured.threshold)
            .map_err(|cause| failed("prefilter", name, cause.into()))?;
        let measures = scored.measures();
        let found = Found { name, measured, labels: &labels, scored, measures };
        self.figures.extend(found.figures(self.seed));
        self.curves.extend(curve(name[1], &found.scored));
        Ok(())
    }

    pub(super) fn add_shipped(
        &mut self,
        name: Name<'_>,
        rows: &[Labelled],
        detector: &dyn Detector,
    ) -> Result<(), EvalError> {
        let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        let scores = detector.scores(&texts).map_err(|cause| failed("shipped", name, cause))?;
        let threshold = detector.threshold();
        self.add(name, rows, &MeasuredUnit { scores, threshold, ..MeasuredUnit::default() })
    }

    /// The smallest area among the groups of sources.
    pub(super) fn worst_source(&mut self) {
        let areas = self
            .figures
            .iter()
            .filter(|figure: &&Figure| {
                figure.id.starts_with("prefilter.by_source.") && figure.id.ends_with(".auroc")
            })
            .filter_map(|figure| figure.value);
        let id = "prefilter.by_source.worst_auroc";
        let figure = match areas.reduce(f64::min) {
            Some(worst) => Figure::real(id, worst, "rate"),
            None => Figure::unmeasured(id, "rate", "no group has both classes"),
        };
        self.figures.push(figure);
    }
}

fn failed(method: &str, [data_set, _]: Name<'_>, cause: Failure) -> EvalError {
    EvalError::Detector { method: method.to_owned(), data_set: data_set.to_owned(), cause }
}

/// What was found in some texts.
struct Found<'a> {
    name: Name<'a>,
    measured: &'a MeasuredUnit,
    labels: &'a [bool],
    scored: Scored<'a>,
    measures: Measures,
}

impl Found<'_> {
    fn id(&self, figure: &str) -> String {
        format!("{}.{figure}", self.name[0])
    }

    /// Whether these are the rows that the bar of the prefilter is for.
    fn are_rows_held_back(&self) -> bool {
        self.name[0] == BY_ROW
    }

    fn figures(&self, seed: u64) -> Vec<Figure> {
        let counts = self.measures.confusion;
        let rows = self.labels.len() as u64;
        let mut figures = vec![
            self.area(seed),
            Figure::rate(&self.id("fpr"), counts.false_positives, counts.negatives()),
            Figure::rate(&self.id("recall"), counts.true_positives, counts.positives()),
            Figure::real(&self.id("precision"), counts.precision(), "rate"),
            Figure::real(&self.id("f1"), counts.f1(), "rate"),
            Figure::real(&self.id("threshold"), self.measured.threshold, "score"),
            Figure::count(&self.id("rows"), rows, "rows"),
            Figure::count(&self.id("positive_rows"), counts.positives(), "rows"),
        ];
        figures.extend(self.times());
        if let Some(found) = reliability(&self.measured.scores, self.labels, 10) {
            let error = found.expected_calibration_error;
            figures.push(Figure::real(&self.id("calibration_error"), error, "rate"));
        }
        figures
    }

    fn area(&self, seed: u64) -> Figure {
        let id = self.id("auroc");
        let mut area = match self.measures.auroc {
            Some(area) => Figure::real(&id, area, "rate"),
            None => Figure::unmeasured(&id, "rate", "the rows are of one class"),
        };
        // Thousands of rows: a quarter of the resamples gives the interval its three digits.
        let between = intervals(std::slice::from_ref(&self.scored), RESAMPLES / 4, seed);
        area.ci95 = between.and_then(|between| between.auroc);
        if self.are_rows_held_back() {
            return area.published(0.97, "PIPE, the bar of its prefilter");
        }
        area
    }

    /// How long training took, and one text.
    fn times(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        if self.measured.training_seconds > 0.0 {
            let seconds = self.measured.training_seconds;
            figures.push(Figure::real(&self.id("training_seconds"), seconds, "s"));
        }
        if self.are_rows_held_back()
            && let Some(time) = percentile(&self.measured.latencies_us, 50.0)
        {
            figures.push(Figure::real(&self.id("latency_us_p50"), time, "us"));
        }
        figures
    }
}

pub(super) fn table(splits: &[Held], has_shipped: bool) -> Table {
    let mut names: Vec<Name<'_>> = splits.iter().map(Held::name).collect();
    names.insert(1, OUTSIDE);
    if has_shipped {
        names.extend([SHIPPED_ROWS, SHIPPED_OUTSIDE]);
    }
    let columns = [
        ("AUROC", "auroc"),
        ("false positives", "fpr"),
        ("recall", "recall"),
        ("precision", "precision"),
        ("rows", "rows"),
        ("injections", "positive_rows"),
        ("training s", "training_seconds"),
    ];
    Table {
        title: "Held back from training".to_owned(),
        note: "The threshold is the detector's own, chosen on training rows.".to_owned(),
        rows_are: "texts".to_owned(),
        rows: names
            .into_iter()
            .map(|[id, title]: Name<'_>| TableRow { name: title.to_owned(), prefix: id.to_owned() })
            .collect(),
        columns: columns
            .map(|(title, suffix): (&str, &str)| TableColumn {
                title: title.to_owned(),
                suffix: suffix.to_owned(),
                shows: Shows::Measured,
            })
            .to_vec(),
    }
}
