//! Texts as people copy them: decoded, rendered, without the scaffolding that a program put around them.

use crate::canonical::CanonicalText;

/// A way of reading a text before it is folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rendering {
    /// As it is.
    Plain,
    /// As it is shown: escapes of JSON and source strings decoded at any depth, tags, comments, scripts and styles of
    /// HTML and the targets of Markdown links left out, character references decoded.
    Shown,
    /// The same without the names of fields: `"name": "Ada"` is `Ada`.
    Values,
    /// As it is shown, without the numbers of a listing's lines.
    Unnumbered,
}

impl Rendering {
    /// Every view, the plain one first.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Shown, Self::Values, Self::Unnumbered];

    /// The canonical form of `text` in this view. `None` when it is no other than in an earlier view, because the text
    /// has nothing that this view reads differently. Linear in the text.
    pub fn of(self, text: &str) -> Option<CanonicalText> {
        if self == Self::Plain {
            return Some(CanonicalText::of(text));
        }
        let mut reader = Reader::new(text, self);
        reader.read();
        reader.differs.then_some(reader.out)
    }
}

/// How far a character reference or the name of a field reaches, in bytes.
const MAX_NAME: usize = 64;
/// How far a link's target reaches, in bytes.
const MAX_TARGET: usize = 2048;

