//! `custody serve`: the service that agents and their hooks talk to.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use custody_pipeline::DetectorAdvice;
use custody_runtime::advice::Advisor;
use custody_runtime::session::search::VectorModel;
use custody_service::settings::GatewaySettings;
use custody_service::{Server, ServerOptions, SessionModels, TlsFiles, UpstreamOptions};
use tokio::signal::unix::{SignalKind, signal};

use crate::command::session::InstalledModel;
use crate::context::GlobalContext;
use crate::output::{ExitStatus, note};
use crate::running_service::AnnouncedService;

/// The address of the service when none is given.
pub(super) const ADDRESS: &str = "127.0.0.1:7411";

/// Run the service that agents and their hooks talk to.
///
/// Listens on this machine only, unless it has a certificate. Prints one line of JSON on standard error for each
/// exchange with a model, without its contents. Ends on Ctrl-C or SIGTERM, after what has begun.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = ADDRESS)]
    listen: SocketAddr,
    /// The certificate to show, and those that lead to its root, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A name under which other machines reach the service; may be given several times
    #[arg(long, value_name = "HOST")]
    host_name: Vec<String>,
    /// Trust the roots in this PEM file, besides the system's, when vendors are reached
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The proxy through which vendors are reached [default: that of HTTPS_PROXY]
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
}

impl Args {
    fn options(&self) -> ServerOptions {
        let tls = self.tls_cert.clone().zip(self.tls_key.clone());
        let tls = tls.map(|(certificate, key)| TlsFiles { certificate, key });
        let upstream = UpstreamOptions { ca: self.ca.clone(), proxy: self.proxy.clone() };
        ServerOptions { address: self.listen, tls, host_names: self.host_name.clone(), upstream }
    }
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
    let vectors =
        InstalledModel::find(context).map(|model| Arc::new(model) as Arc<dyn VectorModel>);
    let models = SessionModels { advisor: Some(advisor), vectors };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("could not start the threads of the service")?;
    runtime.block_on(async {
        let server = Server::bind(args.options(), store, settings, models).await?;
        let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
        let address = server.address()?;
        let announced =
            AnnouncedService::at(&context.paths().keys, address, args.tls_cert.is_some());
        if let Err(error) = &announced {
            note(format_args!("Other commands do not find the service: {error}."));
        }
        note(format_args!("Listening on {scheme}://{address}."));
        let mut terminated = signal(SignalKind::terminate())?;
        let end = async move {
            // Without the signal there is nothing to wait for but the other.
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminated.recv() => {}
            }
        };
        server.run(end).await;
        drop(announced);
        anyhow::Ok(())
    })?;
    Ok(ExitStatus::Success)
}
