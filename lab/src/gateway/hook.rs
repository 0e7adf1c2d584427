//! What a coding agent waits for at a hook: from its opening a connection, or starting a program, to the answer.

use serde_json::json;

use super::load::agent;
use super::overhead::{Field, percentile_of};
use super::product::Product;
use super::service_log::ServiceLog;
use crate::error::EvalError;
use crate::report::Figure;
use crate::size::Size;

/// How many calls each session asks about.
const CALLS: usize = 20;
/// Sessions before time is taken.
const WARM_UP: usize = 2;

/// How many sessions ask.
const fn sessions(size: Size) -> usize {
    match size {
        Size::Smoke => 5,
        Size::Full => 50,
    }
}

/// Times the hook before a call, one after another: of a host whose hooks are requests, each on a connection of its
/// own, and of one that starts a program for each.
pub(super) fn figures(field: &mut Field, size: Size) -> Result<Vec<Figure>, EvalError> {
    let Product { hook, hook_program, log, .. } = &mut field.product;
    let requests = timed("hook", log, size, &|event| hook.send(&agent(), event))?;
    let programs = timed("hook-program", log, size, &|event| hook_program.ask(event))?;
    let mut figures = requests.figures("hook");
    figures.extend(programs.figures("hook_program"));
    Ok(figures)
}

/// What calls waited for, in microseconds.
struct Waited {
    whole: Vec<f64>,
    commit: Vec<f64>,
}

/// Asks about calls of sessions that are called `name`.
fn timed(
    name: &str,
    log: &mut ServiceLog,
    size: Size,
    ask: &dyn Fn(&[u8]) -> Result<f64, EvalError>,
) -> Result<Waited, EvalError> {
    let mut waited = Waited { whole: Vec::new(), commit: Vec::new() };
    for session in 0..WARM_UP + sessions(size) {
        let id = format!("{name}-{session}");
        let begins = json!({
            "session_id": id, "hook_event_name": "SessionStart", "source": "startup",
        });
        ask(begins.to_string().as_bytes())?;
        log.next(1)?;
        for call in 0..CALLS {
            let event = json!({
                "session_id": id,
                "hook_event_name": "PreToolUse",
                "tool_name": "Read",
                "tool_use_id": format!("toolu_{session}_{call}"),
                "tool_input": { "file_path": format!("/srv/library/shelf-{call}.txt") },
            });
            let us = ask(event.to_string().as_bytes())?;
            let logged = log.next(1)?;
            if session >= WARM_UP {
                waited.whole.push(us);
                waited.commit.extend(logged.first().map(|times| times.commit));
            }
        }
    }
    Ok(waited)
}

impl Waited {
    fn figures(&self, id: &str) -> Vec<Figure> {
        let Self { whole, commit } = self;
        let without = whole.iter().zip(commit).map(|(whole, commit)| (whole - commit).max(0.0));
        vec![
            percentile_of(&format!("{id}.p50_us"), without.clone(), 50.0),
            percentile_of(&format!("{id}.p99_us"), without, 99.0),
            percentile_of(&format!("{id}.commit_p50_us"), commit.iter().copied(), 50.0),
            percentile_of(&format!("{id}.end_to_end_p50_us"), whole.iter().copied(), 50.0),
            percentile_of(&format!("{id}.end_to_end_p99_us"), whole.iter().copied(), 99.0),
            Figure::count(&format!("{id}.requests"), whole.len() as u64, "requests"),
        ]
    }
}
