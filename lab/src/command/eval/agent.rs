//! `custody eval agent`: defences of tool calls, against the agent that does whatever it reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use custody_cli::context::GlobalContext;
use custody_cli::language_model;
use custody_cli::output::{ExitStatus, note};
use custody_lab::agent::agentdojo::Python;
use custody_lab::agent::suite::{self, AgentOptions, AgentPlayer, Benchmark, DEFENCES};
use custody_lab::report::EvalReport;
use custody_lab::size::Size;
use custody_models::chat::ChatModel;

use super::output::{prepare, print, write};
use super::parse_size;
use super::progress::Progress;

/// The report that was measured for this version.
const COMMITTED: &str = include_str!("../../../../docs/reports/agent.json");

/// Measure what an attacker gets from the agent that does whatever it reads, and what is left for the user.
///
/// AgentDojo is played by its own package: `pip install agentdojo==0.1.35`, and CUSTODY_PYTHON names the
/// interpreter. Without --size, prints the report that was measured for this version.
#[derive(Debug, clap::Args)]
pub(crate) struct Agent {
    /// Benchmarks [default: all]
    #[arg(requires = "size", long, value_name = "agentdojo|injecagent|bipia|scenarios", value_delimiter = ',', value_parser = parse_bench)]
    bench: Vec<Benchmark>,
    /// Defences [default: all]
    #[arg(requires = "size", long, value_name = "NAME", value_delimiter = ',', value_parser = parse_defence)]
    defence: Vec<&'static str>,
    /// Measure now. Smoke: three tasks and injections a suite, and one case in some of the others
    #[arg(long, value_name = "smoke|full", value_parser = parse_size)]
    size: Option<Size>,
    /// Benchmark data [default: as for `custody data`]
    #[arg(long, value_name = "DIR", env = "CUSTODY_DATA")]
    data: Option<PathBuf>,
    /// The folder of `custody_agentdojo`, if it is not installed [default: integrations/agentdojo, if it is here]
    #[arg(long, value_name = "DIR")]
    package: Option<PathBuf>,
    /// Who plays the agent. A model plays the scenarios alone; `--model` says which
    #[arg(requires = "size", long, value_enum, default_value = "worst-case")]
    agent: Agents,
    /// Write the report as JSON and Markdown with its pictures into this folder. Figures of a report that is there
    /// already stay, unless they are measured now
    #[arg(long, value_name = "DIR", requires = "size")]
    out: Option<PathBuf>,
    /// Keep what is finished in this folder, and take it up again from there
    #[arg(long, value_name = "DIR", requires = "size")]
    run: Option<PathBuf>,
    #[command(flatten)]
    model: language_model::LanguageModelOptions,
}

/// Who plays the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Agents {
    /// It does whatever it reads
    WorstCase,
    /// A language model
    Model,
}

fn parse_bench(text: &str) -> Result<Benchmark, String> {
    let found = Benchmark::ALL.into_iter().find(|bench| bench.id() == text);
    found.ok_or_else(|| "use agentdojo, injecagent, bipia or scenarios".to_owned())
}

fn parse_defence(text: &str) -> Result<&'static str, String> {
    let found = DEFENCES.into_iter().find(|id| *id == text);
    found.ok_or_else(|| format!("use one of {}", DEFENCES.join(", ")))
}

pub(super) fn run(context: &GlobalContext, args: &Agent) -> anyhow::Result<ExitStatus> {
    let Some(size) = args.size else {
        let report = EvalReport::from_json(COMMITTED.as_bytes())
            .context("the report inside this program cannot be read")?;
        note("Measured for this version and not now; add --size smoke or --size full to measure.");
        print(context, &report);
        return Ok(ExitStatus::Success);
    };
    let model = match args.agent {
        Agents::WorstCase => None,
        Agents::Model => Some(model(context, args)?),
    };
    let benches = match (&model, args.bench.as_slice()) {
        (Some(_), _) => vec![Benchmark::Scenarios],
        (None, []) => Benchmark::ALL.to_vec(),
        (None, chosen) => chosen.to_vec(),
    };
    let agent_arguments = match model {
        Some(_) => format!("--agent model {}", args.model.arguments()),
        None => String::new(),
    };
    let options = AgentOptions {
        data: context.data_folder(args.data.clone()),
        size,
        benches,
        defences: if args.defence.is_empty() { DEFENCES.to_vec() } else { args.defence.clone() },
        python: python(args.package.as_deref())?,
        run: args.run.clone(),
        earlier: args.out.as_deref().map(earlier).transpose()?.flatten(),
        agent_arguments: agent_arguments.trim().to_owned(),
    };
    prepare(args.out.as_deref())?;
    let mut progress = Progress::new();
    let player = model.as_deref().map_or(AgentPlayer::WorstCase, AgentPlayer::Model);
    let measured = suite::run(&options, player, &mut |now| {
        progress.show(&now.part, now.done, now.total, now.remaining_seconds);
    })?;
    progress.end();
    write(args.out.as_deref(), &measured)?;
    print(context, &measured.report);
    Ok(ExitStatus::Success)
}

fn model(context: &GlobalContext, args: &Agent) -> anyhow::Result<Arc<dyn ChatModel>> {
    if args.bench.iter().any(|bench| *bench != Benchmark::Scenarios) {
        bail!("a model plays the scenarios alone; add `--bench scenarios`, or leave --bench out");
    }
    let Some(model) = args.model.open(context)? else {
        bail!(
            "there is no language model to play the agent; add `--model smollm2-135m-instruct`, or another of \
             `custody models list`"
        );
    };
    Ok(model)
}

/// The report of other runs in `folder`, read before anything is measured.
fn earlier(folder: &Path) -> anyhow::Result<Option<EvalReport>> {
    let path = folder.join("agent.json");
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| not_added(&path)),
    };
    let report = EvalReport::from_json(&bytes).with_context(|| not_added(&path))?;
    if report.suite != "agent" {
        return Err(anyhow!("it is a report of `{}`", report.suite))
            .with_context(|| not_added(&path));
    }
    Ok(Some(report))
}

fn not_added(path: &Path) -> String {
    format!(
        "could not add to `{}`; move it away, or name another folder with --out",
        path.display()
    )
}

fn python(package: Option<&Path>) -> anyhow::Result<Python> {
    let interpreter = std::env::var_os("CUSTODY_PYTHON").unwrap_or_else(|| "python3".into());
    let beside = Path::new("integrations/agentdojo");
    let package = match package {
        Some(folder) if !folder.join("custody_agentdojo").is_dir() => {
            bail!(
                "`{}` does not hold custody_agentdojo; name integrations/agentdojo",
                folder.display()
            )
        }
        Some(folder) => Some(folder.to_owned()),
        None => beside.join("custody_agentdojo").is_dir().then(|| beside.to_owned()),
    };
    Ok(Python { interpreter: interpreter.into(), package })
}
