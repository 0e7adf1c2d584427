//! JSON text into a value, refusing what two readers could read differently.
//!
//! The I-JSON profile (RFC 7493): no key twice in an object, no lone surrogate, and in
//! tool arguments no number that a double would round.

use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::excerpt::excerpt;

/// Levels of arrays and objects. Below `serde_json`'s own 128, so that the message is ours.
pub(crate) const MAX_DEPTH: usize = 100;

/// Why a text is not JSON as a trace may hold it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonProblem {
    /// The text ends inside a value.
    #[error("the JSON is cut off; write it out to its end")]
    Truncated,
    /// The text is not JSON.
    #[error("not JSON at byte `{column}` ({reason}); write exactly one JSON value")]
    Syntax {
        /// From 1.
        column: usize,
        /// The parser's words.
        reason: String,
    },
    /// Arrays and objects are nested too deeply.
    #[error("nested deeper than `{limit}` levels; flatten it")]
    TooDeep {
        /// The levels allowed.
        limit: usize,
    },
    /// One line holds too many values.
    #[error("the line holds more than `{limit}` JSON values; split it over several lines")]
    TooManyValues {
        /// The values allowed.
        limit: usize,
    },
    /// An object has a key twice.
    #[error(
        "the key `{key}` stands twice in one object and readers disagree which counts; keep one"
    )]
    DuplicateKey {
        /// The key, fit to show.
        key: String,
    },
    /// A number in tool arguments would be rounded.
    #[error("the number `{number}` is too large to be exact; write it as a string")]
    InexactNumber {
        /// The number as read, fit to show.
        number: String,
    },
}

/// Which numbers a text may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Any that a double can come near.
    Any,
    /// None beyond ±(2^53 - 1). Doubles that large are all integers, whose neighbours
    /// are lost.
    Exact,
}

/// How many values a line may still hold.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    left: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, left: limit }
    }

    /// Accounts for one value.
    pub(crate) fn spend(&mut self) -> Result<(), JsonProblem> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(JsonProblem::TooManyValues { limit: self.limit }),
        }
    }
}

/// Parses one JSON value and nothing after it.
///
/// # Errors
/// The text is not I-JSON, or exceeds a limit.
pub(crate) fn parse(
    text: &str,
    numbers: Numbers,
    budget: &mut Budget,
) -> Result<Value, JsonProblem> {
    let mut walk = Walk { numbers, budget, refusal: None };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed = Node { walk: &mut walk, depth: 0 }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    parsed.map_err(|error| walk.refusal.take().unwrap_or_else(|| syntax_problem(text, &error)))
}

/// Whether a number is within ±(2^53 - 1). The next double, 2^53, is also what the
/// integer after it is rounded to.
pub(crate) fn is_exact(number: &Number) -> bool {
    number.as_f64().is_some_and(|value| value.abs() < 9_007_199_254_740_992.0)
}

fn syntax_problem(text: &str, error: &serde_json::Error) -> JsonProblem {
    if error.is_eof() {
        return JsonProblem::Truncated;
    }
    let lines_before = error.line().saturating_sub(1);
    let bytes_before: usize = text.split_inclusive('\n').take(lines_before).map(str::len).sum();
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let reason = message.strip_suffix(&place).unwrap_or(&message).to_owned();
    JsonProblem::Syntax { column: bytes_before + error.column(), reason }
}

/// What one parse shares over all its values.
struct Walk<'a> {
    numbers: Numbers,
    budget: &'a mut Budget,
    /// Our reason to stop, where it was not the parser's.
    refusal: Option<JsonProblem>,
}

impl Walk<'_> {
    fn refuse<E: serde::de::Error>(&mut self, problem: JsonProblem) -> E {
        self.refusal = Some(problem);
        E::custom("refused")
    }
}

/// One value, `depth` levels down.
struct Node<'w, 'b> {
    walk: &'w mut Walk<'b>,
    depth: usize,
}

