//! What the package says and is answered: the session protocol, and around it what was played.

use std::collections::HashMap;

use custody_arguments::Intent;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Unit;
use super::child::Child;
use crate::agent::defence::{Defence, Episode, Output, Ruling, Setting, Speaker};
use crate::error::EvalError;

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Notice(Notice),
    GateRequest(GateRequest),
}

/// What wants no answer.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Notice {
    Begin { pairs: usize, user_tasks: usize },
    Unit(Unit),
    End,
}

/// The session protocol, and the approvals of whom the harness plays.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum GateRequest {
    Open {
        id: Value,
        suite: String,
        #[serde(default)]
        wanted: Vec<String>,
    },
    Tools {
        id: Value,
    },
    Observe {
        id: Value,
        session: String,
        channel: String,
        text: String,
    },
    Intend {
        id: Value,
        session: String,
        intents: Vec<Intent>,
    },
    Propose {
        id: Value,
        session: String,
        call: Called,
    },
    Decide {
        id: Value,
        session: String,
        proposal: String,
    },
    Approve {
        id: Value,
        session: String,
        proposal: String,
    },
    Result {
        id: Value,
        session: String,
        proposal: String,
        text: String,
        #[serde(default)]
        structured: Option<Value>,
    },
    Close {
        id: Value,
        session: String,
    },
}

#[derive(Deserialize)]
struct Called {
    tool: String,
    arguments: Value,
}

/// Answers until the package has played everything.
pub(super) fn converse(
    child: &mut Child,
    defence: &dyn Defence,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Unit>, EvalError> {
    let mut played = Played { defence, episodes: HashMap::new(), opened: 0 };
    let (mut units, mut total) = (Vec::new(), 0);
    while let Some(line) = child.line()? {
        let line: Line = serde_json::from_str(&line)
            .map_err(|cause| EvalError::Setup(format!("AgentDojo's package said {cause}")))?;
        match line {
            // Each is played without approvals and with them.
            Line::Notice(Notice::Begin { pairs, user_tasks }) => total = 2 * (pairs + user_tasks),
            Line::Notice(Notice::Unit(unit)) => {
                units.push(unit);
                progress(units.len(), total);
            }
            Line::Notice(Notice::End) => return Ok(units),
            Line::GateRequest(asked) => child.answer(&played.answer(asked)?.to_string())?,
        }
    }
    Err(EvalError::Package("AgentDojo's package ended before it had played everything".into()))
}

struct Played<'a> {
    defence: &'a dyn Defence,
    episodes: HashMap<String, Box<dyn Episode>>,
    opened: u64,
}

impl Played<'_> {
    fn answer(&mut self, asked: GateRequest) -> Result<Value, EvalError> {
        Ok(match asked {
            GateRequest::Open { id, suite, wanted } => {
                self.opened += 1;
                let session = format!("session-{}", self.opened);
                let episode = self.defence.open(&Setting { suite: &suite, wanted: &wanted })?;
                self.episodes.insert(session.clone(), episode);
                json!({ "id": id, "session": session })
            }
            GateRequest::Tools { id } => json!({ "id": id, "tools": [] }),
            GateRequest::Observe { id, session, channel, text } => {
                let speaker = match channel.as_str() {
                    "system" => Speaker::System,
                    "user" => Speaker::User,
                    _ => Speaker::Model,
                };
                self.episode(&session)?.add_message(speaker, &text)?;
                json!({ "id": id, "entries": [] })
            }
            GateRequest::Intend { id, session, intents } => {
                self.episode(&session)?.intend(intents)?;
                json!({ "id": id, "decision": "allow" })
            }
            GateRequest::Propose { id, session, call } => {
                let ruling = self.episode(&session)?.propose(&call.tool, &call.arguments)?;
                ruling_line(&id, &ruling)
            }
            GateRequest::Decide { id, session, proposal } => {
                let ruling = self.episode(&session)?.decide(&proposal)?;
                ruling_line(&id, &ruling)
            }
            GateRequest::Approve { id, session, proposal } => {
                self.episode(&session)?.approve(&proposal)?;
                json!({ "id": id, "approved": true })
            }
            GateRequest::Result { id, session, proposal, text, structured } => {
                let output = Output { text, structured };
                let text = self.episode(&session)?.read_output(&proposal, &output)?;
                json!({ "id": id, "entries": [], "text": text })
            }
            GateRequest::Close { id, session } => {
                self.episodes.remove(&session);
                json!({ "id": id })
            }
        })
    }

    fn episode(&mut self, session: &str) -> Result<&mut Box<dyn Episode>, EvalError> {
        self.episodes
            .get_mut(session)
            .ok_or_else(|| EvalError::Setup(format!("AgentDojo's package speaks of `{session}`")))
    }
}

fn ruling_line(id: &Value, ruling: &Ruling) -> Value {
    json!({
        "id": id,
        "decision": ruling.verdict.word(),
        "proposal": ruling.proposal,
        "call": { "tool": ruling.tool, "arguments": ruling.arguments },
        "reasons": { "model": "This call was not made. Go on without it.", "user": ruling.because, "audit": [] },
    })
}
