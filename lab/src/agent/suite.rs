//! The suite: each benchmark against each defence, side by side with what the papers report.

use std::path::PathBuf;

use custody_models::chat::ChatModel;

use super::agentdojo::{self, Phase, Python, SUITES, Unit};
use super::defence::{
    Custody, CustodyRow, Defence, Fath, Filter, ReadOnly, Recorded, Spotlighting, ToolFilter,
    Vanilla,
};
use super::merged::merged;
use super::pictures::pictures;
use super::scenarios::model::CachedModel;
use super::tables::explain;
use super::{adaptive, bipia, injecagent, scenarios};
use crate::detection::suite::{IllustratedReport, Progress};
use crate::error::EvalError;
use crate::report::{DataFile, EvalReport, Figure};
use crate::run_folder::{RunFolder, UnitId};
use crate::size::Size;

/// A benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// AgentDojo v1.2.2, by its own package.
    AgentDojo,
    /// InjecAgent, base and enhanced.
    InjecAgent,
    /// BIPIA.
    Bipia,
    /// The ten scenarios of the recovery paper.
    Scenarios,
}

impl Benchmark {
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

    /// What the ids of a defence's figures begin with, whoever plays the agent.
    pub(super) fn prefix(self, defence: &str, player: Option<&str>) -> String {
        [Some(self.id()), Some(defence), player].into_iter().flatten().collect::<Vec<_>>().join(".")
    }

    /// What people call it.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::AgentDojo => "AgentDojo",
            Self::InjecAgent => "InjecAgent",
            Self::Bipia => "BIPIA",
            Self::Scenarios => "Ten scenarios",
        }
    }

    /// What the ids of its figures end with that say how much is left for the user.
    pub(super) const fn utility(self) -> &'static str {
        match self {
            Self::AgentDojo | Self::InjecAgent | Self::Bipia => "utility_without_approval",
            Self::Scenarios => "utility",
        }
    }
}

/// Who plays the agent.
#[derive(Clone, Copy)]
pub enum AgentPlayer<'a> {
    /// It does whatever it reads.
    WorstCase,
    /// A language model; it plays the scenarios alone.
    Model(&'a dyn ChatModel),
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// The folder of the benchmark data.
    pub data: PathBuf,
    /// How much.
    pub size: Size,
    /// Which benchmarks.
    pub benches: Vec<Benchmark>,
    /// Which defences, by id.
    pub defences: Vec<&'static str>,
    /// Where AgentDojo's package is.
    pub python: Python,
    /// Where finished parts are kept.
    pub run: Option<PathBuf>,
    /// The report of other runs, whose figures stay if they are not measured now.
    pub earlier: Option<EvalReport>,
    /// The arguments that choose the agent again.
    pub agent_arguments: String,
}

/// The defences, in the order of the tables.
pub const DEFENCES: [&str; 11] = [
    "vanilla",
    "classifier",
    "fath",
    "read_only",
    "recorded",
    "recorded_read_only",
    "spotlighting",
    "tool_filter",
    "custody",
    "custody_intents",
    "custody_intents_strict",
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
        "read_only" => Box::new(ReadOnly),
        "recorded" => Box::new(Recorded::new("recorded", Box::new(Vanilla))?),
        "recorded_read_only" => Box::new(Recorded::new("recorded_read_only", Box::new(ReadOnly))?),
        "spotlighting" => Box::new(Spotlighting),
        "tool_filter" => Box::new(ToolFilter),
        "custody" => Box::new(custody(CustodyRow::Default)?),
        "custody_intents" => Box::new(custody(CustodyRow::Intents)?),
        "custody_intents_strict" => Box::new(custody(CustodyRow::StrictIntents)?),
        other => return Err(EvalError::Setup(format!("`{other}` is no defence"))),
    })
}

fn custody(row: CustodyRow) -> Result<Custody, EvalError> {
    let mut manifests = agentdojo::manifests()?;
    manifests.extend([scenarios::manifests()?]);
    Custody::new(row, manifests)
}

