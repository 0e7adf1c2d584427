//! `custody eval gateway`: what the gateway costs, beside other proxies.

use std::path::PathBuf;

use anyhow::Context as _;
use custody_cli::context::GlobalContext;
use custody_cli::output::{ExitStatus, note};
use custody_cli::programs;
use custody_lab::gateway::suite::{self, GatewayOptions, ProxyPrograms};
use custody_lab::report::EvalReport;
use custody_lab::size::Size;

use super::output::{prepare, print, write_report};
use super::parse_size;
use super::progress::Progress;

/// The report that was measured for this version.
const COMMITTED: &str = include_str!("../../../../docs/reports/gateway.json");

/// Measure what the gateway costs: `custody serve` before a scripted model, beside nginx and LiteLLM's proxy.
///
/// nginx is measured if it is on PATH, and LiteLLM's proxy if it is named. Without --size, prints the report that was
/// measured for this version.
#[derive(Debug, clap::Args)]
pub(crate) struct Gateway {
    /// Measure now. Smoke: a minute or two. Full: sessions of up to 100,000 entries
    #[arg(long, value_name = "smoke|full", value_parser = parse_size)]
    size: Option<Size>,
    /// The program to measure [default: beside this one or on PATH]
    #[arg(long, value_name = "FILE", requires = "size")]
    custody: Option<PathBuf>,
    /// LiteLLM's program `litellm`, with its proxy
    #[arg(long, value_name = "FILE", env = "CUSTODY_LITELLM")]
    litellm: Option<PathBuf>,
    /// The output of `integrations/hosts/check.py`, whose counts the report takes over
    #[arg(long, value_name = "FILE", requires = "size")]
    hosts: Option<PathBuf>,
    /// Write the report as JSON and Markdown into this folder
    #[arg(long, value_name = "DIR", requires = "size")]
    out: Option<PathBuf>,
}

pub(super) fn run(context: &GlobalContext, args: &Gateway) -> anyhow::Result<ExitStatus> {
    let Some(size) = args.size else {
        let report = EvalReport::from_json(COMMITTED.as_bytes())
            .context("the report inside this program cannot be read")?;
        note("Measured for this version and not now; add --size smoke or --size full to measure.");
        print(context, &report);
        return Ok(ExitStatus::Success);
    };
    prepare(args.out.as_deref())?;
    let options = GatewayOptions {
        size,
        custody: absolute(args.custody.as_ref())?,
        proxies: proxies(args)?,
        hosts: args.hosts.clone(),
    };
    let mut progress = Progress::new();
    let report = suite::run(&options, &mut |part, done, total| {
        progress.show(part, done, total, None);
    })?;
    progress.end();
    write_report(args.out.as_deref(), &report)?;
    print(context, &report);
    Ok(ExitStatus::Success)
}

/// What there is to measure beside Custody. Says how to get what there is not.
fn proxies(args: &Gateway) -> anyhow::Result<ProxyPrograms> {
    let nginx = programs::find("nginx");
    if nginx.is_none() {
        note("nginx is not on PATH and not measured; get it with `apt-get install nginx-light`.");
    }
    let litellm = absolute(args.litellm.as_ref())?;
    if litellm.is_none() {
        note(
            "LiteLLM's proxy is not measured; get it with `pip install 'litellm[proxy]'`, and name its program with --litellm.",
        );
    }
    Ok(ProxyPrograms { nginx, litellm })
}

/// The programs run in folders of their own.
fn absolute(path: Option<&PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    Ok(path.map(std::path::absolute).transpose()?)
}
