//! Bytes into lines, without ever holding more than one bounded line.

use std::io::{BufRead, Read};

use super::error::{TraceError, TraceProblem};

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// One line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// From 1, blank lines counted.
    pub(super) number: u64,
    /// Its text, without the line feed. A carriage return before that is white space
    /// to JSON and stays.
    pub(super) text: &'a str,
}

/// The lines of a trace.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    max_bytes: usize,
    number: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R, max_bytes: usize) -> Self {
        Self { input, max_bytes, number: 0, buffer: Vec::new() }
    }

    /// The next line that is not blank, or `None` at the end.
    ///
    /// # Errors
    /// The line is too long, is not UTF-8 or has a NUL byte, or the input cannot be read.
    pub(super) fn next_line(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        loop {
            if !self.fill()? {
                return Ok(None);
            }
            if !self.buffer.iter().all(u8::is_ascii_whitespace) {
                break;
            }
        }
        let number = self.number;
        match checked_text(&self.buffer) {
            Ok(text) => Ok(Some(Line { number, text })),
            Err(problem) => Err(TraceError { line: number, problem }),
        }
    }

    /// Reads one line into the buffer. `false` at the end of the input.
    fn fill(&mut self) -> Result<bool, TraceError> {
        self.buffer.clear();
        self.number += 1;
        let at_most = u64::try_from(self.max_bytes).unwrap_or(u64::MAX).saturating_add(1);
        let read = (&mut self.input)
            .take(at_most)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|cause| self.error(TraceProblem::Read(cause)))?;
        if read == 0 {
            return Ok(false);
        }
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if self.buffer.len() > self.max_bytes {
            return Err(self.error(TraceProblem::LineTooLong { limit_bytes: self.max_bytes }));
        }
        if self.number == 1 && self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.buffer.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(true)
    }

    fn error(&self, problem: TraceProblem) -> TraceError {
        TraceError { line: self.number, problem }
    }
}

fn checked_text(bytes: &[u8]) -> Result<&str, TraceProblem> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| TraceProblem::NotUtf8 { column: error.valid_up_to() + 1 })?;
    match text.bytes().position(|byte| byte == 0) {
        Some(offset) => Err(TraceProblem::NulByte { column: offset + 1 }),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufReader};

    use super::*;

    fn lines(bytes: &[u8], max_bytes: usize) -> Vec<String> {
        let mut lines = Lines::new(bytes, max_bytes);
        let mut seen = Vec::new();
        loop {
            match lines.next_line() {
                Ok(Some(line)) => seen.push(format!("{}: {:?}", line.number, line.text)),
                Ok(None) => return seen,
                Err(error) => {
                    seen.push(error.to_string());
                    return seen;
                }
            }
        }
    }

    #[test]
    fn line_ends_and_marks_of_every_system_are_understood_and_blank_lines_only_count() {
        let cases: [(&[u8], &[&str]); 9] = [
            (b"", &[]),
            (b"\n\r\n \t\n", &[]),
            (b"a\nb\n", &["1: \"a\"", "2: \"b\""]),
            (b"a\nb", &["1: \"a\"", "2: \"b\""]),
            (b"a\r\n\r\nb\r\n", &["1: \"a\\r\"", "3: \"b\\r\""]),
            (b"\xef\xbb\xbfa\n", &["1: \"a\""]),
            (b"\xef\xbb\xbf\n\na", &["3: \"a\""]),
            (b"\xef\xbb\xbf", &[]),
            (b"a\n\xef\xbb\xbfb", &["1: \"a\"", "2: \"\\u{feff}b\""]),
        ];
        for (bytes, expected) in cases {
            assert_eq!(lines(bytes, 10), expected, "{bytes:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_where_they_stand() {
        let cases: [(&[u8], &str); 5] = [
            (b"ab\xff\n", "line 1: byte `3` is not UTF-8; save the trace as UTF-8"),
            (b"a\n\xc3", "line 2: byte `1` is not UTF-8; save the trace as UTF-8"),
            (b"\xff\xfea\0", "line 1: byte `1` is not UTF-8; save the trace as UTF-8"),
            // A surrogate, which UTF-8 must not encode.
            (b"\xed\xa0\x80", "line 1: byte `1` is not UTF-8; save the trace as UTF-8"),
            (
                b"{\0",
                "line 1: byte `2` is NUL; save the trace as UTF-8 text and write NUL as `\\u0000`",
            ),
        ];
        for (bytes, expected) in cases {
            assert_eq!(lines(bytes, 10).last().unwrap(), expected);
        }
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
        assert_eq!(lines(b"1234\n5678", 4), ["1: \"1234\"", "2: \"5678\""]);
        let refused =
            "line 2: longer than `4` bytes; split it over several lines or raise the limit";
        assert_eq!(lines(b"1234\n56789\n", 4).last().unwrap(), refused);
        assert_eq!(lines(b"1234\n56789", 4).last().unwrap(), refused);
    }

    #[test]
    fn a_hundred_megabyte_line_is_refused_after_its_first_bytes() {
        struct Counted<R> {
            input: R,
            bytes: usize,
        }
        impl<R: Read> Read for Counted<R> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let read = self.input.read(buffer)?;
                self.bytes += read;
                Ok(read)
            }
        }

        let hundred_megabytes = io::repeat(b'x').take(100_000_000);
        let counted = Counted { input: hundred_megabytes, bytes: 0 };
        let mut lines = Lines::new(BufReader::with_capacity(1, counted), 1000);
        assert!(matches!(
            lines.next_line(),
            Err(TraceError { line: 1, problem: TraceProblem::LineTooLong { limit_bytes: 1000 } })
        ));
        assert_eq!(lines.input.get_ref().bytes, 1001);
        assert!(lines.buffer.capacity() < 10_000);
    }
}
