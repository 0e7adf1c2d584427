//! The way to a vendor. Redirects are not followed, nothing is sent twice, and an address that only this
//! machine or its host serves is refused unless the owner signed it.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, Method, header};
use custody_gateway::wire::Dialect;
use reqwest::redirect::Policy;

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

/// Sends requests to vendors.
#[derive(Debug, Clone)]
pub(crate) struct Upstream(reqwest::Client);

impl Upstream {
    pub(crate) fn new() -> Result<Self, reqwest::Error> {
        // Fails when a provider is installed already, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .build()?;
        Ok(Self(client))
    }

    /// Sends a request on and returns as soon as its answer begins.
    pub(crate) async fn send(
        &self,
        url: &str,
        method: Method,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<reqwest::Response, reqwest::Error> {
        let mut forwarded = forwarded(headers);
        // It was decoded where it came in.
        forwarded.remove(header::CONTENT_ENCODING);
        let request = self.0.request(method, url).headers(forwarded);
        request.body(body).send().await
    }
}

/// Where a vendor's requests go if nothing else is said.
pub(crate) const fn vendor(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiChat => "https://api.openai.com",
        Dialect::AnthropicMessages => "https://api.anthropic.com",
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
