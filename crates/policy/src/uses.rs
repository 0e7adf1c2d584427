//! The parts of the context that a policy reads. The others are not built, because no statement depends on them.

use std::collections::BTreeSet;

use cedar_policy::PolicySet;
use serde_json::{Value, json};

/// The parts of the context that a statement reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Uses {
    /// Any of them.
    All,
    /// These only.
    Only(BTreeSet<String>),
}

impl Uses {
    /// The parts that the statements of both sets read.
    pub(crate) fn of(sides: [&PolicySet; 2]) -> Self {
        let mut names = BTreeSet::new();
        for policy in sides.into_iter().flat_map(PolicySet::policies) {
            let is_plain = policy.to_json().is_ok_and(|json| collect(&json, &mut names));
            if !is_plain {
                return Self::All;
            }
        }
        Self::Only(names)
    }

    /// Whether a statement may read the part `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

/// Collects the attributes of `context` in an expression. Returns whether the context is used in no other way.
fn collect(expression: &Value, names: &mut BTreeSet<String>) -> bool {
    match expression {
        Value::Object(members) => members.iter().all(|(operator, operands)| {
            let is_access = matches!(operator.as_str(), "." | "has");
            match (operands.get("left"), operands.get("attr").and_then(Value::as_str)) {
                (Some(left), Some(attribute))
                    if is_access && *left == json!({ "Var": "context" }) =>
                {
                    names.insert(attribute.to_owned());
                    true
                }
                _ => !(operator == "Var" && operands == "context") && collect(operands, names),
            }
        }),
        Value::Array(items) => items.iter().all(|item| collect(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(condition: &str) -> Uses {
        let text = format!("permit (principal, action, resource) when {{ {condition} }};");
        Uses::of([&text.parse().unwrap(), &PolicySet::new()])
    }

    #[test]
    fn what_is_named_is_found_however_it_is_spelled() {
        let cases: [(&str, &[&str]); 6] = [
            ("true", &[]),
            ("context.tainted", &["tainted"]),
            ("context[\"t\\u{61}inted\"] && context.ids.all.isEmpty()", &["ids", "tainted"]),
            ("context has amount", &["amount"]),
            ("{tainted: context.paths}.tainted.all.contains(\"context\")", &["paths"]),
            (
                "if context.amount > 1 then context.arguments.hasTag(\"ids\") else true",
                &["amount", "arguments"],
            ),
        ];
        for (condition, names) in cases {
            let expected = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(uses(condition), Uses::Only(expected), "{condition}");
        }
    }

    #[test]
    fn a_context_that_is_used_as_a_whole_is_needed_as_a_whole() {
        for condition in [
            "context == context",
            "(if context.tainted then context else context).tainted",
            "{a: context}.a.tainted",
            "[context].contains({})",
        ] {
            assert_eq!(uses(condition), Uses::All, "{condition}");
        }
    }
}
