//! Server-sent events: parses a stream that arrives in arbitrary chunks.
//!
//! Source: WHATWG HTML §9.2.6. Only the data of an event is used.

/// An invalid stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SseError {
    #[error("an event of the stream is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("the stream is not UTF-8")]
    NotText,
}

/// Parses events. Buffers at most one event of limited size.
#[derive(Debug)]
pub(super) struct Events {
    max_bytes: usize,
    /// The incomplete line.
    line: Vec<u8>,
    /// The data of the incomplete event.
    data: Vec<u8>,
    /// Whether the last byte was a carriage return; a following line feed belongs to it.
    after_return: bool,
    /// Whether no line has ended yet.
    is_first_line: bool,
}

impl Events {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            data: Vec::new(),
            after_return: false,
            is_first_line: true,
        }
    }

    /// The data of the events that end in these bytes. An event without an empty line at its end is dropped.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, SseError> {
        let mut events = Vec::new();
        for byte in bytes {
            let belongs_to_return = self.after_return && *byte == b'\n';
            self.after_return = *byte == b'\r';
            match byte {
                b'\n' if belongs_to_return => {}
                b'\n' | b'\r' => events.extend(self.end_line()?),
                _ if self.line.len() + self.data.len() >= self.max_bytes => {
                    return Err(SseError::TooLong { limit: self.max_bytes });
                }
                _ => self.line.push(*byte),
            }
        }
        Ok(events)
    }

    /// The data of the event that this line ends, if it ends one.
    fn end_line(&mut self) -> Result<Option<String>, SseError> {
        let line = std::mem::take(&mut self.line);
        let was_first = std::mem::replace(&mut self.is_first_line, false);
        let line = match line.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) if was_first => rest,
            Some(_) | None => &line,
        };
        if line.is_empty() {
            let mut data = std::mem::take(&mut self.data);
            // Every data line added a line feed; the last one is not part of the data.
            data.pop();
            let text = String::from_utf8(data).map_err(|_| SseError::NotText)?;
            return Ok(Some(text).filter(|text| !text.is_empty()));
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        if name == b"data" {
            let value = value.strip_prefix(b":").unwrap_or(value);
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            self.data.push(b'\n');
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(portions: &[&[u8]], max_bytes: usize) -> Result<Vec<String>, SseError> {
        let mut events = Events::new(max_bytes);
        let mut all = Vec::new();
        for portion in portions {
            all.extend(events.push(portion)?);
        }
        Ok(all)
    }

    #[test]
    fn events_end_with_an_empty_line_and_have_only_data() {
        let cases: [(&str, &[&str]); 12] = [
            ("data: one\n\ndata: two\n\n", &["one", "two"]),
            ("data: one\r\n\r\ndata: two\r\rdata: three\n\n", &["one", "two", "three"]),
            ("data:one\n\n", &["one"]),
            ("data:  one\n\n", &[" one"]),
            ("data: one\ndata: two\n\n", &["one\ntwo"]),
            (": comment\nevent: x\nid: 1\nretry: 5\ndata: one\nother\n\n", &["one"]),
            ("data: one", &[]),
            ("data: one\n", &[]),
            ("data\n\ndata:\n\n\n\n", &[]),
            ("data: one: two\n\n", &["one: two"]),
            ("\u{feff}data: one\n\n\u{feff}data: two\n\n", &["one"]),
            ("datas: one\n\n", &[]),
        ];
        for (stream, expected) in cases {
            assert_eq!(read(&[stream.as_bytes()], 100).unwrap(), expected, "{stream:?}");
        }
    }

    #[test]
    fn oversized_and_invalid_events_are_rejected() {
        let limit = SseError::TooLong { limit: 10 };
        assert_eq!(read(&[b"data: 1234\n\n"], 10).unwrap(), ["1234"]);
        assert_eq!(read(&[b"data: 12345\n\n"], 10), Err(limit));
        assert_eq!(read(&[b": comment without end"], 10), Err(limit));
        assert_eq!(read(&[b"data: 1\ndata: 2\ndata: 3\n\n"], 10), Err(limit));
        assert_eq!(read(&[b"data: \xff\n\n"], 10), Err(SseError::NotText));
    }

    /// Streams of all syntax elements.
    fn streams() -> impl Strategy<Value = Vec<u8>> {
        let parts: [&[u8]; 13] = [
            b"data: ",
            b"data:",
            b"event: x",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b":",
            b" ",
            "é🙂".as_bytes(),
            b"\xef\xbb\xbf",
            b"\xff",
            b"{\"choices\":[]}",
        ];
        let part = proptest::sample::select(parts.to_vec());
        proptest::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_the_chunks(
            stream in streams(),
            cuts in proptest::collection::vec(0_usize..400, 0..12),
            max_bytes in 1_usize..200,
        ) {
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
            ends.extend([0, stream.len()]);
            ends.sort_unstable();
            let portions: Vec<&[u8]> =
                ends.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&portions, max_bytes), read(&[&stream], max_bytes));
        }
    }
}
