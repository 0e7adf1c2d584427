//! Server-sent events, cut out of a stream of bytes without changing them.
//!
//! Source: HTML Living Standard, section 9.2.6, "Interpreting an event stream".

/// One event: its bytes with the blank line that ends it, and the data in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// As they came.
    pub(super) raw: Vec<u8>,
    /// The lines of `data`, joined; `None` if the event has none, or is no UTF-8.
    pub(super) data: Option<String>,
}

/// Cuts a stream into events.
#[derive(Debug, Default)]
pub(super) struct Events {
    waiting: Vec<u8>,
    /// Where the first event begins that was not taken.
    start: usize,
    /// How far into `waiting` the lines are read.
    read: usize,
    line: Line,
}

/// Where the reading of lines stands, between two bytes.
#[derive(Debug, Default)]
struct Line {
    has_text: bool,
    /// After a carriage return, whether it ended an event. A line feed that follows belongs to it.
    carriage_return: Option<bool>,
}

impl Events {
    /// Adds bytes as they came, cut anywhere.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.waiting.drain(..self.start);
        self.read -= self.start;
        self.start = 0;
        self.waiting.extend_from_slice(bytes);
    }

    /// How many bytes wait for the end of their event.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() - self.start
    }

    /// What came after the last whole event.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        let Self { mut waiting, start, .. } = std::mem::take(self);
        waiting.drain(..start);
        waiting
    }

    /// Where the first event ends. Every byte is looked at once, however often more is pushed.
    fn end(&mut self) -> Option<usize> {
        while let Some(byte) = self.waiting.get(self.read) {
            match (self.line.carriage_return.take(), byte) {
                (Some(true), b'\n') => return Some(self.read + 1),
                (Some(true), _) => return Some(self.read),
                (Some(false), b'\n') => {}
                (_, b'\n') if !self.line.has_text => return Some(self.read + 1),
                (_, b'\n') => self.line.has_text = false,
                (_, b'\r') => {
                    self.line.carriage_return = Some(!self.line.has_text);
                    self.line.has_text = false;
                }
                _ => self.line.has_text = true,
            }
            self.read += 1;
        }
        None
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let end = self.end()?;
        let raw = self.waiting.get(self.start..end).unwrap_or_default().to_vec();
        (self.start, self.read, self.line) = (end, end, Line::default());
        let data = data_of(&raw);
        Some(Event { raw, data })
    }
}

fn data_of(raw: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(raw).ok()?;
    let mut data: Option<String> = None;
    for line in text.split(['\n', '\r']) {
        let Some(value) = line.strip_prefix("data:") else { continue };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match &mut data {
            None => data = Some(value.to_owned()),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
        }
    }
    data
}

/// An event of `data`, with its name if the dialect names events.
pub(super) fn written(name: Option<&str>, data: &dyn std::fmt::Display) -> Vec<u8> {
    let name = name.map_or(String::new(), |name| format!("event: {name}\n"));
    let data = data.to_string().replace('\n', "\ndata: ");
    format!("{name}data: {data}\n\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(chunks: &[&[u8]]) -> (Vec<Event>, Vec<u8>) {
        let mut reader = Events::default();
        let mut found = Vec::new();
        for chunk in chunks {
            reader.push(chunk);
            found.extend(reader.by_ref());
        }
        (found, reader.rest())
    }

    #[test]
    fn events_end_at_a_blank_line_of_any_kind() {
        let (found, rest) = events(&[
            b"data: a\n\nevent: x\r\ndata:b\r\ndata: c\r\n\r\n: ping\n\n",
            b"data: d\r\rda",
        ]);
        let data: Vec<_> = found.iter().map(|event| event.data.as_deref()).collect();
        assert_eq!(data, [Some("a"), Some("b\nc"), None, Some("d")]);
        assert_eq!(rest, b"da");
    }

    #[test]
    fn an_event_that_is_no_utf8_has_no_data() {
        let (found, _) = events(&[b"data: \xff\n\n"]);
        assert_eq!(found, [Event { raw: b"data: \xff\n\n".to_vec(), data: None }]);
    }

    proptest! {
        #[test]
        fn cutting_a_stream_anywhere_changes_nothing(
            parts in prop::collection::vec(
                prop::sample::select(vec!["data: é\n\n", "\r\n", "\n", "\r", "data:x", ": c", "\n\n"]), 0..12
            ),
            cuts in prop::collection::vec(0usize..64, 0..6),
        ) {
            let whole = parts.concat();
            let (at_once, rest) = events(&[whole.as_bytes()]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&whole.as_bytes()[from..cut]);
                from = cut;
            }
            chunks.push(&whole.as_bytes()[from..]);
            let (cut, cut_rest) = events(&chunks);
            prop_assert_eq!(&at_once, &cut);
            prop_assert_eq!(&rest, &cut_rest);
            let mut all: Vec<u8> = at_once.into_iter().flat_map(|event| event.raw).collect();
            all.extend(rest);
            prop_assert_eq!(all, whole.into_bytes());
        }
    }
}
