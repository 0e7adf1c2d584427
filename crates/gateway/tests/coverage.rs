//! What the record says was decided of an answer, and what was: every dialect, whole and streamed, under every ruling.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod samples;

use std::sync::Arc;

use custody_gateway::proxy::{
    Connection, ConnectionSettings, GuardMode, ModelExchange, Outcome, UserText,
};
use custody_gateway::wire::Dialect;
use custody_kernel::memory::rate::Limits;
use custody_log::Seq;
use custody_policy::Manifests;
use custody_runtime::advice::{Advice, Coverage, ExchangeCoverage};
use custody_runtime::clock::Clock;
use custody_runtime::scratch::Scratch;
use custody_runtime::tools::Gate;
use samples::{stream, whole};
use serde_json::json;

/// Both tools read, so both calls are allowed.
const BOTH: &str = "[tools.read]\neffect = 'reads'\n[tools.send]\neffect = 'reads'\n";
/// A tool that nobody described is asked about.
const ONE: &str = "[tools.read]\neffect = 'reads'\n";
const NEITHER: &str = "[tools.other]\neffect = 'reads'\n";

/// A request, which may ask for what nobody can decide.
fn request(dialect: Dialect, is_undecidable: bool) -> String {
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let (mut body, undecidable) = match dialect {
        Dialect::OpenAiChat => (json!({ "messages": messages }), json!({"n": 2})),
        Dialect::OpenAiResponses => (json!({ "input": messages }), json!({"background": true})),
        Dialect::AnthropicMessages => {
            (json!({ "messages": messages }), json!({"mcp_servers": [{}]}))
        }
        Dialect::Gemini => {
            let contents = json!([{"role": "user", "parts": [{"text": "Hello."}]}]);
            (json!({ "contents": contents }), json!({"tools": [{"googleSearch": {}}]}))
        }
    };
    for (name, value) in undecidable.as_object().unwrap().iter().filter(|_| is_undecidable) {
        body[name] = value.clone();
    }
    body.to_string()
}

struct Case {
    tools: &'static str,
    mode: GuardMode,
    is_undecidable: bool,
    is_cut: bool,
    /// How many calls go on, and how many do not.
    calls: (usize, usize),
    coverage: Coverage,
}

/// Runs a case. What went on, how it ended, and what the record says.
fn run(dialect: Dialect, is_streamed: bool, case: &Case) -> (String, Outcome, ExchangeCoverage) {
    let scratch = Scratch::new(Limits::default(), Clock::System).unwrap();
    let token = scratch.add_user("ada").unwrap();
    let gate = Gate::new(Manifests::parse(case.tools).unwrap(), None);
    let user_text = UserText::Trusted;
    let settings = ConnectionSettings { mode: case.mode, user_text, ..Default::default() };
    let connection = Connection::new("ada", scratch.store.clone(), token, gate, settings);
    let body = request(dialect, case.is_undecidable);
    let exchange =
        ModelExchange::begin(&Arc::new(connection), dialect, None, body.as_bytes()).unwrap();
    let (bytes, outcome) = if is_streamed {
        let mut streaming = exchange.stream();
        let mut bytes = streaming.push(&stream(dialect)).bytes;
        let (rest, outcome) = streaming.end(case.is_cut).unwrap();
        bytes.extend(rest.bytes);
        (bytes, outcome)
    } else {
        exchange.answer(whole(dialect).into_bytes()).unwrap()
    };
    let length = scratch.store.state(|state| state.len()).unwrap();
    let advice = (0..length).flat_map(|seq| scratch.store.record(Seq(seq)).unwrap().advice);
    let mut recorded: Vec<ExchangeCoverage> = advice
        .filter_map(|advice| if let Advice::Exchange(it) = advice { Some(it) } else { None })
        .collect();
    assert_eq!(recorded.len(), 1, "one answer, one entry");
    (String::from_utf8(bytes).unwrap(), outcome, recorded.remove(0))
}

#[test]
fn the_record_says_what_was_decided_and_nothing_else() {
    let guard = |tools, calls| Case {
        tools,
        mode: GuardMode::Guard,
        is_undecidable: false,
        is_cut: false,
        calls,
        coverage: Coverage::Checked,
    };
    let partly = |case: Case| Case { coverage: Coverage::Partly, ..case };
    let cases = [
        guard(BOTH, (2, 0)),
        guard(ONE, (1, 1)),
        guard(NEITHER, (0, 2)),
        partly(Case { is_cut: true, ..guard(ONE, (1, 1)) }),
        partly(Case { is_undecidable: true, ..guard(ONE, (1, 1)) }),
        Case { mode: GuardMode::Observe, coverage: Coverage::NotChecked, ..guard(NEITHER, (2, 0)) },
    ];
    for dialect in Dialect::ALL {
        for is_streamed in [false, true] {
            // Nothing cuts an answer that came as a whole.
            for case in cases.iter().filter(|case| is_streamed || !case.is_cut) {
                let shown = format!("{dialect:?} {is_streamed} {:?} {:?}", case.mode, case.calls);
                let (out, outcome, recorded) = run(dialect, is_streamed, case);
                assert_eq!((outcome.passed, outcome.removed), case.calls, "{shown}");
                assert_eq!(outcome.coverage, case.coverage, "{shown}");
                assert_eq!(
                    (recorded.wire.as_str(), recorded.streamed, recorded.coverage),
                    (dialect.as_str(), is_streamed, case.coverage)
                );
                assert_eq!(recorded.undecided, outcome.undecided, "{shown}");
                let names = ["read", "send"].map(|tool| format!("\"name\":\"{tool}\""));
                let gone = names.iter().filter(|name| !out.contains(*name)).count();
                assert_eq!(gone, case.calls.1, "{shown}: {out}");
                let unchanged =
                    if is_streamed { stream(dialect) } else { whole(dialect).into_bytes() };
                assert_eq!(out.into_bytes() == unchanged, case.calls.1 == 0, "{shown}");
            }
        }
    }
}
