//! Custody: the real store, gate and policy, with the manifests of the benchmark.

use std::cell::Cell;
use std::collections::BTreeMap;

use custody_arguments::Arguments;
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::{Authority, Role};
use custody_kernel::record::{Answer, ObservationKind};
use custody_keys::HumanKey;
use custody_log::EntryId;
use custody_policy::Manifests;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::principals::NewPrincipal;
use custody_runtime::scratch::Scratch;
use custody_runtime::session::{Session, Write};
use custody_runtime::store::Store;
use custody_runtime::tools::{Decision, Gate};
use serde_json::Value;

use super::{Defence, Episode, Output, Ruling, Setting, Speaker, Verdict};
use crate::error::EvalError;

/// A store of its own, in which agents work for one user.
pub struct Custody {
    scratch: Scratch,
    gates: BTreeMap<String, Gate>,
    /// How many users there are. Each episode has its own: equal questions of one user are one, and an episode must not
    /// wait for the answer to another's.
    users: Cell<u32>,
}

impl Custody {
    /// Guards sessions with the default policy and, by suite, `manifests`.
    ///
    /// # Errors
    /// When the store cannot be made.
    pub fn new(manifests: BTreeMap<String, Manifests>) -> Result<Self, EvalError> {
        let scratch = Scratch::new(Limits::UNLIMITED, Clock::System)?;
        let gates = manifests.into_iter().map(|(suite, tools)| (suite, Gate::new(tools, None)));
        Ok(Self { scratch, gates: gates.collect(), users: Cell::new(0) })
    }

    /// A new user: what their agent shows, and they themselves.
    fn user(&self) -> Result<(Authority, Authority), EvalError> {
        let number = self.users.get();
        self.users.set(number + 1);
        let (name, key) = (format!("user-{number}"), HumanKey::generate());
        let new = NewPrincipal {
            name: &name,
            role: Role::User,
            tenant: Tenant::main(),
            public_key: Some(key.public_key()),
            with_token: true,
        };
        let store = &self.scratch.store;
        let (_, token) = store.add_principal(&self.scratch.owner, new)?;
        let token = token.ok_or_else(|| EvalError::Setup("the user got no token".into()))?;
        Ok((store.authenticate_token(&token)?, store.authenticate(&name, &key)?))
    }
}

impl Defence for Custody {
    fn id(&self) -> &'static str {
        "custody"
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

    fn propose(&mut self, tool: &str, arguments: &Value) -> Result<Ruling, EvalError> {
        let arguments = Arguments::parse(&arguments.to_string())
            .map_err(|error| EvalError::Setup(format!("`{tool}`: {error}")))?;
        Ok(ruling(self.session.propose(&self.gate, tool, arguments).wait()?))
    }

    fn decide(&mut self, proposal: &str) -> Result<Ruling, EvalError> {
        Ok(ruling(self.session.decide(&self.gate, id(proposal)?).wait()?))
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
