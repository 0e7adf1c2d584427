//! A chat server of the test's own, on this machine, that does as it is told with each connection.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is done with one connection, once its request was read. An error only ends it.
pub(crate) type Act = Box<dyn FnOnce(&TcpStream) -> std::io::Result<()> + Send>;

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    /// Its first line and its headers, in lower case.
    pub(crate) head: String,
    /// Its body; `null` where there is none.
    pub(crate) body: serde_json::Value,
}

/// A server on a port of its own. It does one thing per connection, in order, and then answers 418. It says that it
/// closes each connection, so that no request meets one that is just being closed.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where it is.
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Server {
    pub(crate) fn new(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, mut acts) = (Arc::clone(&requests), acts.into_iter());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, log) = (stream.unwrap(), Arc::clone(&log));
                let act = acts.next().unwrap_or_else(|| status(418, "", "nothing more to say"));
                std::thread::spawn(move || {
                    if let Some(request) = request(&stream) {
                        log.lock().unwrap().push(request);
                        let _ = act(&stream);
                        let _ = stream.shutdown(Shutdown::Both);
                    }
                });
            }
        });
        Self { url, requests }
    }

    /// What was requests so far, in order.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }
}

fn request(stream: &TcpStream) -> Option<ReceivedRequest> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|length| *length > 0)?;
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(ReceivedRequest { head, body: serde_json::from_slice(&body).unwrap_or_default() })
}

/// Exactly these bytes, and the end of the connection.
pub(crate) fn bytes(bytes: impl Into<Vec<u8>>) -> Act {
    let bytes = bytes.into();
    Box::new(move |mut stream| stream.write_all(&bytes))
}

/// A status with header lines (each ends with `\r\n`) and a body.
pub(crate) fn status(status: u16, headers: &str, body: &str) -> Act {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}");
    bytes(format!("{head}\r\n{headers}\r\n{body}"))
}

/// A success in JSON.
pub(crate) fn json(body: &serde_json::Value) -> Act {
    status(200, "content-type: application/json\r\n", &body.to_string())
}

const EVENTS: &str =
    "HTTP/1.1 200 X\r\nconnection: close\r\ncontent-type: text/event-stream; charset=utf-8\r\n";

/// A stream of events. Each portion of bytes is an HTTP chunk, which the client reads apart from the next.
pub(crate) fn events(portions: &[&[u8]]) -> Act {
    let mut all = format!("{EVENTS}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for portion in portions.iter().chain([&&b""[..]]) {
        all.extend(format!("{:x}\r\n", portion.len()).bytes());
        all.extend_from_slice(portion);
        all.extend(b"\r\n");
    }
    bytes(all)
}

/// The beginning of a stream of more bytes than come.
pub(crate) fn cut_events(portion: &[u8]) -> Act {
    let mut all = format!("{EVENTS}content-length: 100000\r\n\r\n").into_bytes();
    all.extend_from_slice(portion);
    bytes(all)
}

/// A beginning, and then one byte at a time for as long as somebody listens.
pub(crate) fn drip(beginning: &'static str) -> Act {
    Box::new(move |mut stream| {
        stream.set_nodelay(true)?;
        stream.write_all(beginning.as_bytes())?;
        loop {
            stream.write_all(b" ")?;
            std::thread::sleep(Duration::from_millis(5));
        }
    })
}

/// A beginning, and then silence until the other side leaves.
pub(crate) fn silence(beginning: &'static str) -> Act {
    Box::new(move |mut stream| {
        stream.write_all(beginning.as_bytes())?;
        stream.read(&mut [0]).map(drop)
    })
}

/// A success in JSON of 100 MB.
pub(crate) fn huge(headers: &'static str) -> Act {
    Box::new(move |mut stream| {
        write!(stream, "HTTP/1.1 200 X\r\n{headers}content-length: 100000000\r\n\r\n")?;
        let megabyte = vec![b'"'; 1_000_000];
        (0..100).try_for_each(|_| stream.write_all(&megabyte))
    })
}
