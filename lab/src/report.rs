//! Reports: figures with stable ids, and all that is needed to measure them again.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The longest report that is read, in bytes.
pub const MAX_REPORT_BYTES: usize = 16 << 20;

/// What one run of a suite measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalReport {
    /// The suite's name.
    pub suite: String,
    /// What every random draw of the run came from.
    pub seed: u64,
    /// The data it was measured on.
    pub data: Vec<DataFile>,
    /// Where it was measured.
    pub machine: Machine,
    /// What was measured, in the suite's order.
    pub figures: Vec<Figure>,
    /// The command that measures it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What a reader must know to read the figures rightly, a paragraph each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How the figures stand side by side for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// Which run measured what, oldest first, in suites that can be measured piece by piece.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
}

/// One run, of a report that several made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What it measured, as beginnings of ids.
    pub parts: Vec<String>,
    /// By which command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The machine that it ran on.
    pub machine: Machine,
    /// The version of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The language model that was asked, with the digest of its weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A table of figures by id: the cell of a row and a column is the figure `row.prefix` `.` `column.suffix`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// What is said below the heading.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// What the first column holds.
    pub rows_are: String,
    /// The rows.
    pub rows: Vec<TableRow>,
    /// The columns.
    pub columns: Vec<TableColumn>,
}

/// One row of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRow {
    /// Its name.
    pub name: String,
    /// What the ids of its figures begin with.
    pub prefix: String,
}

/// One column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableColumn {
    /// Its heading.
    pub title: String,
    /// What the ids of its figures end with.
    pub suffix: String,
    /// What is shown of the figure.
    pub shows: Shows,
}

/// What a cell shows of its figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shows {
    /// The value, with its interval if it has one.
    Measured,
    /// What the source says.
    Published,
    /// Another product's value.
    Rival,
}

/// A file of data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFile {
    /// Its path inside the data folder.
    pub file: String,
    /// SHA-256 of its bytes, hexadecimal.
    pub sha256: String,
    /// How many rows of it were used.
    pub rows: u64,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Stable, dotted, lower case: `deepset.d2.f1`.
    pub id: String,
    /// `None` when it could not be measured.
    #[serde(serialize_with = "number")]
    pub value: Option<f64>,
    /// What is counted: `cases`, `rate`, `ms` ….
    pub unit: String,
    /// The 95 % confidence interval of a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// What the source says.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "number")]
    pub published: Option<f64>,
    /// Where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What another product reaches, measured beside ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rival: Option<Rival>,
    /// Why there is no value, or what explains a bad one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Another product's figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rival {
    /// The name of the product.
    pub name: String,
    /// Its value, in the figure's unit.
    pub value: f64,
}

/// Why bytes are not a report. One line, with nothing in it that could steer a terminal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a report of `custody eval --json`: {0}")]
pub struct ReportError(String);

impl Figure {
    /// A count of `unit`.
    pub fn count(id: &str, value: u64, unit: &str) -> Self {
        // Counts of a suite stay far below 2⁵³, where the conversion would round.
        Self::real(id, value as f64, unit)
    }

    /// `hits` of `trials`, with its Wilson interval. Unmeasured when nothing was tried.
    pub fn rate(id: &str, hits: u64, trials: u64) -> Self {
        if trials == 0 {
            return Self::unmeasured(id, "rate", "nothing was tried");
        }
        let value = hits as f64 / trials as f64;
        Self { ci95: Some(wilson(hits, trials)), ..Self::real(id, value, "rate") }
    }

    /// A number of `unit`. Unmeasured when it is none.
    pub fn real(id: &str, value: f64, unit: &str) -> Self {
        if !value.is_finite() {
            return Self::unmeasured(id, unit, "the measurement gave no finite number");
        }
        Self {
            id: id.to_owned(),
            value: Some(value),
            unit: unit.to_owned(),
            ci95: None,
            published: None,
            source: None,
            rival: None,
            why: None,
        }
    }

