//! Where values lie: the domain of an address, the host of a URL, the folder of a path, and all above them.
//!
//! Places are for permitting: a value that two programs could read differently has none.

use custody_arguments::Sink;

/// The longest host or path that has a place, in bytes.
const MAX_BYTES: usize = 1_024;
/// The most labels of a host or names of a path.
const MAX_DEPTH: usize = 64;

/// The places of `value`, the narrowest first for hosts and the widest first for paths. Empty if it has no unambiguous
/// place.
pub(crate) fn places(sink: Sink, value: &str) -> Vec<String> {
    let place = match sink {
        Sink::Recipient => {
            value.split_once('@').filter(|(local, _)| is_local(local)).and_then(|at| domains(at.1))
        }
        Sink::Url => host(value).and_then(domains),
        Sink::Path => folders(value),
        Sink::Amount | Sink::Account | Sink::Command | Sink::Id | Sink::Other => None,
    };
    place.unwrap_or_default()
}

fn is_local(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._%+-".contains(c))
}

/// The host of a web address. With user information, a backslash or a blank, two programs could see two hosts.
fn host(url: &str) -> Option<&str> {
    if url.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        return None;
    }
    let (rest, is_bare) = match url.split_once("://") {
        Some((scheme, rest)) => {
            let is_web =
                ["https", "http", "wss", "ws"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
            (is_web.then_some(rest)?, false)
        }
        None => (url, true),
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    // Without a scheme, a word without a dot may as well be a folder.
    let is_host = !is_bare || host.contains('.');
    (is_port && is_host).then_some(host)
}

/// A host and the domains above it, in lower case.
fn domains(host: &str) -> Option<Vec<String>> {
    let host = host.to_ascii_lowercase();
    let labels: Vec<&str> = host.split('.').collect();
    if host.len() > MAX_BYTES
        || labels.len() > MAX_DEPTH
        || !labels.iter().all(|label| is_label(label))
    {
        return None;
    }
    // An IP address has no domain above it: nobody owns all addresses that end in `.1`.
    if labels.last()?.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(vec![host]);
    }
    let above = host.match_indices('.').filter_map(|(at, _)| host.get(at + 1..)).map(str::to_owned);
    Some([host.clone()].into_iter().chain(above).collect())
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// A path and the folders above it. None for a path with `..`, or one that a shell or server would rewrite.
fn folders(path: &str) -> Option<Vec<String>> {
    let is_drive = path.as_bytes().get(1) == Some(&b':');
    if path.is_empty()
        || path.len() > MAX_BYTES
        || is_drive
        || path.starts_with(['~', '-'])
        || path.starts_with("//")
        || path.contains("://")
        || path.contains(|c: char| c.is_control() || matches!(c, '\\' | '$' | '%'))
    {
        return None;
    }
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.contains(&"..") || names.len() > MAX_DEPTH {
        return None;
    }
    let root = if path.starts_with('/') { "/" } else { "." };
    let mut folders = vec![root.to_owned()];
    let mut folder = if root == "/" { "/".to_owned() } else { String::new() };
    for name in names {
        folder.push_str(name);
        folders.push(folder.clone());
        folder.push('/');
    }
    Some(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_within_itself_and_everything_above_it() {
        let cases: [(Sink, &str, &[&str]); 12] = [
            (
                Sink::Recipient,
                "Ann@Sales.example.com",
                &["sales.example.com", "example.com", "com"],
            ),
            (
                Sink::Url,
                "https://Docs.example.com:8443/a?b=c@d",
                &["docs.example.com", "example.com", "com"],
            ),
            (Sink::Url, "docs.example.com/a", &["docs.example.com", "example.com", "com"]),
            (Sink::Url, "http://localhost:8080", &["localhost"]),
            (Sink::Url, "http://10.0.0.1/", &["10.0.0.1"]),
            (Sink::Path, "/srv/app/a.txt", &["/", "/srv", "/srv/app", "/srv/app/a.txt"]),
            (Sink::Path, "/srv//./app/", &["/", "/srv", "/srv/app"]),
            (Sink::Path, "notes/a.txt", &[".", "notes", "notes/a.txt"]),
            (Sink::Path, "./a.txt", &[".", "a.txt"]),
            (Sink::Path, ".", &["."]),
            (Sink::Path, "/", &["/"]),
            (Sink::Id, "a.b", &[]),
        ];
        for (sink, value, within) in cases {
            assert_eq!(places(sink, value), within, "{value}");
        }
    }

    #[test]
    fn an_ambiguous_value_has_no_place() {
        let cases = [
            (Sink::Recipient, "ann"),
            (Sink::Recipient, "a@b@example.com"),
            (Sink::Recipient, "Ann <ann@example.com>"),
            (Sink::Recipient, "ann@example.com, eve@evil.example"),
            (Sink::Recipient, "ann@example.com\u{0}"),
            (Sink::Recipient, "@example.com"),
            (Sink::Recipient, "ann@ex\u{430}mple.com"),
            (Sink::Recipient, "ann@.example.com"),
            (Sink::Recipient, "ann@[10.0.0.1]"),
            (Sink::Url, "https://example.com@evil.example"),
            (Sink::Url, "https://evil.example\\@example.com"),
            (Sink::Url, "https://evil.example\\.example.com"),
            (Sink::Url, "https://exam\nple.com"),
            (Sink::Url, " https://example.com"),
            (Sink::Url, "https:example.com"),
            (Sink::Url, "https:/example.com"),
            (Sink::Url, "//example.com"),
            (Sink::Url, "javascript://example.com/%0aalert(1)"),
            (Sink::Url, "file://example.com/etc"),
            (Sink::Url, "docs/readme"),
            (Sink::Url, "https://[::1]/"),
            (Sink::Url, "https://example.com:80:90"),
            (Sink::Url, "https://"),
            (Sink::Path, ""),
            (Sink::Path, "/srv/app/../../etc/passwd"),
            (Sink::Path, "~/notes"),
            (Sink::Path, "$HOME/notes"),
            (Sink::Path, "/srv/%2e%2e/etc"),
            (Sink::Path, "/srv/app\\..\\..\\etc"),
            (Sink::Path, "C:notes"),
            (Sink::Path, "//server/share"),
            (Sink::Path, "file:///etc/passwd"),
            (Sink::Path, "/srv\u{0}/app"),
            (Sink::Path, "-rf"),
        ];
        for (sink, value) in cases {
            assert!(places(sink, value).is_empty(), "{value}: {:?}", places(sink, value));
        }
    }
}
