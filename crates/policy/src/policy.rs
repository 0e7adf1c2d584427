//! A policy: Cedar statements, checked against the schema.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::LazyLock;

use cedar_policy::{
    Effect, ParseErrors, PolicyId, PolicySet, Schema, ValidationMode, ValidationWarning, Validator,
};
use custody_log::Digest;
use miette::Diagnostic;
use serde::Serialize;

use crate::lexemes::without_comments;
use crate::limits;
use crate::problem::{Position, Problem, listed, one_line};
use crate::uses::Uses;

/// What a policy can speak of, as Cedar reads it.
pub const SCHEMA: &str = include_str!("custody.cedarschema");
/// The text of the policy that Custody starts with.
pub const STANDARD: &str = include_str!("standard.cedar");
/// The longest id, in characters.
const MAX_ID: usize = 64;
/// What stands in the place of a policy's id when something else decided.
const RESERVED: [&str; 3] = [FLOOR, UNANSWERED, CHANGED];
/// Names the floor where policies that decided are named.
pub const FLOOR: &str = "floor";
/// Names the change of a tool's description where policies that decided are named.
pub const CHANGED: &str = "changed-description";
/// Names Cedar itself, should it be unable to answer.
pub(crate) const UNANSWERED: &str = "cedar";

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
    let (schema, _) =
        Schema::from_cedarschema_str(SCHEMA).expect("the tests read the shipped schema");
    Validator::new(schema)
});

/// A policy that was read and checked. One text holds many statements; Cedar calls each of them a policy.
#[derive(Clone)]
pub struct Policy {
    text: String,
    version: Digest,
    statements: Vec<Statement>,
    warnings: Vec<Problem>,
    // Apart, because Cedar names only the statements that its own answer rests on: with a `forbid` in force it
    // would not say which `permit` held.
    permits: PolicySet,
    forbids: PolicySet,
    uses: Uses,
}

/// One `permit` or `forbid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// Its `@id`, or `policy0`, `policy1`, … by where it stands.
    pub id: String,
    /// The line it begins on.
    pub line: usize,
    /// What it says of the calls that it holds for.
    pub says: Says,
    /// Its `@description`: one sentence for whoever is asked or refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its text, without what stands around it.
    pub text: String,
    /// Its `@extracts`: fields of the call's output that may be taken out alone, if the owner signed the policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extracts: Vec<String>,
    #[serde(skip)]
    pub(crate) key: PolicyId,
}

/// What a statement says of the calls that it holds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// `permit`.
    Permit,
    /// `@floor("waived") permit`: even where the floor would ask.
    Waive,
    /// `@answer("ask") forbid`: only if a human approves.
    Ask,
    /// `forbid`.
    Deny,
}

/// Everything wrong with a policy, one line each, first things first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(.0))]
pub struct PolicyError(Vec<Problem>);

impl PolicyError {
    /// One by one.
    pub fn problems(&self) -> &[Problem] {
        &self.0
    }
}

impl Policy {
    /// Reads a policy and checks it against the schema.
    ///
    /// # Errors
    /// Everything that is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        limits::check(text).map_err(|problem| PolicyError(vec![problem]))?;
        let set: PolicySet =
            text.parse().map_err(|errors| PolicyError(unreadable(text, &errors)))?;
        let mut problems = Vec::new();
        let statements = statements(text, &set, &mut problems);
        if !problems.is_empty() {
            return Err(PolicyError(problems));
        }
        let (permits, forbids) = parted(&set, &statements);
        let mut warnings = Vec::new();
        for side in [&permits, &forbids] {
            validate(text, side, &mut problems, &mut warnings);
        }
        if !problems.is_empty() {
            problems.sort_by_key(|problem| problem.at);
            return Err(PolicyError(problems));
        }
        let uses = Uses::of([&permits, &forbids]);
        let version = Digest::of(text.as_bytes());
        Ok(Self { text: text.to_owned(), version, statements, warnings, permits, forbids, uses })
    }

    /// The policy that Custody starts with.
    pub fn standard() -> Self {
        Self::parse(STANDARD).expect("the tests read the shipped policy")
    }

    /// SHA-256 of the text: what approvals and records name it by.
    pub const fn version(&self) -> Digest {
        self.version
    }

    /// The exact text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it consists of, in the order of the text.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// What is odd about it and yet allowed: words in two scripts, which may not be what they look like.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// The names of all tools and groups that it mentions: those that no manifest describes are likely misspelt.
    pub fn mentions(&self) -> Mentions {
        let mut mentions = Mentions::default();
        for policy in self.permits.policies().chain(self.forbids.policies()) {
            for entity in policy.entity_literals() {
                let name = entity.id().unescaped().to_owned();
                match entity.type_name().basename() {
                    "Tool" => mentions.tools.insert(name),
                    "Group" => mentions.groups.insert(name),
                    _ => false,
                };
            }
        }
        mentions
    }

    pub(crate) const fn uses(&self) -> &Uses {
        &self.uses
    }

    pub(crate) const fn permits(&self) -> &PolicySet {
        &self.permits
    }

    pub(crate) const fn forbids(&self) -> &PolicySet {
        &self.forbids
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<&str> =
            self.statements.iter().map(|statement| statement.id.as_str()).collect();
        f.debug_struct("Policy")
            .field("version", &self.version)
            .field("statements", &ids)
            .finish_non_exhaustive()
    }
}