    /// A figure that could not be measured here.
    pub fn unmeasured(id: &str, unit: &str, why: impl Into<String>) -> Self {
        Self { value: None, why: Some(why.into()), ..Self::real(id, 0.0, unit) }
    }

    /// The same, beside what `source` says it is.
    #[must_use]
    pub fn published(self, value: f64, source: &str) -> Self {
        Self { published: Some(value), source: Some(source.to_owned()), ..self }
    }
}

/// The Wilson score interval of `hits` in `trials` at 95 %, inside [0, 1].
///
/// Source: Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
pub fn wilson(hits: u64, trials: u64) -> [f64; 2] {
    wilson_of_rate(hits as f64 / trials as f64, trials as f64)
}

/// [`wilson`] of a rate in so many trials, which need not be whole numbers of them.
pub fn wilson_of_rate(rate: f64, trials: f64) -> [f64; 2] {
    const Z: f64 = 1.959_963_984_540_054;
    let n = trials;
    let scale = 1.0 + Z * Z / n;
    let centre = (rate + Z * Z / (2.0 * n)) / scale;
    let half = Z * (rate * (1.0 - rate) / n + Z * Z / (4.0 * n * n)).sqrt() / scale;
    // At the ends the interval is exact in real numbers and off by a rounding error in these.
    let low = if rate <= 0.0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if rate >= 1.0 { 1.0 } else { (centre + half).min(1.0) };
    [low, high]
}

/// What the ids of some figures begin with: `deepset.d2` of `deepset.d2.f1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FigureIds(String);

impl FigureIds {
    /// Ids that begin with `prefix` and a dot.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self(prefix.into())
    }

    /// The id of the figure `name`.
    pub fn id(&self, name: &str) -> String {
        format!("{}.{name}", self.0)
    }

    /// As [`Figure::count`].
    pub fn count(&self, name: &str, value: u64, unit: &str) -> Figure {
        Figure::count(&self.id(name), value, unit)
    }

    /// As [`Figure::rate`].
    pub fn rate(&self, name: &str, hits: u64, trials: u64) -> Figure {
        Figure::rate(&self.id(name), hits, trials)
    }

    /// As [`EvalReport::value`].
    pub fn value(&self, report: &EvalReport, name: &str) -> Option<f64> {
        report.value(&self.id(name))
    }
}

impl TableRow {
    /// The row `name`, of the figures whose ids begin with `prefix`.
    pub fn new(name: impl Into<String>, prefix: impl Into<String>) -> Self {
        Self { name: name.into(), prefix: prefix.into() }
    }
}

impl TableColumn {
    /// The column `title`, of the figures whose ids end with `suffix`.
    pub fn new(title: impl Into<String>, suffix: impl Into<String>, shows: Shows) -> Self {
        Self { title: title.into(), suffix: suffix.into(), shows }
    }
}

