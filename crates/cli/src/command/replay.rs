//! `custody replay`: what the monitor decides about recorded traces.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use custody_gateway::replay::{MemoryDecision, Report, replay};
use custody_gateway::trace::{Step, TraceLimits, read_trace};
use custody_kernel::memory::rate;
use custody_kernel::namespace::Tenant;
use custody_pipeline::DetectorAdvice;
use custody_runtime::clock::{Clock, random};
use custody_runtime::scratch::Scratch;
use custody_runtime::{Store, StoreError};
use serde_json::json;

use crate::context::GlobalContext;
use crate::output::{
    BOLD, DIM, ExitStatus, HEAD, WARN, answer_style, error_line, excerpt, json_line, line, paint,
};

/// Decide recorded agent traces: JSON Lines of chat messages.
///
/// A trace is JSON Lines: OpenAI-style chat messages with tool calls and tool results, one message, one
/// conversation or one InjecAgent case per line. What each tool call would have done to the agent's
/// memory is decided by the nine rules and shown, one line per decision.
///
/// A trace is somebody's claim, so it is replayed in a scratch store, where roles are taken at their
/// word. With `--store` it is recorded there as well, under a tenant of its own from which nothing is
/// ever promoted. One line that cannot stand undoes its file.
///
/// Memory tools are `remember` and its kin, every `memory_…`, Anthropic's memory tool, and file tools on
/// watched names such as SOUL.md and CLAUDE.md, which start immutable. custody.toml adds more:
/// docs/reference/configuration.md has the table.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Traces; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Show every decision, not only what was refused or waits
    #[arg(long, short)]
    all: bool,
}

/// Where traces are replayed.
enum ReplayStore {
    Scratch(Box<Scratch>),
    Kept(Store),
}

impl ReplayStore {
    fn store(&self) -> &Store {
        match self {
            Self::Scratch(scratch) => &scratch.store,
            Self::Kept(store) => store,
        }
    }
}

pub(crate) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let mut total = Report::default();
    let mut failed: Option<anyhow::Error> = None;
    let target = if context.names_store() {
        ReplayStore::Kept(context.open()?)
    } else {
        ReplayStore::Scratch(Box::new(Scratch::new(rate::Limits::UNLIMITED, Clock::System)?))
    };
    let tenant: Tenant = format!("replay-{}", hex::encode(random::<4>())).parse()?;
    for file in &args.files {
        match replay_file(context, target.store(), &tenant, file) {
            Ok(report) => {
                show(context, args, file, &report)?;
                add(&mut total, report);
            }
            Err(error) => {
                // The file is undone; the others stand on their own.
                let error = error.context(file_name(file));
                error_line(&error, false);
                failed = Some(error);
            }
        }
    }
    if let (ReplayStore::Kept(_), false) = (&target, context.json) {
        line(format_args!("Recorded under tenant {}.", paint(BOLD, &tenant)));
    }
    summary(context, args.files.len(), &total, failed.as_ref(), &target, &tenant)?;
    Ok(match failed {
        Some(_) => ExitStatus::Error,
        None => ExitStatus::failure_if(total.refused() > 0),
    })
}

fn replay_file(
    context: &GlobalContext,
    store: &Store,
    tenant: &Tenant,
    file: &str,
) -> anyhow::Result<Report> {
    let mut limits = TraceLimits::default();
    if let Some(max_line_bytes) = context.config.replay.max_line_bytes {
        limits.max_line_bytes = max_line_bytes;
    }
    let steps = read_steps(file, &limits)?;
    let tools = context.config.replay.memory.clone();
    match replay(store, tenant.clone(), steps, tools, Some(Arc::new(DetectorAdvice))) {
        Err(StoreError::Rejected(cause)) => Err(anyhow!(cause)),
        report => Ok(report?),
    }
}

fn read_steps(file: &str, limits: &TraceLimits) -> anyhow::Result<Vec<Step>> {
    let input: Box<dyn BufRead> = if file == "-" {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        Box::new(BufReader::new(File::open(file).context("could not open it; check the path")?))
    };
    let mut progress = Progress::new();
    let mut steps = Vec::new();
    for step in read_trace(input, limits) {
        steps.push(step?);
        progress.tick(steps.len());
    }
    progress.end();
    Ok(steps)
}

/// Counts long reads on the terminal, and is silent everywhere else.
struct Progress {
    shown: bool,
}

