//! Defences to compare, behind one interface: each is asked before a call is made and sees what comes back before
//! the agent reads it.

mod custody;
mod fath;
mod filter;
mod read_only;
mod recorded;
mod spotlighting;
mod tool_filter;
mod vanilla;

use custody_arguments::Intent;
use serde_json::Value;

use crate::error::EvalError;

pub(in crate::agent) use custody::set_preset;
pub use custody::{Custody, CustodyRow};
pub use custody_runtime::tools::Output;
pub use fath::Fath;
pub use filter::Filter;
pub use read_only::ReadOnly;
pub use recorded::Recorded;
pub use spotlighting::Spotlighting;
pub use tool_filter::ToolFilter;
pub use vanilla::Vanilla;

/// What a session is about.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// Which tool manifests apply, by the name that the benchmark gives its suite.
    pub suite: &'a str,
    /// The tools that the user's task needs. Only a perfect tool filter knows them.
    pub wanted: &'a [String],
}

/// What a defence says of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruling {
    /// Whether it may run.
    pub verdict: Verdict,
    /// The name of this decision.
    pub proposal: String,
    /// Which tool runs, if it may.
    pub tool: String,
    /// With which arguments.
    pub arguments: Value,
    /// Why it may not.
    pub because: String,
    /// Whether the same call was asked about before.
    pub again: bool,
}

/// Allow, ask or deny.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// A human is asked.
    Ask,
    /// It does not run.
    Deny,
}

impl Verdict {
    /// The word of the session protocol.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// One defence.
pub trait Defence {
    /// In ids of figures.
    fn id(&self) -> &'static str;

    /// What a model is told of it, in its system prompt.
    fn system_prompt(&self) -> &'static str {
        ""
    }

    /// Whether the calls that a task means to make are declared to it beforehand.
    fn takes_intents(&self) -> bool {
        false
    }

    /// Begins one session of an agent.
    ///
    /// # Errors
    /// When the defence cannot work here.
    fn open(&self, setting: &Setting<'_>) -> Result<Box<dyn Episode>, EvalError>;
}

/// One session of an agent under a defence. What a defence does not care for is as without one.
pub trait Episode {
    /// The operator's or the user's words arrive, or the model spoke. Returns what the model gets to read of it.
    ///
    /// # Errors
    /// When the defence fails. Nothing is then allowed.
    fn add_message(&mut self, _role: Speaker, text: &str) -> Result<String, EvalError> {
        Ok(text.to_owned())
    }

    /// The session declares the calls that it means to make.
    ///
    /// # Errors
    /// When the defence takes no intents, or not these.
    fn intend(&mut self, _intents: Vec<Intent>) -> Result<(), EvalError> {
        Err(EvalError::Setup("this defence takes no intents".into()))
    }

    /// The model wants to call `tool`.
    ///
    /// # Errors
    /// As [`Episode::add_message`].
    fn propose(&mut self, tool: &str, arguments: &Value) -> Result<Ruling, EvalError>;

    /// What has become of a call that was asked about.
    ///
    /// # Errors
    /// As [`Episode::add_message`].
    fn decide(&mut self, proposal: &str) -> Result<Ruling, EvalError>;

    /// The user approves a call that was asked about.
    ///
    /// # Errors
    /// As [`Episode::add_message`].
    fn approve(&mut self, _proposal: &str) -> Result<(), EvalError> {
        Ok(())
    }

    /// What a call brought back. Returns what the model may read of it.
    ///
    /// # Errors
    /// As [`Episode::add_message`].
    fn read_output(&mut self, _proposal: &str, output: &Output) -> Result<String, EvalError> {
        self.read_document(&output.text)
    }

    /// A document arrives that the user wants something done with. Returns what the model may read of it.
    ///
    /// # Errors
    /// As [`Episode::add_message`].
    fn read_document(&mut self, text: &str) -> Result<String, EvalError> {
        Ok(text.to_owned())
    }

    /// What an agent that does whatever it reads makes of a text that the defence marked.
    fn readable_text(&self, text: &str) -> String {
        text.to_owned()
    }

    /// The model answers the user. Returns whether the answer is marked as depending on untrusted text.
    ///
    /// # Errors
    /// As [`Episode::add_message`].
    fn answer(&mut self, _text: &str) -> Result<bool, EvalError> {
        Ok(false)
    }

    /// The model wants to remember `text`, for other sessions too if it is `shared`. Returns whether it does.
    ///
    /// # Errors
    /// As [`Episode::add_message`].
    fn remember(&mut self, _text: &str, _shared: bool) -> Result<bool, EvalError> {
        Ok(true)
    }
}

/// Whose words arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The operator.
    System,
    /// The user.
    User,
    /// The model.
    Model,
}