/// One pass over a text. Whatever is looked for ahead is within a constant, or was found and is skipped, or is known
/// not to come any more: the pass is linear whatever the text.
struct Reader<'t> {
    text: &'t str,
    view: Rendering,
    at: usize,
    is_line_start: bool,
    /// Whether this view read something differently from the views before it.
    differs: bool,
    no_tag_end: bool,
    no_comment_end: bool,
    no_script_end: bool,
    no_style_end: bool,
    /// Up to where no target of a link ends.
    no_target_until: usize,
    out: CanonicalText,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, view: Rendering) -> Self {
        Self {
            text,
            view,
            at: 0,
            is_line_start: true,
            differs: false,
            no_tag_end: false,
            no_comment_end: false,
            no_script_end: false,
            no_style_end: false,
            no_target_until: 0,
            out: CanonicalText::for_text(text),
        }
    }

    fn read(&mut self) {
        while let Some(c) = self.rest().chars().next() {
            if self.is_line_start && self.view == Rendering::Unnumbered {
                self.is_line_start = false;
                if self.skip_line_number() {
                    continue;
                }
            }
            let is_read = match c {
                '\\' => self.read_escape(),
                '<' => self.skip_tag(),
                '&' => self.read_reference(),
                ']' => self.skip_target(),
                '"' | '\'' => self.view == Rendering::Values && self.skip_field_name(c),
                _ => false,
            };
            if !is_read {
                self.out.push(c, self.at);
                self.is_line_start |= c == '\n';
                self.at += c.len_utf8();
            }
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The bytes from here on, `length` at most.
    fn ahead(&self, length: usize) -> &'t [u8] {
        let bytes = self.rest().as_bytes();
        bytes.get(..length).unwrap_or(bytes)
    }

    /// Notes that something was read as only this view and those after it read it.
    fn note(&mut self, from: Rendering) {
        self.differs |= self.view == from;
    }

    /// A run of backslashes and what they escape. Escapes within escapes have more backslashes, and mean the same.
    fn read_escape(&mut self) -> bool {
        let slashes = self.rest().bytes().take_while(|byte| *byte == b'\\').count();
        let start = self.at;
        self.at += slashes;
        let (decoded, length) = match self.ahead(1) {
            [b'n'] => ('\n', 1),
            [b'r' | b't' | b'b' | b'f'] => (' ', 1),
            [b'u'] => match self.code_unit(1, 4) {
                Some(high @ 0xD800..=0xDBFF) => self.second_half(high, slashes).unwrap_or((' ', 5)),
                Some(code) => (char::from_u32(code).unwrap_or(' '), 5),
                None => return true,
            },
            [b'x'] => match self.code_unit(1, 2) {
                Some(code) => (char::from_u32(code).unwrap_or(' '), 3),
                None => return true,
            },
            _ => return true,
        };
        self.note(Rendering::Shown);
        self.out.push(decoded, start);
        self.is_line_start |= decoded == '\n';
        self.at += length;
        true
    }

    fn code_unit(&self, skip: usize, digits: usize) -> Option<u32> {
        let digits = self.ahead(skip + digits).get(skip..).filter(|found| found.len() == digits)?;
        let digits = std::str::from_utf8(digits).ok()?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        u32::from_str_radix(digits, 16).ok()
    }

    /// The character of a surrogate pair, whose second half has as many backslashes, and the length of both.
    fn second_half(&self, high: u32, slashes: usize) -> Option<(char, usize)> {
        let second = self.ahead(5 + slashes + 5).get(5..)?;
        let (between, rest) = second.split_at_checked(slashes)?;
        if slashes > 16 || between.iter().any(|byte| *byte != b'\\') || rest.first() != Some(&b'u')
        {
            return None;
        }
        let low =
            self.code_unit(5 + slashes + 1, 4).filter(|low| (0xDC00..=0xDFFF).contains(low))?;
        let code = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        Some((char::from_u32(code)?, 5 + slashes + 5))
    }

    /// A tag with all that it hides: a comment, a script, a style.
    fn skip_tag(&mut self) -> bool {
        let (second, rest) = (self.ahead(2).get(1).copied(), self.rest());
        if !second.is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, b'/' | b'!' | b'?')) {
            return false;
        }
        let is_comment = rest.starts_with("<!--") && !self.no_comment_end;
        if is_comment {
            match rest.find("-->") {
                Some(end) => return self.skip(end + 3),
                None => self.no_comment_end = true,
            }
        }
        let is_named =
            |name: &str| rest.get(..name.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(name));
        let (is_script, is_style) = (is_named("<script"), is_named("<style"));
        if is_script && !self.no_script_end {
            match find_ignoring_case(rest, "</script") {
                Some(end) => return self.skip(end),
                None => self.no_script_end = true,
            }
        }
        if is_style && !self.no_style_end {
            match find_ignoring_case(rest, "</style") {
                Some(end) => return self.skip(end),
                None => self.no_style_end = true,
            }
        }
        if self.no_tag_end {
            return false;
        }
        match rest.find('>') {
            Some(end) => self.skip(end + 1),
            None => {
                self.no_tag_end = true;
                false
            }
        }
    }

    fn skip(&mut self, length: usize) -> bool {
        self.note(Rendering::Shown);
        self.at += length;
        true
    }

    /// A character reference: `&amp;`, `&#233;`, `&#xE9;`, `&eacute;`. Those of signs become nothing, as signs do.
    fn read_reference(&mut self) -> bool {
        let ahead = self.ahead(MAX_NAME / 2);
        let Some(end) = ahead.iter().position(|byte| *byte == b';') else { return false };
        let Some(name) = ahead.get(1..end).and_then(|name| std::str::from_utf8(name).ok()) else {
            return false;
        };
        let start = self.at;
        if let Some(code) = name.strip_prefix('#') {
            let code = match code.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => code.parse().ok(),
            };
            let Some(c) = code.and_then(char::from_u32) else { return false };
            self.out.push(c, start);
        } else if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            letters_of(name).chars().for_each(|letter| self.out.push(letter, start));
        } else {
            return false;
        }
        self.skip(end + 1)
    }

    /// The target of a Markdown link, after its text.
    fn skip_target(&mut self) -> bool {
        let ahead = self.ahead(MAX_TARGET);
        if ahead.get(1) != Some(&b'(') || self.at < self.no_target_until {
            return false;
        }
        let end = ahead.iter().position(|byte| matches!(byte, b')' | b'\n')).unwrap_or(ahead.len());
        if ahead.get(end) == Some(&b')') {
            return self.skip(end + 1);
        }
        self.no_target_until = self.at + end;
        false
    }

    /// The name of a field in JSON or a program's rendering of a record: quoted, and followed by a colon.
    fn skip_field_name(&mut self, quote: char) -> bool {
        let Ok(quote) = u8::try_from(quote) else { return false };
        let ahead = self.ahead(MAX_NAME);
        let name = ahead.iter().skip(1).take_while(|byte| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'_' | b'-' | b'.' | b'$' | b'@' | b' ' | b'/')
        });
        let mut end = 1 + name.count();
        end += ahead.iter().skip(end).take_while(|byte| **byte == b'\\').count();
        if end == 1 || ahead.get(end) != Some(&quote) {
            return false;
        }
        end += 1;
        end += ahead.iter().skip(end).take_while(|byte| **byte == b' ').count();
        if ahead.get(end) != Some(&b':') {
            return false;
        }
        self.note(Rendering::Values);
        self.at += end + 1;
        true
    }

    /// The number of a line in a listing: digits after blanks, quoting marks or brackets, and a separator.
    fn skip_line_number(&mut self) -> bool {
        let ahead = self.ahead(MAX_NAME);
        let before = ahead
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'>' | b'|' | b'[' | b'(' | b'#'));
        let before = before.count();
        let digits = ahead.iter().skip(before).take_while(|byte| byte.is_ascii_digit()).count();
        let is_separated = matches!(
            ahead.get(before + digits),
            Some(b' ' | b'\t' | b'.' | b':' | b')' | b']' | b'|' | b'-')
        );
        if digits == 0 || digits > 9 || !is_separated {
            return false;
        }
        self.note(Rendering::Unnumbered);
        self.at += before + digits;
        true
    }
}

