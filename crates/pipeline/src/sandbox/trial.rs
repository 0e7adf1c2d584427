//! One sample of the sandbox on its own: the request to its agent, and the context of the run.
//!
//! For collecting answers of agents rather than routing a text.

use std::fmt;

use custody_detect::RunContext;
use custody_detect::text_kind::TextKind;
use custody_models::chat::{ChatAnswer, ChatModel, ChatRequest};

use crate::sandbox::{Agent, Sandbox, SandboxOptions, called_tool};

/// An agent with planted secrets that is about to read one text.
pub struct SandboxTrial {
    agent: Agent,
    text: String,
    sample: u32,
}

impl fmt::Debug for SandboxTrial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SandboxTrial").field("sample", &self.sample).finish_non_exhaustive()
    }
}

impl SandboxTrial {
    /// The agent of this sample. `has_tool_protocol` is [`ChatModel::supports_tools`] of its model. The secrets are
    /// derived from text and sample, so that a recorded answer can be inspected again without a model.
    pub fn new(text: &str, sample: u32, has_tool_protocol: bool) -> Self {
        Self { agent: Agent::new(text, sample, has_tool_protocol), text: text.to_owned(), sample }
    }

    /// The request for `model`.
    pub fn request(
        &self,
        model: &dyn ChatModel,
        options: &SandboxOptions,
        kind: TextKind,
    ) -> ChatRequest {
        Sandbox::new(model, options).request(&self.agent, &[], &self.text, kind, self.sample)
    }

    /// Calls `inspect` with the context of the run.
    pub fn with_run_context<T>(&self, inspect: impl FnOnce(&RunContext<'_>) -> T) -> T {
        let Agent { canary, secret, system_prompt } = &self.agent;
        inspect(&RunContext {
            canary: Some(canary),
            secrets: &[secret],
            system_prompt: Some(system_prompt),
            prompt: &self.text,
        })
    }

    /// The tool that an answer calls. No task in the sandbox needs one.
    pub fn called_tool(answer: &ChatAnswer) -> Option<&str> {
        called_tool(answer)
    }
}

#[cfg(test)]
mod tests {
    use custody_models::chat::{FinishReason, Usage};

    use super::*;

    #[test]
    fn the_run_context_matches_the_system_prompt() {
        let trial = SandboxTrial::new("Which books on sailing do you have?", 1, false);
        trial.with_run_context(|run| {
            let prompt = run.system_prompt.expect("a trial has a system prompt");
            assert!(prompt.contains(run.canary.expect("a trial has a canary")));
            assert!(run.secrets.iter().all(|secret| prompt.contains(secret)));
        });
    }

    #[test]
    fn a_call_in_the_text_of_an_answer_is_found() {
        let cases = [
            ("CALL open_page(a.example)", Some("open_page")),
            ("I could call open_page for you.", None),
        ];
        for (text, expected) in cases {
            let (finish, usage) = (FinishReason::Done, Usage::default());
            let answer =
                ChatAnswer { text: text.to_owned(), tool_calls: Vec::new(), finish, usage };
            assert_eq!(SandboxTrial::called_tool(&answer), expected, "{text}");
        }
    }
}
