//! The statements of a policy, with what their annotations mean.

use cedar_policy::{Effect, PolicyId, PolicySet};
use serde::Serialize;

use crate::lexemes::without_comments;
use crate::problem::{PolicyProblem, Position, one_line};

/// Names the floor in lists of the policies that decided.
pub const FLOOR: &str = "floor";
/// Names a changed tool description in lists of the policies that decided.
pub const CHANGED: &str = "changed-description";
/// Names Cedar in lists of the policies that decided, when it could not evaluate a question.
pub(crate) const CEDAR: &str = "cedar";
/// The ids that no statement may have.
const RESERVED: [&str; 3] = [FLOOR, CEDAR, CHANGED];
/// The longest id, in characters.
const MAX_ID: usize = 64;

/// One `permit` or `forbid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// The `@id`, or `policy0`, `policy1`, … by position.
    pub id: String,
    /// The line where the statement begins, from 1.
    pub line: usize,
    /// The answer for calls to which the statement applies.
    #[serde(rename = "says")]
    pub effect: StatementEffect,
    /// The `@description`: one sentence for the person who is asked or refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The exact text, without the comments around it.
    pub text: String,
    /// The `@extracts`: fields of the call's output that may be taken out alone, if the owner signed the policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extracts: Vec<String>,
    #[serde(skip)]
    pub(crate) key: PolicyId,
}

/// The answer of a statement for calls to which it applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatementEffect {
    /// `permit`.
    Permit,
    /// `@floor("waived") permit`: even where the floor would ask.
    Waive,
    /// `@answer("ask") forbid`: only if a human approves.
    Ask,
    /// `forbid`.
    Deny,
}

impl StatementEffect {
    /// The verb for lists of statements.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permit => "permits",
            Self::Waive => "permits, and waives the floor",
            Self::Ask => "asks",
            Self::Deny => "forbids",
        }
    }
}

/// The statements of `set`, in the order of the text, or every problem with one.
pub(crate) fn statements(
    text: &str,
    set: &PolicySet,
) -> Result<Vec<Statement>, Vec<PolicyProblem>> {
    let mut problems: Vec<PolicyProblem> =
        set.templates().map(|template| template_problem(text, &template.to_string())).collect();
    let mut statements: Vec<Statement> = Vec::new();
    // Comments are blanked, because one may hold a copy of a statement.
    let bare = without_comments(text);
    let mut from = 0;
    for number in 0..set.num_of_policies() {
        let Some(policy) = set.policy(&PolicyId::new(format!("policy{number}"))) else { continue };
        let own_text = policy.to_string();
        let found = bare.get(from..).and_then(|rest| rest.find(&without_comments(&own_text)));
        let at = found.map_or(from, |at| from + at);
        from = at + own_text.len();
        let statement = Statement::read(policy, own_text, number, Position::of(text, at).line);
        match statement.and_then(|statement| statement.unlike(&statements)) {
            Ok(statement) => statements.push(statement),
            Err(what) => {
                let about = format!("policy `policy{number}`");
                problems.push(PolicyProblem::new(what).about(about).at(text, at));
            }
        }
    }
    if statements.is_empty() && problems.is_empty() {
        problems.push(PolicyProblem::new(
            "there is no `permit` in it, so every call would be denied; add one",
        ));
    }
    if problems.is_empty() { Ok(statements) } else { Err(problems) }
}

fn template_problem(text: &str, template: &str) -> PolicyProblem {
    let at = text.find(template).unwrap_or_default();
    let what = "templates are not supported; write the principal or resource instead of `?principal` or `?resource`";
    PolicyProblem::new(what).at(text, at)
}

/// The annotations of a statement.
struct Annotations {
    id: Option<String>,
    description: Option<String>,
    extracts: Vec<String>,
    effect: StatementEffect,
}

impl Statement {
    fn read(
        policy: &cedar_policy::Policy,
        text: String,
        number: usize,
        line: usize,
    ) -> Result<Self, String> {
        let Annotations { id, description, extracts, effect } = Annotations::read(policy)?;
        let id = id.unwrap_or_else(|| format!("policy{number}"));
        check_id(&id)?;
        let key = PolicyId::new(&id);
        Ok(Self { id, line, effect, description, text, extracts, key })
    }

    /// The statement, if none of `others` has its id.
    fn unlike(self, others: &[Self]) -> Result<Self, String> {
        if others.iter().any(|other| other.id == self.id) {
            return Err(format!("`{}` already names another one; rename it", self.id));
        }
        Ok(self)
    }
}

impl Annotations {
    fn read(policy: &cedar_policy::Policy) -> Result<Self, String> {
        let effect = match policy.effect() {
            Effect::Permit => StatementEffect::Permit,
            Effect::Forbid => StatementEffect::Deny,
        };
        let mut read = Self { id: None, description: None, extracts: Vec::new(), effect };
        let mut annotations: Vec<(&str, &str)> = policy.annotations().collect();
        annotations.sort_unstable();
        for (name, value) in annotations {
            match name {
                "id" => read.id = Some(value.to_owned()),
                "description" => read.description = Some(description(value)?),
                "answer" | "floor" => read.effect = changed_effect(read.effect, name, value)?,
                "extracts" => read.extracts = extracts(policy.effect(), value)?,
                _ => {
                    return Err(format!(
                        "`@{name}` means nothing; use `@id`, `@answer`, `@floor`, `@extracts` or `@description`"
                    ));
                }
            }
        }
        Ok(read)
    }
}

fn description(value: &str) -> Result<String, String> {
    let line = one_line(value);
    if line.is_empty() {
        return Err("`@description` is empty; say why in one sentence".into());
    }
    Ok(line)
}

/// The effect of a statement with `effect` under an `@answer` or `@floor`.
fn changed_effect(
    effect: StatementEffect,
    name: &str,
    value: &str,
) -> Result<StatementEffect, String> {
    match (name, value, effect) {
        ("answer", "ask", StatementEffect::Deny) => Ok(StatementEffect::Ask),
        ("answer", "ask", _) => Err("`@answer(\"ask\")` is for `forbid`; a `permit` allows".into()),
        ("answer", _, _) => Err(format!(
            "`@answer(\"{}\")` is none; write `@answer(\"ask\")`, or leave it out to deny",
            one_line(value)
        )),
        (_, "waived", StatementEffect::Permit) => Ok(StatementEffect::Waive),
        (_, "waived", _) => Err("`@floor(\"waived\")` is for `permit`".into()),
        _ => Err(format!("`@floor(\"{}\")` is none; write `@floor(\"waived\")`", one_line(value))),
    }
}

fn extracts(effect: Effect, value: &str) -> Result<Vec<String>, String> {
    if effect == Effect::Forbid {
        return Err("`@extracts` is for `permit`".into());
    }
    let fields: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
    if fields.is_empty() || !fields.iter().all(|field| is_field(field)) {
        return Err(format!(
            "`@extracts(\"{}\")` names no fields; write their paths with blanks between: `balance owner.id`",
            one_line(value)
        ));
    }
    Ok(fields)
}

fn check_id(id: &str) -> Result<(), String> {
    let is_plain = id.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if id.is_empty() || id.chars().count() > MAX_ID || !is_plain {
        return Err(format!("`@id` is 1 to {MAX_ID} letters, digits, `-`, `_` and `.`"));
    }
    if RESERVED.contains(&id) {
        return Err(format!("the id `{id}` is reserved; rename it"));
    }
    Ok(())
}

/// Whether `path` names one field: no list, no pattern.
fn is_field(path: &str) -> bool {
    path.split('.').all(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
    })
}
