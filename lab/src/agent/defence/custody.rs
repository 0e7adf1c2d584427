//! Custody: the real store, gate and policy, with the manifests of the benchmark.

use std::cell::Cell;
use std::collections::BTreeMap;

use custody_arguments::{Arguments, Intent};
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::{Authority, Role};
use custody_kernel::record::{Answer, ObservationKind};
use custody_keys::HumanKey;
use custody_log::EntryId;
use custody_policy::{Manifests, Policy, examples};
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::principals::NewPrincipal;
use custody_runtime::scratch::Scratch;
use custody_runtime::session::{Session, Write};
use custody_runtime::store::Store;
use custody_runtime::tools::{Decision, Gate, INTENT_MS, set_policy};
use serde_json::Value;

use super::{Defence, Episode, Output, Ruling, Setting, Speaker, Verdict};
use crate::error::EvalError;

/// How Custody is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CustodyRow {
    /// With the policy that ships.
    Default,
    /// The same, with the intents of each task declared.
    Intents,
    /// With the preset `strict`, and the intents declared: nothing else with a consequence runs unasked.
    StrictIntents,
}

impl CustodyRow {
    const fn id(self) -> &'static str {
        match self {
            Self::Default => "custody",
            Self::Intents => "custody_intents",
            Self::StrictIntents => "custody_intents_strict",
        }
    }
}

/// A store of its own, in which agents work for one user.
pub struct Custody {
    row: CustodyRow,
    scratch: Scratch,
    gates: BTreeMap<String, Gate>,
    /// How many users there are. Each episode has its own, in a tenant of their own: equal questions of one user are
    /// one, and what an episode read would taint the words of another's user that it repeats.
    users: Cell<u32>,
}

impl Custody {
    /// Guards sessions, by suite, with `manifests`.
    ///
    /// # Errors
    /// When the store cannot be made.
    pub fn new(row: CustodyRow, manifests: BTreeMap<String, Manifests>) -> Result<Self, EvalError> {
        let scratch = Scratch::new(Limits::UNLIMITED, Clock::System)?;
        if row == CustodyRow::StrictIntents {
            set_preset(&scratch, "strict")?;
        }
        let gates = manifests.into_iter().map(|(suite, tools)| (suite, Gate::new(tools, None)));
        Ok(Self { row, scratch, gates: gates.collect(), users: Cell::new(0) })
    }

    /// A new user: what their agent shows, and they themselves.
    fn user(&self) -> Result<(Authority, Authority), EvalError> {
        let number = self.users.get();
        self.users.set(number + 1);
        let (name, key) = (format!("user-{number}"), HumanKey::generate());
        let tenant = format!("episode-{number}").parse::<Tenant>();
        let tenant = tenant.map_err(|error| EvalError::Setup(format!("a tenant: {error}")))?;
        let new = NewPrincipal {
            name: &name,
            role: Role::User,
            tenant,
            public_key: Some(key.public_key()),
            with_token: true,
        };
        let store = &self.scratch.store;
        let (_, token) = store.add_principal(&self.scratch.owner, new)?;
        let token = token.ok_or_else(|| EvalError::Setup("the user got no token".into()))?;
        Ok((store.authenticate_token(&token)?, store.authenticate(&name, &key)?))
    }
}

/// Puts the preset of this name in force.
///
/// # Errors
/// When there is none, or the store fails.
pub(in crate::agent) fn set_preset(scratch: &Scratch, name: &str) -> Result<(), EvalError> {
    let preset = examples().iter().find(|example| example.name == name);
    let preset = preset.ok_or_else(|| EvalError::Setup(format!("`{name}` is no preset")))?;
    let policy = Policy::parse(preset.text).map_err(|error| EvalError::Setup(error.to_string()))?;
    set_policy(&scratch.store, &scratch.owner, &policy)?;
    Ok(())
}

impl Defence for Custody {
    fn id(&self) -> &'static str {
        self.row.id()
    }

    fn takes_intents(&self) -> bool {
        self.row != CustodyRow::Default
    }

    fn open(&self, setting: &Setting<'_>) -> Result<Box<dyn Episode>, EvalError> {
        let (token, user) = self.user()?;
        let session = Session::open(&self.scratch.store, &token, None)?;
        // A suite without manifests has unknown tools only.
        let gate = self.gates.get(setting.suite).cloned().unwrap_or_default();
        let store = self.scratch.store.clone();
        Ok(Box::new(Guarded { store, user, session, gate }))
    }
}

struct Guarded {
    store: Store,
    user: Authority,
    session: Session,
    gate: Gate,
}

impl Episode for Guarded {
    fn add_message(&mut self, role: Speaker, text: &str) -> Result<String, EvalError> {
        let observation = match role {
            Speaker::System => Observation::message(Channel::System, text),
            Speaker::User => Observation::message(Channel::User, text),
            Speaker::Model => Observation::completion(text),
        };
        self.session.observe(observation).wait()?;
        Ok(text.to_owned())
    }

