//! `manifest_digest`: the paper's own SHA-256 over its certificate.
//!
//! In Python, with the predicate as `p`:
//!
//! ```text
//! rest = {name: value for name, value in p.items() if name != "manifest_digest"}
//! hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
//! ```
//!
//! Source: RVU §3.8, "signature"; docs/papers.md §3.5.

use std::ops::Range;

use custody_log::Digest;

use crate::format::STATEMENT_TYPE;

const MEMBER: &str = r#""manifest_digest":""#;
const HEX_DIGITS: usize = 64;

/// Where a canonical statement has the digest, and what the digest should be. `None` when `statement` is none.
///
/// A quote inside a string is written `\"`, so neither search can end in one.
pub(crate) fn digest(statement: &str) -> Option<(Range<usize>, Digest)> {
    let head = format!(r#"{{"_type":"{STATEMENT_TYPE}","predicate":"#);
    let end = statement.rfind(r#","predicateType":""#)?;
    let predicate = statement.get(..end)?.strip_prefix(&head)?;
    let at = predicate.find(MEMBER)?;
    let value = at + MEMBER.len()..at + MEMBER.len() + HEX_DIGITS;
    // The member is never the last: it is cut out with the comma behind it.
    let after = predicate.get(value.end..)?.strip_prefix("\",")?;
    let mut text = Vec::with_capacity(predicate.len() + predicate.len() / 4);
    // Both halves begin outside a string.
    python_form(predicate.get(..at)?, &mut text);
    python_form(after, &mut text);
    Some((value.start + head.len()..value.end + head.len(), Digest::of(&text)))
}

/// Rewrites canonical JSON as Python's `json.dumps` writes it: a blank after each comma and colon, and no character
/// that is not printable ASCII.
fn python_form(canonical: &str, text: &mut Vec<u8>) {
    let mut in_string = false;
    for (index, between_quotes) in canonical.split('"').enumerate() {
        if index > 0 {
            text.push(b'"');
        }
        if in_string {
            ascii_only(between_quotes, text);
            let backslashes = between_quotes.bytes().rev().take_while(|byte| *byte == b'\\');
            in_string = backslashes.count() % 2 == 1;
        } else {
            spaced(between_quotes, text);
            in_string = true;
        }
    }
}

fn spaced(punctuation: &str, text: &mut Vec<u8>) {
    for byte in punctuation.bytes() {
        text.push(byte);
        if matches!(byte, b',' | b':') {
            text.push(b' ');
        }
    }
}

fn ascii_only(string: &str, text: &mut Vec<u8>) {
    if string.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.extend_from_slice(string.as_bytes());
    }
    for c in string.chars() {
        match c {
            ' '..='~' => text.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    text.extend(format!("\\u{unit:04x}").bytes());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_as_python_writes_it() {
        let cases = [
            (r#"{"a":[1,2],"b":{"c":null}}"#, r#"{"a": [1, 2], "b": {"c": null}}"#),
            (r#"["a:b,c","d\",\":e\\","f"]"#, r#"["a:b,c", "d\",\":e\\", "f"]"#),
            ("[\"é\u{7f}\u{1f980}\\n\"]", r#"["\u00e9\u007f\ud83e\udd80\n"]"#),
        ];
        for (canonical, expected) in cases {
            let mut text = Vec::new();
            python_form(canonical, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }

    #[test]
    fn the_digest_is_found_only_in_a_statement_and_covers_the_rest_of_the_predicate() {
        let digits = "0".repeat(HEX_DIGITS);
        let statement = format!(
            r#"{{"_type":"{STATEMENT_TYPE}","predicate":{{"a":"\"manifest_digest\":","manifest_digest":"{digits}","z":1}},"predicateType":"x"}}"#
        );
        let (place, found) = digest(&statement).unwrap();
        assert_eq!(statement[place], digits);
        assert_eq!(found, Digest::of(br#"{"a": "\"manifest_digest\":", "z": 1}"#));
        for end in 0..statement.len() {
            let _ = digest(&statement[..end]);
        }
        assert_eq!(digest(&statement.replace("manifest", "other")), None);
    }
}
