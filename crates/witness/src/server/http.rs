//! As much of HTTP/1.1 as a witness needs: one request with a body of known length, one response.
//!
//! `httparse` reads the head. What it leaves open is decided strictly: a body has exactly one `Content-Length`, a
//! transfer coding is refused, and so is whatever is longer than a real request.

use std::io::{self, Read};

use httparse::Status;

use crate::answer::WitnessAnswer;

/// The longest request line with its headers.
pub(crate) const MAX_HEAD_BYTES: usize = 8 * 1024;

/// The longest body: a note of 64 KiB, 63 hashes, and the line of the old size.
pub(crate) const MAX_BODY_BYTES: u64 = 68 * 1024;

const MAX_HEADERS: usize = 32;

/// A request as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, as `POST`.
    pub method: String,
    /// The path, with whatever stands behind it.
    pub path: String,
    /// The body; empty if there is none.
    pub body: Vec<u8>,
}

/// Why a request is not answered as it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HttpRefusal {
    /// The head is no HTTP/1.1.
    #[error("the request is malformed")]
    Malformed,
    /// The head is too long, or has too many headers.
    #[error("the request's head is over {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers")]
    Head,
    /// A body of unknown length.
    #[error("send the length of the body, and no transfer coding")]
    Length,
    /// The body is too long.
    #[error("the body is over {MAX_BODY_BYTES} bytes")]
    Body,
    /// The client took too long.
    #[error("the request took too long")]
    Slow,
    /// The client went away before its request was complete.
    #[error("the request is incomplete")]
    Gone,
}

impl HttpRefusal {
    /// The status code that says so.
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed | Self::Gone => 400,
            Self::Slow => 408,
            Self::Length => 411,
            Self::Body => 413,
            Self::Head => 431,
        }
    }
}

/// Reads one request, and no more of `stream` than it has to.
///
/// # Errors
/// [`HttpRefusal`], as soon as it is clear.
pub fn read_request(stream: &mut impl Read) -> Result<HttpRequest, HttpRefusal> {
    let mut bytes = Vec::new();
    loop {
        let read = read_some(stream, &mut bytes, MAX_HEAD_BYTES)?;
        if let Some((mut request, head_length, length)) = parse_head(&bytes)? {
            let mut body = bytes.split_off(head_length);
            body.truncate(length);
            while body.len() < length {
                if read_some(stream, &mut body, length)? == 0 {
                    return Err(HttpRefusal::Gone);
                }
            }
            request.body = body;
            return Ok(request);
        }
        if bytes.len() >= MAX_HEAD_BYTES {
            return Err(HttpRefusal::Head);
        }
        if read == 0 {
            return Err(HttpRefusal::Gone);
        }
    }
}

/// Appends what one read gives, up to `most` bytes in all.
fn read_some(
    stream: &mut impl Read,
    bytes: &mut Vec<u8>,
    most: usize,
) -> Result<usize, HttpRefusal> {
    let mut buffer = [0; 4096];
    let wanted = most.saturating_sub(bytes.len()).min(buffer.len());
    let buffer = buffer.get_mut(..wanted).unwrap_or_default();
    let read = stream.read(buffer).map_err(|error| {
        // A read that ran out of time is either of these, by platform.
        let is_late = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock].contains(&error.kind());
        if is_late { HttpRefusal::Slow } else { HttpRefusal::Gone }
    })?;
    bytes.extend_from_slice(buffer.get(..read).unwrap_or_default());
    Ok(read)
}

/// The request without its body, the length of its head and that of its body. `None` while the head is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<(HttpRequest, usize, usize)>, HttpRefusal> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let head_length = match parsed.parse(bytes) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(HttpRefusal::Head),
        Err(_) => return Err(HttpRefusal::Malformed),
    };
    let (Some(method), Some(path)) = (parsed.method, parsed.path) else {
        return Err(HttpRefusal::Malformed);
    };
    if headers_named(parsed.headers, "transfer-encoding").next().is_some() {
        return Err(HttpRefusal::Length);
    }
    let mut lengths = headers_named(parsed.headers, "content-length");
    let length = match (lengths.next(), lengths.next()) {
        (None, _) if method == "POST" => return Err(HttpRefusal::Length),
        (None, _) => 0,
        (Some(length), None) => parse_length(length)?,
        (Some(_), Some(_)) => return Err(HttpRefusal::Length),
    };
    let request =
        HttpRequest { method: method.to_owned(), path: path.to_owned(), body: Vec::new() };
    Ok(Some((request, head_length, length)))
}

