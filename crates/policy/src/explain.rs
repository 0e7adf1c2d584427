//! Why a policy answers as it does.

use std::fmt;

use custody_kernel::tool::call::{Permission, PolicyAnswer};
use serde::Serialize;

use crate::facts::Facts;
use crate::policy::{Policy, Statement};
use crate::problem::one_line;
use crate::question::Question;

/// An answer with all that led to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The answer.
    pub answer: PolicyAnswer,
    /// Every statement, in the order of the text.
    pub statements: Vec<Explained>,
    /// What the policy saw.
    pub facts: Facts,
}

/// What became of one statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The statement.
    #[serde(flatten)]
    pub statement: Statement,
    /// Whether it is about this call.
    pub holds: bool,
    /// Whether the answer rests on it.
    pub decides: bool,
    /// Why it could not be evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Policy {
    /// Answers one question and says why.
    pub fn explain(&self, question: &Question<'_>) -> Explanation {
        let facts = Facts::of(question);
        let held = self.held(facts.clone());
        let answer = self.answer_to(held.as_ref());
        let explained = |statement: &Statement| Explained {
            statement: statement.clone(),
            holds: held.as_ref().is_ok_and(|held| held.holds(statement)),
            decides: answer.by.contains(&statement.id),
            failure: held.as_ref().ok().and_then(|held| held.failure(statement)).map(one_line),
        };
        let statements = self.statements().iter().map(explained).collect();
        Explanation { answer, statements, facts }
    }
}

/// The word that people and files have for a permission.
pub(crate) const fn word(permission: Permission) -> &'static str {
    match permission {
        Permission::Allow => "allow",
        Permission::Ask => "ask",
        Permission::Deny => "deny",
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answer, statements, facts } = self;
        write!(f, "{}", word(answer.answer))?;
        match answer.by.as_slice() {
            [] => writeln!(f, ": no `permit` holds")?,
            by => writeln!(f, ", by `{}`", by.join("`, `"))?,
        }
        if answer.waives_floor {
            writeln!(f, "the floor is waived, if the owner signed this policy")?;
        }
        if !answer.extracts.is_empty() {
            let fields = answer.extracts.join("`, `");
            writeln!(
                f,
                "may be taken out of its output, if the owner signed this policy: `{fields}`"
            )?;
        }
        for Explained { statement, holds, failure, .. } in statements {
            let Statement { id, line, says, description, .. } = statement;
            let sign = if *holds { "+" } else { " " };
            write!(f, "{sign} `{id}` (line {line}) {}", says.as_str())?;
            match (failure, holds) {
                (Some(failure), _) => {
                    writeln!(f, ": cannot be evaluated, which denies: {failure}")?;
                }
                (None, true) => writeln!(f, ": holds")?,
                (None, false) => writeln!(f, ": does not hold")?,
            }
            if let Some(description) = description.as_ref().filter(|_| *holds) {
                writeln!(f, "      {description}")?;
            }
        }
        writeln!(f, "what it saw:")?;
        let facts = serde_json::to_value(facts).map_err(|_| fmt::Error)?;
        let parts = facts.as_object().into_iter().flatten();
        for (part, members) in parts {
            for (name, value) in members.as_object().into_iter().flatten() {
                writeln!(f, "  {}", one_line(&format!("{part}.{name} = {value}")))?;
            }
        }
        Ok(())
    }
}
