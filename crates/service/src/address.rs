//! Addresses that no vendor has: those of the machine's own network card, and of the services that give a
//! virtual machine its credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Metadata services outside the link-local networks: Alibaba Cloud, Oracle Cloud; Amazon and Google by IPv6.
const METADATA: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// Names of metadata services, for where an outgoing proxy looks names up.
const METADATA_NAMES: [&str; 4] =
    ["metadata", "metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"];

/// Platforms whose requests have other addresses and signatures, by how the names of their hosts begin and end.
const PLATFORMS: [(&str, &str, &str); 5] = [
    ("bedrock", ".amazonaws.com", "Amazon Bedrock"),
    ("", "aiplatform.googleapis.com", "Google Vertex AI"),
    ("", ".openai.azure.com", "Azure OpenAI"),
    ("", ".services.ai.azure.com", "Azure OpenAI"),
    ("", ".cognitiveservices.azure.com", "Azure OpenAI"),
];

/// Why an upstream is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// It is no URL of HTTP.
    #[error("`{0}` is not a URL; write https://…")]
    NotUrl(String),
    /// It holds a name and a password, or more than a base.
    #[error("`{0}` has a user, a query or a fragment; write only https://HOST/PATH")]
    NotBase(String),
    /// Its requests are in a form that is not understood here.
    #[error(
        "`{host}` is {platform}, whose requests are not supported; name the vendor itself, or a server that speaks as it"
    )]
    Platform {
        /// The host.
        host: String,
        /// The platform.
        platform: &'static str,
    },
    /// No vendor has that address.
    #[error("`{0}` is a link-local address or a metadata service, which no vendor has")]
    Local(String),
}

/// Reads the URL of an upstream. Its address is looked at here if it is written as one, else when it is looked up.
///
/// # Errors
/// [`UpstreamError`] when requests may not go there.
pub fn checked_upstream(text: &str, allows_link_local: bool) -> Result<Url, UpstreamError> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or_else(|| UpstreamError::NotUrl(text.to_owned()))?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    if has_user || url.query().is_some() || url.fragment().is_some() {
        return Err(UpstreamError::NotBase(text.to_owned()));
    }
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    if let Some(platform) = platform(host) {
        return Err(UpstreamError::Platform { host: host.to_owned(), platform });
    }
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_local = match address {
        Ok(address) => is_link_local(address),
        Err(_) => METADATA_NAMES.contains(&host),
    };
    if is_local && !allows_link_local {
        return Err(UpstreamError::Local(host.to_owned()));
    }
    Ok(url)
}

/// The platform that a host belongs to, if it is one that is not supported.
fn platform(host: &str) -> Option<&'static str> {
    let host = host.to_ascii_lowercase();
    let mut known = PLATFORMS.into_iter();
    known
        .find(|(begin, end, _)| host.starts_with(begin) && host.ends_with(end))
        .map(|(_, _, platform)| platform)
}

/// Whether `address` is on the link alone, or that of a metadata service.
fn is_link_local(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_on_link = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_unspecified(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_unspecified(),
    };
    is_on_link || address.is_multicast() || METADATA.contains(&address)
}

/// Looks names up, and drops the addresses that no vendor has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VendorAddresses;

impl Resolve for VendorAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| !is_link_local(address.ip())).collect();
            if allowed.is_empty() {
                return Err(UpstreamError::Local(name).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_a_base_at_an_address_that_a_vendor_can_have() {
        for text in [
            "https://api.example.org",
            "http://127.0.0.1:11434/v1",
            "http://10.0.0.7:8000",
            "http://[::1]:8000",
            "https://169.254.example.org",
        ] {
            assert!(checked_upstream(text, false).is_ok(), "{text}");
        }
        for text in [
            "http://169.254.169.254",
            "http://169.254.169.254./latest",
            // The same address in other clothes.
            "http://2852039166",
            "http://0xa9fea9fe/",
            "http://0251.0376.0251.0376",
            "http://[::ffff:169.254.169.254]",
            "http://[fe80::1]",
            "http://[fd00:ec2::254]",
            "http://100.100.100.200",
            "http://0.0.0.0:80",
            "http://metadata.google.internal",
            "http://METADATA.google.internal./",
        ] {
            let refused = checked_upstream(text, false);
            assert!(matches!(refused, Err(UpstreamError::Local(_))), "{text}: {refused:?}");
            assert!(checked_upstream(text, true).is_ok(), "{text}");
        }
        for text in ["ftp://example.org", "example.org", "", "https://", "file:///etc/passwd"] {
            assert!(
                matches!(checked_upstream(text, true), Err(UpstreamError::NotUrl(_))),
                "{text}"
            );
        }
        for text in
            ["https://u:p@example.org", "https://example.org?key=1", "https://example.org#a"]
        {
            assert!(
                matches!(checked_upstream(text, true), Err(UpstreamError::NotBase(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn platforms_that_are_not_supported_are_named() {
        for (text, platform) in [
            ("https://bedrock-runtime.eu-central-1.amazonaws.com", "Amazon Bedrock"),
            ("https://us-east5-aiplatform.googleapis.com/v1", "Google Vertex AI"),
            ("https://AIPLATFORM.googleapis.com", "Google Vertex AI"),
            ("https://mine.openai.azure.com./openai", "Azure OpenAI"),
        ] {
            let refused = checked_upstream(text, true).unwrap_err().to_string();
            assert!(refused.contains(platform), "{refused}");
        }
        for text in ["https://generativelanguage.googleapis.com", "https://s3.amazonaws.com"] {
            assert!(checked_upstream(text, false).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_name_that_leads_to_this_link_is_refused_when_it_is_looked_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let found = runtime.block_on(VendorAddresses.resolve("localhost".parse().unwrap()));
        assert!(found.unwrap().count() > 0);
        let found = runtime.block_on(VendorAddresses.resolve("0.0.0.0".parse().unwrap()));
        assert!(found.is_err());
    }
}