/// The values of the headers of this name.
fn headers_named<'a>(
    headers: &'a [httparse::Header<'_>],
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> {
    headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case(name))
        .map(|header| header.value)
}

fn parse_length(value: &[u8]) -> Result<usize, HttpRefusal> {
    // Digits only: `parse` would take a sign.
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(HttpRefusal::Length);
    }
    let length = str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok());
    let length = length.filter(|length| *length <= MAX_BODY_BYTES).ok_or(HttpRefusal::Body)?;
    usize::try_from(length).map_err(|_| HttpRefusal::Body)
}

/// A response as bytes.
pub(super) fn render(answer: &WitnessAnswer) -> Vec<u8> {
    let WitnessAnswer { status, content_type, body } = answer;
    let (reason, length) = (reason(*status), body.len());
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        422 => "Unprocessable Entity",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte a read, as the slowest network does.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((byte, rest)) = self.0.split_first() else { return Ok(0) };
            let Some(place) = buffer.first_mut() else { return Ok(0) };
            *place = *byte;
            self.0 = rest;
            Ok(1)
        }
    }

    fn read(bytes: &[u8]) -> Result<HttpRequest, HttpRefusal> {
        let whole = read_request(&mut &*bytes);
        assert_eq!(whole, read_request(&mut Trickle(bytes)), "whole and byte by byte");
        whole
    }

    fn request(method: &str, path: &str, body: &[u8]) -> HttpRequest {
        HttpRequest { method: method.into(), path: path.into(), body: body.into() }
    }

    fn post(headers: &str) -> Vec<u8> {
        format!("POST / HTTP/1.1\r\n{headers}\r\n\r\nabc").into_bytes()
    }

    #[test]
    fn a_request_is_read_with_the_body_that_it_announces() {
        let cases: [(&[u8], HttpRequest); 3] = [
            (b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n", request("GET", "/x", b"")),
            (
                b"POST /add-checkpoint HTTP/1.1\r\ncontent-LENGTH: 3\r\n\r\nold",
                request("POST", "/add-checkpoint", b"old"),
            ),
            (b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET", request("POST", "/", b"")),
        ];
        for (bytes, expected) in cases {
            assert_eq!(read(bytes), Ok(expected));
        }
    }

    #[test]
    fn g3_what_is_ambiguous_or_too_long_is_refused_before_it_is_held() {
        let many: Vec<String> = (0..40).map(|number| format!("h{number}: x")).collect();
        let cases = [
            (b"".to_vec(), HttpRefusal::Gone),
            (b"GET / HTTP/1.1\r\n".to_vec(), HttpRefusal::Gone),
            (b"\x16\x03\x01\x02".to_vec(), HttpRefusal::Malformed),
            (b"GET / HTTP/9.9\r\n\r\n".to_vec(), HttpRefusal::Malformed),
            (post("Content-Length: 9"), HttpRefusal::Gone),
            (post("Host: h"), HttpRefusal::Length),
            (post("Content-Length: 3\r\nContent-Length: 3"), HttpRefusal::Length),
            (post("Content-Length: +3"), HttpRefusal::Length),
            (post("Content-Length: 3, 3"), HttpRefusal::Length),
            (post("Content-Length:"), HttpRefusal::Length),
            (post("Transfer-Encoding: chunked"), HttpRefusal::Length),
            (post("Content-Length: 3\r\nTransfer-Encoding: chunked"), HttpRefusal::Length),
            (post("Content-Length: 69633"), HttpRefusal::Body),
            (post("Content-Length: 99999999999999999999999"), HttpRefusal::Body),
            (post(&many.join("\r\n")), HttpRefusal::Head),
            (post(&format!("h: {}", "x".repeat(MAX_HEAD_BYTES))), HttpRefusal::Head),
        ];
        for (bytes, expected) in cases {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            assert_eq!(read(&bytes), Err(expected), "{text:.80}");
        }
    }
}
