//! A Python dict, as `repr` prints it, into JSON arguments.
//!
//! A strict subset: dicts with string keys, lists, strings, integers, floats, `True`,
//! `False` and `None`. What Python would read in a surprising way (an unknown escape,
//! strings side by side, a leading zero) is refused. So is what JSON arguments may not
//! hold: a key twice, a lone surrogate, a number that a double would round.

use std::iter::Peekable;
use std::str::CharIndices;

use serde_json::{Map, Number, Value};

use crate::excerpt::excerpt;
use crate::json::{Budget, JsonProblem, MAX_DEPTH, is_exact};

/// Why a text is not a Python dict that arguments can be read from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PythonProblem {
    /// The text leaves the subset.
    #[error("byte `{column}`: expected {expected}; write a plain Python dict")]
    Syntax {
        /// From 1.
        column: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// JSON arguments may not hold it either.
    #[error("{0}")]
    Json(JsonProblem),
}

/// Parses one dict and nothing after it.
///
/// # Errors
/// The text leaves the subset or exceeds a limit.
pub(super) fn parse_dict(
    text: &str,
    budget: &mut Budget,
) -> Result<Map<String, Value>, PythonProblem> {
    let mut parser = Parser { text, rest: text.char_indices().peekable(), budget };
    let dict = match parser.value(0)? {
        Value::Object(dict) => dict,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(PythonProblem::Syntax { column: 1, expected: "a dict" });
        }
    };
    match parser.skip_space() {
        None => Ok(dict),
        Some(_) => Err(parser.expected("the end")),
    }
}

struct Parser<'t, 'b> {
    text: &'t str,
    rest: Peekable<CharIndices<'t>>,
    budget: &'b mut Budget,
}

