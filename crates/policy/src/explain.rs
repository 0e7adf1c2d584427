//! The reasons for an answer: every statement, and the facts it was evaluated on.

use std::fmt;

use custody_kernel::tool::call::{Permission, PolicyAnswer};
use serde::Serialize;
use serde_json::Value;

use crate::facts::Facts;
use crate::policy::Policy;
use crate::problem::one_line;
use crate::question::Question;
use crate::statement::Statement;

/// An answer with all that led to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The answer.
    pub answer: PolicyAnswer,
    /// Every statement, in the order of the text.
    pub statements: Vec<Explained>,
    /// The facts that the policy was evaluated on.
    pub facts: Facts,
}

/// The result of one statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The statement.
    #[serde(flatten)]
    pub statement: Statement,
    /// Whether it applies to this call.
    pub holds: bool,
    /// Whether the answer follows from it.
    pub decides: bool,
    /// Why it could not be evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Policy {
    /// Answers one question, with the reasons.
    pub fn explain(&self, question: &Question<'_>) -> Explanation {
        let facts = Facts::of(question);
        let evaluation = self.evaluate(facts.clone());
        let answer = self.answer_to(evaluation.as_ref());
        let evaluation = evaluation.unwrap_or_default();
        let statements = self.statements().iter().map(|statement| Explained {
            statement: statement.clone(),
            holds: evaluation.holds(statement),
            decides: answer.by.contains(&statement.id),
            failure: evaluation.failure(statement).map(one_line),
        });
        Explanation { statements: statements.collect(), answer, facts }
    }
}

/// The word for a permission in text and in files of cases.
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
        statements.iter().try_for_each(|statement| write!(f, "{statement}"))?;
        writeln!(f, "facts:")?;
        write_facts(f, facts)
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Statement { id, line, effect, description, .. } = &self.statement;
        let sign = if self.holds { "+" } else { " " };
        write!(f, "{sign} `{id}` (line {line}) {}", effect.as_str())?;
        match (&self.failure, self.holds) {
            (Some(failure), _) => writeln!(f, ": cannot be evaluated, which denies: {failure}")?,
            (None, true) => writeln!(f, ": holds")?,
            (None, false) => writeln!(f, ": does not hold")?,
        }
        match description {
            Some(description) if self.holds => writeln!(f, "      {description}"),
            _ => Ok(()),
        }
    }
}

fn write_facts(f: &mut fmt::Formatter<'_>, facts: &Facts) -> fmt::Result {
    let facts = serde_json::to_value(facts).map_err(|_| fmt::Error)?;
    for (part, members) in facts.as_object().into_iter().flatten() {
        for (name, value) in members.as_object().into_iter().flatten() {
            let value = without_alias(value);
            writeln!(f, "  {}", one_line(&format!("{part}.{name} = {value}")))?;
        }
    }
    Ok(())
}

/// A part of the facts without the earlier name of `not_from_user`, which only programs need.
fn without_alias(part: &Value) -> Value {
    let mut part = part.clone();
    if let Some(members) = part.as_object_mut().filter(|members| members.contains_key("all")) {
        members.remove("unsaid");
    }
    part
}
