//! The way to a vendor. Redirects are not followed and nothing is sent twice.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, Method, header};
use custody_gateway::wire::Dialect;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy, Url};

use crate::address::VendorAddresses;

/// How long a connection to a vendor may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a vendor may be silent within an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(600);

/// Headers that hold for one connection, not for what is carried (RFC 9110, section 7.6.1), and those that are
/// made anew.
const NOT_FORWARDED: [HeaderName; 10] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::HOST,
    header::CONTENT_LENGTH,
    // What is read here must not be encoded.
    header::ACCEPT_ENCODING,
];

/// The header with the credential, which no vendor gets to see.
pub(crate) const KEY_HEADER: &str = "x-custody-key";

/// How vendors are reached.
#[derive(Debug, Clone, Default)]
pub struct UpstreamOptions {
    /// A PEM file with roots that are trusted besides the system's.
    pub ca: Option<PathBuf>,
    /// The proxy that requests go through. Without one, that of `HTTPS_PROXY` and its like.
    pub proxy: Option<String>,
}

/// Why vendors cannot be reached the way that the options say.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamOptionsError {
    /// The file with roots cannot be read.
    #[error("`{}` cannot be read: {cause}", path.display())]
    Ca {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// The file holds no certificate.
    #[error("`{}` holds no certificate in PEM", .0.display())]
    NoCertificate(PathBuf),
    /// The proxy is no URL.
    #[error("the outgoing proxy `{0}` is not a URL; write http://HOST:PORT")]
    Proxy(String),
    /// The roots of the system cannot be read, or one of the given ones is none.
    #[error("the way to vendors cannot be prepared: {0}")]
    Client(#[from] reqwest::Error),
}

/// Sends requests to vendors.
#[derive(Debug, Clone)]
pub(crate) struct Upstream {
    /// Looks names up, and refuses addresses that no vendor has.
    vendors: Client,
    /// Goes wherever the owner said.
    anywhere: Client,
}

impl Upstream {
    pub(crate) fn new(options: &UpstreamOptions) -> Result<Self, UpstreamOptionsError> {
        let roots = options.ca.as_deref().map(roots).transpose()?.unwrap_or_default();
        let proxy = options.proxy.as_deref().map(proxy).transpose()?;
        let vendors = client(&roots, proxy.as_ref()).dns_resolver(Arc::new(VendorAddresses));
        let anywhere = client(&roots, proxy.as_ref());
        Ok(Self { vendors: vendors.build()?, anywhere: anywhere.build()? })
    }

    /// Sends a request on and returns as soon as its answer begins.
    pub(crate) async fn send(
        &self,
        url: Url,
        allows_link_local: bool,
        method: Method,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<reqwest::Response, reqwest::Error> {
        let mut forwarded = forwarded(headers);
        // It was decoded where it came in.
        forwarded.remove(header::CONTENT_ENCODING);
        let client = if allows_link_local { &self.anywhere } else { &self.vendors };
        client.request(method, url).headers(forwarded).body(body).send().await
    }
}

fn client(roots: &[Certificate], proxy: Option<&Proxy>) -> ClientBuilder {
    let builder = Client::builder()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .tls_certs_merge(roots.to_vec());
    match proxy {
        Some(proxy) => builder.proxy(proxy.clone()),
        None => builder,
    }
}

/// The proxy for everything but this machine.
fn proxy(url: &str) -> Result<Proxy, UpstreamOptionsError> {
    let proxy = Proxy::all(url).map_err(|_| UpstreamOptionsError::Proxy(url.to_owned()))?;
    Ok(proxy.no_proxy(NoProxy::from_string("localhost,127.0.0.0/8,::1")))
}

/// The certificates in a file.
fn roots(path: &Path) -> Result<Vec<Certificate>, UpstreamOptionsError> {
    let pem = std::fs::read(path)
        .map_err(|cause| UpstreamOptionsError::Ca { path: path.to_owned(), cause })?;
    let roots = Certificate::from_pem_bundle(&pem).unwrap_or_default();
    if roots.is_empty() {
        Err(UpstreamOptionsError::NoCertificate(path.to_owned()))
    } else {
        Ok(roots)
    }
}

/// Where a vendor's requests go if nothing else is said.
pub(crate) const fn vendor(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses => "https://api.openai.com",
        Dialect::AnthropicMessages => "https://api.anthropic.com",
        Dialect::Gemini => "https://generativelanguage.googleapis.com",
    }
}

/// The headers of a message that go on with it.
pub(crate) fn forwarded(headers: &HeaderMap) -> HeaderMap {
    let mut forwarded = headers.clone();
    // A connection's own headers are those that it names, too.
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    forwarded.remove(KEY_HEADER);
    for name in NOT_FORWARDED.iter().chain(&named) {
        forwarded.remove(name);
    }
    forwarded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_credential_nor_what_a_connection_keeps_goes_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-custody-key", "custody_secret"),
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("host", "127.0.0.1:7411"),
            ("authorization", "Bearer vendor"),
            ("anthropic-beta", "a,b"),
        ] {
            headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let forwarded = forwarded(&headers);
        let mut names: Vec<&str> = forwarded.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["anthropic-beta", "authorization"]);
    }
}
