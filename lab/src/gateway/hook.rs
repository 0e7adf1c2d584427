//! What a coding agent waits for at a hook: from its opening a connection to the answer.

use serde_json::json;

use super::load::agent;
use super::overhead::{Field, percentile_of};
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

/// Times the hook before a call, one after another, each on a connection of its own.
///
/// The hooks of the hosts that are supported are HTTP requests: there is no process to start.
pub(super) fn figures(field: &mut Field, size: Size) -> Result<Vec<Figure>, EvalError> {
    let (target, log) = (field.product.hook.clone(), &mut field.product.log);
    let (mut whole, mut commit) = (Vec::new(), Vec::new());
    for session in 0..WARM_UP + sessions(size) {
        for call in 0..CALLS {
            let event = json!({
                "session_id": format!("hook-{session}"),
                "hook_event_name": "PreToolUse",
                "tool_name": "Read",
                "tool_use_id": format!("toolu_{session}_{call}"),
                "tool_input": { "file_path": format!("/srv/library/shelf-{call}.txt") },
            });
            let us = target.send(&agent(), event.to_string().as_bytes())?;
            let logged = log.next(1)?;
            if session >= WARM_UP {
                whole.push(us);
                commit.extend(logged.first().map(|times| times.commit));
            }
        }
    }
    let without = whole.iter().zip(&commit).map(|(whole, commit)| (whole - commit).max(0.0));
    Ok(vec![
        percentile_of("hook.p50_us", without.clone(), 50.0),
        percentile_of("hook.p99_us", without, 99.0),
        percentile_of("hook.commit_p50_us", commit.iter().copied(), 50.0),
        percentile_of("hook.end_to_end_p50_us", whole.iter().copied(), 50.0),
        percentile_of("hook.end_to_end_p99_us", whole.iter().copied(), 99.0),
        Figure::count("hook.requests", whole.len() as u64, "requests"),
    ])
}
