//! A web server of the test's own, on this machine, that can misbehave.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// How a path is answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// With these bytes.
    Bytes(Vec<u8>),
    /// With a status and no file.
    Status(u16),
    /// With the way to another path or URL.
    Redirect(String),
    /// With fewer bytes than were promised, and the end of the connection.
    Cut(Vec<u8>, usize),
    /// With bytes that never end.
    Endless,
    /// With these bytes of more, and then silence until the other side leaves.
    Stall(Vec<u8>),
}

/// A server on a port of its own. What it does not know answers 404.
#[derive(Debug)]
pub struct Server {
    pub url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn new(answers: &[(&str, Answer)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers: BTreeMap<String, Answer> =
            answers.iter().map(|(path, answer)| ((*path).to_owned(), answer.clone())).collect();
        let (answers, asked) = (Arc::new(answers), Arc::new(Mutex::new(Vec::new())));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answers, log) = (Arc::clone(&answers), Arc::clone(&log));
                std::thread::spawn(move || serve(&stream.unwrap(), &answers, &log));
            }
        });
        Self { url, asked }
    }

    /// The paths asked for, in order; behind a proxy, what it was asked to connect to.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(stream: &TcpStream, answers: &BTreeMap<String, Answer>, log: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    while let Some((method, path)) = request(&mut reader) {
        log.lock().unwrap().push(path.clone());
        let mut out = stream;
        if method == "CONNECT" {
            // As a proxy, whatever is asked for is here.
            let _ = out.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            continue;
        }
        if answer(&mut out, &mut reader, answers.get(&path)).is_err() {
            return;
        }
    }
}

/// Answers once. An error ends the connection.
fn answer(
    out: &mut impl Write,
    reader: &mut impl Read,
    answer: Option<&Answer>,
) -> std::io::Result<()> {
    match answer {
        None => head(out, 404, "content-length: 0"),
        Some(Answer::Status(status)) => head(out, *status, "content-length: 0"),
        Some(Answer::Redirect(to)) => {
            head(out, 302, &format!("location: {to}\r\ncontent-length: 0"))
        }
        Some(Answer::Bytes(bytes)) => {
            head(out, 200, &format!("content-length: {}", bytes.len()))?;
            out.write_all(bytes)
        }
        Some(Answer::Cut(bytes, promised)) => {
            head(out, 200, &format!("content-length: {promised}"))?;
            out.write_all(bytes)?;
            Err(std::io::ErrorKind::ConnectionAborted.into())
        }
        Some(Answer::Endless) => {
            head(out, 200, "connection: close")?;
            loop {
                out.write_all(&[b'x'; 4096])?;
            }
        }
        Some(Answer::Stall(bytes)) => {
            head(out, 200, "content-length: 1000000")?;
            out.write_all(bytes)?;
            out.flush()?;
            let _ = reader.read(&mut [0]);
            Err(std::io::ErrorKind::ConnectionAborted.into())
        }
    }
}

fn head(out: &mut impl Write, status: u16, fields: &str) -> std::io::Result<()> {
    write!(out, "HTTP/1.1 {status} X\r\n{fields}\r\n\r\n")
}

/// Method and path of the next request; `None` at the end of the connection.
fn request(reader: &mut impl BufRead) -> Option<(String, String)> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|length| *length > 0)?;
    let mut line = String::new();
    while reader.read_line(&mut line).ok()? > 2 {
        line.clear();
    }
    let mut words = first.split(' ').map(str::to_owned);
    Some((words.next()?, words.next()?))
}
