//! Pinning a server: everything that it announces, as it announces it now.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use custody_gateway::mcp::{ServerName, ServerPins, pinned_now};
use custody_service::settings::GatewaySettings;
use serde_json::{Value, json};

use super::lines;
use super::server::{ServerProcess, command_digest};
use crate::command::gateway::sign::sign;
use crate::context::GlobalContext;
use crate::output::{BOLD, ExitStatus, GOOD, WARN, json_line, line, paint};

/// How long a server may take for one answer. Package runners install it first.
const PATIENCE: Duration = Duration::from_secs(120);
/// The most pages of a list.
const MAX_PAGES: usize = 100;

/// The lists of a server, with the capability that each needs.
const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resources"),
];

pub(super) fn run(
    context: &GlobalContext,
    server: &ServerName,
    command: &[OsString],
    is_applied: bool,
) -> anyhow::Result<ExitStatus> {
    let announced = announced(command)?;
    let pins = pinned_now(Some(command_digest(command)?), &announced);
    let store = context.open()?;
    let mut settings = GatewaySettings::signed(&store)?.unwrap_or_default();
    let before = settings.server.get(&server.to_string()).cloned();
    let is_same = before.as_ref() == Some(&pins);
    show(context, &before.unwrap_or_default(), &pins)?;
    if is_same {
        return said(context, "Everything is as it is pinned.");
    }
    if !is_applied {
        return said(context, "Nothing was pinned; run again with --apply.");
    }
    let owner = context.human(&store, None)?;
    settings.server.insert(server.to_string(), pins);
    sign(&store, &owner, &context.gateway_settings(), &settings)?;
    said(context, "Pinned. A server that runs is compared with it from its next start on.")
}

fn said(context: &GlobalContext, text: &str) -> anyhow::Result<ExitStatus> {
    if !context.json {
        line(text);
    }
    Ok(ExitStatus::Success)
}

/// Shows what is new, changed and gone.
fn show(context: &GlobalContext, before: &ServerPins, now: &ServerPins) -> anyhow::Result<()> {
    let command = (before.command != now.command).then(|| "command".to_owned());
    let keys: BTreeSet<String> =
        before.announced.keys().chain(now.announced.keys()).cloned().collect();
    for key in command.into_iter().chain(keys) {
        let state = match (before.announced.get(&key), now.announced.get(&key)) {
            (None, None) if before.command.is_none() => "new",
            (None, None) => "changed",
            (None, Some(_)) => "new",
            (Some(_), None) => "gone",
            (Some(before), Some(now)) if before == now => "same",
            (Some(_), Some(_)) => "changed",
        };
        if context.json {
            json_line(&json!({ "what": key, "state": state }))?;
        } else {
            let style = if state == "same" { GOOD } else { WARN };
            line(format_args!(
                "{}  {}",
                paint(style, format_args!("{state:<7}")),
                paint(BOLD, key)
            ));
        }
    }
    Ok(())
}

/// Everything that a server announces.
fn announced(command: &[OsString]) -> anyhow::Result<Vec<Value>> {
    let (process, input, output) = ServerProcess::start(command)?;
    let mut asking = Asking::new(input, output);
    let hello = asking.greet()?;
    let capabilities = hello["capabilities"].clone();
    let mut announced = vec![hello];
    for (method, capability) in LISTS {
        if !capabilities[capability].is_null() {
            announced.extend(asking.list(method)?);
        }
    }
    drop(asking);
    process.end()?;
    Ok(announced)
}

/// A client that asks one thing after the other.
struct Asking {
    input: ChildStdin,
    answers: Receiver<Value>,
    next: u64,
    /// What goes into `_meta`, in revision 2026-07-28.
    meta: Option<Value>,
}

impl Asking {
    fn new(input: ChildStdin, mut output: BufReader<ChildStdout>) -> Self {
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            while let Ok(Some(message)) = lines::next(&mut output) {
                // What is no JSON is a word to people.
                let Ok(message) = serde_json::from_str(&message) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { input, answers, next: 0, meta: None }
    }

    /// Says hello, in the revisions before 2026-07-28 or in that one.
    fn greet(&mut self) -> anyhow::Result<Value> {
        let client = json!({ "name": "custody", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client
        });
        if let Ok(hello) = self.ask("initialize", params)? {
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
            return Ok(hello);
        }
        self.meta = Some(json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": client,
        }));
        match self.ask("server/discover", json!({}))? {
            Ok(hello) => Ok(hello),
            Err(error) => bail!("the server speaks no revision that is known here: {error}"),
        }
    }

    /// All pages of a list. A server that does not know the method has none.
    fn list(&mut self, method: &str) -> anyhow::Result<Vec<Value>> {
        let (mut pages, mut params) = (Vec::new(), json!({}));
        while let Ok(page) = self.ask(method, params)? {
            ensure!(pages.len() < MAX_PAGES, "`{method}` has more than {MAX_PAGES} pages");
            let cursor = page.get("nextCursor").cloned().filter(Value::is_string);
            pages.push(page);
            let Some(cursor) = cursor else { break };
            params = json!({ "cursor": cursor });
        }
        Ok(pages)
    }

    /// The result of a request, or the error that the server answers with.
    fn ask(&mut self, method: &str, mut params: Value) -> anyhow::Result<Result<Value, Value>> {
        self.next += 1;
        let id = self.next;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let message = match self.answers.recv_timeout(PATIENCE) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => bail!("the server does not answer `{method}`"),
                Err(RecvTimeoutError::Disconnected) => bail!("the server ended at `{method}`"),
            };
            if message["id"] == id && message.get("method").is_none() {
                return Ok(match message.get("result") {
                    Some(result) => Ok(result.clone()),
                    None => Err(message["error"].clone()),
                });
            }
        }
    }

    fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        writeln!(self.input, "{message}").context("the server takes no input")
    }
}
