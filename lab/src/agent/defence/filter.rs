//! A classifier at the place of PromptGuard: what it flags is not read.

use custody_detect::screen::Screener;
use custody_detect::text_kind::TextKind;
use serde_json::Value;

use super::{Defence, Episode, Ruling, Setting, Vanilla};
use crate::error::EvalError;

/// What stands where a text was flagged.
const PLACEHOLDER: &str = "[removed: looks like an attack]";

/// The cascade of `custody screen`, on everything that comes back.
#[derive(Clone)]
pub struct Filter {
    screener: Screener,
}

impl Filter {
    /// With the detector that is compiled in.
    pub fn built_in() -> Self {
        Self { screener: Screener::built_in().clone() }
    }

    fn filtered(&self, text: &str) -> String {
        let is_flagged = match self.screener.screen(text, TextKind::Content) {
            Ok(verdict) => verdict.is_flagged,
            // What cannot be screened is not clear.
            Err(_) => true,
        };
        if is_flagged { PLACEHOLDER.to_owned() } else { text.to_owned() }
    }
}

impl Defence for Filter {
    fn id(&self) -> &'static str {
        "classifier"
    }

    fn open(&self, _: &Setting<'_>) -> Result<Box<dyn Episode>, EvalError> {
        Ok(Box::new(self.clone()))
    }
}

impl Episode for Filter {
    fn propose(&mut self, tool: &str, arguments: &Value) -> Result<Ruling, EvalError> {
        Vanilla.propose(tool, arguments)
    }

    fn decide(&mut self, proposal: &str) -> Result<Ruling, EvalError> {
        Vanilla.decide(proposal)
    }

    fn read_document(&mut self, text: &str) -> Result<String, EvalError> {
        Ok(self.filtered(text))
    }
}
