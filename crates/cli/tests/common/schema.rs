//! Our published JSON Schemas, and whether a value is what they describe.

use serde_json::Value;

/// Says nothing about a value.
const WORDS: [&str; 4] = ["$schema", "$defs", "title", "description"];

/// A published schema.
pub struct Schema(Value);

impl Schema {
    pub fn parse(text: &str) -> Self {
        Self(serde_json::from_str(text).expect("a schema is JSON"))
    }

    /// Whether `value` is a `name` of the schema's definitions.
    pub fn is(&self, name: &str, value: &Value) -> bool {
        self.holds(&self.0["$defs"][name], value)
    }

    /// Which one of the kinds of `name` it is. Fails the test unless it is exactly one.
    #[track_caller]
    pub fn kind(&self, name: &str, value: &Value) -> &str {
        let kinds: Vec<&str> =
            self.kinds(name).into_iter().filter(|kind| self.is(kind, value)).collect();
        let [kind] = kinds.as_slice() else { panic!("{kinds:?} of `{name}`: {value}") };
        kind
    }

    /// The kinds that `name` chooses from.
    pub fn kinds(&self, name: &str) -> Vec<&str> {
        let kinds = self.0["$defs"][name]["oneOf"].as_array().expect("a choice");
        kinds.iter().map(|kind| local(kind["$ref"].as_str().expect("a reference"))).collect()
    }

    /// The keywords that our schemas use; another one fails the test, for nobody would have looked at it.
    fn holds(&self, schema: &Value, value: &Value) -> bool {
        let keywords = schema.as_object().expect("a schema is an object");
        keywords.iter().all(|(keyword, says)| match keyword.as_str() {
            "$ref" => self.is(local(says.as_str().expect("a reference")), value),
            "oneOf" => {
                let choices = says.as_array().expect("choices");
                choices.iter().filter(|choice| self.holds(choice, value)).count() == 1
            }
            "type" => match says.as_array() {
                Some(kinds) => kinds.iter().any(|kind| is_of(kind, value)),
                None => is_of(says, value),
            },
            "const" => says == value,
            "enum" => says.as_array().expect("values").contains(value),
            "minimum" => value.as_f64().is_none_or(|number| Some(number) >= says.as_f64()),
            "maximum" => value.as_f64().is_none_or(|number| Some(number) <= says.as_f64()),
            "minItems" => {
                value.as_array().is_none_or(|all| Some(all.len() as u64) >= says.as_u64())
            }
            "maxItems" => {
                value.as_array().is_none_or(|all| Some(all.len() as u64) <= says.as_u64())
            }
            "pattern" => value.as_str().is_some_and(|text| matches(says, text)),
            "items" => {
                value.as_array().is_none_or(|all| all.iter().all(|one| self.holds(says, one)))
            }
            "required" => {
                let names = says.as_array().expect("names");
                names.iter().all(|name| value.get(name.as_str().expect("a name")).is_some())
            }
            "properties" => says.as_object().expect("properties").iter().all(|(name, schema)| {
                value.get(name).is_none_or(|member| self.holds(schema, member))
            }),
            "additionalProperties" => value.as_object().is_none_or(|members| {
                let known = |name: &String| schema["properties"].get(name).is_some();
                let others = members.iter().filter(|(name, _)| !known(name));
                let mut others = others.map(|(_, member)| member);
                if says.is_object() {
                    others.all(|member| self.holds(says, member))
                } else {
                    others.next().is_none()
                }
            }),
            word => {
                assert!(WORDS.contains(&word), "the keyword `{word}` is not checked");
                true
            }
        })
    }
}

fn local(reference: &str) -> &str {
    reference.strip_prefix("#/$defs/").expect("a definition of this schema")
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("null") => value.is_null(),
        _ => panic!("the type {kind} is not checked"),
    }
}

/// `^`, a beginning, and so many hexadecimal digits.
fn matches(pattern: &Value, text: &str) -> bool {
    let pattern = pattern.as_str().and_then(|pattern| pattern.strip_prefix('^'));
    let (beginning, rest) =
        pattern.and_then(|p| p.split_once("[0-9a-f]{")).expect("a known pattern");
    let digits: usize = rest.strip_suffix("}$").expect("a known pattern").parse().expect("a count");
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.strip_prefix(beginning)
        .is_some_and(|rest| rest.len() == digits && rest.bytes().all(is_digit))
}
