//! `custody eval agent`: defences of tool calls, against the agent that does whatever it reads.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use custody_eval::agent::agentdojo::Python;
use custody_eval::agent::suite::{self, Bench, DEFENCES, Options};
use custody_eval::detection::suite::Size;
use custody_eval::report::Report;

use super::output::{prepare, print, write};
use super::parse_size;
use super::progress::Progress;
use crate::context::Context;
use crate::output::{Outcome, note};

/// The report that was measured for this version.
const COMMITTED: &str = include_str!("../../../../../docs/reports/agent.json");

/// Measure what an attacker gets from the agent that does whatever it reads, and what is left for the user.
///
/// AgentDojo is played by its own package: `pip install agentdojo==0.1.35`, and CUSTODY_PYTHON names the
/// interpreter. Without --size, prints the report that was measured for this version.
#[derive(Debug, clap::Args)]
pub(crate) struct Agent {
    /// Benchmarks [default: all]
    #[arg(requires = "size", long, value_name = "agentdojo|injecagent|bipia|scenarios", value_delimiter = ',', value_parser = parse_bench)]
    bench: Vec<Bench>,
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
    /// Write the report as JSON and Markdown with its pictures into this folder. Figures of a report that is there
    /// already stay, unless they are measured now
    #[arg(long, value_name = "DIR", requires = "size")]
    out: Option<PathBuf>,
    /// Keep what is finished in this folder, and take it up again from there
    #[arg(long, value_name = "DIR", requires = "size")]
    run: Option<PathBuf>,
}

fn parse_bench(text: &str) -> Result<Bench, String> {
    let found = Bench::ALL.into_iter().find(|bench| bench.id() == text);
    found.ok_or_else(|| "use agentdojo, injecagent, bipia or scenarios".to_owned())
}

fn parse_defence(text: &str) -> Result<&'static str, String> {
    let found = DEFENCES.into_iter().find(|id| *id == text);
    found.ok_or_else(|| format!("use one of {}", DEFENCES.join(", ")))
}

pub(super) fn run(context: &Context, args: &Agent) -> anyhow::Result<Outcome> {
    let Some(size) = args.size else {
        let report = Report::from_json(COMMITTED.as_bytes())
            .context("the report inside this program cannot be read")?;
        note("Measured for this version and not now; add --size smoke or --size full to measure.");
        print(context, &report);
        return Ok(Outcome::Fine);
    };
    let or_all =
        |chosen: &[Bench]| if chosen.is_empty() { Bench::ALL.to_vec() } else { chosen.to_vec() };
    let options = Options {
        data: context.data_folder(args.data.clone()),
        size,
        benches: or_all(&args.bench),
        defences: if args.defence.is_empty() { DEFENCES.to_vec() } else { args.defence.clone() },
        python: python(args.package.as_deref())?,
        run: args.run.clone(),
        earlier: args.out.as_deref().map(earlier).transpose()?.flatten(),
    };
    prepare(args.out.as_deref())?;
    let mut progress = Progress::new();
    let measured = suite::run(&options, &mut |now| {
        progress.show(&now.part, now.done, now.total, now.remaining_seconds);
    })?;
    progress.end();
    write(args.out.as_deref(), &measured)?;
    print(context, &measured.report);
    Ok(Outcome::Fine)
}

/// The report of other runs in `folder`, read before anything is measured.
fn earlier(folder: &Path) -> anyhow::Result<Option<Report>> {
    let path = folder.join("agent.json");
    let what_to_do = || {
        format!(
            "could not add to `{}`; move it away, or name another folder with --out",
            path.display()
        )
    };
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(what_to_do),
    };
    let report = Report::from_json(&bytes).with_context(what_to_do)?;
    if report.suite != "agent" {
        return Err(anyhow!("it is a report of `{}`", report.suite)).with_context(what_to_do);
    }
    Ok(Some(report))
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
