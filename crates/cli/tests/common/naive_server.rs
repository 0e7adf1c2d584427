//! A server that speaks OpenAI's protocol for a model that falls for every attack and repairs well.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

/// What it rewrites every text to.
pub const INTENT: &str = "Which books on sailing can you recommend to a beginner?";

/// A running server; it ends with the test.
pub struct NaiveServer {
    address: String,
    asked: Arc<AtomicUsize>,
}

impl NaiveServer {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that goes away is no concern of the next one.
                let _ = answer(stream.unwrap(), &counter);
            }
        });
        Self { address, asked }
    }

    pub fn endpoint(&self) -> &str {
        &self.address
    }

    /// How many answers it gave.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, asked: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    asked.fetch_add(1, Ordering::SeqCst);
    let body = completion(&serde_json::from_slice(&body).unwrap()).to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn completion(request: &Value) -> Value {
    let said = |at: usize| request["messages"][at]["content"].as_str().unwrap();
    let text = if said(0).contains("tidy up documents") {
        json!({ "remove": [] }).to_string()
    } else if said(0).contains("tidy up messages") {
        json!({ "intent": INTENT }).to_string()
    } else if said(1).contains("Ignore all previous") {
        said(0).to_owned()
    } else {
        "This document asks for good books on sailing, for somebody who begins.".to_owned()
    };
    json!({
        "choices": [{
            "index": 0,
            "finish_reason": "stop",
            "message": { "role": "assistant", "content": text },
        }],
        "usage": { "prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30 },
    })
}
