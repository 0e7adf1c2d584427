//! The way from programs that hosts start to `custody serve`: hooks, and MCP servers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use serde_json::Value;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};
use zeroize::Zeroizing;

use super::service_address::ServicePlace;

/// The header with the key of a connection.
const KEY_HEADER: &str = "x-custody-key";
/// The header of an answer that says that the record cannot be kept.
const STATUS_HEADER: &str = "x-custody-status";

/// The service, asked with the key of a connection.
pub(super) struct LocalService {
    agent: Agent,
    base_url: String,
    key: Zeroizing<String>,
}

impl LocalService {
    /// The service at `place`, and no other: the key is sent there alone. A request may take as long as `timeout` says.
    ///
    /// # Errors
    /// When the roots that are believed cannot be read.
    pub(super) fn at(
        place: &ServicePlace,
        key: Zeroizing<String>,
        timeout: Option<Duration>,
    ) -> anyhow::Result<Self> {
        let tls = match place.roots()? {
            Some(roots) => TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots))),
            None => TlsConfig::builder(),
        };
        // Nothing goes through a proxy, or on to where an answer points.
        let config = Agent::config_builder().proxy(None).max_redirects(0).timeout_global(timeout);
        let config = config.http_status_as_error(false).tls_config(tls.build());
        let agent = Agent::new_with_config(config.build());
        Ok(Self { agent, base_url: place.address.base_url(), key })
    }

    /// The body of the answer to `body`, of at most `limit` bytes.
    ///
    /// # Errors
    /// When there is no answer, or one that is not 200; then with the reason that it gives.
    pub(super) fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        limit: u64,
    ) -> anyhow::Result<Vec<u8>> {
        let url = format!("{}{path}", self.base_url);
        let mut request = self.agent.post(&url).header(KEY_HEADER, self.key.as_str());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut answer = request.send(body)?;
        let body = answer.body_mut().with_config().limit(limit).read_to_vec()?;
        if answer.status() != 200 {
            let why = refusal(&body).unwrap_or_else(|| format!("status {}", answer.status()));
            if answer.headers().get(STATUS_HEADER).is_some_and(|status| status == "degraded") {
                return Err(ServiceDegraded(why).into());
            }
            bail!("{why}");
        }
        Ok(body)
    }
}

/// The service answers that it cannot keep the record. Its text is the reason that it gives.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ServiceDegraded(String);

/// The reason in the body of an error.
fn refusal(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let error = &body["error"];
    error.as_str().or_else(|| error["message"].as_str()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_that_are_none_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "no certificate").unwrap();
        for (address, ca, why) in [
            ("127.0.0.1:7411", &empty, "is not encrypted"),
            ("https://custody.example", &empty, "holds no certificate"),
            ("https://custody.example", &folder.path().join("none.pem"), "could not read"),
        ] {
            let place = ServicePlace { address: address.parse().unwrap(), ca: Some(ca.to_owned()) };
            let key = Zeroizing::new("key".to_owned());
            let Err(error) = LocalService::at(&place, key, None) else { unreachable!("{why}") };
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn the_key_is_not_carried_to_where_an_answer_points() {
        use std::io::{Read as _, Write as _};
        let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let other = elsewhere.local_addr().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            drop(stream.read(&mut [0; 4096]));
            let head = format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{other}/\r\n");
            let _ = stream.write_all(format!("{head}Content-Length: 0\r\n\r\n").as_bytes());
        });
        let key = Zeroizing::new("key".to_owned());
        let place = ServicePlace { address: address.to_string().parse().unwrap(), ca: None };
        let service = LocalService::at(&place, key, None).unwrap();
        assert!(service.post("/", &[], b"{}", 100).is_err());
        elsewhere.set_nonblocking(true).unwrap();
        assert!(elsewhere.accept().is_err(), "nobody came");
    }
}
