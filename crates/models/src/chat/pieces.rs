//! Decodes token bytes to pieces of complete characters.

/// A streaming UTF-8 decoder.
///
/// Invalid UTF-8 becomes U+FFFD, as in [`String::from_utf8_lossy`].
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    text: String,
    /// The bytes of an incomplete character.
    pending: Vec<u8>,
}

impl Pieces {
    /// Adds bytes and returns the newly completed text, which may be empty.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> &str {
        self.pending.extend_from_slice(bytes);
        let start = self.text.len();
        let mut waiting = 0;
        let mut chunks = self.pending.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.text.push_str(chunk.valid());
            let rest = chunk.invalid();
            if chunks.peek().is_none() && may_become_a_character(rest) {
                waiting = rest.len();
            } else if !rest.is_empty() {
                self.text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.pending.drain(..self.pending.len() - waiting);
        self.text.get(start..).unwrap_or_default()
    }

    /// Ends the stream and returns the last piece and the whole text.
    pub(crate) fn finish(mut self) -> (&'static str, String) {
        if self.pending.is_empty() {
            return ("", self.text);
        }
        self.text.push(char::REPLACEMENT_CHARACTER);
        ("\u{fffd}", self.text)
    }
}

/// Whether the bytes are an incomplete but valid prefix of UTF-8.
fn may_become_a_character(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_complete_characters_and_form_the_text() {
        let cases: [&[u8]; 6] = [
            "naïve 🚀 café".as_bytes(),
            b"",
            b"a\xffb",
            b"\xf0\x9f",
            b"\xe2\x82x\xac",
            b"\xc3\xc3\xa9",
        ];
        for bytes in cases {
            for size in 1..=3 {
                let mut pieces = Pieces::default();
                let mut shown = String::new();
                for some in bytes.chunks(size) {
                    shown.push_str(pieces.push(some));
                }
                let (last, text) = pieces.finish();
                shown.push_str(last);
                assert_eq!(text, String::from_utf8_lossy(bytes), "{bytes:?} by {size}");
                assert_eq!(shown, text, "{bytes:?} by {size}");
            }
        }
    }
}
