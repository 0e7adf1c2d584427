//! `custody serve`: the service that agents and their hooks talk to.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use custody_pipeline::DetectorAdvice;
use custody_runtime::advice::Advisor;
use custody_service::Server;
use custody_service::settings::GatewaySettings;
use tokio::signal::unix::{SignalKind, signal};

use crate::context::GlobalContext;
use crate::output::{ExitStatus, note};

/// The address of the service when none is given.
pub(super) const ADDRESS: &str = "127.0.0.1:7411";

/// Run the service that agents and their hooks talk to.
///
/// Listens on this machine only. Prints one line of JSON on standard error for each exchange with a model,
/// without its contents. Ends on Ctrl-C or SIGTERM, after what has begun.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = ADDRESS)]
    listen: SocketAddr,
}

pub(crate) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let settings = context.gateway_settings();
    let signed = GatewaySettings::signed(&store)?.unwrap_or_default();
    if signed.connection.is_empty() {
        note("There are no connections yet; make one with `custody connect`.");
    }
    for (name, entry) in &signed.connection {
        note(format_args!("{name}: {}", entry.mode.as_str()));
    }
    let advisor: Arc<dyn Advisor> = Arc::new(DetectorAdvice);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("could not start the threads of the service")?;
    runtime.block_on(async {
        let server = Server::bind(args.listen, store, settings, Some(advisor)).await?;
        note(format_args!("Listening on http://{}.", server.address()?));
        let mut terminated = signal(SignalKind::terminate())?;
        let end = async move {
            // Without the signal there is nothing to wait for but the other.
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminated.recv() => {}
            }
        };
        server.run(end).await?;
        anyhow::Ok(())
    })?;
    Ok(ExitStatus::Success)
}