impl<'t> Parser<'t, '_> {
    fn value(&mut self, depth: usize) -> Result<Value, PythonProblem> {
        self.budget.spend().map_err(PythonProblem::Json)?;
        match self.skip_space() {
            Some('{') => self.dict(depth).map(Value::Object),
            Some('[') => self.list(depth).map(Value::Array),
            Some('\'' | '"') => self.string().map(Value::String),
            Some('-' | '0'..='9') => self.number(),
            Some('A'..='Z') => self.constant(),
            _ => Err(self.expected("a value")),
        }
    }

    fn dict(&mut self, depth: usize) -> Result<Map<String, Value>, PythonProblem> {
        self.open(depth)?;
        let mut dict = Map::new();
        if self.skip_space() == Some('}') {
            self.rest.next();
            return Ok(dict);
        }
        loop {
            let Some('\'' | '"') = self.skip_space() else {
                return Err(self.expected("a string as key"));
            };
            let key = self.string()?;
            if dict.contains_key(&key) {
                let key = excerpt(&key);
                return Err(PythonProblem::Json(JsonProblem::DuplicateKey { key }));
            }
            let Some(':') = self.skip_space() else {
                return Err(self.expected("`:`"));
            };
            self.rest.next();
            let value = self.value(depth + 1)?;
            dict.insert(key, value);
            if self.closes('}', "`,` or `}`")? {
                return Ok(dict);
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Value>, PythonProblem> {
        self.open(depth)?;
        let mut list = Vec::new();
        if self.skip_space() == Some(']') {
            self.rest.next();
            return Ok(list);
        }
        loop {
            list.push(self.value(depth + 1)?);
            if self.closes(']', "`,` or `]`")? {
                return Ok(list);
            }
        }
    }

    /// Takes the opening bracket.
    fn open(&mut self, depth: usize) -> Result<(), PythonProblem> {
        if depth == MAX_DEPTH {
            return Err(PythonProblem::Json(JsonProblem::TooDeep { limit: MAX_DEPTH }));
        }
        self.rest.next();
        Ok(())
    }

    /// Takes a comma (`false`) or the closing bracket (`true`).
    fn closes(&mut self, bracket: char, expected: &'static str) -> Result<bool, PythonProblem> {
        match self.skip_space() {
            Some(',') => {
                self.rest.next();
                Ok(false)
            }
            Some(found) if found == bracket => {
                self.rest.next();
                Ok(true)
            }
            _ => Err(self.expected(expected)),
        }
    }

    fn string(&mut self) -> Result<String, PythonProblem> {
        let Some((_, quote)) = self.rest.next() else {
            return Err(self.expected("a string"));
        };
        let mut string = String::new();
        loop {
            match self.peek() {
                None | Some('\n' | '\r') => return Err(self.expected("the closing quote")),
                Some('\\') => {
                    self.rest.next();
                    string.push(self.escaped()?);
                }
                Some(character) => {
                    self.rest.next();
                    if character == quote {
                        return Ok(string);
                    }
                    string.push(character);
                }
            }
        }
    }

    /// What stands after a backslash.
    fn escaped(&mut self) -> Result<char, PythonProblem> {
        let plain = match self.peek() {
            Some(same @ ('\\' | '\'' | '"')) => same,
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('v') => '\u{b}',
            Some('x') => return self.hexadecimal(2),
            Some('u') => return self.hexadecimal(4),
            Some('U') => return self.hexadecimal(8),
            _ => return Err(self.expected("a known escape")),
        };
        self.rest.next();
        Ok(plain)
    }

    /// The escape's letter and its digits.
    fn hexadecimal(&mut self, digits: usize) -> Result<char, PythonProblem> {
        self.rest.next();
        let mut code: u32 = 0;
        for _ in 0..digits {
            let Some(digit) = self.peek().and_then(|character| character.to_digit(16)) else {
                return Err(self.expected("a hexadecimal digit"));
            };
            self.rest.next();
            // Eight digits of four bits fill a `u32` exactly.
            code = code << 4 | digit;
        }
        char::from_u32(code).ok_or_else(|| self.expected("an escape of a whole character before"))
    }

    fn number(&mut self) -> Result<Value, PythonProblem> {
        let literal = self.word(|c| matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        // Python's and JSON's decimal literals differ in what JSON lacks: `1.`, `.5`, `1_0`.
        let number: Number =
            serde_json::from_str(literal).map_err(|_| self.expected("a number before"))?;
        if !is_exact(&number) {
            let number = excerpt(literal);
            return Err(PythonProblem::Json(JsonProblem::InexactNumber { number }));
        }
        Ok(Value::Number(number))
    }

    fn constant(&mut self) -> Result<Value, PythonProblem> {
        match self.word(|c| c.is_alphanumeric() || c == '_') {
            "True" => Ok(Value::Bool(true)),
            "False" => Ok(Value::Bool(false)),
            "None" => Ok(Value::Null),
            _ => Err(self.expected("`True`, `False` or `None` before")),
        }
    }

    /// The longest run of characters that belong.
    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        let start = self.offset();
        while self.peek().is_some_and(&belongs) {
            self.rest.next();
        }
        self.text.get(start..self.offset()).unwrap_or_default()
    }

    /// Skips white space. Returns the character after it, not taken.
    fn skip_space(&mut self) -> Option<char> {
        while let Some(' ' | '\t' | '\n' | '\r') = self.peek() {
            self.rest.next();
        }
        self.peek()
    }

    fn peek(&mut self) -> Option<char> {
        self.rest.peek().map(|&(_, character)| character)
    }

    fn offset(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |&(offset, _)| offset)
    }

    fn expected(&mut self, expected: &'static str) -> PythonProblem {
        PythonProblem::Syntax { column: self.offset() + 1, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> String {
        match parse_dict(text, &mut Budget::new(1000)) {
            Ok(dict) => Value::Object(dict).to_string(),
            Err(problem) => problem.to_string(),
        }
    }

    #[test]
    fn a_dict_that_repr_prints_is_read_as_python_reads_it() {
        let cases = [
            ("{}", "{}"),
            (" { } \n", "{}"),
            ("{'id': 'B08'}", r#"{"id":"B08"}"#),
            (r#"{"it's": 'a "b"'}"#, r#"{"it's":"a \"b\""}"#),
            (r"{'a': '\'\\\n\t\x41\u00e9\U0001f600'}", r#"{"a":"'\\\n\tAé😀"}"#),
            (
                "{'a': [1, -2, 0.5, 1e-05, []], 'b': {'c': None}}",
                r#"{"a":[1,-2,0.5,0.00001,[]],"b":{"c":null}}"#,
            ),
            ("{'a': True, 'b': False}", r#"{"a":true,"b":false}"#),
            ("{'a': 9007199254740991}", r#"{"a":9007199254740991}"#),
        ];
        for (text, expected) in cases {
            assert_eq!(outcome(text), expected, "{text}");
        }
    }

    #[test]
    fn what_python_or_json_could_read_otherwise_is_refused() {
        let cases = [
            ("", "byte `1`: expected a value; write a plain Python dict"),
            ("[]", "byte `1`: expected a dict; write a plain Python dict"),
            ("{'a': 1} x", "byte `10`: expected the end; write a plain Python dict"),
            ("{'a': 1", "byte `8`: expected `,` or `}`; write a plain Python dict"),
            ("{'a': 1,}", "byte `9`: expected a string as key; write a plain Python dict"),
            ("{1: 2}", "byte `2`: expected a string as key; write a plain Python dict"),
            ("{'a' 1}", "byte `6`: expected `:`; write a plain Python dict"),
            ("{'a': 'b' 'c'}", "byte `11`: expected `,` or `}`; write a plain Python dict"),
            ("{'a': '''b'''}", "byte `9`: expected `,` or `}`; write a plain Python dict"),
            ("{'a': r'b'}", "byte `7`: expected a value; write a plain Python dict"),
            ("{'a': (1, 2)}", "byte `7`: expected a value; write a plain Python dict"),
            ("{'a': f()}", "byte `7`: expected a value; write a plain Python dict"),
            (r"{'a': '\q'}", "byte `9`: expected a known escape; write a plain Python dict"),
            (r"{'a': '\101'}", "byte `9`: expected a known escape; write a plain Python dict"),
            (r"{'a': '\x4'}", "byte `11`: expected a hexadecimal digit; write a plain Python dict"),
            (
                r"{'a': '\ud800'}",
                "byte `14`: expected an escape of a whole character before; write a plain Python dict",
            ),
            ("{'a': 'b\n'}", "byte `9`: expected the closing quote; write a plain Python dict"),
            ("{'a': 'b", "byte `9`: expected the closing quote; write a plain Python dict"),
            ("{'a': 01}", "byte `9`: expected a number before; write a plain Python dict"),
            ("{'a': 1-1}", "byte `10`: expected a number before; write a plain Python dict"),
            ("{'a': 1e999}", "byte `12`: expected a number before; write a plain Python dict"),
            (
                "{'a': Tru}",
                "byte `10`: expected `True`, `False` or `None` before; write a plain Python dict",
            ),
            (
                "{'a': 9007199254740993}",
                "the number `9007199254740993` is too large to be exact; write it as a string",
            ),
            (
                "{'a': 1, 'a': 2}",
                "the key `a` stands twice in one object and readers disagree which counts; keep one",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(outcome(text), expected, "{text}");
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let refused = "nested deeper than `100` levels; flatten it";
        assert_eq!(outcome(&"{'a':".repeat(500)), refused);
        assert_eq!(outcome(&format!("{{'a':{}", "[".repeat(10_000))), refused);
        let many = format!("{{'a': [{}0]}}", "0,".repeat(2000));
        assert_eq!(
            outcome(&many),
            "the line holds more than `1000` JSON values; split it over several lines"
        );
    }
}