impl Progress {
    const EVERY: usize = 5_000;

    fn new() -> Self {
        Self { shown: false }
    }

    fn tick(&mut self, messages: usize) {
        if messages.is_multiple_of(Self::EVERY) && std::io::stderr().is_terminal() {
            self.shown = true;
            anstream::eprint!("\r{messages} messages read");
        }
    }

    fn end(&self) {
        if self.shown {
            anstream::eprint!("\r{:24}\r", "");
        }
    }
}

fn file_name(file: &str) -> String {
    if file == "-" { "standard input".to_owned() } else { format!("`{}`", excerpt(file, 200)) }
}

fn add(total: &mut Report, report: Report) {
    total.messages += report.messages;
    total.entries += report.entries;
    total.tainted_entries += report.tainted_entries;
    total.sessions += report.sessions;
    total.decisions.extend(report.decisions);
    total.not_understood.extend(report.not_understood);
}

fn show(context: &GlobalContext, args: &Args, file: &str, report: &Report) -> anyhow::Result<()> {
    if context.json {
        for decision in &report.decisions {
            let mut row = serde_json::to_value(decision)?;
            if let Some(row) = row.as_object_mut() {
                row.insert("file".into(), json!(file));
            }
            json_line(&row)?;
        }
        return Ok(());
    }
    let decisions = report.decisions.iter();
    let rows: Vec<&MemoryDecision> =
        decisions.filter(|decision| args.all || decision.answer != "accepted").collect();
    if args.files.len() > 1 && !rows.is_empty() {
        line(paint(HEAD, file_name(file)));
    }
    for decision in rows {
        show_decision(decision);
    }
    for call in &report.not_understood {
        let place = paint(DIM, format_args!("line {:>4}", call.line));
        line(format_args!("{place}  {}  {}", paint(WARN, "not done"), excerpt(&call.why, 120)));
    }
    Ok(())
}

fn show_decision(decision: &MemoryDecision) {
    let place = paint(DIM, format_args!("line {:>4}", decision.line));
    let answer = paint(answer_style(decision.answer), format_args!("{:8}", decision.answer));
    let rule = decision.rule.as_deref().map_or(String::new(), |rule| format!("  {rule}"));
    let key = paint(BOLD, excerpt(&decision.key, 60));
    let tool = excerpt(&decision.tool, 40);
    line(format_args!(
        "{place}  {answer}  {} {key} by {tool}{}",
        decision.action,
        paint(BOLD, rule)
    ));
    if let Some(reason) = &decision.reason {
        let from = decision.tainted_by_line.map_or(String::new(), |line| format!(" (line {line})"));
        line(format_args!("           {}{from}", excerpt(reason, 160)));
    }
    for note in &decision.advice {
        line(format_args!(
            "           {} {}",
            paint(WARN, "noticed"),
            excerpt(&note.to_string(), 100)
        ));
    }
}

fn summary(
    context: &GlobalContext,
    files: usize,
    total: &Report,
    failed: Option<&anyhow::Error>,
    target: &ReplayStore,
    tenant: &Tenant,
) -> anyhow::Result<()> {
    if context.json {
        return json_line(&json!({
            "summary": true,
            "files": files,
            "messages": total.messages,
            "sessions": total.sessions,
            "entries": total.entries,
            "tainted_entries": total.tainted_entries,
            "decisions": total.counts(),
            "memory_refused": total.refused(),
            "not_understood": total.not_understood.len(),
            "tenant": matches!(target, ReplayStore::Kept(_)).then(|| tenant.as_str()),
            "error": failed.map(|error| format!("{error:#}")),
        }));
    }
    if failed.is_some() && total.messages == 0 {
        return Ok(());
    }
    let counts = total.counts();
    line("");
    line(format_args!(
        "{} messages in {} conversations; {} entries, {} of them tainted.",
        total.messages, total.sessions, total.entries, total.tainted_entries
    ));
    for action in ["write", "delete", "read"] {
        if let Some(answers) = counts.get(action) {
            let [accepted, pending, refused] = ["accepted", "pending", "refused"]
                .map(|answer| answers.get(answer).copied().unwrap_or_default());
            line(format_args!(
                "{action:>6}: {accepted} accepted, {pending} pending, {refused} refused"
            ));
        }
    }
    if counts.is_empty() {
        line("No call of a memory tool; `custody replay --help` says which tools count.");
    }
    Ok(())
}
