//! A scripted vendor, and a service in front of it.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
#![allow(dead_code, reason = "each test file uses part of it")]

use std::collections::BTreeMap;
use std::io::{BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use custody_gateway::proxy::{GuardMode, UserText};
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::Role;
use custody_kernel::record::Record;
use custody_log::Seq;
use custody_runtime::advice::{Advice, Coverage};
use custody_runtime::clock::Clock;
use custody_runtime::principals::NewPrincipal;
use custody_runtime::scratch::Scratch;
use custody_runtime::watch::adopt_file;
use custody_service::settings::{ConnectionEntry, GatewaySettings, SETTINGS_KEY};
use custody_service::{Server, ServerOptions, SessionModels, UpstreamOptions};

pub(crate) const ANSWER: &str = r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"Hm."},"finish_reason":"stop"}]}"#;
pub(crate) const CHAT: &str = "/openai/v1/chat/completions";
pub(crate) const HELLO: &str = r#"{"messages":[{"role":"user","content":"Hello."}]}"#;

/// A vendor that answers every request with the same bytes, and keeps what it was asked.
pub(crate) struct Vendor {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

impl Vendor {
    /// A vendor that answers every request alike.
    pub(crate) fn new(answer: &'static [u8]) -> Self {
        // The client may be gone already.
        Self::scripted(move |stream, _| drop(stream.write_all(answer)))
    }

    /// A vendor that answers each request as `script` says, and then closes the connection.
    pub(crate) fn scripted(script: impl Fn(&mut TcpStream, &str) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let keeps = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let (keeps, script) = (Arc::clone(&keeps), script.clone());
                std::thread::spawn(move || {
                    let request = read_message(&mut BufReader::new(&stream));
                    keeps.lock().unwrap().push(request.clone());
                    script(&mut stream, &request);
                });
            }
        });
        Self { address, asked }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// One HTTP message with a length.
pub(crate) fn read_message(reader: &mut impl std::io::BufRead) -> String {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap_or_default();
    format!("{head}\r\n{}", String::from_utf8_lossy(&body))
}

pub(crate) fn answer(status: &str, kind: &str, body: &str) -> &'static [u8] {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nx-request-id: r1\r\nConnection: close\r\n\r\n",
        body.len()
    );
    (head + body).into_bytes().leak()
}

/// This machine only, and vendors as they are reached without options.
pub(crate) fn options() -> ServerOptions {
    let address = "127.0.0.1:0".parse().unwrap();
    let upstream = UpstreamOptions::default();
    ServerOptions { address, tls: None, host_names: Vec::new(), upstream }
}

/// A running service.
pub(crate) struct Running {
    pub(crate) scratch: Scratch,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    /// The keys of its connections, by their names.
    pub(crate) tokens: BTreeMap<String, String>,
    /// That of `ada`.
    pub(crate) token: String,
    end: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    pub(crate) fn new(entry: ConnectionEntry, role: Role) -> Self {
        Self::listening(entry, role, options())
    }

    /// With one connection, `ada`.
    pub(crate) fn listening(entry: ConnectionEntry, role: Role, options: ServerOptions) -> Self {
        Self::with(BTreeMap::from([("ada".to_owned(), entry)]), role, options)
    }

    pub(crate) fn with(
        connection: BTreeMap<String, ConnectionEntry>,
        role: Role,
        options: ServerOptions,
    ) -> Self {
        let scratch = Scratch::new(Limits::default(), Clock::System).unwrap();
        let mut tokens = BTreeMap::new();
        for name in connection.keys() {
            let (tenant, public_key, with_token) = (Tenant::main(), None, true);
            let new = NewPrincipal { name, role, tenant, public_key, with_token };
            let (_, token) = scratch.store.add_principal(&scratch.owner, new).unwrap();
            tokens.insert(name.clone(), token.unwrap().to_string());
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.toml");
        std::fs::write(
            &file,
            toml::to_string(&GatewaySettings { connection, ..Default::default() }).unwrap(),
        )
        .unwrap();
        let key = SETTINGS_KEY.parse().unwrap();
        adopt_file(&scratch.store, &scratch.owner, key, &file).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = tokio::sync::oneshot::channel();
        let store = scratch.store.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server =
                    Server::bind(options, store, file, SessionModels::default()).await.unwrap();
                sender.send(server.address().unwrap()).unwrap();
                server.run(async { drop(ended.await) }).await;
            });
        });
        let address = receiver.recv().unwrap();
        let token = tokens.get("ada").cloned().unwrap_or_default();
        Self { scratch, folder, address, tokens, token, end: Some(end), thread: Some(thread) }
    }

    /// Asks the service to end.
    pub(crate) fn end(&mut self) {
        self.end.take().unwrap().send(()).unwrap();
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&mut self) {
        self.thread.take().unwrap().join().unwrap();
    }

    pub(crate) fn of(vendor: &Vendor, mode: GuardMode) -> Self {
        let upstream = Some(format!("http://{}", vendor.address));
        let entry =
            ConnectionEntry { mode, user_text: UserText::Trusted, upstream, ..Default::default() };
        Self::new(entry, Role::User)
    }

    /// A connection on which a request was sent.
    pub(crate) fn begin(&self, head: &str, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        write!(stream, "{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n").unwrap();
        // A service that refuses early does not read the rest.
        let _ = stream.write_all(body);
        stream
    }

    pub(crate) fn send(&self, head: &str, body: &[u8]) -> String {
        let mut answer = Vec::new();
        let _ = self.begin(head, body).read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The head of a request to `path`.
    pub(crate) fn head(&self, path: &str, headers: &str) -> String {
        format!("POST {path} HTTP/1.1\r\nHost: {}\r\n{headers}", self.address)
    }

    pub(crate) fn post(&self, path: &str, headers: &str, body: &[u8]) -> String {
        self.send(&self.head(path, headers), body)
    }

    /// The headers of a client of `ada`.
    pub(crate) fn headers(&self) -> String {
        format!("x-custody-key: {}\r\nAuthorization: Bearer vendor-canary", self.token)
    }

    pub(crate) fn chat(&self, body: &str) -> String {
        self.post(CHAT, &self.headers(), body.as_bytes())
    }

    pub(crate) fn records(&self) -> u64 {
        self.scratch.store.state(|state| state.len()).unwrap()
    }

    /// Everything that was recorded.
    pub(crate) fn all_records(&self) -> Vec<Record> {
        (0..self.records()).map(|seq| self.scratch.store.record(Seq(seq)).unwrap()).collect()
    }

    /// How the exchanges ended, as the record says.
    pub(crate) fn coverages(&self) -> Vec<Coverage> {
        let advice = self.all_records().into_iter().flat_map(|record| record.advice);
        let coverages = advice.filter_map(|advice| {
            if let Advice::Exchange(exchange) = advice { Some(exchange.coverage) } else { None }
        });
        coverages.collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.end.is_some() {
            self.end();
        }
        if self.thread.is_some() {
            self.wait();
        }
    }
}
