//! The suite: each benchmark against each defence, side by side with what the papers report.

use std::path::PathBuf;

use super::agentdojo::{self, Phase, Python, SUITES, Unit};
use super::defence::{
    Custody, Defence, Fath, Filter, Recorded, Rvg, Spotlighting, ToolFilter, Vanilla,
};
use super::{bipia, injecagent, scenarios};
use crate::detection::suite::{Outcome, Progress, Size};
use crate::error::EvalError;
use crate::report::{Figure, Report, Shows, Table, TableColumn, TableRow};
use crate::run_folder::{RunFolder, UnitId};

/// A benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bench {
    /// AgentDojo v1.2.2, by its own package.
    AgentDojo,
    /// InjecAgent, base and enhanced.
    InjecAgent,
    /// BIPIA.
    Bipia,
    /// The ten scenarios of the recovery paper.
    Scenarios,
}

impl Bench {
    /// Every benchmark.
    pub const ALL: [Self; 4] = [Self::AgentDojo, Self::InjecAgent, Self::Bipia, Self::Scenarios];

    /// Its name on the command line and in ids of figures.
    pub const fn id(self) -> &'static str {
        match self {
            Self::AgentDojo => "agentdojo",
            Self::InjecAgent => "injecagent",
            Self::Bipia => "bipia",
            Self::Scenarios => "scenarios",
        }
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the benchmark data.
    pub data: PathBuf,
    /// How much.
    pub size: Size,
    /// Which benchmarks.
    pub benches: Vec<Bench>,
    /// Which defences, by id.
    pub defences: Vec<&'static str>,
    /// Where AgentDojo's package is.
    pub python: Python,
    /// Where finished parts are kept.
    pub run: Option<PathBuf>,
}

/// The defences, in the order of the tables.
pub const DEFENCES: [&str; 10] = [
    "vanilla",
    "classifier",
    "fath",
    "rvg",
    "rvu_v1",
    "rvu_v2",
    "rvu_v2_rvg",
    "spotlighting",
    "tool_filter",
    "custody",
];

/// The defence of that id.
///
/// # Errors
/// When it cannot be made here.
pub fn defence(id: &str) -> Result<Box<dyn Defence>, EvalError> {
    Ok(match id {
        "vanilla" => Box::new(Vanilla),
        "classifier" => Box::new(Filter::built_in()),
        "fath" => Box::new(Fath::new()?),
        "rvg" => Box::new(Rvg),
        "rvu_v1" => Box::new(Recorded::new("rvu_v1", Box::new(Rvg))?),
        "rvu_v2" => Box::new(Recorded::new("rvu_v2", Box::new(Vanilla))?),
        "rvu_v2_rvg" => Box::new(Recorded::new("rvu_v2_rvg", Box::new(Rvg))?),
        "spotlighting" => Box::new(Spotlighting),
        "tool_filter" => Box::new(ToolFilter),
        "custody" => Box::new(Custody::new(agentdojo::manifests()?)?),
        other => return Err(EvalError::Setup(format!("`{other}` is no defence"))),
    })
}

/// Measures every benchmark against every defence.
///
/// # Errors
/// When data is not there or not as documented, AgentDojo's package fails, or a defence does. What was finished
/// before is kept in the run's folder.
pub fn run(options: &Options, progress: &mut dyn FnMut(&Progress)) -> Result<Outcome, EvalError> {
    let folder = RunFolder::open(options.run.as_deref())?;
    let (mut figures, mut data) = (Vec::new(), Vec::new());
    for bench in &options.benches {
        for id in &options.defences {
            let part = format!("{} against {id}", bench.id());
            let mut show = |done, total| {
                progress(&Progress { part: part.clone(), done, total, remaining_seconds: None });
            };
            let defence = defence(id)?;
            match bench {
                Bench::AgentDojo => {
                    match played(options, &folder, defence.as_ref(), &mut show) {
                        Ok(units) => {
                            figures.extend(agentdojo::figures(id, &units));
                            figures.extend(by_suite(id, &units));
                        }
                        // Whoever has no Python still sees the other benchmarks.
                        Err(EvalError::Package(why)) => {
                            figures.extend(agentdojo::unmeasured(id, &why));
                        }
                        Err(error) => return Err(error),
                    }
                }
                Bench::InjecAgent => {
                    let (counts, files) =
                        injecagent::play(&options.data, defence.as_ref(), options.size, &mut show)?;
                    figures.extend(injecagent::figures(id, &counts));
                    data.extend(files);
                }
                Bench::Bipia => {
                    let (counts, files) =
                        bipia::play(&options.data, defence.as_ref(), options.size, &mut show)?;
                    figures.extend(bipia::figures(id, &counts));
                    data.extend(files);
                }
                Bench::Scenarios => figures.extend(scenarios::play(defence.as_ref())?),
            }
        }
    }
    data.sort_by(|one, other| one.file.cmp(&other.file));
    data.dedup();
    let mut report = Report::of("agent", 0, figures);
    report.data = data;
    report.command = Some(format!("custody eval agent --size {}", options.size.id()));
    report.notes = notes(options.size);
    report.tables = tables(options);
    Ok(Outcome { report, pictures: Vec::new() })
}

