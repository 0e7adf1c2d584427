//! Where hosts reach `custody serve`: on this machine, or anywhere under a name that its certificate has.

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, parse_pem};

use super::serve::ADDRESS;

/// The port of HTTPS where an address names none.
const HTTPS_PORT: u16 = 443;

/// Where the service is, and whom its certificate is believed of.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ServicePlace {
    /// The address of `custody serve`: one of this machine, or `https://NAME:PORT` where it has a certificate
    #[arg(long, alias = "listen", value_name = "ADDRESS", default_value = ADDRESS)]
    pub(super) address: ServiceAddress,
    /// Believe a certificate only if a root in this PEM file signed it [default: the roots of browsers]
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
}

impl ServicePlace {
    /// The file with roots, as a path that holds in every folder.
    ///
    /// # Errors
    /// When it holds none, or nothing is encrypted.
    pub(super) fn checked_ca(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(ca) = &self.ca else { return Ok(None) };
        self.roots()?;
        Ok(Some(std::path::absolute(ca)?))
    }

    /// The roots that are believed; nothing for those of browsers.
    ///
    /// # Errors
    /// As [`Self::checked_ca`].
    pub(super) fn roots(&self) -> anyhow::Result<Option<Vec<Certificate<'static>>>> {
        let Some(ca) = &self.ca else { return Ok(None) };
        let shown = ca.display();
        ensure!(
            matches!(self.address, ServiceAddress::Encrypted(_)),
            "`{}` is not encrypted, so that `--ca` means nothing; write https://…",
            self.address
        );
        let pem = std::fs::read(ca).with_context(|| format!("could not read `{shown}`"))?;
        let roots: Vec<Certificate<'static>> = parse_pem(&pem)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(root)) => Some(root),
                _ => None,
            })
            .collect();
        ensure!(!roots.is_empty(), "`{shown}` holds no certificate in PEM");
        Ok(Some(roots))
    }
}

/// An address to which the key of a connection may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServiceAddress {
    /// On this machine. Nothing is encrypted, and nothing leaves it.
    Here(SocketAddr),
    /// `HOST:PORT`, which a certificate has to prove.
    Encrypted(String),
}

/// Why a text is not an address of the service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ServiceAddressError {
    /// It has no form that is known.
    #[error("write an address such as `127.0.0.1:7411`, or `https://NAME:PORT`")]
    Form,
    /// The key would be sent where others read it.
    #[error(
        "`{0}` is another machine, to which the key goes only encrypted; write https://NAME:PORT"
    )]
    NotHere(SocketAddr),
}

impl ServiceAddress {
    /// The beginning of its URLs.
    pub(super) fn base_url(&self) -> String {
        match self {
            Self::Here(address) => format!("http://{address}"),
            Self::Encrypted(authority) => format!("https://{authority}"),
        }
    }

    /// Whether something listens there.
    pub(super) fn is_listened_at(&self, patience: Duration) -> bool {
        let found = match self {
            Self::Here(address) => vec![*address],
            Self::Encrypted(authority) => {
                authority.to_socket_addrs().map(Iterator::collect).unwrap_or_default()
            }
        };
        found.iter().any(|address| TcpStream::connect_timeout(address, patience).is_ok())
    }
}

impl FromStr for ServiceAddress {
    type Err = ServiceAddressError;

    fn from_str(text: &str) -> Result<Self, ServiceAddressError> {
        if text.starts_with("https://") {
            return authority(text).map(Self::Encrypted).ok_or(ServiceAddressError::Form);
        }
        let plain = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let address: SocketAddr = plain.parse().map_err(|_| ServiceAddressError::Form)?;
        if address.ip().is_loopback() {
            Ok(Self::Here(address))
        } else {
            Err(ServiceAddressError::NotHere(address))
        }
    }
}

impl fmt::Display for ServiceAddress {
    /// As it is read again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(address) => address.fmt(f),
            Self::Encrypted(_) => f.write_str(&self.base_url()),
        }
    }
}

/// The host and port of a URL that names nothing else. No character of it means anything to a shell.
fn authority(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let is_bare = uri.path().trim_end_matches('/').is_empty() && uri.query().is_none();
    let host = uri.host()?;
    let port = match uri.authority()?.as_str().strip_prefix(host)? {
        "" => HTTPS_PORT,
        _ => uri.port_u16()?,
    };
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_name =
        !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-.:".contains(&c));
    let written = format!("{host}:{port}");
    // A user and a fragment are left out of what was read.
    (is_bare && is_name && !url.contains(['@', '#', '\\'])).then_some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_to_this_machine_or_encrypted_to_a_name() {
        for (text, expected) in [
            ("127.0.0.1:7411", Ok("http://127.0.0.1:7411")),
            ("[::1]:7411", Ok("http://[::1]:7411")),
            ("http://127.0.0.1:7411/", Ok("http://127.0.0.1:7411")),
            ("https://custody.example:7411", Ok("https://custody.example:7411")),
            ("https://custody.example/", Ok("https://custody.example:443")),
            ("https://[2001:db8::1]:7411", Ok("https://[2001:db8::1]:7411")),
            ("https://192.0.2.1:7411", Ok("https://192.0.2.1:7411")),
            ("192.0.2.1:7411", Err("another machine")),
            ("http://192.0.2.1:7411", Err("another machine")),
            ("0.0.0.0:7411", Err("another machine")),
            ("http://custody.example:7411", Err("write an address")),
            ("custody.example:7411", Err("write an address")),
            ("https://", Err("write an address")),
            ("https://u:p@custody.example", Err("write an address")),
            ("https://custody.example/anthropic", Err("write an address")),
            ("https://custody.example?key=1", Err("write an address")),
            ("https://custody.example#a", Err("write an address")),
            ("https://custody.example:port", Err("write an address")),
            ("https://$(id):7411", Err("write an address")),
            ("ftp://custody.example", Err("write an address")),
            ("", Err("write an address")),
        ] {
            let read: Result<ServiceAddress, _> = text.parse();
            match (read, expected) {
                (Ok(address), Ok(url)) => {
                    assert_eq!(address.base_url(), url, "{text}");
                    assert_eq!(address.to_string().parse(), Ok(address), "{text}");
                }
                (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{text}"),
                (read, expected) => unreachable!("{text}: {read:?}, not {expected:?}"),
            }
        }
    }
}
