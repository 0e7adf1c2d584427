//! The strings inside structured output, each with its path.
//!
//! Tools answer in JSON or Python literals, and an attack is usually in one field. Screening each field finds attacks
//! that a long answer would dilute, and reports the field.

use std::borrow::Cow;
use std::ops::Range;

use crate::normalise::{Offsets, backslash_at};

/// The greatest depth of nested lists and dicts; a deeper text is one field.
pub const MAX_DEPTH: usize = 64;
/// The most fields of one text; a text with more is one field.
pub const MAX_FIELDS: usize = 65_536;
/// The greatest depth of JSON inside strings of JSON.
const MAX_NESTING: usize = 3;
/// The longest path, in bytes.
const MAX_PATH: usize = 200;
/// The longest name in a path, in characters; longer names are cut.
const MAX_NAME: usize = 40;

/// A string inside a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field<'t> {
    /// Its path, such as `emails[2].body`; empty if the whole text is one field.
    pub path: String,
    /// Its bytes in the whole text, without quotation marks.
    pub span: Range<usize>,
    /// Its value, with escapes decoded.
    pub text: Cow<'t, str>,
    /// The map from `text` to the whole text, unless that only adds `span.start`.
    offsets: Option<Offsets>,
}

impl Field<'_> {
    /// The bytes of the whole text that correspond to bytes `range` of this field.
    #[must_use]
    pub fn original(&self, range: Range<usize>) -> Range<usize> {
        match &self.offsets {
            Some(offsets) => offsets.original(range),
            None => self.clamp(range.start)..self.clamp(range.end),
        }
    }

    fn clamp(&self, offset: usize) -> usize {
        (self.span.start + offset).min(self.span.end)
    }
}

/// The strings of a text in JSON, JSON Lines or Python literals, in order. A string that is such a text itself is
/// replaced by its fields. Names are fields if they contain a space. Any other text, and one that exceeds
/// [`MAX_DEPTH`] or [`MAX_FIELDS`], is one field.
///
/// The time is linear in the text.
#[must_use]
pub fn fields(text: &str) -> Vec<Field<'_>> {
    structured(text, "", 0).unwrap_or_else(|| {
        vec![Field {
            path: String::new(),
            span: 0..text.len(),
            text: Cow::Borrowed(text),
            offsets: None,
        }]
    })
}

/// The fields of a text that is structured to its end and contains at least one string.
fn structured<'t>(text: &'t str, path: &str, nesting: usize) -> Option<Vec<Field<'t>>> {
    if !text.trim_start().starts_with(['{', '[', '(']) {
        return None;
    }
    let mut parser = Parser { text, at: 0, depth: 0, nesting, fields: Vec::new() };
    let mut line = 0;
    parser.skip_space();
    while parser.at < text.len() {
        let path = if line == 0 { path.to_owned() } else { joined(path, &format!("#{line}")) };
        parser.value(&path)?;
        parser.skip_space();
        line += 1;
    }
    (!parser.fields.is_empty()).then_some(parser.fields)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    nesting: usize,
    fields: Vec<Field<'t>>,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, path: &str) -> Option<()> {
        self.skip_space();
        match self.peek()? {
            b'{' => self.group(b'}', path),
            b'[' => self.group(b']', path),
            b'(' => self.group(b')', path),
            b'"' | b'\'' => {
                let literal = self.string()?;
                self.keep(literal, path)
            }
            _ => self.word(),
        }
    }

    /// Parses a dict, list, set or tuple, with or without a trailing comma.
    fn group(&mut self, end: u8, path: &str) -> Option<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut index = 0;
        loop {
            self.skip_space();
            if self.take(end) {
                self.depth -= 1;
                return Some(());
            }
            self.element(end, path, index)?;
            index += 1;
            self.skip_space();
            if !self.take(b',') && self.peek() != Some(end) {
                return None;
            }
        }
    }

    /// Parses an element of a list, or a name and its value.
    fn element(&mut self, end: u8, path: &str, index: usize) -> Option<()> {
        if end != b'}' {
            return self.value(&indexed(path, index));
        }
        if !matches!(self.peek()?, b'"' | b'\'') {
            self.word()?;
            self.skip_space();
            return if self.take(b':') { self.value(&indexed(path, index)) } else { Some(()) };
        }
        let name = self.string()?;
        self.skip_space();
        if !self.take(b':') {
            return self.keep(name, &indexed(path, index));
        }
        let path = joined(path, &shortened(&name.text));
        if name.text.trim().contains(' ') {
            self.keep(name, &format!("{path} (name)"))?;
        }
        self.value(&path)
    }

    /// Skips a number or a constant: `-1.5e3`, `null`, `True`.
    fn word(&mut self) -> Option<()> {
        let rest = &self.text.as_bytes()[self.at..];
        let len = rest.iter().take_while(|byte| is_word_part(**byte)).count();
        self.at += len;
        (len > 0).then_some(())
    }

    /// Parses a string in single or double quotation marks.
    fn string(&mut self) -> Option<Field<'t>> {
        let quote = self.peek()?;
        let start = self.at + 1;
        let mut decoded = String::new();
        let mut offsets = Offsets::default();
        let (mut copied, mut at) = (start, start);
        loop {
            let found = memchr::memchr2(quote, b'\\', self.text.as_bytes().get(at..)?)?;
            at += found;
            if self.text.as_bytes()[at] == quote {
                break;
            }
            let (character, len) = backslash_at(self.text, at)?;
            decoded.push_str(&self.text[copied..at]);
            offsets.copy(copied, at - copied);
            decoded.push(character);
            offsets.replace(character.len_utf8(), at..at + len);
            at += len;
            copied = at;
        }
        self.at = at + 1;
        let (text, offsets) = if copied == start {
            (Cow::Borrowed(&self.text[start..at]), None)
        } else {
            decoded.push_str(&self.text[copied..at]);
            offsets.copy(copied, at - copied);
            (Cow::Owned(decoded), Some(offsets))
        };
        Some(Field { path: String::new(), span: start..at, text, offsets })
    }

    /// Adds a string as a field, or the fields inside it.
    fn keep(&mut self, mut field: Field<'t>, path: &str) -> Option<()> {
        path.clone_into(&mut field.path);
        let inside = if self.nesting < MAX_NESTING {
            structured(&field.text, path, self.nesting + 1)
        } else {
            None
        };
        match inside {
            Some(inner) => {
                let inner: Vec<Field<'t>> =
                    inner.into_iter().map(|inner| within(&field, inner)).collect();
                self.fields.extend(inner);
            }
            None => self.fields.push(field),
        }
        (self.fields.len() <= MAX_FIELDS).then_some(())
    }
}

