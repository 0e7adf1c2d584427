//! The endpoint: the only origin that requests are sent to.

use std::net::{Ipv4Addr, Ipv6Addr};

use ureq::http::Uri;

use super::options::OptionsError;

/// A validated and normalised base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Scheme, host, port and path, without a slash at the end.
    pub(super) base: String,
    /// The request URL.
    pub(super) url: String,
    /// Host and port for display.
    pub(super) host: String,
    /// Whether the connection is encrypted.
    pub(super) is_encrypted: bool,
    /// Whether the host is this machine.
    pub(super) is_loopback: bool,
}

impl Endpoint {
    /// Parses `https://host/path` or `http://host/path`, with an optional port.
    ///
    /// # Errors
    /// [`OptionsError::Url`] for anything else. A user, a password or a query can contain a secret, which would
    /// appear in logs and errors; a fragment is never sent.
    pub(super) fn parse(base_url: &str) -> Result<Self, OptionsError> {
        Self::from_url(base_url).map_err(|why| OptionsError::Url { why })
    }

    fn from_url(base_url: &str) -> Result<Self, &'static str> {
        if base_url.contains(['@', '?', '#']) {
            return Err("it contains a user, a password, a query or a fragment");
        }
        let uri: Uri = base_url.parse().map_err(|_| "it is not a URL")?;
        let (scheme, usual_port) = match uri.scheme_str() {
            Some("https") => ("https", 443),
            Some("http") => ("http", 80),
            Some(_) | None => return Err("it does not begin with `https://` or `http://`"),
        };
        let authority = uri.authority().ok_or("it has no host")?;
        let name = authority.host().to_ascii_lowercase();
        let has_port = authority.as_str().len() != authority.host().len();
        // An invalid port would be dropped below, and the request would go to another server.
        if name.is_empty() || (has_port && authority.port_u16().is_none()) {
            return Err("its host or its port is invalid");
        }
        let host = match authority.port_u16().filter(|port| *port != usual_port) {
            Some(port) => format!("{name}:{port}"),
            None => name.clone(),
        };
        let base = format!("{scheme}://{host}{}", uri.path().trim_end_matches('/'));
        Ok(Self {
            url: format!("{base}/chat/completions"),
            base,
            host,
            is_encrypted: scheme == "https",
            is_loopback: is_loopback(&name),
        })
    }
}

/// Whether a host name means this machine. Unusual spellings of an address do not count; they are rejected if a key
/// would be sent to them.
fn is_loopback(name: &str) -> bool {
    let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match inner {
        Some(address) => address.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback()),
        None => {
            name == "localhost" || name.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_normalised() {
        let cases = [
            ("https://api.openai.com/v1", "https://api.openai.com/v1"),
            ("https://API.openai.com:443/v1//", "https://api.openai.com/v1"),
            ("http://127.0.0.1:11434/v1/", "http://127.0.0.1:11434/v1"),
            ("http://[::1]:80", "http://[::1]"),
        ];
        for (given, base) in cases {
            let endpoint = Endpoint::parse(given).unwrap();
            assert_eq!(endpoint.base, base);
            assert_eq!(endpoint.url, format!("{base}/chat/completions"));
        }
    }

    #[test]
    fn ambiguous_addresses_are_rejected() {
        for given in [
            "",
            "api.openai.com",
            "/v1",
            "ftp://host/v1",
            "https://",
            "https:///v1",
            "https://user:password@host/v1",
            "http://127.0.0.1@host/v1",
            "https://host/v1?key=secret",
            "https://host/v1#part",
            "https://host:/v1",
            "https://host:99999/v1",
            "https://host:port/v1",
            "https://ho st/v1",
            "https://host/v1\r\nx: y",
        ] {
            assert!(Endpoint::parse(given).is_err(), "{given:?}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        let cases = [
            ("http://localhost:8080", true),
            ("http://LOCALHOST", true),
            ("http://127.0.0.1", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:8080", true),
            ("http://127.1", false),
            ("http://2130706433", false),
            ("http://127.0.0.1.example.org", false),
            ("http://localhost.example.org", false),
            ("http://0.0.0.0", false),
            ("http://10.0.0.1", false),
            ("http://[::2]", false),
        ];
        for (given, expected) in cases {
            assert_eq!(Endpoint::parse(given).unwrap().is_loopback, expected, "{given}");
        }
    }
}
