//! What vendors say that an answer took, whole and streamed, is in the outcome and in the record, as their claim.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use custody_gateway::proxy::{Connection, ConnectionSettings, ModelExchange, Outcome};
use custody_gateway::wire::Dialect;
use custody_kernel::memory::rate::Limits;
use custody_log::Seq;
use custody_policy::Manifests;
use custody_runtime::advice::{Advice, ClaimedTokens, ExchangeUsage};
use custody_runtime::clock::Clock;
use custody_runtime::scratch::Scratch;
use custody_runtime::tools::Gate;
use serde_json::{Value, json};

/// An answer as a whole, with what its vendor says of it.
fn whole(dialect: Dialect) -> Value {
    match dialect {
        Dialect::OpenAiChat => json!({
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hm."}, "finish_reason": "stop"}],
            "usage": openai_usage()
        }),
        Dialect::OpenAiResponses => json!({
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hm."}]}],
            "usage": responses_usage()
        }),
        Dialect::AnthropicMessages => json!({
            "content": [{"type": "text", "text": "Hm."}],
            "usage": {"input_tokens": 30, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 60,
                      "output_tokens": 25}
        }),
        Dialect::Gemini => json!({
            "candidates": [{"content": {"role": "model", "parts": [{"text": "Hm."}]}}],
            "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 20,
                              "thoughtsTokenCount": 5}
        }),
    }
}

fn openai_usage() -> Value {
    json!({"prompt_tokens": 100, "completion_tokens": 25, "prompt_tokens_details": {"cached_tokens": 60}})
}

fn responses_usage() -> Value {
    json!({"input_tokens": 100, "output_tokens": 25, "input_tokens_details": {"cached_tokens": 60}})
}

/// The same as events. Where a vendor counts what there was so far, it does so here.
fn events(dialect: Dialect) -> Vec<Value> {
    match dialect {
        Dialect::OpenAiChat => vec![
            json!({"choices": [{"index": 0, "delta": {"content": "Hm."}, "finish_reason": null}], "usage": null}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": null}),
            // After the last choice, and only because the client asked for it.
            json!({"choices": [], "usage": openai_usage()}),
        ],
        Dialect::OpenAiResponses => vec![
            json!({"type": "response.created", "response": {"output": [], "usage": null}}),
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Hm."}),
            json!({"type": "response.completed", "response": whole(dialect)}),
        ],
        Dialect::AnthropicMessages => vec![
            json!({"type": "message_start", "message": {"content": [], "usage": {
                "input_tokens": 30, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 60,
                "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hm."}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 25}}),
            json!({"type": "message_stop"}),
        ],
        Dialect::Gemini => vec![
            json!({"candidates": [{"content": {"parts": [{"text": "H"}]}}],
                   "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 60,
                                     "candidatesTokenCount": 3, "thoughtsTokenCount": 5}}),
            json!({"candidates": [{"content": {"parts": [{"text": "m."}]}, "finishReason": "STOP"}],
                   "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 60,
                                     "candidatesTokenCount": 20, "thoughtsTokenCount": 5}}),
        ],
    }
}

fn written(events: &[Value]) -> Vec<u8> {
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>().into_bytes()
}

fn request(dialect: Dialect) -> String {
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let body = match dialect {
        Dialect::OpenAiChat | Dialect::AnthropicMessages => json!({ "messages": messages }),
        Dialect::OpenAiResponses => json!({ "input": messages }),
        Dialect::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}),
    };
    body.to_string()
}

/// How an exchange ended, and what the record holds of what it took.
fn run(dialect: Dialect, answer: &[u8], is_streamed: bool) -> (Outcome, ExchangeUsage) {
    let scratch = Scratch::new(Limits::default(), Clock::System).unwrap();
    let token = scratch.add_user("ada").unwrap();
    let gate = Gate::new(Manifests::parse("[tools.read]\neffect = 'reads'\n").unwrap(), None);
    let settings = ConnectionSettings::default();
    let connection = Arc::new(Connection::new("ada", scratch.store.clone(), token, gate, settings));
    let body = request(dialect);
    let exchange = ModelExchange::begin(&connection, dialect, None, body.as_bytes()).unwrap();
    let outcome = if is_streamed {
        let mut streaming = exchange.stream();
        for piece in answer.chunks(7) {
            streaming.push(piece);
        }
        streaming.end(false).unwrap().1
    } else {
        let (passed, outcome) = exchange.answer(answer.to_vec()).unwrap();
        assert_eq!(passed, answer, "nothing changes");
        outcome
    };
    let length = scratch.store.state(|state| state.len()).unwrap();
    let mut advice = (0..length).flat_map(|seq| scratch.store.record(Seq(seq)).unwrap().advice);
    let recorded = advice
        .find_map(|advice| if let Advice::Exchange(it) = advice { it.usage } else { None })
        .unwrap();
    (outcome, recorded)
}

#[test]
fn what_a_vendor_says_of_tokens_is_summed_alike_in_every_dialect() {
    let claimed = ClaimedTokens { input: Some(100), cached_input: Some(60), output: Some(25) };
    for dialect in Dialect::ALL {
        for is_streamed in [false, true] {
            let answer = match is_streamed {
                true => written(&events(dialect)),
                false => whole(dialect).to_string().into_bytes(),
            };
            let (outcome, recorded) = run(dialect, &answer, is_streamed);
            let expected = ExchangeUsage {
                request_bytes: request(dialect).len() as u64,
                answer_bytes: answer.len() as u64,
                claimed,
            };
            assert_eq!(outcome.usage, expected, "{dialect:?} {is_streamed}");
            assert_eq!(recorded, expected, "{dialect:?} {is_streamed}");
        }
    }
}

#[test]
fn an_answer_whose_vendor_says_nothing_of_tokens_claims_none() {
    let all = events(Dialect::OpenAiChat);
    // As when the client did not ask for it.
    let answer = written(&all[..2]);
    let (outcome, recorded) = run(Dialect::OpenAiChat, &answer, true);
    assert_eq!((outcome.usage.claimed, recorded.claimed), Default::default());
    assert_eq!(recorded.answer_bytes, answer.len() as u64);
}
