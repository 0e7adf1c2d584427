//! People and places in a word: mail addresses, web addresses, hosts, IP addresses, keys.

use core::net::Ipv6Addr;

use unicode_normalization::char::is_combining_mark;

use crate::manifest::Sink;
use crate::spelling::is_month;

/// The fewest letters and digits of a token that could be an account or a key.
const SHORTEST_KEY: usize = 8;
/// The fewest changes between letters and digits in a part of such a token; names have two at most: `mp3`, `i18n`.
const KEY_CHANGES: usize = 3;
/// The same in all parts together: `00:1A:2B:3C:4D:5E`.
const KEY_CHANGES_IN_ALL: usize = 5;
/// From this length on, one digit among letters makes a key.
const LONG_KEY: usize = 16;
/// From this length on, a mixture of cases does.
const LONGEST_NAME: usize = 20;
/// The fewest changes from lower to upper case in it; a name in camel case has fewer.
const CASE_CHANGES: usize = 4;

/// The ends of file names that are no hosts.
const FILES: [&str; 118] = [
    "aac", "ai", "apk", "avi", "bak", "bash", "bat", "bin", "bmp", "bz", "c", "cc", "cfg", "class",
    "conf", "cpp", "cs", "csproj", "css", "csv", "dat", "db", "deb", "diff", "dll", "dmg", "doc",
    "docx", "eml", "env", "eps", "epub", "exe", "flac", "gif", "go", "gradle", "gz", "gzip", "h",
    "hpp", "htm", "html", "ico", "ics", "ini", "ipynb", "iso", "jar", "java", "jpeg", "jpg", "js",
    "json", "jsonl", "jsx", "key", "kt", "less", "lock", "log", "lua", "md", "mdx", "mkv", "mov",
    "mpeg", "mpg", "msg", "msi", "odp", "ods", "odt", "ogg", "otf", "parquet", "patch", "pdf",
    "pem", "php", "pl", "png", "ppt", "pptx", "ps", "py", "pyc", "rar", "rb", "rpm", "rs", "rst",
    "rtf", "sass", "scss", "sh", "sql", "sqlite", "svg", "swift", "tar", "tex", "tgz", "tif",
    "tiff", "tmp", "toml", "ts", "tsv", "tsx", "ttf", "txt", "vcf", "wasm", "wav", "webp", "xls",
    "xlsx",
];
/// More of them.
const MORE_FILES: [&str; 8] = ["vue", "webm", "woff", "xhtml", "xml", "xz", "yaml", "yml"];
/// Those that are also the ends of hosts: files only where nothing about the word looks like the web.
const FILES_AND_DOMAINS: [&str; 10] = ["ai", "cc", "go", "md", "mov", "pl", "ps", "py", "rs", "sh"];

/// What a word of free text is, if it leads somewhere.
pub(super) fn of_word(word: &str) -> Option<(Sink, &'static str)> {
    if is_address(word) {
        return Some((Sink::Recipient, "address"));
    }
    if is_link(word) || hosts(word).any(|(host, after)| is_host(word, host, after)) {
        return Some((Sink::Url, "link"));
    }
    is_key(word).then_some((Sink::Account, "key"))
}

/// Something on either side of an at sign. A name after one alone is a mention.
fn is_address(word: &str) -> bool {
    // What follows the sign has to hold a letter: `3@5` is a price.
    let Some(last_letter) = word.rfind(char::is_alphabetic) else { return false };
    let mut signs = word.match_indices('@').filter(|(at, _)| *at < last_letter);
    signs.any(|(at, _)| is_between(word, at)) || (word.contains('@') && word.contains('.'))
}

/// Whether a name stands before the sign `at` and the beginning of a host after it.
fn is_between(word: &str, at: usize) -> bool {
    let before = word.get(..at).unwrap_or_default();
    let after = word.get(at + 1..).unwrap_or_default();
    before.ends_with(|c: char| c.is_alphanumeric() || "\"'._-".contains(c)) && begins_host(after)
}

fn begins_host(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '[')
}

/// `//host`, `\\host`, or `scheme:` and something.
fn is_link(word: &str) -> bool {
    let mut slashes = word.match_indices("//").chain(word.match_indices("\\\\"));
    slashes.any(|(at, _)| word.get(at + 2..).is_some_and(begins_host))
        || word.split_once(':').is_some_and(is_scheme)
}

/// Whether what stands before and after a colon are a scheme and what it leads to.
fn is_scheme((scheme, rest): (&str, &str)) -> bool {
    // One letter is a drive, `::` a path of names in code, and `:innen` a German ending.
    let is_name = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_name && !rest.is_empty() && !rest.starts_with(':') && !matches!(rest, "in" | "innen")
}

/// The dotted parts of a word, each with what follows it.
fn hosts(word: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let start = rest.find(is_host_char)?;
        let from = rest.get(start..)?;
        let length = from.find(|c| !is_host_char(c)).unwrap_or(from.len());
        let (host, after) = from.split_at_checked(length)?;
        rest = after;
        Some((host.trim_matches('.'), after))
    })
}

