//! `custody mcp-memory`: the guarded memory as an MCP server.

use std::io;

use custody_gateway::mcp::ServerName;

use super::guard::unanswered;
use super::lines::{self, Messages};
use super::service::{Sender, Service, ServiceArgs};
use crate::output::{ExitStatus, chain, note};

/// The name under which the manifests of the known hosts describe the memory's tools.
const NAME: &str = "custody-memory";

/// Offer the guarded memory as an MCP server: remember, recall, list, forget.
///
/// What is remembered and read belongs to the conversation whose call it is, where Custody's hooks or proxy see that
/// call; what the model makes up alone is untrusted. `custody serve` has to run.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Args {
    /// What the host calls this server
    #[arg(long, value_name = "NAME", default_value = NAME)]
    server: String,
    #[command(flatten)]
    service: ServiceArgs,
}

pub(in crate::command) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let server: ServerName = args.server.parse()?;
    let service = Service::new(&args.service, &server.to_string(), None)?;
    let to_client = Messages::new(io::stdout());
    let mut input = io::stdin().lock();
    while let Some(message) = lines::next(&mut input)? {
        let reply = match service.ask(Sender::ToMemory, &message) {
            Ok(passed) => passed.reply,
            Err(error) => {
                note(format_args!("custody mcp-memory: {}", chain(error.as_ref())));
                unanswered(&message, &error)
                    .filter(|(_, is_request)| *is_request)
                    .map(|(error, _)| error)
            }
        };
        if let Some(reply) = reply {
            to_client.send(&reply)?;
        }
    }
    Ok(ExitStatus::Success)
}