impl<'b> Node<'_, 'b> {
    fn enter<E: serde::de::Error>(&mut self) -> Result<(), E> {
        if self.depth == MAX_DEPTH {
            return Err(self.walk.refuse(JsonProblem::TooDeep { limit: MAX_DEPTH }));
        }
        Ok(())
    }

    fn inner(&mut self) -> Node<'_, 'b> {
        Node { walk: self.walk, depth: self.depth + 1 }
    }

    fn number<E: serde::de::Error>(self, number: Number) -> Result<Value, E> {
        match self.walk.numbers {
            Numbers::Exact if !is_exact(&number) => {
                let number = excerpt(&number.to_string());
                Err(self.walk.refuse(JsonProblem::InexactNumber { number }))
            }
            Numbers::Exact | Numbers::Any => Ok(Value::Number(number)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        if let Err(problem) = self.walk.budget.spend() {
            return Err(self.walk.refuse(problem));
        }
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.number(Number::from(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.number(Number::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("number out of range"))?;
        self.number(number)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self.inner())? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if object.contains_key(&key) {
                let key = excerpt(&key);
                return Err(self.walk.refuse(JsonProblem::DuplicateKey { key }));
            }
            let value = members.next_value_seed(self.inner())?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str, numbers: Numbers) -> String {
        match parse(text, numbers, &mut Budget::new(1000)) {
            Ok(value) => value.to_string(),
            Err(problem) => problem.to_string(),
        }
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        let twice =
            "the key `a` stands twice in one object and readers disagree which counts; keep one";
        let cut_off = "the JSON is cut off; write it out to its end";
        let cases = [
            (r#" {"a":[1,-2,0.5,"x",true,null]} "#, r#"{"a":[1,-2,0.5,"x",true,null]}"#),
            (r#""\ud83d\ude00""#, "\"😀\""),
            (r#"{"a":1,"a":1}"#, twice),
            (r#"{"a":1,"\u0061":2}"#, twice),
            (r#"[{"b":{"a":1,"a":2}}]"#, twice),
            (r#"{"a":{},"b":{"a":1}}"#, r#"{"a":{},"b":{"a":1}}"#),
            (r#"{"a""#, cut_off),
            (r#"{"a":"b"#, cut_off),
            (r#"{"a":"b\"#, cut_off),
            ("[1,", cut_off),
            ("", cut_off),
            (
                r#"{"a":1}}"#,
                "not JSON at byte `8` (trailing characters); write exactly one JSON value",
            ),
            (
                "[1,\n2]\n x",
                "not JSON at byte `9` (trailing characters); write exactly one JSON value",
            ),
            (
                r#""\ud83dx""#,
                "not JSON at byte `8` (unexpected end of hex escape); write exactly one JSON value",
            ),
            (
                r#""\ude00""#,
                "not JSON at byte `7` (lone leading surrogate in hex escape); write exactly one JSON value",
            ),
            ("1e400", "not JSON at byte `5` (number out of range); write exactly one JSON value"),
            ("NaN", "not JSON at byte `1` (expected value); write exactly one JSON value"),
        ];
        for (text, expected) in cases {
            assert_eq!(outcome(text, Numbers::Any), expected, "{text}");
        }
    }

    #[test]
    fn numbers_that_a_double_rounds_are_refused_where_they_must_be_exact() {
        let cases = [
            ("9007199254740991", true),
            ("-9007199254740991", true),
            ("9007199254740992", false),
            ("-9007199254740992", false),
            ("9007199254740993.0", false),
            ("18446744073709551615", false),
            ("123456789012345678901234567890", false),
            ("1e300", false),
            ("0.1", true),
            ("1e-300", true),
            (r#"{"deep":[{"n":9007199254740993}]}"#, false),
        ];
        for (text, exact) in cases {
            let parsed = parse(text, Numbers::Exact, &mut Budget::new(10));
            assert_eq!(parsed.is_ok(), exact, "{text}: {parsed:?}");
            assert!(parse(text, Numbers::Any, &mut Budget::new(10)).is_ok(), "{text}");
        }
        assert_eq!(
            outcome("9007199254740993", Numbers::Exact),
            "the number `9007199254740993` is too large to be exact; write it as a string"
        );
    }

    #[test]
    fn depth_is_bounded_whatever_is_nested() {
        let nested =
            |open: &str, close: &str, depth| open.repeat(depth) + "0" + &close.repeat(depth);
        let pairs = [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")];
        let refused = "nested deeper than `100` levels; flatten it";
        for (open, close) in pairs {
            assert_eq!(outcome(&nested(open, close, 10_000), Numbers::Any), refused);
            assert_eq!(outcome(&open.repeat(10_000), Numbers::Any), refused);
        }
        assert_eq!(outcome(&nested("[", "]", 101), Numbers::Any), refused);
        assert_eq!(outcome(&nested("[", "]", 100), Numbers::Any), nested("[", "]", 100));
    }

    #[test]
    fn a_line_holds_no_more_values_than_its_budget() {
        let mut budget = Budget::new(5);
        assert!(parse("[1,[]]", Numbers::Any, &mut budget).is_ok());
        assert!(parse("[1]", Numbers::Any, &mut budget).is_ok());
        assert_eq!(
            parse("0", Numbers::Any, &mut budget),
            Err(JsonProblem::TooManyValues { limit: 5 })
        );
    }
}
