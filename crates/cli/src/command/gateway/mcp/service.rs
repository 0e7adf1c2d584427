//! The way to `custody serve`, where it is decided what becomes of a message.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use custody_log::Digest;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::command::gateway::local_service::{LocalService, ServiceDegraded};
use crate::command::gateway::service_address::ServicePlace;
use crate::token_file;

/// The header with the digest of a server's command.
const COMMAND_HEADER: &str = "x-custody-command";
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
    #[command(flatten)]
    place: ServicePlace,
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
pub(super) struct Service {
    service: LocalService,
    path: String,
    command: Option<String>,
}

impl Service {
    /// For the messages of the server `server`, started by a command of the digest `command`.
    ///
    /// # Errors
    /// When there is no key, or the roots that are believed cannot be read.
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
        let service = LocalService::at(&args.place, key, Some(TIMEOUT))?;
        let process: [u8; 16] = custody_runtime::store::clock::random();
        let path = format!("/mcp/{server}/{}", hex::encode(process));
        Ok(Self { service, path, command: command.map(|command| command.to_string()) })
    }

    /// What becomes of a message.
    ///
    /// # Errors
    /// When the service cannot be asked, or does not say. The message may not go on then.
    pub(super) fn ask(&self, from: Sender, message: &str) -> anyhow::Result<Passed> {
        let path = format!("{}/{}", self.path, from.name());
        let command = self.command.as_deref().map(|command| (COMMAND_HEADER, command));
        let headers: Vec<(&str, &str)> = command.into_iter().collect();
        let answer = self.service.post(&path, &headers, message.as_bytes(), MAX_ANSWER_BYTES);
        let answer = answer.map_err(|error| {
            if error.is::<ServiceDegraded>() {
                return error.context("Custody is degraded; see `custody doctor`");
            }
            error.context("Custody does not answer; see whether `custody serve` runs")
        })?;
        serde_json::from_slice(&answer).context("the service did not say what becomes of a message")
    }
}
