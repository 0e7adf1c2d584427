//! Python literals, in which InjecAgent writes the parameters of its calls.

use serde_json::{Map, Number, Value};

/// Reads a dictionary, list, string, number, `True`, `False` or `None`. Nothing when it is anything else.
pub(super) fn parse(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text };
    let value = reader.value(0)?;
    reader.blanks();
    reader.rest.is_empty().then_some(value)
}

/// Deeper values are none: nobody writes them by hand.
const MAX_DEPTH: usize = 16;

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn takes(&mut self, sign: &str) -> bool {
        self.blanks();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        for (word, value) in
            [("True", Value::Bool(true)), ("False", Value::Bool(false)), ("None", Value::Null)]
        {
            if self.takes(word) {
                return Some(value);
            }
        }
        if self.takes("{") {
            return self.dictionary(depth);
        }
        if self.takes("[") {
            return self.list(depth);
        }
        match self.rest.chars().next()? {
            '\'' | '"' => self.string().map(Value::String),
            _ => self.number(),
        }
    }

    fn dictionary(&mut self, depth: usize) -> Option<Value> {
        let mut object = Map::new();
        while !self.takes("}") {
            self.blanks();
            let name = self.string()?;
            if !self.takes(":") {
                return None;
            }
            object.insert(name, self.value(depth + 1)?);
            if !self.takes(",") && !self.rest.starts_with('}') {
                return None;
            }
        }
        Some(Value::Object(object))
    }

    fn list(&mut self, depth: usize) -> Option<Value> {
        let mut items = Vec::new();
        while !self.takes("]") {
            items.push(self.value(depth + 1)?);
            if !self.takes(",") && !self.rest.starts_with(']') {
                return None;
            }
        }
        Some(Value::Array(items))
    }

    fn string(&mut self) -> Option<String> {
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let mut text = String::new();
        let mut signs = self.rest.char_indices().skip(1);
        while let Some((at, c)) = signs.next() {
            match c {
                '\\' => match signs.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    other => text.push(other),
                },
                c if c == quote => {
                    self.rest = self.rest.get(at + 1..)?;
                    return Some(text);
                }
                c => text.push(c),
            }
        }
        None
    }

    fn number(&mut self) -> Option<Value> {
        let end = self.rest.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c)));
        let end = end.unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        let whole = number.parse::<i64>().ok().map(Number::from);
        whole.or_else(|| Number::from_f64(number.parse().ok()?)).map(Value::Number)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn literals_are_read_and_code_is_not() {
        let cases = [
            (
                "{'a': 'it\\'s', \"b\": [1, -2.5, True, None], }",
                Some(json!({ "a": "it's", "b": [1, -2.5, true, null] })),
            ),
            ("{}", Some(json!({}))),
            ("[{'x': {}}]", Some(json!([{ "x": {} }]))),
            ("__import__('os')", None),
            ("{'a' 1}", None),
            ("{'a': 1", None),
            ("'open", None),
            ("1 2", None),
        ];
        for (text, value) in cases {
            assert_eq!(parse(text), value, "{text}");
        }
        assert_eq!(parse(&"[".repeat(100)), None);
    }
}
