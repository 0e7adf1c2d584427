//! The arguments of a call: an I-JSON object, in its one canonical form.
//!
//! What an approval binds to and what runs are the same bytes (RFC 8785). Whatever two readers could take
//! for two things is refused before it is made canonical: a name twice, an integer that a double cannot
//! hold, text that is no Unicode (RFC 7493).

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The longest arguments that are looked at, in bytes of JSON.
pub const MAX_ARGUMENT_BYTES: usize = 1 << 20;
/// The largest integer that every reader of JSON tells from its neighbours: 2⁵³ − 1.
const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Arguments in canonical form.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    object: Map<String, Value>,
    canonical: String,
}

/// Why something cannot be the arguments of a call.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentsError {
    /// Too long.
    #[error("the arguments have {0} bytes, at most {MAX_ARGUMENT_BYTES} are read; send less")]
    TooLong(usize),
    /// Not I-JSON.
    #[error("the arguments are not one JSON object that every reader reads alike")]
    Json(#[source] serde_json::Error),
    /// No object.
    #[error("the arguments are no JSON object; name each of them")]
    NoObject,
}

impl Arguments {
    /// Reads arguments and makes them canonical.
    ///
    /// # Errors
    /// [`ArgumentsError`] when they are too long, no object, or not I-JSON.
    ///
    /// Source: RFC 7493 section 2, RFC 8785; docs/design.md §5.1.
    pub fn parse(json: &str) -> Result<Self, ArgumentsError> {
        if json.len() > MAX_ARGUMENT_BYTES {
            return Err(ArgumentsError::TooLong(json.len()));
        }
        let mut reader = serde_json::Deserializer::from_str(json);
        let value = Strict.deserialize(&mut reader).map_err(ArgumentsError::Json)?;
        reader.end().map_err(ArgumentsError::Json)?;
        let canonical =
            serde_json_canonicalizer::to_string(&value).map_err(ArgumentsError::Json)?;
        // Read back, so that equal arguments have their members in one order, however a map keeps them.
        let value = serde_json::from_str(&canonical).map_err(ArgumentsError::Json)?;
        let Value::Object(object) = value else { return Err(ArgumentsError::NoObject) };
        Ok(Self { object, canonical })
    }

    /// By name.
    pub const fn object(&self) -> &Map<String, Value> {
        &self.object
    }

    /// The bytes that are approved and that run.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }
}

/// Reads a value that is I-JSON.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        if value > MAX_INTEGER {
            return Err(E::custom(format_args!(
                "the integer {value} is beyond 2⁵³; send it as text"
            )));
        }
        Ok(Value::from(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        if value.unsigned_abs() > MAX_INTEGER {
            return Err(E::custom(format_args!(
                "the integer {value} is beyond 2⁵³; send it as text"
            )));
        }
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        #[expect(clippy::cast_precision_loss, reason = "held exactly, that is its point")]
        let is_exact = value.abs() <= MAX_INTEGER as f64;
        let number = Number::from_f64(value).filter(|_| is_exact);
        number.map(Value::Number).ok_or_else(|| {
            E::custom(format_args!("the number {value} is beyond 2⁵³; send it as text"))
        })
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        only_characters(value)?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            only_characters(&name)?;
            let value = members.next_value_seed(Self)?;
            if object.contains_key(&name) {
                return Err(A::Error::custom(format_args!(
                    "`{name}` is named twice; name it once"
                )));
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

const fn is_noncharacter(c: char) -> bool {
    let code = c as u32;
    matches!(code, 0xFDD0..=0xFDEF) || code & 0xFFFE == 0xFFFE
}

/// Refuses the code points that will never be characters, which readers drop or replace.
fn only_characters<E: serde::de::Error>(text: &str) -> Result<(), E> {
    match text.chars().find(|c| is_noncharacter(*c)) {
        None => Ok(()),
        Some(c) => {
            Err(E::custom(format_args!("{} is no character; leave it out", c.escape_unicode())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_arguments_have_equal_bytes() {
        let one = Arguments::parse(r#"{"b": 1.0, "a": ["\u0041", 10]}"#).unwrap();
        let other = Arguments::parse(r#"{ "a":["A",1e1],"b":1 }"#).unwrap();
        assert_eq!(one.canonical(), r#"{"a":["A",10],"b":1}"#);
        assert_eq!(one.canonical(), other.canonical());
        let names = |arguments: &Arguments| arguments.object().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&one), ["a", "b"]);
        assert_eq!(names(&other), ["a", "b"]);
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        let cases = [
            (r#"{"to": "a", "to": "b"}"#, "twice"),
            (r#"{"x": {"to": 1, "\u0074o": 2}}"#, "twice"),
            (r#"{"n": 9007199254740993}"#, "2⁵³"),
            (r#"{"n": -9007199254740993}"#, "2⁵³"),
            (r#"{"n": 18446744073709551616}"#, "2⁵³"),
            (r#"{"n": 9007199254740993.0}"#, "2⁵³"),
            (r#"{"n": 1e400}"#, ""),
            (r#"{"s": "\ud800"}"#, ""),
            (r#"{"s": "\uffff"}"#, "no character"),
            (r#"{"\ufdd0": 1}"#, "no character"),
            ("{\"s\": \"\u{10FFFE}\"}", "no character"),
            (r#"{"a": 1} {"a": 2}"#, ""),
            (r"[1]", ""),
            (r#""text""#, ""),
            ("", ""),
        ];
        for (json, why) in cases {
            let error = Arguments::parse(json).expect_err(json);
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            assert!(cause.unwrap_or_default().contains(why), "{json}: {error:?}");
        }
        assert!(matches!(
            Arguments::parse(&format!(r#"{{"s":"{}"}}"#, "x".repeat(MAX_ARGUMENT_BYTES))),
            Err(ArgumentsError::TooLong(_))
        ));
    }
}