fn is_host_char(c: char) -> bool {
    c.is_alphanumeric() || is_combining_mark(c) || matches!(c, '-' | '_' | '.')
}

/// Whether the dotted part `host` of `word`, before `after`, names a host: any label.label that is no file.
fn is_host(word: &str, host: &str, after: &str) -> bool {
    let labels: Vec<&str> = host.split('.').collect();
    let Some((last, others)) = labels.split_last().filter(|(_, others)| !others.is_empty()) else {
        return false;
    };
    if labels.iter().any(|label| label.is_empty()) {
        return false;
    }
    if is_ip_v4(&labels, after) {
        return true;
    }
    let is_end = last.chars().nth(1).is_some()
        && last.chars().all(|c| c.is_alphabetic() || is_combining_mark(c))
        || last.to_ascii_lowercase().starts_with("xn--");
    let is_day = others.iter().all(|label| label.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_end || (is_day && is_month(last)) {
        return false;
    }
    let last = last.to_lowercase();
    if !FILES.contains(&last.as_str()) && !MORE_FILES.contains(&last.as_str()) {
        return true;
    }
    let is_of_the_web = after.starts_with(['/', '?', '#', ':'])
        || others.len() > 1
        || word.to_ascii_lowercase().starts_with("www.");
    FILES_AND_DOMAINS.contains(&last.as_str()) && is_of_the_web
}

/// An IPv4 address in any notation that resolvers take: decimal, octal or hexadecimal, in two to four parts. Two or
/// three plain decimal parts are a version or a price unless a port or a path follows.
fn is_ip_v4(labels: &[&str], after: &str) -> bool {
    let values: Option<Vec<u64>> = labels.iter().map(|label| part(label)).collect();
    let Some((last, others)) = values.as_deref().and_then(<[u64]>::split_last) else {
        return false;
    };
    let is_short = labels.len() < 4;
    // The last part has the room of those that are left out.
    let room = 1_u64 << (8 * (5 - labels.len().min(4)));
    let is_coded = labels.iter().any(|label| label.len() > 1 && label.starts_with('0'));
    let goes_on =
        after.strip_prefix(':').is_some_and(|port| port.starts_with(|c: char| c.is_ascii_digit()))
            || after.strip_prefix('/').is_some_and(|path| path.starts_with(char::is_alphabetic));
    labels.len() <= 4
        && others.iter().all(|value| *value < 256)
        && *last < room
        && (!is_short || goes_on || (is_coded && labels.iter().any(|label| label.contains('x'))))
}

/// One part of an IPv4 address.
fn part(label: &str) -> Option<u64> {
    let lower = label.to_ascii_lowercase();
    match (lower.strip_prefix("0x"), lower.strip_prefix('0')) {
        (Some(digits), _) => u64::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) if !digits.is_empty() => {
            u64::from_str_radix(digits, 8).or_else(|_| digits.parse()).ok()
        }
        _ => lower.parse().ok(),
    }
}

/// The IPv6 addresses in a text, with or without brackets around them.
pub(super) fn ip_v6(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_ascii_hexdigit() && !matches!(c, ':' | '.'))
        .map(|run| run.trim_matches('.'))
        .filter(|run| run.matches(':').count() > 1 && run.contains(|c: char| c.is_ascii_digit()))
        .filter(|run| {
            [*run, run.trim_end_matches(':')].iter().any(|run| run.parse::<Ipv6Addr>().is_ok())
        })
        .collect()
}

/// Whether a word is a mixture that nobody reads: an account, a key, a wallet, a token.
fn is_key(word: &str) -> bool {
    let parts = word.split(|c: char| !c.is_alphanumeric());
    let (mut length, mut most, mut in_all, mut digits) = (0, 0, 0, 0);
    let mut is_long = false;
    for part in parts {
        let changes = changes(part, char::is_numeric);
        let characters = part.chars().count();
        let numbers = part.chars().filter(|c| c.is_numeric()).count();
        length += characters;
        digits += numbers;
        in_all += changes;
        most = most.max(changes);
        let is_mixed = numbers > 0 && numbers < characters;
        let humps = part.as_bytes().windows(2).filter(|pair| is_hump(pair)).count();
        is_long |= (characters >= LONG_KEY && is_mixed)
            || (characters >= LONGEST_NAME && humps >= CASE_CHANGES);
    }
    let is_mixture = most >= KEY_CHANGES || (in_all >= KEY_CHANGES_IN_ALL && digits > KEY_CHANGES);
    is_long || (length >= SHORTEST_KEY && is_mixture)
}

/// How often `part` changes between what `is` holds for and what it does not.
fn changes(part: &str, is: impl Fn(char) -> bool) -> usize {
    part.chars().zip(part.chars().skip(1)).filter(|(one, next)| is(*one) != is(*next)).count()
}

fn is_hump(pair: &[u8]) -> bool {
    matches!(pair, [one, next] if one.is_ascii_lowercase() && next.is_ascii_uppercase())
}
