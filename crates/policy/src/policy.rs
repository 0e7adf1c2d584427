//! A policy: Cedar statements, validated against the schema.

use std::collections::BTreeSet;
use std::fmt;

use cedar_policy::{Effect, PolicyId, PolicySet};
use custody_log::Digest;

use crate::limits;
use crate::problem::{PolicyProblem, listed};
use crate::schema::{MixedVersions, SchemaVersion};
use crate::statement::{Statement, statements};
use crate::uses::Uses;
use crate::validate::{parse_problems, validate};

/// The text of the policy that Custody starts with.
pub const STANDARD: &str = include_str!("standard.cedar");

/// The texts that earlier versions started with. Records and certificates of then name them, so they stay readable.
const FORMERLY_STANDARD: [&str; 1] = [include_str!("shipped/1.cedar")];

/// A parsed and validated policy. One text holds many statements; Cedar calls each of them a policy.
#[derive(Clone)]
pub struct Policy {
    text: String,
    version: Digest,
    statements: Vec<Statement>,
    warnings: Vec<PolicyProblem>,
    // Two sets, because Cedar reports only the statements that determine its own answer: with a `forbid` in force it
    // does not report which `permit` held.
    permits: PolicySet,
    forbids: PolicySet,
    schema: SchemaVersion,
    uses: Uses,
}

/// Every problem of a policy, one line each, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(.0))]
pub struct PolicyError(Vec<PolicyProblem>);

impl PolicyError {
    /// The problems; at least one.
    pub fn problems(&self) -> &[PolicyProblem] {
        &self.0
    }
}

impl From<PolicyProblem> for PolicyError {
    fn from(problem: PolicyProblem) -> Self {
        Self(vec![problem])
    }
}

impl Policy {
    /// Parses a policy and validates it against the schema.
    ///
    /// # Errors
    /// Every problem, with its place.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        limits::check(text)?;
        let set: PolicySet =
            text.parse().map_err(|errors| PolicyError(parse_problems(text, &errors)))?;
        let statements = statements(text, &set).map_err(PolicyError)?;
        let schema = SchemaVersion::of(&set).map_err(mixed_versions)?;
        let (permits, forbids) = split_by_effect(&set, &statements);
        let (mut problems, mut warnings) = (Vec::new(), Vec::new());
        for side in [&permits, &forbids] {
            validate(text, schema, side, &mut problems, &mut warnings);
        }
        if !problems.is_empty() {
            problems.sort_by_key(|problem| problem.at);
            return Err(PolicyError(problems));
        }
        if schema == SchemaVersion::Earlier {
            warnings.push(PolicyProblem::new(
                "`unsaid` is the earlier name of `not_from_user`; write `not_from_user`",
            ));
        }
        Ok(Self {
            text: text.to_owned(),
            version: Digest::of(text.as_bytes()),
            statements,
            warnings,
            uses: Uses::of([&permits, &forbids]),
            permits,
            forbids,
            schema,
        })
    }

    /// The policy that Custody starts with.
    pub fn standard() -> Self {
        Self::parse(STANDARD).expect("the tests read the shipped policy")
    }

    /// Whether Custody starts with the policy of this version, or an earlier version did.
    pub fn is_shipped(version: Digest) -> bool {
        Self::shipped_versions().any(|shipped| shipped == version)
    }

    /// The versions of the policies that Custody starts with, or earlier versions did; today's first.
    pub fn shipped_versions() -> impl Iterator<Item = Digest> {
        shipped_texts().map(|text| Digest::of(text.as_bytes()))
    }

    /// The policy of this version that Custody starts with, or an earlier version did.
    pub fn shipped(version: Digest) -> Option<Self> {
        let text = shipped_texts().find(|text| Digest::of(text.as_bytes()) == version)?;
        Self::parse(text).ok()
    }

    /// SHA-256 of the text, by which approvals and records refer to the policy.
    pub const fn version(&self) -> Digest {
        self.version
    }

    /// The exact text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The statements, in the order of the text.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// What is valid and probably a mistake: words in two scripts, and attributes under an earlier name.
    pub fn warnings(&self) -> &[PolicyProblem] {
        &self.warnings
    }

    /// The tools and groups that the policy names. One that no manifest describes is probably misspelt.
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

    pub(crate) const fn schema(&self) -> SchemaVersion {
        self.schema
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

/// The names in a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mentions {
    /// As in `Tool::"…"`.
    pub tools: BTreeSet<String>,
    /// As in `Group::"…"`.
    pub groups: BTreeSet<String>,
}

fn mixed_versions(_: MixedVersions) -> PolicyProblem {
    PolicyProblem::new(
        "`unsaid` is the earlier name of `not_from_user`, and a policy uses one of them; write `not_from_user` everywhere",
    )
}

/// The `permit` statements and the `forbid` statements, under their own ids.
fn shipped_texts() -> impl Iterator<Item = &'static str> {
    [STANDARD].into_iter().chain(FORMERLY_STANDARD)
}

fn split_by_effect(set: &PolicySet, statements: &[Statement]) -> (PolicySet, PolicySet) {
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
