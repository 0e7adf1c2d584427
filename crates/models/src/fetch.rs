//! Downloads: over HTTPS, through the proxy that the environment names, with limits on time and size.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::incoming::{Expected, Incoming, IncomingError};

/// How long to wait.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a connection, name lookup included.
    pub connect: Duration,
    /// For the next bytes, once connected.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { connect: Duration::from_secs(20), idle: Duration::from_secs(30) }
    }
}

/// A download that failed. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The certificates named by the environment cannot be used.
    #[error("could not read certificates from `{path}`, named in `SSL_CERT_FILE`: {why}")]
    Certificates {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// The server answered, with no file.
    #[error("`{url}` answers with status {status}")]
    Status {
        /// What was asked for.
        url: String,
        /// As in HTTP.
        status: u16,
    },
    /// No answer.
    #[error("could not reach `{url}`")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// Why.
        #[source]
        cause: Box<ureq::Error>,
    },
    /// The answer is not what was expected.
    #[error("`{url}` did not give the file")]
    Body {
        /// What was asked for.
        url: String,
        /// Why.
        #[source]
        cause: IncomingError,
    },
}

/// Fetches files. Follows redirects, never from HTTPS to plain HTTP.
#[derive(Debug)]
pub struct Fetcher {
    agent: Agent,
}

impl Fetcher {
    /// The proxy is the one of `ALL_PROXY`, `HTTPS_PROXY` or `HTTP_PROXY`, exceptions stand in `NO_PROXY`.
    /// Servers are trusted as Mozilla trusts them, or as the PEM file in `SSL_CERT_FILE` says.
    ///
    /// # Errors
    /// [`FetchError::Certificates`] when that file cannot be used.
    pub fn new(patience: Patience) -> Result<Self, FetchError> {
        let agent = Agent::config_builder()
            .user_agent(concat!("custody/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(root_certificates()?).build())
            .timeout_resolve(Some(patience.connect))
            .timeout_connect(Some(patience.connect))
            .timeout_recv_response(Some(patience.idle))
            .timeout_per_read(Some(patience.idle))
            .build()
            .new_agent();
        Ok(Self { agent })
    }

    /// Takes the file at `url` into a nameless file on the disk of `folder`. `progress` is told the bytes
    /// taken so far.
    ///
    /// # Errors
    /// [`FetchError`]: there was no answer, or it was not what was expected.
    pub fn get(
        &self,
        url: &str,
        folder: &Path,
        expected: &Expected,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Incoming, FetchError> {
        let body = self.ask(url, "*/*")?;
        Incoming::receive(&mut body.into_reader(), folder, expected, progress)
            .map_err(|cause| FetchError::Body { url: shown(url), cause })
    }

    /// The body at `url`, of at most `max_bytes`.
    pub(crate) fn text(
        &self,
        url: &str,
        accept: &str,
        max_bytes: u64,
    ) -> Result<Vec<u8>, FetchError> {
        let fail = |cause| FetchError::Body { url: shown(url), cause };
        let body = self.ask(url, accept)?;
        let mut bytes = Vec::new();
        let mut reader = body.into_reader().take(max_bytes + 1);
        reader.read_to_end(&mut bytes).map_err(|cause| fail(IncomingError::Read(cause)))?;
        if bytes.len() as u64 > max_bytes {
            return Err(fail(IncomingError::TooLong { limit: max_bytes }));
        }
        Ok(bytes)
    }

    fn ask(&self, url: &str, accept: &str) -> Result<ureq::Body, FetchError> {
        let request = self.agent.get(url).header("accept", accept);
        let request = request.config().https_only(url.starts_with("https://")).build();
        match request.call() {
            Ok(response) => Ok(response.into_body()),
            Err(ureq::Error::StatusCode(status)) => {
                Err(FetchError::Status { url: shown(url), status })
            }
            Err(cause) => Err(FetchError::Unreachable { url: shown(url), cause: Box::new(cause) }),
        }
    }
}

/// A URL without the name and password that may stand in it.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or(host);
    format!("{scheme}://{host}{path}")
}

/// Whom to trust: the PEM file that `SSL_CERT_FILE` names, else Mozilla's list.
pub(crate) fn root_certificates() -> Result<RootCerts, FetchError> {
    let Some(path) = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()) else {
        return Ok(RootCerts::WebPki);
    };
    let fail = |why: String| FetchError::Certificates {
        path: Path::new(&path).display().to_string(),
        why,
    };
    let pem = std::fs::read(&path).map_err(|cause| fail(cause.to_string()))?;
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            Ok(_) | Err(_) => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(fail("it holds no certificate".to_owned()));
    }
    Ok(certificates.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_never_shown() {
        let cases = [
            ("https://me:secret@host/a@b", "https://host/a@b"),
            ("https://host/a", "https://host/a"),
            ("http://me@host", "http://host"),
            ("nonsense", "nonsense"),
        ];
        for (url, expected) in cases {
            assert_eq!(shown(url), expected);
        }
    }
}
