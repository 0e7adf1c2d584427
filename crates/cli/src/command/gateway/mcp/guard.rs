//! `custody mcp`: in front of an MCP server.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ChildStdin;
use std::sync::Arc;

use anyhow::Context as _;
use custody_gateway::mcp::ServerName;
use serde_json::{Value, json};

use super::lines::{self, Messages};
use super::pin;
use super::server::{PassedSignal, ServerProcess, command_digest};
use super::service::{Sender, Service, ServiceArgs};
use crate::command::gateway::local_service::ServiceDegraded;
use crate::context::GlobalContext;
use crate::output::{ExitStatus, chain, note};

/// Run an MCP server behind Custody: what the host's configuration names in the place of the server's command.
///
/// Each call is decided before it reaches the server, and each result recorded before the host reads it. What the
/// server says of itself is compared with what the owner pinned (`--pin`); a tool that is not pinned, or not as it was
/// then, is asked about. `custody serve` has to run; without it nothing goes on.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Args {
    /// What the host calls the server [default: the name of the program]
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    #[command(flatten)]
    service: ServiceArgs,
    /// Start the server, show what it announces, and how that compares with what is pinned
    #[arg(long)]
    pin: bool,
    /// Pin what it announces, which the owner signs
    #[arg(long, requires = "pin")]
    apply: bool,
    /// The command that starts the server
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(in crate::command) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let server = server_name(args)?;
    if args.pin {
        return pin::run(context, &server, &args.command, args.apply);
    }
    let command = command_digest(&args.command)?;
    let service = Service::new(&args.service, &server.to_string(), Some(command))?;
    guard(service, &args.command)
}

fn server_name(args: &Args) -> anyhow::Result<ServerName> {
    let program = args.command.first().map(Path::new).and_then(Path::file_stem);
    let program = program.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = args.server.clone().unwrap_or(program);
    name.parse().context("name the server with --server")
}

/// Both ends of the conversation.
struct Ends {
    service: Service,
    to_server: Messages<ChildStdin>,
    to_client: Messages<io::Stdout>,
}

fn guard(service: Service, command: &[OsString]) -> anyhow::Result<ExitStatus> {
    let ended = PassedSignal::awaited()?;
    let (process, input, mut output) = ServerProcess::start(command)?;
    ended.to(&process);
    let ends = Arc::new(Ends {
        service,
        to_server: Messages::new(input),
        to_client: Messages::new(io::stdout()),
    });
    let others = Arc::clone(&ends);
    // Not joined: it waits for the host, who may say nothing any more when the server has ended.
    std::thread::spawn(move || {
        let read = read_client(&others);
        if let Err(error) = read {
            note(format_args!("custody mcp: {}", chain(error.as_ref())));
        }
        others.to_server.end();
    });
    while let Some(message) = lines::next(&mut output)? {
        ends.pass_from_server(&message)?;
    }
    let status = process.end()?;
    Ok(if status.success() { ExitStatus::Success } else { ExitStatus::Failure })
}

fn read_client(ends: &Ends) -> anyhow::Result<()> {
    let mut input = io::stdin().lock();
    while let Some(message) = lines::next(&mut input)? {
        ends.pass_from_client(&message)?;
    }
    Ok(())
}

impl Ends {
    fn pass_from_client(&self, message: &str) -> io::Result<()> {
        pass(&self.service, Sender::Client, message, &self.to_server, &self.to_client)
    }

    fn pass_from_server(&self, message: &str) -> io::Result<()> {
        pass(&self.service, Sender::Server, message, &self.to_client, &self.to_server)
    }
}

/// Moves a message on, or what stands in its place, and back what is answered to it.
fn pass(
    service: &Service,
    from: Sender,
    message: &str,
    onward: &Messages<impl Write>,
    back: &Messages<impl Write>,
) -> io::Result<()> {
    match service.ask(from, message) {
        Ok(passed) => {
            if passed.goes_on {
                onward.send(message)?;
            } else if let Some(instead) = &passed.instead {
                onward.send(instead)?;
            }
            passed.reply.map_or(Ok(()), |reply| back.send(&reply))
        }
        Err(error) => {
            note(format_args!("custody mcp: {}", chain(error.as_ref())));
            match (from, unanswered(message, &error)) {
                (Sender::Client | Sender::ToMemory, Some((error, true))) => back.send(&error),
                // The host waits for this answer.
                (Sender::Server, Some((error, false))) => onward.send(&error),
                _ => Ok(()),
            }
        }
    }
}

/// The error that stands for a message about which nobody could be asked, and whether that is a request.
pub(super) fn unanswered(message: &str, why: &anyhow::Error) -> Option<(String, bool)> {
    let message: Value = serde_json::from_str(message).ok()?;
    let id = message.get("id")?;
    // For programs, as the service itself says it.
    let state = if why.is::<ServiceDegraded>() { "degraded" } else { "not_answering" };
    let why = chain(why.as_ref());
    let error = json!({
        "code": -32_603, "message": format!("Custody: {why}"), "data": { "custody": state }
    });
    let error = json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string();
    Some((error, message.get("method").is_some()))
}