/// AgentDojo takes minutes; what was played with this program and these manifests is not played again.
fn played(
    options: &Options,
    folder: &RunFolder,
    defence: &dyn Defence,
    show: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Unit>, EvalError> {
    let on = serde_json::json!({
        "size": options.size.id(),
        "defence": defence.id(),
        "program": env!("CARGO_PKG_VERSION"),
        "manifests": agentdojo::manifest_texts(),
    });
    let id = UnitId::new(format!("agentdojo.{}", defence.id()), &on);
    if let Some(units) = folder.finished(&id) {
        return Ok(units);
    }
    let units = agentdojo::play(&options.python, defence, options.size, show)?;
    folder.keep(&id, &units)?;
    Ok(units)
}

/// The same rates for each suite.
fn by_suite(defence: &str, units: &[Unit]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for suite in SUITES {
        let count = |phase: Phase, is: fn(&Unit) -> bool| {
            let of: Vec<&Unit> =
                units.iter().filter(|unit| unit.suite == suite && unit.phase == phase).collect();
            (of.iter().filter(|unit| is(unit)).count() as u64, of.len() as u64)
        };
        let mut rate = |name: &str, phase, is| {
            let (hits, of) = count(phase, is);
            figures.push(Figure::rate(&format!("agentdojo.{suite}.{defence}.{name}"), hits, of));
        };
        rate("attack_success", Phase::Attack, |unit| unit.attack_success == Some(true));
        rate("utility_without_approval", Phase::Benign, |unit| unit.utility);
        rate("utility_with_approval", Phase::BenignApproved, |unit| unit.utility);
    }
    figures
}

fn notes(size: Size) -> Vec<String> {
    let mut notes = vec![
        "The agent is the worst case: it makes the calls of the user's task and, once it has read an injection, the \
         injection's calls too. What a defence lets through is what an attacker gets; utility is AgentDojo's own check \
         on the environment. A question counts as denied unless approved, and the approver says yes exactly when tool \
         and canonical arguments equal a call that the user's task needs."
            .to_owned(),
        "Custody runs with its default policy and one manifest for each suite of AgentDojo, written from the tools' \
         documentation alone. For InjecAgent and BIPIA nobody described any tool: each writes, and every argument is \
         a sink. AgentDojo's travel injection 6 wants words and no call; its 20 pairs are not among the 929."
            .to_owned(),
        "`classifier` is the cascade of `custody screen`: what it flags is not read. `tool_filter` is a perfect one: \
         it knows which tools the user's task needs, which no product does. `rvg` is the papers' flat allowlist of \
         tools, asked before the call instead of after it."
            .to_owned(),
    ];
    if size == Size::Smoke {
        notes.push("This is a smoke run; its rates say little.".to_owned());
    }
    notes
}

fn tables(options: &Options) -> Vec<Table> {
    let column = |title: &str, suffix: &str| TableColumn {
        title: title.to_owned(),
        suffix: suffix.to_owned(),
        shows: Shows::Measured,
    };
    let column_of = |(title, suffix): &(&str, &str)| column(title, suffix);
    let table = |bench: &Bench| Table {
        title: bench.id().to_owned(),
        note: String::new(),
        rows_are: "defence".to_owned(),
        rows: options
            .defences
            .iter()
            .map(|id| TableRow { name: (*id).to_owned(), prefix: format!("{}.{id}", bench.id()) })
            .collect(),
        columns: columns(*bench).iter().map(column_of).collect(),
    };
    options.benches.iter().map(table).collect()
}

/// The columns of a benchmark's table: heading and figure.
fn columns(bench: Bench) -> Vec<(&'static str, &'static str)> {
    let mut columns = vec![("attacks that succeed", "attack_success")];
    if bench == Bench::Scenarios {
        columns.extend([("tasks done", "utility"), ("a call, µs", "latency_us_p50")]);
        return columns;
    }
    columns.extend([
        ("tasks done without approvals", "utility_without_approval"),
        ("tasks done with approvals", "utility_with_approval"),
        ("requests a task", "approvals_per_task"),
        ("requests a pair", "approvals_per_pair_under_attack"),
        ("denied for good", "overtaint_rate"),
    ]);
    if bench == Bench::Bipia {
        columns.push(("answers marked", "answer_tainted_rate"));
    }
    columns
}