fn is_word_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_')
}

/// A field of a field, as a field of the whole text.
fn within<'t>(outer: &Field<'t>, inner: Field<'_>) -> Field<'t> {
    let span = outer.original(inner.span.clone());
    let mut offsets = Offsets::default();
    let mut position = 0;
    for character in inner.text.chars() {
        let len = character.len_utf8();
        let original = outer.original(inner.original(position..position + len));
        if original.len() == len {
            offsets.copy(original.start, len);
        } else {
            offsets.replace(len, original);
        }
        position += len;
    }
    Field {
        path: inner.path,
        span,
        text: Cow::Owned(inner.text.into_owned()),
        offsets: Some(offsets),
    }
}

fn indexed(path: &str, index: usize) -> String {
    joined(path, &format!("[{index}]"))
}

fn joined(path: &str, name: &str) -> String {
    if path.len() + name.len() >= MAX_PATH {
        return if path.ends_with('…') { path.to_owned() } else { format!("{path}…") };
    }
    let dot = if path.is_empty() || name.starts_with('[') { "" } else { "." };
    format!("{path}{dot}{name}")
}

fn shortened(name: &str) -> String {
    let mut short: String =
        name.chars().filter(|character| !character.is_control()).take(MAX_NAME).collect();
    if name.chars().nth(MAX_NAME).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::{MAX_DEPTH, fields};

    fn read(text: &str) -> Vec<(String, String)> {
        fields(text).into_iter().map(|field| (field.path, field.text.into_owned())).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn strings_are_found_with_their_paths() {
        let cases: [(&str, &[(&str, &str)]); 6] = [
            (r#"{"a": {"b": ["x", 1, "y"]}}"#, &[("a.b[0]", "x"), ("a.b[2]", "y")]),
            ("{'a': 'it\\'s', 'n': None, 't': ('u', True,)}", &[("a", "it's"), ("t[0]", "u")]),
            (r#"{"a b": "c"}"#, &[("a b (name)", "a b"), ("a b", "c")]),
            ("{\"a\": \"1\"}\n{\"a\": \"2\"}", &[("a", "1"), ("#1.a", "2")]),
            (r#"{"body": "{\"x\": \"y\"}"}"#, &[("body.x", "y")]),
            (r#"[{"u": "\u00e4\n"}]"#, &[("[0].u", "ä\n")]),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), pairs(expected), "{text}");
        }
    }

    #[test]
    fn a_text_of_another_format_is_one_field() {
        let deep = "[".repeat(MAX_DEPTH + 1);
        for text in [
            "plain text",
            "{\"a\": \"b\"",
            "{} tail!",
            "[1, 2]",
            "",
            deep.as_str(),
            "{'a': 'b' 'c'}",
        ] {
            assert_eq!(read(text), pairs(&[("", text)]), "{text}");
        }
    }

    #[test]
    fn a_range_of_a_field_maps_to_the_text() {
        let text = r#"{"a": "x\u00e4 attack", "b": "{\"c\": \"an attack\"}"}"#;
        for field in fields(text) {
            let at = field.text.find("attack").unwrap();
            let span = field.original(at..at + 6);
            assert_eq!(&text[span], "attack", "{}", field.path);
        }
    }
}