/// Measures every benchmark against every defence. Intents are written for AgentDojo's tasks alone.
///
/// # Errors
/// When data is not there or not as documented, AgentDojo's package fails, or a defence or the model does. What was
/// finished before is kept in the run's folder.
pub fn run(
    options: &AgentOptions,
    agent: AgentPlayer<'_>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<IllustratedReport, EvalError> {
    let folder = RunFolder::open(options.run.as_deref())?;
    let mut measured = Measured::default();
    let (asked, model) = match agent {
        AgentPlayer::WorstCase => (None, None),
        AgentPlayer::Model(model) => (Some(CachedModel::new(model)), Some(model.identity())),
    };
    for bench in &options.benches {
        for id in &options.defences {
            let part = format!("{} against {id}", bench.id());
            let mut show = |done, total| {
                progress(&Progress { part: part.clone(), done, total, remaining_seconds: None });
            };
            let defence = defence(id)?;
            if defence.takes_intents() && *bench != Benchmark::AgentDojo {
                continue;
            }
            match &asked {
                None => measured.add(options, &folder, *bench, defence.as_ref(), &mut show)?,
                Some(asked) => {
                    let figures =
                        scenarios::model::play(defence.as_ref(), asked, options.size, &mut show)?;
                    measured.figures.extend(figures);
                }
            }
        }
    }
    let is_custody_played = asked.is_none() && options.defences.contains(&"custody");
    if is_custody_played && options.benches.contains(&Benchmark::Scenarios) {
        measured.figures.extend(adaptive::play()?);
    }
    let mut now = EvalReport::of("agent", 0, measured.figures);
    now.data = measured.data;
    now.command = Some(command(options));
    let mut report = merged(options.earlier.clone(), now, model);
    explain(&mut report);
    Ok(IllustratedReport { pictures: pictures(&report), report })
}

/// What was measured so far.
#[derive(Default)]
struct Measured {
    figures: Vec<Figure>,
    data: Vec<DataFile>,
}

impl Measured {
    /// Lets the worst-case agent play `bench` against `defence`.
    fn add(
        &mut self,
        options: &AgentOptions,
        folder: &RunFolder,
        bench: Benchmark,
        defence: &dyn Defence,
        show: &mut dyn FnMut(usize, usize),
    ) -> Result<(), EvalError> {
        let id = defence.id();
        match bench {
            Benchmark::AgentDojo => match played(options, folder, defence, show) {
                Ok(units) => {
                    self.figures.extend(agentdojo::figures(id, &units));
                    self.figures.extend(by_suite(id, &units));
                    if defence.takes_intents() {
                        self.figures.extend(agentdojo::breadth(id)?);
                    }
                }
                // Whoever has no Python still sees the other benchmarks.
                Err(EvalError::Package(why)) => {
                    self.figures.extend(agentdojo::unmeasured(id, &why));
                }
                Err(error) => return Err(error),
            },
            Benchmark::InjecAgent => {
                let (counts, files) = injecagent::play(&options.data, defence, options.size, show)?;
                self.figures.extend(injecagent::figures(id, &counts));
                self.data.extend(files);
            }
            Benchmark::Bipia => {
                let (counts, files) = bipia::play(&options.data, defence, options.size, show)?;
                self.figures.extend(bipia::figures(id, &counts));
                self.data.extend(files);
            }
            Benchmark::Scenarios => self.figures.extend(scenarios::play(defence)?),
        }
        Ok(())
    }
}

/// What measures the same again.
fn command(options: &AgentOptions) -> String {
    let mut command = format!("custody eval agent --size {}", options.size.id());
    let benches: Vec<&str> = options.benches.iter().map(|bench| bench.id()).collect();
    if !options.agent_arguments.is_empty() {
        command = format!("{command} {}", options.agent_arguments);
    } else if benches.len() < Benchmark::ALL.len() {
        command = format!("{command} --bench {}", benches.join(","));
    }
    if options.defences.len() < DEFENCES.len() {
        command = format!("{command} --defence {}", options.defences.join(","));
    }
    command
}

/// AgentDojo takes minutes; what was played with this program and these manifests is not played again.
fn played(
    options: &AgentOptions,
    folder: &RunFolder,
    defence: &dyn Defence,
    show: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Unit>, EvalError> {
    let mut on = serde_json::json!({
        "size": options.size.id(),
        "defence": defence.id(),
        "program": env!("CARGO_PKG_VERSION"),
        "manifests": agentdojo::manifest_texts(),
    });
    if defence.takes_intents() {
        on["intents"] = agentdojo::INTENTS.into();
    }
    let id = UnitId::new(format!("agentdojo.{}", defence.id()), &on);
    if let Some(units) = folder.finished(&id) {
        return Ok(units);
    }
    let units = agentdojo::play(&options.python, defence, options.size, show)?;
    folder.keep(&id, &units)?;
    Ok(units)
}

/// Whether a unit counts for a rate.
type IsCounted = fn(&Unit) -> bool;

/// The same rates for each suite.
fn by_suite(defence: &str, units: &[Unit]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for suite in SUITES {
        let rates: [(&str, Phase, IsCounted); 3] = [
            ("attack_success", Phase::Attack, |unit| unit.attack_success == Some(true)),
            ("utility_without_approval", Phase::Benign, |unit| unit.utility),
            ("utility_with_approval", Phase::BenignApproved, |unit| unit.utility),
        ];
        for (name, phase, is) in rates {
            let of: Vec<&Unit> =
                units.iter().filter(|unit| unit.suite == suite && unit.phase == phase).collect();
            let hits = of.iter().filter(|unit| is(unit)).count() as u64;
            let id = format!("agentdojo.{suite}.{defence}.{name}");
            figures.push(Figure::rate(&id, hits, of.len() as u64));
        }
    }
    figures
}
