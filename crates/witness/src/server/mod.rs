//! A witness on a TCP port.
//!
//! One request a connection, one thread a connection, and a bound on everything: connections at a time, the time
//! that one may take to send and to receive, the size of its head and of its body. Every answer says
//! `Connection: close`; the protocol only recommends to keep connections alive, and a log submits seldom.

mod clock;
mod http;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::Deadline;
pub use http::{HttpRefusal, HttpRequest, read_request};

use crate::answer::WitnessAnswer;
use crate::folder::WitnessFolder;

/// How much a server lets one client, and all of them, take.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Connections at a time; one more is turned away with 503.
    pub connections: usize,
    /// How long a client may take to send its request, and again to take its answer.
    pub exchange: Duration,
}

impl Default for ServerLimits {
    /// 32 connections, 10 seconds.
    fn default() -> Self {
        Self { connections: 32, exchange: Duration::from_secs(10) }
    }
}

/// A witness that listens.
#[derive(Debug)]
pub struct WitnessServer {
    listener: TcpListener,
    limits: ServerLimits,
    witness: Arc<Mutex<WitnessFolder>>,
    open: Arc<AtomicUsize>,
}

impl WitnessServer {
    /// Binds to an address; port 0 is a free one.
    ///
    /// # Errors
    /// When the address is taken, or is not of this machine.
    pub fn bind(
        address: SocketAddr,
        witness: WitnessFolder,
        limits: ServerLimits,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let witness = Arc::new(Mutex::new(witness));
        Ok(Self { listener, limits, witness, open: Arc::default() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers for ever. What one client does ends at worst that client's connection.
    pub fn run(&self) {
        for stream in self.listener.incoming() {
            // A client that is gone before it was accepted is no concern of the next one.
            let Ok(stream) = stream else { continue };
            let place = Place::take(&self.open, self.limits.connections);
            let witness = Arc::clone(&self.witness);
            let limit = self.limits.exchange;
            let deadline = Deadline::after(limit);
            let Some(place) = place else {
                turn_away(stream);
                continue;
            };
            // Without a thread the connection is closed, which the client sees.
            let _ = std::thread::Builder::new().name("witness".into()).spawn(move || {
                let _place = place;
                // A client that does not take its answer has none.
                let _ = serve(Timed { stream, deadline }, limit, &witness);
            });
        }
    }
}

/// One of the connections that may be open at a time; given back when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let taken = Self(Arc::clone(open));
        (open.fetch_add(1, Ordering::SeqCst) < most).then_some(taken)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn turn_away(mut stream: TcpStream) {
    let busy = WitnessAnswer::text(503, "too many connections");
    // It fits into the socket's buffer, so this does not wait for the client.
    let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&http::render(&busy)));
}

fn serve(mut stream: Timed, limit: Duration, witness: &Mutex<WitnessFolder>) -> io::Result<()> {
    let answer = match read_request(&mut stream) {
        Ok(request) => {
            // The state is replaced only after it was stored, so a panic elsewhere left it whole.
            let mut witness = witness.lock().unwrap_or_else(PoisonError::into_inner);
            witness.answer(&request.method, &request.path, &request.body, clock::unix_time_s())
        }
        Err(HttpRefusal::Gone) => return Ok(()),
        Err(refusal) => WitnessAnswer::text(refusal.status(), refusal),
    };
    stream.deadline = Deadline::after(limit);
    stream.write_all(&http::render(&answer))?;
    stream.stream.shutdown(Shutdown::Write)?;
    // What the client still sends is read, within bounds: closing on unread bytes would take the answer back.
    io::copy(&mut Read::by_ref(&mut stream).take(http::MAX_BODY_BYTES), &mut io::sink())?;
    Ok(())
}

/// A connection whose every read and write ends by one deadline.
struct Timed {
    stream: TcpStream,
    deadline: Deadline,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.left()?))?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
