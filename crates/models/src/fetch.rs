//! Downloads over HTTPS, through the proxy of the environment, with limits on time and size.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::incoming::{ExpectedFile, ReceiveError, ReceivedFile};

/// The timeouts of a download.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For a connection, including name resolution.
    pub connect: Duration,
    /// For the next bytes, once connected.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(20), idle: Duration::from_secs(30) }
    }
}

/// A failed download. No partial file is left.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The certificates in `SSL_CERT_FILE` cannot be used.
    #[error("could not read certificates from `{path}`, named in `SSL_CERT_FILE`: {why}")]
    Certificates {
        /// The file.
        path: String,
        /// The reason.
        why: String,
    },
    /// The server returned an error status.
    #[error("`{url}` returned status {status}")]
    Status {
        /// The URL.
        url: String,
        /// The HTTP status code.
        status: u16,
    },
    /// The server did not respond.
    #[error("could not reach `{url}`")]
    Unreachable {
        /// The URL.
        url: String,
        /// The cause.
        #[source]
        cause: Box<ureq::Error>,
    },
    /// The body is not the expected file.
    #[error("could not receive the file at `{url}`")]
    Body {
        /// The URL.
        url: String,
        /// The cause.
        #[source]
        cause: ReceiveError,
    },
}

/// Fetches files. Follows redirects, never from HTTPS to plain HTTP.
#[derive(Debug)]
pub struct Fetcher {
    agent: Agent,
}

impl Fetcher {
    /// Creates a client. The proxy is that of `ALL_PROXY`, `HTTPS_PROXY` or `HTTP_PROXY`, with exceptions in
    /// `NO_PROXY`. The trusted certificates are Mozilla's, or those of the PEM file in `SSL_CERT_FILE`.
    ///
    /// # Errors
    /// [`FetchError::Certificates`] if that file cannot be used.
    pub fn new(timeouts: Timeouts) -> Result<Self, FetchError> {
        let agent = Agent::config_builder()
            .user_agent(concat!("custody/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(root_certificates()?).build())
            .timeout_resolve(Some(timeouts.connect))
            .timeout_connect(Some(timeouts.connect))
            .timeout_recv_response(Some(timeouts.idle))
            .timeout_per_read(Some(timeouts.idle))
            .build()
            .new_agent();
        Ok(Self { agent })
    }

    /// Downloads the file at `url` into an unnamed file on the disk of `folder`. `progress` is called with the
    /// number of bytes received so far.
    ///
    /// # Errors
    /// [`FetchError`] if there is no response or it is not the expected file.
    pub fn get(
        &self,
        url: &str,
        folder: &Path,
        expected: &ExpectedFile,
        progress: &mut dyn FnMut(u64),
    ) -> Result<ReceivedFile, FetchError> {
        let body = self.request(url, "*/*")?;
        ReceivedFile::receive(&mut body.into_reader(), folder, expected, progress)
            .map_err(|cause| FetchError::Body { url: shown(url), cause })
    }

    /// The body at `url`, of at most `max_bytes`.
    pub(crate) fn text(
        &self,
        url: &str,
        accept: &str,
        max_bytes: u64,
    ) -> Result<Vec<u8>, FetchError> {
        let body = self.request(url, accept)?;
        read_limited(body, max_bytes).map_err(|cause| FetchError::Body { url: shown(url), cause })
    }

    fn request(&self, url: &str, accept: &str) -> Result<ureq::Body, FetchError> {
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

fn read_limited(body: ureq::Body, max_bytes: u64) -> Result<Vec<u8>, ReceiveError> {
    let mut bytes = Vec::new();
    let mut reader = body.into_reader().take(max_bytes + 1);
    reader.read_to_end(&mut bytes).map_err(ReceiveError::Read)?;
    if bytes.len() as u64 > max_bytes {
        return Err(ReceiveError::TooLong { limit: max_bytes });
    }
    Ok(bytes)
}

/// A URL without a user name and password.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or(host);
    format!("{scheme}://{host}{path}")
}

/// The root certificates: the PEM file in `SSL_CERT_FILE`, otherwise Mozilla's list.
pub(crate) fn root_certificates() -> Result<RootCerts, FetchError> {
    let Some(path) = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()) else {
        return Ok(RootCerts::WebPki);
    };
    read_certificates(Path::new(&path)).map_err(|why| FetchError::Certificates {
        path: Path::new(&path).display().to_string(),
        why,
    })
}

fn read_certificates(path: &Path) -> Result<RootCerts, String> {
    let pem = std::fs::read(path).map_err(|cause| cause.to_string())?;
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            Ok(_) | Err(_) => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err("it contains no certificate".to_owned());
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
