//! A running gateway: the real `custody serve`, on a free port of the loopback interface, in front of a scripted
//! vendor.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::{CUSTODY, Home, OWNER_PASSPHRASE};

/// The answer to every request.
pub const ANSWER: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hm."},"finish_reason":"stop"}]}"#;

/// A vendor that ends with the test.
pub struct Vendor {
    pub url: String,
    asked: Arc<AtomicUsize>,
}

impl Vendor {
    pub fn start() -> Self {
        Self::answering(ANSWER)
    }

    /// One that answers with `body`.
    pub fn answering(body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that goes away is no concern of the next one.
                let _ = answer(stream.unwrap(), body, &counter);
            }
        });
        Self { url, asked }
    }

    /// How many requests reached it.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, body: &str, asked: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 0 && line.trim() != "" {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
    asked.fetch_add(1, Ordering::SeqCst);
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

/// A gateway that ends with the test, or when it is asked to.
pub struct Gateway {
    child: Child,
    /// `HOST:PORT`.
    pub address: String,
    log: Arc<Mutex<String>>,
}

impl Home {
    /// Connects an OpenAI client that `upstream` answers, and guards it. Returns its key.
    pub fn connect_client(&self, upstream: &str) -> String {
        let args = ["connect", "openai", "--no-wait", "--json", "--upstream", upstream];
        let connected = self.typing(&args, &[OWNER_PASSPHRASE]).expect(0).json();
        self.typing(&["enforce", "openai"], &[OWNER_PASSPHRASE]).expect(0);
        connected[0]["key"].as_str().unwrap().to_owned()
    }

    /// Starts the gateway after the shell has run `before`.
    pub fn gateway(&self, before: &str) -> Gateway {
        self.start_gateway(before, &[])
    }

    /// Starts it with these options.
    pub fn gateway_with(&self, options: &[&str]) -> Gateway {
        self.start_gateway("", options)
    }

    fn start_gateway(&self, before: &str, options: &[&str]) -> Gateway {
        let mut command = Command::new("sh");
        let script = format!("{before}\nexec \"$0\" serve --listen 127.0.0.1:0 \"$@\"");
        let args = [&["-c", &script, CUSTODY], options].concat();
        self.prepare(&mut command, &args, &[]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut address = None;
        while address.is_none() {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
            address = line.split_once("://").map(|(_, rest)| rest.trim_end().to_owned());
        }
        let address = address.unwrap().trim_end_matches('.').to_owned();
        let log: Arc<Mutex<String>> = Arc::default();
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).unwrap_or(0) > 0 {
                kept.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        Gateway { child, address, log }
    }
}

impl Gateway {
    /// Sends a request and returns the whole answer; nothing if the connection broke.
    pub fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(&self.address) else { return String::new() };
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        let mut answer = String::new();
        // Who is refused early is not read to the end.
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    /// Sends `text` as the user's message with `key`.
    pub fn chat(&self, key: &str, text: &str) -> String {
        let body = serde_json::json!({"messages": [{"role": "user", "content": text}]});
        let headers = format!("x-custody-key: {key}\r\n");
        self.send("POST", "/openai/v1/chat/completions", &headers, &body.to_string())
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Asks it to end, as a supervisor does, and waits until it has.
    pub fn terminate(&mut self) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
