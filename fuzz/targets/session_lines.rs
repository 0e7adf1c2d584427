//! Any lines on a connection of `custody session`, with a real store behind it.
//!
//! Each line has one answer, one line of JSON under the line's own id; a session that runs for nobody is granted
//! no call, and one that runs for a user is granted arguments that can be judged again. `SESSION` and `PROPOSAL` in
//! a line stand for the session that is open and for the proposal before it, which no input could guess.
#![no_main]

use std::cell::RefCell;

use custody_gateway::lines::HostConnection;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::Authority;
use custody_arguments::Arguments;
use custody_runtime::clock::Clock;
use custody_runtime::scratch::Scratch;
use custody_runtime::tools::Gate;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// After so many inputs a fresh store takes over, so that the memory of one does not grow with the time.
const INPUTS_OF_A_STORE: u32 = 2_000;
/// Lines of an input that are answered.
const MAX_LINES: usize = 40;

/// A store, and the token of a user in it.
struct Served {
    scratch: Scratch,
    token: Authority,
    inputs: u32,
}

thread_local! {
    static SERVED: RefCell<Option<Served>> = const { RefCell::new(None) };
}

impl Served {
    fn fresh() -> Self {
        let scratch = Scratch::new(Limits::UNLIMITED, Clock::System).expect("a folder for a store");
        let token = scratch.add_user("ada").expect("the owner may");
        Self { scratch, token, inputs: 0 }
    }

    fn hears(&self, text: &str, authority: &Authority) {
        let store = self.scratch.store.clone();
        let mut connection = HostConnection::new(store, authority.clone(), Gate::default());
        let opened = answered(&mut connection, r#"{"id":0,"op":"open"}"#);
        let session = opened["session"].as_str().expect("a session opens").to_owned();
        let mut proposal = String::from("PROPOSAL");
        for line in text.lines().take(MAX_LINES) {
            let line = line.replace("SESSION", &session).replace("PROPOSAL", &proposal);
            let answer = answered(&mut connection, &line);
            if let Some(id) = answer["proposal"].as_str() {
                id.clone_into(&mut proposal);
            }
            if answer["call"].is_null() {
                continue;
            }
            assert_eq!(answer["decision"], "allow", "{answer}");
            assert!(*authority == self.token, "nobody was granted {answer}");
            let arguments = answer["call"]["arguments"].to_string();
            Arguments::parse(&arguments).expect("what was granted was judged");
        }
    }
}

/// The answer to `line`, which is one line and has the id of the line.
fn answered(connection: &mut HostConnection, line: &str) -> Value {
    let answer = connection.answer(line);
    assert!(!answer.contains('\n'), "an answer is one line");
    let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
    match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(asked)) if answer["error"].is_null() => {
            assert_eq!(asked.get("id"), answer.get("id"));
        }
        Ok(_) | Err(_) => assert!(!answer["error"]["message"].is_null(), "{answer}"),
    }
    answer
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    SERVED.with_borrow_mut(|served| {
        let kept = served.take().filter(|served| served.inputs < INPUTS_OF_A_STORE);
        let served = served.insert(kept.unwrap_or_else(Served::fresh));
        served.inputs += 1;
        served.hears(text, &served.token);
        served.hears(text, &Authority::unproven(Tenant::main()));
    });
});
