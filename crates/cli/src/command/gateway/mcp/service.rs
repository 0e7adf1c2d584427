//! The way to `custody serve`, where it is decided what becomes of a message.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use custody_log::Digest;
use serde::Deserialize;
use ureq::Agent;
use zeroize::Zeroizing;

use crate::command::gateway::serve::ADDRESS;
use crate::token_file;

/// The variable with the key of a connection, where it is not in a file.
const KEY_VARIABLE: &str = "CUSTODY_GATEWAY_KEY";
/// How long an answer may take. A call waits for the disk, and nothing else does.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The longest answer: a message within JSON.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

/// Where the service is, and with which key it is asked.
#[derive(Debug, clap::Args)]
pub(super) struct ServiceArgs {
    /// The file with the key of the connection; without it, the variable CUSTODY_GATEWAY_KEY
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The address of `custody serve`
    #[arg(long, value_name = "ADDRESS", default_value = ADDRESS)]
    address: SocketAddr,
}

/// What becomes of a message.
#[derive(Debug, Deserialize)]
pub(super) struct Passed {
    pub(super) goes_on: bool,
    pub(super) instead: Option<String>,
    pub(super) reply: Option<String>,
}

/// Whom a message is from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sender {
    Client,
    Server,
    /// The client, to the memory.
    ToMemory,
}

impl Sender {
    const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::ToMemory => "memory",
        }
    }
}

/// The service, as one process asks it.
#[derive(Debug)]
pub(super) struct Service {
    agent: Agent,
    base: String,
    key: Zeroizing<String>,
    command: Option<Digest>,
}

impl Service {
    /// For the messages of the server `server`, started by a command of the digest `command`.
    ///
    /// # Errors
    /// When there is no key.
    pub(super) fn new(
        args: &ServiceArgs,
        server: &str,
        command: Option<Digest>,
    ) -> anyhow::Result<Self> {
        let key = match &args.key {
            Some(file) => token_file::read(file)?,
            None => Zeroizing::new(std::env::var(KEY_VARIABLE).with_context(|| {
                format!("give the key of a connection with --key FILE or in {KEY_VARIABLE}; see `custody connect`")
            })?),
        };
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            // What is asked here stays on this machine.
            .proxy(None);
        let process: [u8; 16] = custody_runtime::store::clock::random();
        let process = Digest::of(&process).to_string();
        let process = process.get(..32).unwrap_or(&process);
        let base = format!("http://{}/mcp/{server}/{process}", args.address);
        Ok(Self { agent: config.build().into(), base, key, command })
    }

    /// What becomes of a message.
    ///
    /// # Errors
    /// When the service cannot be asked, or does not say. The message may not go on then.
    pub(super) fn ask(&self, from: Sender, message: &str) -> anyhow::Result<Passed> {
        let mut request = self
            .agent
            .post(format!("{}/{}", self.base, from.name()))
            .header("x-custody-key", self.key.as_str());
        if let Some(command) = &self.command {
            request = request.header("x-custody-command", command.to_string());
        }
        let mut answer =
            request.send(message).context("Custody is not answering; start `custody serve`")?;
        let (status, body) = (answer.status(), answer.body_mut());
        let text = body.with_config().limit(MAX_ANSWER_BYTES).read_to_string()?;
        if !status.is_success() {
            let error: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            bail!("{}", error["error"]["message"].as_str().unwrap_or("the service failed"));
        }
        serde_json::from_str(&text).context("the service did not say what becomes of a message")
    }
}
