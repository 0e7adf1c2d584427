//! The sockets of clients: how many there may be, how long each may be silent, and how they end.
//!
//! A connection that sends no head of a request in time is closed, so connections that do nothing free their
//! places for others. Beyond the limit new ones wait until then.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::log;
use crate::tls::CertificateInUse;

/// How long a client may take for the head of a request, from the end of the one before.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may take to agree on a key.
const TLS_TIMEOUT: Duration = Duration::from_secs(10);
/// How long what runs may go on when the service is asked to end.
const GRACE: Duration = Duration::from_secs(10);
/// The pause after a connection that could not be taken, as when the process has no file descriptor left.
const PAUSE: Duration = Duration::from_millis(50);

/// The most connections, however many files the process may open.
const MAX_CONNECTIONS: u64 = 16_384;
/// File descriptors that are left for the store and for connections to vendors.
const RESERVED_FILES: u64 = 512;

/// Answers clients until `end`, and then what has begun, for as long as [`GRACE`] lasts.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<CertificateInUse>>,
    router: Router,
    end: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(places()));
    let graceful = GracefulShutdown::new();
    let mut end = std::pin::pin!(end);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = &mut end => break,
        };
        match accepted {
            Ok((stream, place)) => {
                let client = Client { router: router.clone(), watcher: graceful.watcher(), place };
                tokio::spawn(client.answer(stream, tls.clone()));
            }
            Err(error) => {
                log::note(&format!("a connection could not be taken: {error}"));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    // Whoever has no answer by then gets none.
    drop(tokio::time::timeout(GRACE, graceful.shutdown()).await);
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, place))
}

/// How many connections there may be: as many as the process may open files for, with those to vendors.
fn places() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Where it is refused, what was allowed before holds.
    let is_raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let files = if is_raised { maximum } else { current }.unwrap_or(u64::MAX);
    let connections = files.saturating_sub(RESERVED_FILES).clamp(64, MAX_CONNECTIONS);
    usize::try_from(connections).unwrap_or(Semaphore::MAX_PERMITS)
}

/// A client that is connected.
struct Client {
    router: Router,
    watcher: Watcher,
    place: OwnedSemaphorePermit,
}

impl Client {
    async fn answer(self, stream: TcpStream, tls: Option<Arc<CertificateInUse>>) {
        match tls {
            None => self.answer_on(stream).await,
            Some(tls) => {
                // It may read the files.
                let acceptor = tokio::task::spawn_blocking(move || tls.acceptor());
                let Ok(acceptor) = acceptor.await else { return };
                let agreed = tokio::time::timeout(TLS_TIMEOUT, acceptor.accept(stream)).await;
                // Who does not speak TLS is not answered.
                if let Ok(Ok(stream)) = agreed {
                    self.answer_on(stream).await;
                }
            }
        }
    }

    async fn answer_on(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { router, watcher, place } = self;
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
        // A client that goes away or sends no HTTP is no concern of the service.
        drop(watcher.watch(connection).await);
        drop(place);
    }
}
