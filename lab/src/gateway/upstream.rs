//! A model that is a script: it answers every request at once, with a short text and one call of a tool.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::serve::ListenerExt as _;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::error::EvalError;

/// The text of every answer.
const TEXT: &str = "I will look that up for you in the handbook.";
/// The arguments of its call, in the pieces in which a stream brings them.
const ARGUMENTS: [&str; 3] = ["{\"query\":", "\"opening hours ", "of the library\"}"];

/// The model, which answers until this is dropped.
pub(super) struct ScriptedUpstream {
    address: SocketAddr,
    pause_ms: Arc<AtomicU64>,
    /// Its one thread.
    _runtime: Runtime,
}

/// What its answers need: how long each takes, and how many there were.
#[derive(Clone, Default)]
struct Script {
    pause_ms: Arc<AtomicU64>,
    answers: Arc<AtomicU64>,
}

impl ScriptedUpstream {
    pub(super) fn start() -> Result<Self, EvalError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let script = Script::default();
        let pause_ms = Arc::clone(&script.pause_ms);
        let router = Router::new()
            .route("/v1/chat/completions", post(answer))
            .layer(DefaultBodyLimit::disable())
            .with_state(script);
        let listener = listener.tap_io(|stream| {
            // Without it each event of a stream waits until the one before is confirmed.
            drop(stream.set_nodelay(true));
        });
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, pause_ms, _runtime: runtime })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers after so many milliseconds from here on.
    pub(super) fn pause(&self, ms: u64) {
        self.pause_ms.store(ms, Ordering::Relaxed);
    }
}

fn failed(error: std::io::Error) -> EvalError {
    EvalError::File { path: "scripted model".into(), cause: error }
}

async fn answer(State(script): State<Script>, body: Bytes) -> Response {
    let pause = script.pause_ms.load(Ordering::Relaxed);
    if pause > 0 {
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    let number = script.answers.fetch_add(1, Ordering::Relaxed);
    if is_streamed(&body) {
        let events = stream::iter(events(number).into_iter().map(Ok::<_, Infallible>));
        ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
    } else {
        ([(CONTENT_TYPE, "application/json")], whole(number).to_string()).into_response()
    }
}

/// Whether a request asks for a stream. Its texts never hold the name.
fn is_streamed(body: &[u8]) -> bool {
    let body = std::str::from_utf8(body).unwrap_or_default();
    body.contains("\"stream\":true") || body.contains("\"stream\": true")
}

fn whole(number: u64) -> Value {
    json!({
        "id": format!("chatcmpl-{number}"),
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "scripted",
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": TEXT, "tool_calls": [{
                "id": format!("call_{number}"),
                "type": "function",
                "function": { "name": "search", "arguments": ARGUMENTS.concat() },
            }]},
            "finish_reason": "tool_calls",
        }],
        "usage": { "prompt_tokens": 200, "completion_tokens": 20, "total_tokens": 220 },
    })
}

/// The same, as events of a stream.
fn events(number: u64) -> Vec<String> {
    let words = TEXT.split_inclusive(' ').map(|word| json!({ "content": word }));
    let begun = json!({ "tool_calls": [{
        "index": 0,
        "id": format!("call_{number}"),
        "type": "function",
        "function": { "name": "search", "arguments": "" },
    }]});
    let arguments = ARGUMENTS
        .iter()
        .map(|part| json!({ "tool_calls": [{ "index": 0, "function": { "arguments": part } }] }));
    let deltas = std::iter::once(json!({ "role": "assistant", "content": "" }))
        .chain(words)
        .chain([begun])
        .chain(arguments);
    let mut events: Vec<String> = deltas.map(|delta| event(number, &delta, None)).collect();
    events.push(event(number, &json!({}), Some("tool_calls")));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn event(number: u64, delta: &Value, finish_reason: Option<&str>) -> String {
    let event = json!({
        "id": format!("chatcmpl-{number}"),
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "scripted",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish_reason }],
    });
    format!("data: {event}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_brings_what_a_whole_answer_holds() {
        let whole = whole(7);
        let message = &whole["choices"][0]["message"];
        let (mut text, mut arguments) = (String::new(), String::new());
        for event in events(7) {
            let data = event.strip_prefix("data: ").unwrap().trim();
            let Ok(event) = serde_json::from_str::<Value>(data) else { continue };
            let delta = &event["choices"][0]["delta"];
            text += delta["content"].as_str().unwrap_or_default();
            let call = &delta["tool_calls"][0];
            arguments += call["function"]["arguments"].as_str().unwrap_or_default();
        }
        assert_eq!(message["content"], text);
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], arguments);
        assert!(is_streamed(b"{\"stream\":true}") && !is_streamed(b"{\"stream\":false}"));
    }
}