impl EvalReport {
    /// The figure of that id.
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }

    /// The value of the figure of that id, when it was measured.
    pub fn value(&self, id: &str) -> Option<f64> {
        self.figure(id)?.value
    }

    /// The JSON object that `custody eval --json` prints, with a line end.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("a report holds text and numbers only") + "\n"
    }

    /// Reads a report back, from bytes that anybody may have written.
    ///
    /// # Errors
    /// [`ReportError`] with the first thing that is wrong.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ReportError> {
        if bytes.len() > MAX_REPORT_BYTES {
            let (found, limit) = (bytes.len(), MAX_REPORT_BYTES);
            return Err(ReportError(format!("{found} bytes, the limit is {limit}")));
        }
        let report: Self = serde_json::from_slice(bytes)
            .map_err(|cause| ReportError(shown(&cause.to_string())))?;
        report.check()?;
        Ok(report)
    }

    fn check(&self) -> Result<(), ReportError> {
        let mut ids = BTreeSet::new();
        for figure in &self.figures {
            let fault = if !is_id(&figure.id) {
                "is not a dotted lower-case id"
            } else if !ids.insert(&figure.id) {
                "is there twice"
            } else if figure.value.is_none() && figure.why.is_none() {
                "has neither a value nor a `why`"
            } else if figure.ci95.is_some_and(|[low, high]| low > high) {
                "has an interval that ends before it begins"
            } else {
                continue;
            };
            return Err(ReportError(format!("`{}` {fault}", shown(&figure.id))));
        }
        Ok(())
    }

    /// A report of what was measured here with `seed`, still without data, command, notes and tables.
    pub fn of(suite: &str, seed: u64, figures: Vec<Figure>) -> Self {
        Self {
            suite: suite.to_owned(),
            seed,
            data: Vec::new(),
            machine: Machine::here(),
            figures,
            command: None,
            notes: Vec::new(),
            tables: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// The report for people: what was measured beside what was published, and how to repeat it.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("# Evaluation: {}\n\n", cell(&self.suite));
        for note in &self.notes {
            let _ = writeln!(text, "{}\n", cell(note));
        }
        for table in &self.tables {
            table.write(self, &mut text);
        }
        if !self.tables.is_empty() {
            text.push_str("## All figures\n\n");
        }
        text.push_str("| figure | measured | 95 % interval | published | unit | source |\n");
        text.push_str("|---|---:|---:|---:|---|---|\n");
        for figure in &self.figures {
            let measured = match (figure.value, &figure.why) {
                (Some(value), _) => plain(value),
                (None, why) => format!("not measured: {}", why.as_deref().unwrap_or("unknown")),
            };
            let interval = figure
                .ci95
                .map_or(String::new(), |[low, high]| format!("{} – {}", plain(low), plain(high)));
            let source = match (&figure.source, &figure.rival) {
                (source, Some(rival)) => {
                    let source = source.as_deref().unwrap_or_default();
                    format!("{source} ({}: {})", rival.name, plain(rival.value)).trim().to_owned()
                }
                (source, None) => source.clone().unwrap_or_default(),
            };
            let published = figure.published.map_or(String::new(), plain);
            let cells = [&figure.id, &measured, &interval, &published, &figure.unit, &source]
                .map(|c| cell(c));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        let _ = write!(
            text,
            "\nSeed {}. Measured on {}.\n",
            self.seed,
            cell(&self.machine.to_string())
        );
        if let Some(command) = &self.command {
            let _ = write!(text, "\nMeasured by `{}`.\n", cell(command).replace('`', "'"));
        }
        self.write_runs(&mut text);
        if !self.data.is_empty() {
            text.push_str("\n| data | rows | SHA-256 |\n|---|---:|---|\n");
        }
        for data in &self.data {
            let _ =
                writeln!(text, "| {} | {} | {} |", cell(&data.file), data.rows, cell(&data.sha256));
        }
        text
    }
}

impl EvalReport {
    fn write_runs(&self, text: &mut String) {
        if self.runs.is_empty() {
            return;
        }
        text.push_str(
            "\n| measured | by | version | language model | on |\n|---|---|---|---|---|\n",
        );
        for run in &self.runs {
            let command = run.command.as_deref().unwrap_or("unknown").replace('`', "'");
            let cells = [
                &grouped(&run.parts),
                &format!("`{command}`"),
                run.version.as_deref().unwrap_or("unknown"),
                run.model.as_deref().unwrap_or("none"),
                &run.machine.to_string(),
            ];
            let _ = writeln!(text, "| {} |", cells.map(cell).join(" | "));
        }
    }
}

/// Beginnings of ids, those with the same first name together.
fn grouped(parts: &[String]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for part in parts {
        let (first, rest) = part.split_once('.').unwrap_or((part, ""));
        match groups.last_mut() {
            Some((name, members)) if *name == first => members.push(rest),
            Some(_) | None => groups.push((first, vec![rest])),
        }
    }
    let written = groups.iter().map(|(name, members)| format!("{name}: {}", members.join(", ")));
    written.collect::<Vec<_>>().join("; ")
}

impl Table {
    fn write(&self, report: &EvalReport, text: &mut String) {
        let _ = write!(text, "## {}\n\n", cell(&self.title));
        if !self.note.is_empty() {
            let _ = write!(text, "{}\n\n", cell(&self.note));
        }
        let titles: Vec<String> = self.columns.iter().map(|column| cell(&column.title)).collect();
        let _ = writeln!(text, "| {} | {} |", cell(&self.rows_are), titles.join(" | "));
        let _ = writeln!(text, "|---|{}", "---:|".repeat(self.columns.len()));
        for row in &self.rows {
            let cells: Vec<String> = self
                .columns
                .iter()
                .map(|column: &TableColumn| {
                    let figure = report.figure(&format!("{}.{}", row.prefix, column.suffix));
                    figure.map_or(String::new(), |figure| cell(&column.shows.of(figure)))
                })
                .collect();
            let _ = writeln!(text, "| {} | {} |", cell(&row.name), cells.join(" | "));
        }
        text.push('\n');
    }
}

impl Figure {
    /// A value of its unit for people.
    fn written(&self, value: f64) -> String {
        if self.unit == "rate" {
            format!("{:.1} %", value * 100.0)
        } else if self.unit == "cosine" {
            format!("{value:.2}")
        } else if is_whole(value) {
            format!("{value:.0}")
        } else {
            format!("{value:.1}")
        }
    }
}

impl Shows {
    /// The cell's text. Rates stand in per cent.
    fn of(self, figure: &Figure) -> String {
        match self {
            Self::Measured => match (figure.value, figure.ci95) {
                (None, _) => "not measured".to_owned(),
                (Some(value), None) => figure.written(value),
                (Some(value), Some([low, high])) => {
                    let ends = [low, high].map(|end| figure.written(end).replace(" %", ""));
                    format!("{} ({}–{})", figure.written(value), ends[0], ends[1])
                }
            },
            Self::Published => {
                figure.published.map_or(String::new(), |value| figure.written(value))
            }
            Self::Rival => {
                let rival = figure.rival.as_ref();
                rival.map_or(String::new(), |rival| {
                    format!("{} {}", rival.name, figure.written(rival.value))
                })
            }
        }
    }
}

/// 1 to 100 characters of `a-z`, `0-9`, `_` and `-` in segments between dots.
fn is_id(id: &str) -> bool {
    id.len() <= 100
        && id.split('.').all(|part| {
            !part.is_empty()
                && part.chars().all(|c: char| {
                    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-')
                })
        })
}

/// A text from outside on one short line.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(160).flat_map(char::escape_debug).collect()
}

