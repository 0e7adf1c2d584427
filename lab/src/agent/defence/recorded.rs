//! Records what happens, for a recovery afterwards, around another defence that decides the calls.
//!
//! The recovery paper's RVU does this too. What RVU does besides happens after an episode and changes no figure here;
//! `custody eval recovery` measures it.

use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::Authority;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::scratch::Scratch;
use custody_runtime::session::Session;
use serde_json::Value;

use super::{Defence, Episode, Output, Ruling, Setting, Speaker};
use crate::error::EvalError;

/// Another defence, with everything that happens recorded in a store.
pub struct Recorded {
    id: &'static str,
    before: Box<dyn Defence>,
    scratch: Scratch,
}

impl Recorded {
    /// `before` decides the calls.
    ///
    /// # Errors
    /// When the store of the record cannot be made.
    pub fn new(id: &'static str, before: Box<dyn Defence>) -> Result<Self, EvalError> {
        Ok(Self { id, before, scratch: Scratch::new(Limits::UNLIMITED, Clock::System)? })
    }
}

impl Defence for Recorded {
    fn id(&self) -> &'static str {
        self.id
    }

    fn system_prompt(&self) -> &'static str {
        self.before.system_prompt()
    }

    fn open(&self, setting: &Setting<'_>) -> Result<Box<dyn Episode>, EvalError> {
        let nobody = Authority::unproven(Tenant::main());
        let session = Session::open(&self.scratch.store, &nobody, None)?;
        Ok(Box::new(Written { before: self.before.open(setting)?, session }))
    }
}

struct Written {
    before: Box<dyn Episode>,
    session: Session,
}

impl Written {
    fn writes(&self, observation: Observation) -> Result<(), EvalError> {
        self.session.observe(observation).wait()?;
        Ok(())
    }
}

impl Episode for Written {
    fn add_message(&mut self, role: Speaker, text: &str) -> Result<String, EvalError> {
        self.writes(match role {
            Speaker::System => Observation::message(Channel::System, text),
            Speaker::User => Observation::message(Channel::User, text),
            Speaker::Model => Observation::completion(text),
        })?;
        self.before.add_message(role, text)
    }

    fn propose(&mut self, tool: &str, arguments: &Value) -> Result<Ruling, EvalError> {
        self.writes(Observation::tool_call(tool, arguments.to_string()))?;
        self.before.propose(tool, arguments)
    }

    fn decide(&mut self, proposal: &str) -> Result<Ruling, EvalError> {
        self.before.decide(proposal)
    }

    fn approve(&mut self, proposal: &str) -> Result<(), EvalError> {
        self.before.approve(proposal)
    }

    fn read_output(&mut self, proposal: &str, output: &Output) -> Result<String, EvalError> {
        self.writes(Observation::message(Channel::Tool, &output.text))?;
        self.before.read_output(proposal, output)
    }

    fn read_document(&mut self, text: &str) -> Result<String, EvalError> {
        self.writes(Observation::message(Channel::Retrieval, text))?;
        self.before.read_document(text)
    }

    fn readable_text(&self, text: &str) -> String {
        self.before.readable_text(text)
    }

    fn answer(&mut self, text: &str) -> Result<bool, EvalError> {
        let parts = self.session.observe(Observation::completion(text)).wait()?;
        self.before.answer(text)?;
        Ok(parts.iter().all(|part| part.label.is_tainted()))
    }

    fn remember(&mut self, text: &str, shared: bool) -> Result<bool, EvalError> {
        self.before.remember(text, shared)
    }
}
