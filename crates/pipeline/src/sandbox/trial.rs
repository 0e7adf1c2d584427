//! One sample of the sandbox by itself: what its agent is asked, and what is known of the run.
//!
//! For whoever collects what agents answer, rather than what the route makes of it.

use std::fmt;

use custody_detect::RunContext;
use custody_detect::text_kind::TextKind;
use custody_models::chat::{ChatAnswer, ChatModel, ChatRequest};

use crate::sandbox::{Agent, Sandbox, SandboxOptions, called};

/// An agent with planted secrets that is about to read one text.
pub struct Trial {
    agent: Agent,
    text: String,
    sample: u32,
}

impl fmt::Debug for Trial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Trial").field("sample", &self.sample).finish_non_exhaustive()
    }
}

impl Trial {
    /// The agent of this sample; `knows_tools` as its model says. Its secrets follow from text and sample, so that the
    /// same trial can be looked at again without a model.
    pub fn new(text: &str, sample: u32, knows_tools: bool) -> Self {
        Self { agent: Agent::new(text, sample, knows_tools), text: text.to_owned(), sample }
    }

    /// What `model` is asked.
    pub fn request(
        &self,
        model: &dyn ChatModel,
        options: &SandboxOptions,
        kind: TextKind,
    ) -> ChatRequest {
        Sandbox::new(model, options).request(&self.agent, &[], &self.text, kind, self.sample)
    }

    /// Looks at something with what is known of the run.
    pub fn watched<T>(&self, look: impl FnOnce(&RunContext<'_>) -> T) -> T {
        let Agent { canary, secret, system_prompt } = &self.agent;
        look(&RunContext {
            canary: Some(canary),
            secrets: &[secret],
            system_prompt: Some(system_prompt),
            prompt: &self.text,
        })
    }

    /// The tool that an answer calls; no task here needs one.
    pub fn called(answer: &ChatAnswer) -> Option<&str> {
        called(answer)
    }
}

#[cfg(test)]
mod tests {
    use custody_models::chat::{Finish, Usage};

    use super::*;

    #[test]
    fn a_trial_knows_what_its_agent_was_told() {
        let trial = Trial::new("Which books on sailing do you have?", 1, false);
        trial.watched(|watch| {
            let told = watch.system_prompt.expect("there is one");
            assert!(told.contains(watch.canary.expect("there is one")));
            assert!(watch.secrets.iter().all(|secret| told.contains(secret)));
        });
    }

    #[test]
    fn a_call_is_read_out_of_an_answer() {
        let answer = |text: &str| ChatAnswer {
            text: text.to_owned(),
            tool_calls: Vec::new(),
            finish: Finish::Done,
            usage: Usage::default(),
        };
        assert_eq!(Trial::called(&answer("CALL open_page(a.example)")), Some("open_page"));
        assert_eq!(Trial::called(&answer("I could call open_page for you.")), None);
    }
}
