//! The load: so many connections, each of which sends its next request when the last one is answered.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ureq::Agent;

use crate::error::EvalError;
use crate::stopwatch::Stopwatch;

/// The longest that an answer is waited for.
const LIMIT: Duration = Duration::from_secs(300);
/// How many requests each connection sends before time is taken.
const WARM_UP: usize = 3;

/// Where requests go, and with what besides their body.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, String)>,
}

/// What the clients saw.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// From the request to the last byte of its answer, each, in microseconds.
    pub(super) us: Vec<f64>,
    /// From the first request to the last answer.
    pub(super) seconds: f64,
    /// How many requests came before, to warm up.
    pub(super) warmed: usize,
}

/// A client that keeps its connection open.
pub(super) fn agent() -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(LIMIT))
        .proxy(None)
        .build();
    config.into()
}

impl Target {
    /// Sends `requests` over `connections`; `body` makes the one of each number that it is given.
    pub(super) fn load(
        &self,
        connections: usize,
        requests: usize,
        body: &(dyn Fn() -> Vec<u8> + Sync),
    ) -> Result<Seen, EvalError> {
        let (start, left) = (Barrier::new(connections), AtomicU64::new(requests as u64));
        let sent: Result<Vec<(Vec<f64>, f64)>, EvalError> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..connections)
                .map(|_| scope.spawn(|| self.connection(&start, &left, body)))
                .collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended.map(|ended| ended.unwrap_or_else(|_| Err(panicked()))).collect()
        });
        let sent = sent?;
        let seconds = sent.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        let us = sent.into_iter().flat_map(|(us, _)| us).collect();
        Ok(Seen { us, seconds, warmed: connections * WARM_UP })
    }

    /// One connection: the microseconds of each of its requests, and the seconds of all of them.
    fn connection(
        &self,
        start: &Barrier,
        left: &AtomicU64,
        body: &(dyn Fn() -> Vec<u8> + Sync),
    ) -> Result<(Vec<f64>, f64), EvalError> {
        let agent = agent();
        let warmed = (0..WARM_UP).try_for_each(|_| self.send(&agent, &body()).map(drop));
        // Whoever failed is waited for too.
        start.wait();
        warmed?;
        let (watch, mut us) = (Stopwatch::start(), Vec::new());
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
        {
            us.push(self.send(&agent, &body())?);
        }
        Ok((us, watch.seconds()))
    }

    /// Sends one request, and reads all of its answer. Returns the microseconds that it took.
    pub(super) fn send(&self, agent: &Agent, body: &[u8]) -> Result<f64, EvalError> {
        let mut request = agent.post(&self.url).header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let watch = Stopwatch::start();
        let mut answer = request.send(body).map_err(|error| self.failed(&error))?;
        let text = answer.body_mut().read_to_vec().map_err(|error| self.failed(&error))?;
        let us = watch.seconds() * 1e6;
        if answer.status().as_u16() != 200 {
            let shown: String = String::from_utf8_lossy(&text).chars().take(200).collect();
            let status = answer.status();
            return Err(EvalError::Setup(format!("`{}` answered {status}: {shown}", self.url)));
        }
        Ok(us)
    }

    fn failed(&self, error: &ureq::Error) -> EvalError {
        EvalError::Setup(format!("`{}`: {error}", self.url))
    }
}

fn panicked() -> EvalError {
    EvalError::Setup("a connection of the load failed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::texts::conversation;
    use super::super::upstream::ScriptedUpstream;
    use super::*;

    #[test]
    fn every_request_is_answered_once_and_a_refusal_ends_the_load() {
        let upstream = ScriptedUpstream::start().unwrap();
        let url = format!("{}/v1/chat/completions", upstream.url());
        let target = Target { url, headers: Vec::new() };
        for is_streamed in [false, true] {
            let seen = target.load(3, 10, &|| conversation(1, is_streamed)).unwrap();
            assert_eq!((seen.us.len(), seen.warmed), (10, 3 * WARM_UP));
        }
        let elsewhere = Target { url: format!("{}/v1/none", upstream.url()), headers: Vec::new() };
        let refused = elsewhere.load(1, 1, &Vec::new).unwrap_err().to_string();
        assert!(refused.contains("answered 404"), "{refused}");
    }
}
