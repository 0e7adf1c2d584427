//! `custody eval gateway`: what is started, measured and written down.

use std::path::PathBuf;

use super::overhead::{self, Field, LINES};
use super::product::{self, Product};
pub use super::proxies::ProxyPrograms;
use super::proxies::RunningProxy;
use super::tables::tables;
use super::upstream::ScriptedUpstream;
use super::{growth, hook, hosts};
use crate::error::EvalError;
use crate::report::EvalReport;
use crate::size::Size;

/// The texts of the load are drawn from the number of their conversation.
const SEED: u64 = 0;

/// The aims: id, what it is, and the most that it may be.
const AIMS: [(&str, &str, f64); 4] = [
    (
        "overhead.custody.c16.inside_p99_us",
        "time inside Custody at 16 connections, 99 %, µs",
        1_000.0,
    ),
    ("hook.p99_us", "hook that is a request, without its commit, 99 %, µs", 5_000.0),
    ("hook_program.p99_us", "hook that is a program, without its commit, 99 %, µs", 5_000.0),
    ("growth.inside_p50_most_to_least", "sessions of the most to the least time, medians", 1.5),
];

/// What is measured, and with which programs.
#[derive(Debug, Clone)]
pub struct GatewayOptions {
    /// How much.
    pub size: Size,
    /// `custody`, if not the one beside this program.
    pub custody: Option<PathBuf>,
    /// What is measured beside it.
    pub proxies: ProxyPrograms,
    /// A file with what the checks of hosts and clients counted.
    pub hosts: Option<PathBuf>,
}

/// Measures. `progress` is called before each part with its name, how much of it is done and how much there is.
///
/// # Errors
/// When a program does not run, or an answer is not what it has to be.
pub fn run(
    options: &GatewayOptions,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<EvalReport, EvalError> {
    let GatewayOptions { size, custody, proxies, hosts } = options;
    let counted = hosts.as_deref().map(hosts::figures).transpose()?;
    let load_before = load_average();
    progress("programs", 0, 1);
    let upstream = ScriptedUpstream::start()?;
    let url = upstream.url();
    let product = Product::start(&product::found(custody.as_deref())?, &url)?;
    let nginx = proxies.nginx.as_deref();
    let nginx = nginx.map(|program| RunningProxy::nginx(program, &url)).transpose()?;
    let litellm = proxies.litellm.as_deref();
    let litellm = litellm.map(|program| RunningProxy::litellm(program, &url)).transpose()?;
    let mut field = Field::new(upstream, product, nginx, litellm);

    let mut figures = overhead::run(&mut field, *size, progress)?.figures();
    progress("hook", 0, 1);
    figures.extend(hook::figures(&mut field, *size)?);
    figures.extend(growth::of_bodies(&mut field, *size, progress)?);
    figures.extend(growth::of_sessions(&mut field, *size, progress)?);
    figures.extend(counted.into_iter().flatten());

    let mut report = EvalReport::of("gateway", SEED, figures);
    report.command = Some(options.command());
    report.notes = notes(&report, &field, *size);
    report.notes.push(format!(
        "What else ran: a load average of {load_before} in the minute before, on a machine of {} cores.",
        report.machine.cores
    ));
    report.tables = tables(&report, *size);
    Ok(report)
}

impl GatewayOptions {
    /// What a reader types to measure the same, with their own paths.
    fn command(&self) -> String {
        let mut command = format!("custody eval gateway --size {}", self.size.id());
        if self.proxies.litellm.is_some() {
            command.push_str(" --litellm LITELLM");
        }
        if self.hosts.is_some() {
            command.push_str(" --hosts FILE");
        }
        command
    }
}

/// How many processes ran or waited for a disk, in the last minute. `unknown` where that is not told.
fn load_average() -> String {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    told.split_whitespace().next().unwrap_or("unknown").to_owned()
}

fn notes(report: &EvalReport, field: &Field, size: Size) -> Vec<String> {
    let build = if cfg!(debug_assertions) { "development build" } else { "release build" };
    let others = [&field.nginx, &field.litellm];
    let others: Vec<&str> =
        others.into_iter().flatten().map(|proxy| proxy.version.as_str()).collect();
    let (rounds, requests) = overhead::rounds(size);
    let mut notes = vec![
        format!(
            "{}, {build}, made by `custody init`, `connect`, `enforce` and `serve`: guarded, with the policy that ships, \
             tracing, screening and a durable record. Beside it: {}.",
            field.product.version,
            if others.is_empty() { "nothing".to_owned() } else { others.join("; ") }
        ),
        format!(
            "Each request of the load begins a conversation of four messages, a page of 600 bytes among them, and is \
             answered with a text and a call, which is decided. {requests} requests in each cell of {rounds} rounds; \
             within a round the programs take turns, and a round before warms up. What is measured in {} is the same.",
            LINES.map(|line| format!("`{}`", line.id)).join(", ")
        ),
    ];
    notes.extend(AIMS.iter().filter_map(|(id, what, most)| {
        let value = report.value(id)?;
        let verdict = if value <= *most { "met" } else { "missed" };
        Some(format!("Aim: {what}: at most {most}. Measured: {value:.1}, {verdict}."))
    }));
    notes
}