/// What a policy speaks of by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mentions {
    /// As in `Tool::"…"`.
    pub tools: BTreeSet<String>,
    /// As in `Group::"…"`.
    pub groups: BTreeSet<String>,
}

impl Says {
    /// What it reads like in a list.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permit => "permits",
            Self::Waive => "permits, and waives the floor",
            Self::Ask => "asks",
            Self::Deny => "forbids",
        }
    }
}

fn unreadable(text: &str, errors: &ParseErrors) -> Vec<Problem> {
    errors.iter().map(|error| explained(text, error, None)).collect()
}

/// The statements of `set`, in the order of the text.
fn statements(text: &str, set: &PolicySet, problems: &mut Vec<Problem>) -> Vec<Statement> {
    for template in set.templates() {
        let what =
            "`?principal` and `?resource` are filled in by nobody here; name whom it is about";
        let at = text.find(&template.to_string()).unwrap_or_default();
        problems.push(Problem::new(what).at(text, at));
    }
    let mut statements: Vec<Statement> = Vec::new();
    // A copy in a comment is not the place.
    let bare = without_comments(text);
    let mut from = 0;
    for number in 0..set.num_of_policies() {
        let Some(policy) = set.policy(&PolicyId::new(format!("policy{number}"))) else { continue };
        let words = policy.to_string();
        let found = bare.get(from..).and_then(|rest| rest.find(&without_comments(&words)));
        let at = found.map_or(from, |at| from + at);
        from = at + words.len();
        match statement(policy, words, number, Position::of(text, at).line) {
            Ok(statement) if statements.iter().any(|other| other.id == statement.id) => {
                let what = format!("`{}` already names another one; rename it", statement.id);
                problems.push(
                    Problem::new(what).about(format!("policy `policy{number}`")).at(text, at),
                );
            }
            Ok(statement) => statements.push(statement),
            Err(what) => {
                problems.push(
                    Problem::new(what).about(format!("policy `policy{number}`")).at(text, at),
                );
            }
        }
    }
    if statements.is_empty() && problems.is_empty() {
        problems.push(Problem::new(
            "there is no `permit` in it, so every call would be denied; add one",
        ));
    }
    statements
}

/// What one Cedar policy says, from its annotations.
fn statement(
    policy: &cedar_policy::Policy,
    text: String,
    number: usize,
    line: usize,
) -> Result<Statement, String> {
    let mut id = format!("policy{number}");
    let mut description = None;
    let mut extracts = Vec::new();
    let mut says = match policy.effect() {
        Effect::Permit => Says::Permit,
        Effect::Forbid => Says::Deny,
    };
    let mut annotations: Vec<(&str, &str)> = policy.annotations().collect();
    annotations.sort_unstable();
    for (name, value) in annotations {
        let value_line = one_line(value);
        match (name, value) {
            ("id", value) => value.clone_into(&mut id),
            ("description", _) if !value_line.is_empty() => description = Some(value_line),
            ("description", _) => {
                return Err("`@description` is empty; say why in one sentence".into());
            }
            ("answer", "ask") if says == Says::Deny => says = Says::Ask,
            ("answer", "ask") => {
                return Err("`@answer(\"ask\")` is for `forbid`; a `permit` allows".into());
            }
            ("answer", _) => {
                return Err(format!(
                    "`@answer(\"{value_line}\")` is none; write `@answer(\"ask\")`, or leave it out to deny"
                ));
            }
            ("floor", "waived") if says == Says::Permit => says = Says::Waive,
            ("floor", "waived") => return Err("`@floor(\"waived\")` is for `permit`".into()),
            ("floor", _) => {
                return Err(format!(
                    "`@floor(\"{value_line}\")` is none; write `@floor(\"waived\")`"
                ));
            }
            ("extracts", fields) if policy.effect() == Effect::Permit => {
                extracts = fields.split_whitespace().map(str::to_owned).collect();
                if !extracts.iter().all(|field| is_field(field)) || extracts.is_empty() {
                    return Err(format!(
                        "`@extracts(\"{value_line}\")` names no fields; write their paths with blanks between: `balance owner.id`"
                    ));
                }
            }
            ("extracts", _) => return Err("`@extracts` is for `permit`".into()),
            _ => {
                return Err(format!(
                    "`@{name}` means nothing; use `@id`, `@answer`, `@floor`, `@extracts` or `@description`"
                ));
            }
        }
    }
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.is_empty() || id.chars().count() > MAX_ID || !id.chars().all(is_plain) {
        return Err(format!("`@id` is 1 to {MAX_ID} letters, digits, `-`, `_` and `.`"));
    }
    if RESERVED.contains(&id.as_str()) {
        return Err(format!("the id `{id}` stands for something else; rename it"));
    }
    let key = PolicyId::new(&id);
    Ok(Statement { id, line, says, description, text, extracts, key })
}

