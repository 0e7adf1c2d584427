//! Encoded parts of a text, read.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The shortest run that is tried as base64, in characters.
const MIN_BASE64: usize = 8;

/// What base64, hexadecimal and percent-encoded parts of `text` say, in their order. Linear in the text.
pub fn encoded_copies(text: &str) -> Vec<String> {
    let mut copies = Vec::new();
    for run in text.split(|c: char| !c.is_ascii_alphanumeric() && !"+/-_=%".contains(c)) {
        copies.extend(percent_decoded(run));
        let run = run.trim_matches('=');
        if run.len() >= MIN_BASE64 {
            copies.extend(hex_decoded(run));
            copies.extend(base64_decoded(run));
        }
    }
    copies
}

fn hex_decoded(run: &str) -> Option<String> {
    let is_hex = run.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex::decode(Some(run).filter(|_| is_hex)?).ok().and_then(readable)
}

/// `run` has no padding left.
fn base64_decoded(run: &str) -> Option<String> {
    let bytes = if run.contains(['-', '_']) {
        URL_SAFE_NO_PAD.decode(run)
    } else {
        STANDARD_NO_PAD.decode(run)
    };
    bytes.ok().and_then(readable)
}

fn readable(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.chars().any(|c| c.is_control() && !c.is_whitespace()))
}

fn percent_decoded(run: &str) -> Option<String> {
    if !run.contains('%') {
        return None;
    }
    let mut bytes = Vec::with_capacity(run.len());
    let mut rest = run.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.first_chunk::<2>().and_then(|pair| hex::decode(pair).ok());
        match (first, code.as_deref()) {
            (b'%', Some([byte])) => {
                bytes.push(*byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    readable(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_read_through_their_encoding() {
        assert!(encoded_copies("x aGVsbG8gd29ybGQ= y").contains(&"hello world".to_owned()));
        assert!(encoded_copies("68656c6c6f").contains(&"hello".to_owned()));
        assert!(encoded_copies("a%40b.com").contains(&"a@b".to_owned()));
        assert_eq!(encoded_copies("%"), ["%"], "a lone sign is itself");
    }
}
