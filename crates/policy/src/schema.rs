//! The Cedar schema, and the names that its earlier version had.
//!
//! The attribute `not_from_user` was called `unsaid`. Policies that stores recorded under that name are read and
//! evaluated as before: a policy that names `unsaid` anywhere is checked against the earlier schema, and sees the
//! values under that name alone.

use std::sync::LazyLock;

use cedar_policy::{PolicySet, Schema, Validator};
use serde_json::Value;

/// What a policy can refer to, as Cedar reads it.
pub const SCHEMA: &str = include_str!("custody.cedarschema");

/// The attribute that holds the values which did not come from the user.
const NOT_FROM_USER: &str = "not_from_user";
/// What the attribute was called before.
const UNSAID: &str = "unsaid";

static CURRENT: LazyLock<Validator> = LazyLock::new(|| validator(SCHEMA));
static EARLIER: LazyLock<Validator> =
    LazyLock::new(|| validator(&SCHEMA.replace(NOT_FROM_USER, UNSAID)));

fn validator(schema: &str) -> Validator {
    let (schema, _) =
        Schema::from_cedarschema_str(schema).expect("the tests read both versions of the schema");
    Validator::new(schema)
}

/// The version of the schema that a policy was written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaVersion {
    /// With `unsaid`.
    Earlier,
    /// With `not_from_user`.
    Current,
}

/// A policy that names an attribute by both its names, so that no version of the schema fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MixedVersions;

impl SchemaVersion {
    /// The version that the policies of `set` were written for.
    ///
    /// It is decided by the names in the text, never by trying: under the current schema `has unsaid` is valid and
    /// false, so a prohibition could pass validation and lose its effect.
    pub(crate) fn of(set: &PolicySet) -> Result<Self, MixedVersions> {
        match (names(set, UNSAID), names(set, NOT_FROM_USER)) {
            (true, true) => Err(MixedVersions),
            (true, false) => Ok(Self::Earlier),
            (false, _) => Ok(Self::Current),
        }
    }

    pub(crate) fn validator(self) -> &'static Validator {
        match self {
            Self::Earlier => &EARLIER,
            Self::Current => &CURRENT,
        }
    }

    /// The name of the attribute that holds the values which did not come from the user.
    pub(crate) const fn not_from_user(self) -> &'static str {
        match self {
            Self::Earlier => UNSAID,
            Self::Current => NOT_FROM_USER,
        }
    }
}

/// Whether a statement of `set` names `attribute`. One that has no JSON form counts as naming every attribute.
fn names(set: &PolicySet, attribute: &str) -> bool {
    set.policies().any(|policy| policy.to_json().map_or(true, |json| has_name(&json, attribute)))
}

/// Whether `attribute` is accessed, tested for or the key of a record in an expression, however the text spells it. A
/// string value does not count.
fn has_name(expression: &Value, attribute: &str) -> bool {
    match expression {
        Value::Object(members) => members.iter().any(|(key, value)| {
            key == attribute || (key == "attr" && value == attribute) || has_name(value, attribute)
        }),
        Value::Array(items) => items.iter().any(|item| has_name(item, attribute)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(condition: &str) -> Result<SchemaVersion, MixedVersions> {
        let text = format!("permit (principal, action, resource) when {{ {condition} }};");
        SchemaVersion::of(&text.parse().unwrap())
    }

    #[test]
    fn a_policy_that_names_the_earlier_attribute_is_of_the_earlier_schema() {
        for condition in [
            "context.ids.unsaid.isEmpty()",
            "context.ids[\"uns\\u{61}id\"].isEmpty()",
            "context.amount > 5 || context.ids has unsaid",
            "context.ids == {all: [\"a\"], unsaid: [\"a\"]}",
            "if context.tainted then context.arguments.unsaid.isEmpty() else true",
        ] {
            assert_eq!(version(condition), Ok(SchemaVersion::Earlier), "{condition}");
        }
    }

    #[test]
    fn every_other_policy_is_of_the_current_schema() {
        for condition in [
            "true",
            "context.ids.not_from_user.isEmpty()",
            "context.ids.all.contains(\"unsaid\")",
            "context.arguments.hasTag(\"unsaid\")",
            "resource.name like \"unsaid*\"",
        ] {
            assert_eq!(version(condition), Ok(SchemaVersion::Current), "{condition}");
        }
    }

    #[test]
    fn a_policy_with_both_names_fits_no_version() {
        let both = "context.ids.unsaid.isEmpty() && context.urls.not_from_user.isEmpty()";
        assert_eq!(version(both), Err(MixedVersions));
    }

    #[test]
    fn both_versions_of_the_schema_can_be_read() {
        for version in [SchemaVersion::Earlier, SchemaVersion::Current] {
            let attribute = version.not_from_user();
            let text = format!(
                "permit (principal, action, resource) when {{ context.ids.{attribute}.isEmpty() }};"
            );
            let set: PolicySet = text.parse().unwrap();
            let result = version.validator().validate(&set, cedar_policy::ValidationMode::Strict);
            assert!(result.validation_passed(), "{version:?}: {result}");
        }
    }
}
