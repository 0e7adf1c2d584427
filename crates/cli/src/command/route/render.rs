//! Routes as people and programs read them.

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::Style;
use custody_kernel::route::{Reason, Subject};
use custody_pipeline::StageRun;
use serde_json::{Value, json};

use super::input::ARGUMENT;
use super::{Decision, explain};
use crate::command::screen::input::{Lines, Piece};
use crate::command::screen::render::name;
use crate::output::{BAD, BOLD, DIM, GOOD, WARN, count, excerpt, line, paint, shown};

/// How much of a text is shown among others, in characters.
const EXCERPT: usize = 72;

/// How many texts ended how.
#[derive(Debug, Default)]
pub(super) struct Summary {
    reasons: BTreeMap<Reason, u64>,
}

/// A route with its stages; several are a line each, unless they are to be explained.
pub(super) fn text(piece: &Piece, decision: &Decision, explained: bool, alone: bool) {
    line(verdict(piece, decision));
    if !(alone || explained) {
        return;
    }
    for run in &decision.routed.stages {
        line(stage(run));
    }
    if explained {
        explain::print(piece, &decision.routed);
    }
    if let Some(text) = decision.routed.production_text(&piece.text) {
        line(paint(DIM, "goes on:"));
        line(shown(text.trim_end_matches('\n')));
    }
    if decision.is_recorded {
        line(paint(DIM, format_args!("recorded as {}", decision.id)));
    }
}

/// How it ended, of which text, and what can be done about it.
pub(super) fn verdict(piece: &Piece, decision: &Decision) -> String {
    let routed = &decision.routed;
    let reason = routed.outcome.reason();
    let cost = match routed.usage().total() {
        0 => time(routed.duration()),
        tokens => format!("{}, {}", time(routed.duration()), count(tokens, "token")),
    };
    let about = match &piece.lines {
        Lines::All if piece.source == ARGUMENT => excerpt(&piece.text, EXCERPT),
        Lines::All | Lines::Row(_) | Lines::Added(_) => name(piece),
    };
    let first = format!(
        "{}  {}  {}",
        paint(style(reason), word(reason)),
        paint(BOLD, about),
        paint(DIM, cost)
    );
    match routed.advice() {
        Some(advice) => format!("{first}\n  {advice}"),
        None => first,
    }
}

fn stage(run: &StageRun) -> String {
    let subject = match run.subject {
        Subject::Original => "original",
        Subject::Repaired => "repaired",
    };
    let tokens = match run.usage.total() {
        0 => String::new(),
        tokens => count(tokens, "token"),
    };
    format!(
        "  {:<10} {subject:<8}  {}  {:>8}  {tokens:>11}  {}",
        run.result.stage().name(),
        paint(stage_style(run), format_args!("{:<19}", run.result.word().replace('_', " "))),
        time(run.duration),
        paint(DIM, shown(&run.explanation)),
    )
}

fn stage_style(run: &StageRun) -> Style {
    match run.result.word() {
        "clean" | "untouched" | "text" | "faithful" => GOOD,
        "undecided" => WARN,
        _ => BAD,
    }
}

fn style(reason: Reason) -> Style {
    match reason {
        Reason::Clean | Reason::FalseAlarm | Reason::Repaired => GOOD,
        Reason::Unrecoverable => BAD,
        Reason::Undecided => WARN,
    }
}

fn word(reason: Reason) -> &'static str {
    match reason {
        Reason::Clean => "clean, goes on",
        Reason::FalseAlarm => "false alarm, goes on",
        Reason::Repaired => "repaired, goes on",
        Reason::Unrecoverable => "unrecoverable, refused",
        Reason::Undecided => "undecided, refused",
    }
}

/// A duration with two or three digits that count.
pub(super) fn time(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", duration.as_secs_f64() * 1e3),
        10_000..1_000_000 => format!("{:.0} ms", duration.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}

/// One object, with all that decides the same again.
pub(super) fn object(piece: &Piece, decision: &Decision) -> Value {
    let routed = &decision.routed;
    let goes_on = decision.goes_on();
    let mut object = json!({
        "route": if goes_on { "production" } else { "refused" },
        "reason": routed.outcome.reason().name(),
        "text": routed.production_text(&piece.text),
        "stages": routed.stages.iter().map(stage_object).collect::<Vec<_>>(),
        "decision_id": decision.id,
        "recorded": decision.is_recorded,
        "policy": routed.policy,
        "detector": routed.detector,
        "model": routed.model,
    });
    if let Some(advice) = routed.advice() {
        object["advice"] = json!(advice);
    }
    match (&piece.id, &piece.lines) {
        (Some(id), _) => object["id"] = id.clone(),
        (None, Lines::Row(_)) => {}
        (None, Lines::All | Lines::Added(_)) => object["source"] = json!(piece.source),
    }
    object
}

fn stage_object(run: &StageRun) -> Value {
    let mut object = json!({
        "stage": run.result.stage(),
        "subject": run.subject,
        "answer": run.result.word(),
        "latency_us": u64::try_from(run.duration.as_micros()).unwrap_or(u64::MAX),
        "tokens": run.usage.total(),
        "tokens_read": run.usage.prompt_tokens,
        "tokens_written": run.usage.completion_tokens,
        "because": run.explanation,
    });
    if let Some(why) = run.result.undecided() {
        object["why"] = json!(why);
    }
    object
}

pub(super) fn json_line(piece: &Piece, decision: &Decision) -> anyhow::Result<()> {
    crate::output::json_line(&object(piece, decision))
}

impl Summary {
    pub(super) fn add(&mut self, reason: Reason) {
        *self.reasons.entry(reason).or_default() += 1;
    }

    /// How many do not go on.
    pub(super) fn refused(&self) -> u64 {
        let refusing = [Reason::Unrecoverable, Reason::Undecided];
        refusing.iter().filter_map(|reason| self.reasons.get(reason)).sum()
    }

    pub(super) fn print(&self) {
        let all: u64 = self.reasons.values().sum();
        let parts = self.reasons.iter().map(|(reason, number)| {
            paint(style(*reason), format_args!("{number} {}", reason.name().replace('_', " ")))
        });
        line(format_args!("{}: {}", count(all, "text"), parts.collect::<Vec<_>>().join(", ")));
    }

    pub(super) fn print_json(&self) -> anyhow::Result<()> {
        let reasons: BTreeMap<&str, u64> =
            self.reasons.iter().map(|(reason, number)| (reason.name(), *number)).collect();
        crate::output::json_line(&json!({ "routed": reasons }))
    }
}