/// The letters of a named character reference: the base of an accented one, nothing for a sign.
fn letters_of(name: &str) -> String {
    const ACCENTS: &[&str] = &[
        "acute", "grave", "circ", "uml", "tilde", "cedil", "ring", "slash", "caron", "strok",
        "ogon", "dot",
    ];
    match name {
        "szlig" => return "ss".into(),
        "eth" | "ETH" => return "d".into(),
        "thorn" | "THORN" => return "th".into(),
        _ => {}
    }
    let base = ACCENTS
        .iter()
        .find_map(|accent| name.strip_suffix(accent))
        .or_else(|| name.strip_suffix("lig"));
    base.filter(|base| base.len() <= 2).unwrap_or_default().to_owned()
}

fn find_ignoring_case(text: &str, needle: &str) -> Option<usize> {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    text.windows(needle.len()).position(|window| window.eq_ignore_ascii_case(needle))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(view: Rendering, text: &str) -> Option<String> {
        view.of(text).map(|form| form.to_string())
    }

    #[test]
    fn a_text_is_read_as_it_is_shown() {
        let cases = [
            (r#"{"a": "one\ntwo é 😀"}"#, "aonetwoe"),
            (r#"{"a": "{\"b\": \"one\\ntwo \\u00e9\"}"}"#, "abonetwoe"),
            (r"b'caf\xe9 \\\\ x'", "bcafex"),
            ("<p class=\"x\">One <b>two</b></p>", "onetwo"),
            ("a<!-- hidden > -->b<script>if (a<b) {}</script>c<STYLE>d</STYLE>e", "abce"),
            ("caf&eacute; &amp; Stra&szlig;e&nbsp;&#233;&#xE9; &oelig;", "cafestrasseeeoe"),
            ("see [the page](https://x.example/a?b=c) now", "seethepagenow"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(Rendering::Shown, text).as_deref(), Some(expected), "{text:?}");
        }
        for text in ["a < b and c > d", "AT&T; [1] (x)", "plain text", r"\", "a]"] {
            let plain = CanonicalText::of(text).to_string();
            assert!(
                shown(Rendering::Shown, text).is_none_or(|shown| shown.len() <= plain.len()),
                "{text:?}"
            );
        }
        assert_eq!(shown(Rendering::Shown, "a < b and c > d"), None);
    }

    #[test]
    fn values_are_read_without_the_names_of_their_fields() {
        let cases = [
            (r#"[{"id": 7, "full name":"Ada"}, {"id": 8}]"#, Some("7ada8")),
            ("{'from': 'Ann', 'it': 'isn\\'t'}", Some("annisnt")),
            (r#""{\"id\": 7}""#, Some("7")),
            (r#"He said "yes": nothing"#, Some("hesaidnothing")),
            ("no fields, \"only\" quotes", None),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(Rendering::Values, text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn listings_are_read_without_the_numbers_of_their_lines() {
        let cases = [
            ("  1\tfn main() {\n  2\t    x(10);\n", Some("fnmainx10")),
            ("> 12: one\n> 13: 2 two", Some("one2two")),
            ("[1] one\n[2] two", Some("onetwo")),
            ("1. one\n2) two", Some("onetwo")),
            ("1\\n2", None),
            ("{\"a\": \"1: x\\n2: y\"}", Some("a1xy")),
            ("one\ntwo", None),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(Rendering::Unnumbered, text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn g29_what_never_ends_is_looked_for_once() {
        // Quadratic work on each of these texts would be 10¹¹ steps.
        for unit in
            ["<a", "<!--", "<script", "<style ", "&#1", "](", "\"a", "\\", "\\u", "'a':", "1"]
        {
            let text = unit.repeat(500_000 / unit.len());
            for view in Rendering::ALL {
                let length = view.of(&text).map_or(0, |form| form.len());
                assert!(length <= text.len(), "{unit:?}");
            }
        }
    }
}
