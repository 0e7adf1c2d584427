//! RVU: what happens is recorded for a recovery afterwards. Before the call it is as good as what it is composed with:
//! v1 with the tool boundary, v2 alone or with it.

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

/// A defence with a record behind it.
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

    fn tells(&self) -> &'static str {
        self.before.tells()
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
    fn hears(&mut self, role: Speaker, text: &str) -> Result<String, EvalError> {
        self.writes(match role {
            Speaker::System => Observation::message(Channel::System, text),
            Speaker::User => Observation::message(Channel::User, text),
            Speaker::Model => Observation::completion(text),
        })?;
        self.before.hears(role, text)
    }

    fn proposes(&mut self, tool: &str, arguments: &Value) -> Result<Ruling, EvalError> {
        self.writes(Observation::tool_call(tool, arguments.to_string()))?;
        self.before.proposes(tool, arguments)
    }

    fn decides(&mut self, proposal: &str) -> Result<Ruling, EvalError> {
        self.before.decides(proposal)
    }

    fn approves(&mut self, proposal: &str) -> Result<(), EvalError> {
        self.before.approves(proposal)
    }

    fn reads(&mut self, proposal: &str, output: &Output) -> Result<String, EvalError> {
        self.writes(Observation::message(Channel::Tool, &output.text))?;
        self.before.reads(proposal, output)
    }

    fn retrieves(&mut self, text: &str) -> Result<String, EvalError> {
        self.writes(Observation::message(Channel::Retrieval, text))?;
        self.before.retrieves(text)
    }

    fn legible(&self, text: &str) -> String {
        self.before.legible(text)
    }

    fn answers(&mut self, text: &str) -> Result<bool, EvalError> {
        let parts = self.session.observe(Observation::completion(text)).wait()?;
        self.before.answers(text)?;
        Ok(parts.iter().all(|part| part.label.is_tainted()))
    }

    fn remembers(&mut self, text: &str, shared: bool) -> Result<bool, EvalError> {
        self.before.remembers(text, shared)
    }
}