fn cell(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "\\|")
}

/// A number as people write it: counts whole, others with four digits behind the point.
pub(crate) fn plain(value: f64) -> String {
    if is_whole(value) { format!("{value:.0}") } else { format!("{value:.4}") }
}

fn is_whole(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0
}

/// Counts are written without a point.
#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn number<S: serde::Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) if is_whole(*value) =>
        {
            #[expect(clippy::cast_possible_truncation, reason = "whole and below 2⁵³")]
            serializer.serialize_i64(*value as i64)
        }
        Some(value) => serializer.serialize_f64(*value),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> EvalReport {
        EvalReport {
            suite: "memory".into(),
            seed: 7,
            data: vec![DataFile { file: "a|b.jsonl".into(), sha256: "00".repeat(32), rows: 2 }],
            machine: Machine {
                cpu: "a processor".into(),
                cores: 2,
                memory_bytes: 8 << 30,
                os: "linux".into(),
            },
            figures: vec![
                Figure::count("payloads.blocked", 1194, "cases").published(199.0, "MON §5.3"),
                Figure::rate("deepset.recall", 50, 60),
                Figure::unmeasured("crash.runs", "runs", "no program to kill"),
            ],
            command: None,
            notes: vec![],
            tables: vec![],
            runs: vec![],
        }
    }

    #[test]
    fn a_report_survives_its_json_and_counts_have_no_point() {
        let json = report().to_json();
        assert!(json.contains("\"value\": 1194,") && json.contains("\"value\": null"), "{json}");
        assert_eq!(EvalReport::from_json(json.as_bytes()), Ok(report()));
    }

    #[test]
    fn a_report_that_is_none_gives_one_clear_line() {
        let good = report().to_json();
        let cases = [
            (String::new(), "EOF while parsing"),
            ("[".repeat(100_000), "invalid type: sequence"),
            ("{\"\\u001b[2J\\nx\": 1}".into(), "unknown field"),
            (good.replace("payloads.blocked", "Payloads"), "`Payloads` is not a dotted"),
            (good.replace("payloads.blocked", "a\\nb"), "`a\\nb` is not a dotted"),
            (good.replace("deepset.recall", "crash.runs"), "`crash.runs` is there twice"),
            (good.replace("no program to kill\"", "x\", \"extra\": 1"), "unknown field `extra`"),
            (good.replace("1194", "1e999"), "number out of range"),
            (good.replace("1194", "null"), "has neither a value nor a `why`"),
            (good.replace("\"seed\": 7", "\"seed\": -7"), "expected u64"),
            (" ".repeat(MAX_REPORT_BYTES + 1), "the limit is"),
        ];
        for (text, expected) in cases {
            let error = EvalReport::from_json(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.len() < 600 && !error.contains(char::is_control), "{error:?}");
        }
    }

    #[test]
    fn people_see_measured_beside_published_and_why_not() {
        let text = report().to_markdown();
        for line in [
            "| payloads.blocked | 1194 |  | 199 | cases | MON §5.3 |",
            "| deepset.recall | 0.8333 | 0.7197 – 0.9069 |  | rate |  |",
            "| crash.runs | not measured: no program to kill |  |  | runs |  |",
            "Seed 7. Measured on a processor, 2 cores, 8 GiB, linux.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(text.contains("| a\\|b.jsonl | 2 |"));
    }

    #[test]
    fn tables_put_figures_side_by_side_and_leave_none_out() {
        let row = |name: &str, prefix: &str| TableRow { name: name.into(), prefix: prefix.into() };
        let column = |title: &str, suffix: &str, shows| TableColumn {
            title: title.into(),
            suffix: suffix.into(),
            shows,
        };
        let table = Table {
            title: "deepset".into(),
            note: "A note.".into(),
            rows_are: "detector".into(),
            rows: vec![row("all | of it", "deepset"), row("crashes", "crash")],
            columns: vec![
                column("recall", "recall", Shows::Measured),
                column("published", "recall", Shows::Published),
                column("runs", "runs", Shows::Measured),
            ],
        };
        let mut report = report();
        report.figures[1] = Figure::rate("deepset.recall", 50, 60).published(0.9, "a paper");
        report.tables = vec![table];
        report.notes = vec!["What to know.".into()];
        report.command = Some("custody eval detection".into());
        let text = report.to_markdown();
        for line in [
            "What to know.",
            "## deepset",
            "A note.",
            "| detector | recall | published | runs |",
            "| all \\| of it | 83.3 % (72.0–90.7) | 90.0 % |  |",
            "| crashes |  |  | not measured |",
            "| deepset.recall | 0.8333 | 0.7197 – 0.9069 | 0.9000 | rate | a paper |",
            "Measured by `custody eval detection`.",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert_eq!(EvalReport::from_json(report.to_json().as_bytes()), Ok(report));
    }

    #[test]
    fn a_wilson_interval_holds_the_rate_and_stays_in_bounds() {
        assert_eq!(wilson(0, 10)[0], 0.0);
        assert_eq!(wilson(10, 10)[1], 1.0);
        let [low, high] = wilson(5, 10);
        assert!((low - 0.2366).abs() < 1e-4 && (high - 0.7634).abs() < 1e-4, "{low} {high}");
    }
}
