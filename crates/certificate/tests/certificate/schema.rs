//! The published schema of the predicate has exactly the fields that are written. `integrations/certificates/check.py`
//! validates certificates against it with a validator of JSON Schema.

use std::collections::BTreeSet;

use custody_certificate::certify;
use serde_json::Value;

use crate::fixture::{large, owner_key};
use crate::json::payload;

const SCHEMA: &str = include_str!("../../../../docs/reference/certificate.schema.json");

fn names(value: &Value) -> BTreeSet<&str> {
    match value {
        Value::Object(members) => members.keys().map(String::as_str).collect(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => BTreeSet::new(),
    }
}

/// The schema behind references, and behind `oneOf` with null.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(pointer) = schema["$ref"].as_str() {
        let target = root.pointer(pointer.trim_start_matches('#'));
        return resolved(root, target.unwrap_or_else(|| unreachable!("no `{pointer}`")));
    }
    let some =
        |options: &'a Value| options.as_array()?.iter().find(|option| option["type"] != "null");
    some(&schema["oneOf"]).map_or(schema, |option| resolved(root, option))
}

/// Compares one value with its schema, all the way down. Returns the objects seen, by their fields.
fn compare<'a>(
    root: &'a Value,
    schema: &'a Value,
    value: &'a Value,
    path: &str,
) -> BTreeSet<Vec<&'a str>> {
    let schema = resolved(root, schema);
    match value {
        Value::Object(members) => {
            assert_eq!(names(value), names(&schema["properties"]), "properties of {path}");
            assert_eq!(names(value), names(&schema["required"]), "required of {path}");
            assert_eq!(schema["additionalProperties"], false, "{path}");
            let below = members.iter().flat_map(|(name, member)| {
                compare(root, &schema["properties"][name], member, &format!("{path}/{name}"))
            });
            below.chain([names(value).into_iter().collect()]).collect()
        }
        Value::Array(items) => {
            assert_eq!(schema["type"], "array", "{path}");
            let below = items.iter().flat_map(|item| compare(root, &schema["items"], item, path));
            below.collect()
        }
        Value::String(text) => {
            assert_eq!(schema.get("type").unwrap_or(&"string".into()), "string", "{path}");
            if let Some(options) = schema.get("enum") {
                assert!(names(options).contains(text.as_str()), "{text} at {path}");
            }
            BTreeSet::new()
        }
        Value::Number(_) => {
            let is_number = schema["type"] == "integer" || schema["const"].is_u64();
            assert!(is_number, "{path}");
            BTreeSet::new()
        }
        Value::Null | Value::Bool(_) => BTreeSet::new(),
    }
}

fn objects_of(schema: &Value) -> usize {
    let below = match schema {
        Value::Object(members) => members.values().map(objects_of).sum(),
        Value::Array(items) => items.iter().map(objects_of).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    below + usize::from(schema["type"] == "object")
}

#[test]
fn the_published_schema_has_exactly_the_fields_that_are_written() {
    let root: Value = serde_json::from_str(SCHEMA).unwrap();
    let mut seen = BTreeSet::new();
    let statements = [
        include_str!("../golden/certificate.statement.json"),
        include_str!("../golden/certificate-incomplete.statement.json"),
    ]
    .map(|text| serde_json::from_str::<Value>(text).unwrap());
    let large = certify(&large(1_200, 2), &owner_key()).unwrap();
    let large: Value = serde_json::from_str(&payload(&large)).unwrap();
    seen.extend(compare(&root, &root, &large["predicate"], ""));
    for statement in &statements {
        seen.extend(compare(&root, &root, &statement["predicate"], ""));
    }
    assert_eq!(seen.len(), objects_of(&root), "each object of the schema is in a golden file");
}
