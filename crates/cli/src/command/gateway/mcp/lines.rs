//! Messages of MCP's stdio transport: one a line.

use std::io::{self, BufRead, Read as _, Write};
use std::sync::{Mutex, PoisonError};

use custody_gateway::mcp::MAX_MESSAGE_BYTES;

/// The next message; nothing at the end.
///
/// # Errors
/// When it cannot be read, is too long, or is no UTF-8.
pub(super) fn next(from: &mut impl BufRead) -> io::Result<Option<String>> {
    loop {
        let mut line = Vec::new();
        let limit = u64::try_from(MAX_MESSAGE_BYTES).unwrap_or(u64::MAX);
        from.by_ref().take(limit + 1).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.len() > MAX_MESSAGE_BYTES {
            return Err(io::Error::other(format!(
                "a message has more than {MAX_MESSAGE_BYTES} bytes"
            )));
        }
        let line = String::from_utf8(line).map_err(io::Error::other)?;
        let line = line.trim_end_matches(['\n', '\r']);
        if !line.is_empty() {
            return Ok(Some(line.to_owned()));
        }
    }
}

/// Where messages go, whole and one after the other.
#[derive(Debug)]
pub(super) struct Messages<W>(Mutex<Option<W>>);

impl<W: Write> Messages<W> {
    pub(super) fn new(to: W) -> Self {
        Self(Mutex::new(Some(to)))
    }

    /// Sends a message. One after the end goes nowhere.
    pub(super) fn send(&self, message: &str) -> io::Result<()> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(to) = place.as_mut() else { return Ok(()) };
        to.write_all(message.as_bytes())?;
        to.write_all(b"\n")?;
        to.flush()
    }

    /// There are no more.
    pub(super) fn end(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
