//! The `custody serve` of a store: where it listens, and whether it can keep the record.
//!
//! A service writes its address beside the keys of its store when it starts, so that other commands find it. Nothing
//! secret is sent there, and nothing is decided by what is answered: it is shown.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ureq::Agent;
use ureq::tls::TlsConfig;

use crate::context::GlobalContext;
use crate::output::{WARN, excerpt, paint};

/// The file with the address, in the folder of the keys.
const FILE: &str = "service.json";
/// How long the service may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest answer.
const MAX_ANSWER_BYTES: u64 = 4 << 10;
/// How much of a reason is shown, in characters.
const SHOWN_CHARS: usize = 200;

/// Where a service listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Listening {
    address: SocketAddr,
    /// Whether it speaks TLS.
    tls: bool,
    /// Its process, which alone takes the file away.
    process: u32,
}

/// A service that said where it listens, as long as this is held.
#[derive(Debug)]
pub(crate) struct AnnouncedService {
    file: PathBuf,
    listening: Listening,
}

/// How the service of a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceState {
    /// It answers, and keeps the record.
    Ready,
    /// It cannot keep the record, so nothing goes on; for this reason.
    Degraded(String),
    /// Something listens at its address and does not answer in time.
    Silent(SocketAddr),
    /// Nobody listens.
    NotRunning,
}

impl AnnouncedService {
    /// Says in the folder of the keys that this process listens at `address`.
    pub(crate) fn at(keys: &Path, address: SocketAddr, tls: bool) -> anyhow::Result<Self> {
        let listening = Listening { address, tls, process: std::process::id() };
        let file = keys.join(FILE);
        // Temporary files are made with mode 0600.
        let mut written = tempfile::NamedTempFile::new_in(keys)?;
        written.write_all(serde_json::to_string(&listening)?.as_bytes())?;
        written.persist(&file)?;
        Ok(Self { file, listening })
    }
}

impl Drop for AnnouncedService {
    fn drop(&mut self) {
        // Another one may have been started since.
        if listening(&self.file).as_ref() == Some(&self.listening) {
            drop(std::fs::remove_file(&self.file));
        }
    }
}

fn listening(file: &Path) -> Option<Listening> {
    serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()
}

impl ServiceState {
    /// Asks the service of the store.
    pub(crate) fn of(context: &GlobalContext) -> Self {
        let file = context.paths().keys.join(FILE);
        listening(&file).map_or(Self::NotRunning, |listening| ask(&listening))
    }

    /// Its name for programs.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded(_) => "degraded",
            Self::Silent(_) => "silent",
            Self::NotRunning => "not_running",
        }
    }

    /// What is wrong with it, in one sentence; nothing if it is ready.
    pub(crate) fn problem(&self) -> Option<String> {
        match self {
            Self::Ready => None,
            Self::Degraded(why) => Some(format!("`custody serve` is degraded: {why}.")),
            Self::Silent(address) => {
                Some(format!("`custody serve` does not answer at {address}, so nothing goes on."))
            }
            Self::NotRunning => {
                Some("`custody serve` is not running, so hosts get no answer.".to_owned())
            }
        }
    }

    /// Says on standard error what is wrong with it.
    pub(crate) fn warn(&self) {
        if let Some(problem) = self.problem() {
            anstream::eprintln!("{}", paint(WARN, problem));
        }
    }

    /// The same, unless nobody listens, where none has to.
    pub(crate) fn warn_if_it_runs(&self) {
        if *self != Self::NotRunning {
            self.warn();
        }
    }
}

/// Asks at the address for its state. Whoever answers is believed: over HTTP nobody proves who they are, and a
/// certificate is for another name than this machine's.
fn ask(listening: &Listening) -> ServiceState {
    let tls = TlsConfig::builder().disable_verification(true).build();
    let config = Agent::config_builder().proxy(None).max_redirects(0).tls_config(tls);
    let config = config.timeout_global(Some(PATIENCE)).http_status_as_error(false).build();
    let address = reachable(listening.address);
    let scheme = if listening.tls { "https" } else { "http" };
    let asked = Agent::new_with_config(config)
        .get(format!("{scheme}://{address}/readyz"))
        // The service may be told to listen at an address that it is not called by.
        .header("host", "localhost")
        .call();
    match asked.context("no answer").and_then(|mut answer| {
        let body = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec()?;
        Ok(serde_json::from_slice::<Value>(&body)?)
    }) {
        Ok(answer) => answered(&answer),
        Err(error) => match error.downcast_ref::<ureq::Error>() {
            Some(ureq::Error::Timeout(_)) => ServiceState::Silent(listening.address),
            _ => ServiceState::NotRunning,
        },
    }
}

fn answered(answer: &Value) -> ServiceState {
    match answer["status"].as_str() {
        Some("ready") => ServiceState::Ready,
        Some("degraded") => {
            let why = answer["why"].as_str().unwrap_or("it does not say why");
            ServiceState::Degraded(excerpt(why, SHOWN_CHARS))
        }
        // Another program has the port since.
        _ => ServiceState::NotRunning,
    }
}

/// The address at which this machine reaches what listens at all of its addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, address.port()).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, address.port()).into(),
        IpAddr::V4(_) | IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_takes_away_what_it_said_and_nothing_of_a_later_one() {
        let keys = tempfile::tempdir().unwrap();
        let file = keys.path().join(FILE);
        let first = AnnouncedService::at(keys.path(), ([127, 0, 0, 1], 1).into(), false).unwrap();
        let second = AnnouncedService::at(keys.path(), ([127, 0, 0, 1], 2).into(), true).unwrap();
        drop(first);
        assert_eq!(listening(&file).as_ref(), Some(&second.listening));
        drop(second);
        assert!(!file.exists());
    }

    #[test]
    fn only_an_answer_of_custody_counts_as_one() {
        use serde_json::json;
        let degraded = answered(&json!({ "status": "degraded", "why": "the disk\u{1b}[2J" }));
        let ServiceState::Degraded(why) = &degraded else { unreachable!("{degraded:?}") };
        assert!(why.starts_with("the disk") && !why.contains('\u{1b}'), "{why}");
        assert_eq!(answered(&json!({ "status": "ready" })), ServiceState::Ready);
        for other in [json!({}), json!([]), json!({ "status": "ok" })] {
            assert_eq!(answered(&other), ServiceState::NotRunning);
        }
        assert_eq!(reachable("0.0.0.0:7".parse().unwrap()), "127.0.0.1:7".parse().unwrap());
        assert_eq!(reachable("[::]:7".parse().unwrap()), "[::1]:7".parse().unwrap());
    }
}