/// A path of names that lead to one field: no list, no pattern.
fn is_field(path: &str) -> bool {
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        !name.is_empty() && name.chars().all(is_part)
    };
    path.split('.').all(is_name)
}

/// The permits and the forbids, under their own ids.
fn parted(set: &PolicySet, statements: &[Statement]) -> (PolicySet, PolicySet) {
    let (mut permits, mut forbids) = (PolicySet::new(), PolicySet::new());
    for (number, statement) in statements.iter().enumerate() {
        let Some(policy) = set.policy(&PolicyId::new(format!("policy{number}"))) else { continue };
        let side = match policy.effect() {
            Effect::Permit => &mut permits,
            Effect::Forbid => &mut forbids,
        };
        side.add(policy.new_id(statement.key.clone())).expect("the ids are all different");
    }
    (permits, forbids)
}

/// What the schema has against a set of statements.
fn validate(text: &str, set: &PolicySet, problems: &mut Vec<Problem>, warnings: &mut Vec<Problem>) {
    let result = VALIDATOR.validate(set, ValidationMode::Strict);
    let mut at_fault = HashSet::new();
    for error in result.validation_errors() {
        at_fault.insert(error.policy_id());
        problems.push(explained(text, error, Some(error.policy_id())));
    }
    for warning in result.validation_warnings() {
        let problem = explained(text, warning, Some(warning.policy_id()));
        if matches!(warning, ValidationWarning::MixedScriptString(_)) {
            warnings.push(problem);
        } else if !at_fault.contains(warning.policy_id()) {
            // A statement that can never hold protects from nothing. Of one that is wrong anyway it says nothing new.
            problems.push(problem);
        }
    }
}

/// What to do about complaints of which Cedar itself does not say, or says it in its own terms.
const HINTS: [(&str, &str); 8] = [
    ("found set of entity uids", "the head takes one; write `when { resource in […] }`"),
    ("policy is impossible", "delete it, or correct its condition"),
    ("contains mixed scripts", "spell it in one if it is not meant"),
    ("empty set literals", "use `.isEmpty()`"),
    ("and Channel are not", "write a channel as `Channel::\"web\"`"),
    ("and Effect are not", "write an effect as `Effect::\"reads\"` or `Effect::\"writes\"`"),
    ("and Sink are not", "write a sink as `Sink::\"recipient\"`"),
    ("and Origin are not", "write an origin as `Origin::\"user\"`"),
];

/// One of Cedar's complaints, in one line.
fn explained(
    text: &str,
    error: &(impl Diagnostic + fmt::Display + ?Sized),
    policy: Option<&PolicyId>,
) -> Problem {
    let label = error.labels().and_then(|mut labels| labels.next());
    let own_hint =
        |(sign, hint): &(&str, &str)| error.to_string().contains(sign).then(|| (*hint).to_owned());
    let hint =
        HINTS.iter().find_map(own_hint).or_else(|| error.help().map(|help| help.to_string()));
    let hint = hint.or_else(|| label.as_ref().and_then(|label| label.label().map(str::to_owned)));
    let error = error.to_string();
    let said = match (error.split_once(" is of an enumerated entity type"), hint) {
        (Some((name, _)), Some(hint)) => {
            format!(
                "{name} does not exist; use one of {}",
                hint.trim_start_matches("valid entity eids: ")
            )
        }
        (_, Some(hint)) => format!("{error}; {hint}"),
        (_, None) => error,
    };
    let about = policy.map(|id| format!("policy `{id}`"));
    let said = match &about {
        None => said,
        // It stands in front already.
        Some(about) => {
            said.replace(&format!("for {about}, "), "").replace(&format!("for {about}: "), "")
        }
    };
    let problem = Problem { at: None, about, what: one_line(&said) };
    match label {
        Some(label) => problem.at(text, label.offset()),
        None => problem,
    }
}