    fn intend(&mut self, intents: Vec<Intent>) -> Result<(), EvalError> {
        let declared = self.session.intend(&self.gate, &self.session, intents, INTENT_MS).wait()?;
        match declared.answer.refusal() {
            None => Ok(()),
            Some(refusal) => Err(EvalError::Setup(refusal.to_string())),
        }
    }

    fn propose(&mut self, tool: &str, arguments: &Value) -> Result<Ruling, EvalError> {
        let arguments = Arguments::parse(&arguments.to_string())
            .map_err(|error| EvalError::Setup(format!("`{tool}`: {error}")))?;
        Ok(ruling(self.session.propose(&self.gate, tool, arguments)?))
    }

    fn decide(&mut self, proposal: &str) -> Result<Ruling, EvalError> {
        Ok(ruling(self.session.decide(&self.gate, id(proposal)?)?))
    }

    fn approve(&mut self, proposal: &str) -> Result<(), EvalError> {
        let proposal = id(proposal)?;
        let asked = self.store.state(|state| state.asked_call(proposal).cloned())?;
        let shown = asked.map(|asked| asked.arguments.commitment);
        let receipt = self.store.approve(&self.user, proposal, shown)?;
        match receipt.answer.refusal() {
            None => Ok(()),
            Some(refusal) => Err(EvalError::Setup(refusal.to_string())),
        }
    }

    fn read_output(&mut self, proposal: &str, output: &Output) -> Result<String, EvalError> {
        self.session.result(&self.gate, id(proposal)?, output.clone()).wait()?;
        Ok(output.text.clone())
    }

    fn read_document(&mut self, text: &str) -> Result<String, EvalError> {
        let document = Observation {
            kind: ObservationKind::Retrieval,
            ..Observation::message(Channel::Retrieval, text)
        };
        self.session.observe(document).wait()?;
        Ok(text.to_owned())
    }

    fn answer(&mut self, text: &str) -> Result<bool, EvalError> {
        let parts = self.session.observe(Observation::completion(text)).wait()?;
        Ok(parts.iter().all(|part| part.label.is_tainted()))
    }

    fn remember(&mut self, text: &str, shared: bool) -> Result<bool, EvalError> {
        let scope = if shared { Scope::Shared } else { Scope::Session(self.session.id()) };
        let key = "answer".parse().map_err(|error| EvalError::Setup(format!("{error}")))?;
        let receipt = self.session.write(Write::new(scope, key, text)).wait()?;
        Ok(receipt.answer == Answer::Done)
    }
}

fn id(text: &str) -> Result<EntryId, EvalError> {
    text.parse().map_err(|_| EvalError::Setup(format!("`{text}` is no proposal")))
}

fn ruling(decision: Decision) -> Ruling {
    match decision {
        Decision::Allow(granted) => Ruling {
            tool: granted.tool().to_owned(),
            arguments: serde_json::from_str(granted.arguments()).unwrap_or_default(),
            ..without_call(Verdict::Allow, granted.decision(), String::new(), false)
        },
        Decision::Ask(waiting) => {
            let because = waiting.because.map(|because| because.to_string()).unwrap_or_default();
            without_call(Verdict::Ask, waiting.proposal, because, waiting.again)
        }
        Decision::Deny { decision, because } => {
            without_call(Verdict::Deny, decision, because.to_string(), false)
        }
    }
}

fn without_call(verdict: Verdict, proposal: EntryId, because: String, again: bool) -> Ruling {
    Ruling {
        verdict,
        proposal: proposal.to_string(),
        tool: String::new(),
        arguments: Value::Null,
        because,
        again,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MAIL: &str = "[tools.send_mail]\neffect = \"writes\"\n[tools.send_mail.arguments]\n\
                        to = { sink = \"recipient\" }\nbody = {}\n";

    /// What is said of a mail to somebody whom the user named, once a page was read.
    fn ruled(row: CustodyRow, intents: Option<&Value>) -> Verdict {
        let manifests = [("mail".to_owned(), Manifests::parse(MAIL).unwrap())];
        let custody = Custody::new(row, manifests.into()).unwrap();
        let mut episode = custody.open(&Setting { suite: "mail", wanted: &[] }).unwrap();
        let said = "Write to ann@example.com what the page is about.";
        episode.add_message(Speaker::User, said).unwrap();
        if let Some(intents) = intents {
            episode.intend(serde_json::from_value(intents.clone()).unwrap()).unwrap();
        }
        episode.read_document("A page about the harbour.").unwrap();
        let mail = json!({ "to": "ann@example.com", "body": "It is about the harbour." });
        episode.propose("send_mail", &mail).unwrap().verdict
    }

    #[test]
    fn g12_under_strict_only_what_was_declared_runs_unasked() {
        let intents = json!([{ "tool": "send_mail", "sinks": { "to": "ann@example.com" } }]);
        let cases = [
            (CustodyRow::Intents, None, Verdict::Allow),
            (CustodyRow::StrictIntents, None, Verdict::Ask),
            (CustodyRow::StrictIntents, Some(&intents), Verdict::Allow),
        ];
        for (row, intents, expected) in cases {
            assert_eq!(ruled(row, intents), expected, "{row:?} {intents:?}");
        }
    }
}
