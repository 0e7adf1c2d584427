//! Indicators: what an operator types to name contaminated entries.
//!
//! One line is one indicator. Its kind follows from its form, or from a word before a colon.

use std::fmt;
use std::str::FromStr;

use custody_kernel::label::Channel;
use custody_log::{Digest, EntryId, Seq, SessionId, Timestamp};
use custody_text::{MIN_PHRASE, Phrase};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The shortest bytes to search for: shorter ones occur everywhere.
pub const MIN_BYTES: usize = 3;

/// One indicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Indicator {
    /// An entry, by its id.
    Entry(EntryId),
    /// An entry, by its position.
    Position(Seq),
    /// SHA-256 of a content, or of the weights of an adapter.
    Hash(Digest),
    /// A text that the content contains, however either is spelled (decision 0020).
    Text(String),
    /// Bytes that the content contains exactly, given as text.
    Bytes(String),
    /// A regular expression that matches the content.
    Pattern(String),
    /// The origin of entries. Every field that is set has to match.
    Origin(Origin),
    /// A text that the content is similar to.
    Similar(String),
}

/// The origin of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// A host, with its subdomains.
    pub host: Option<String>,
    /// A tool.
    pub tool: Option<String>,
    /// A channel.
    pub channel: Option<Channel>,
    /// A session.
    pub session: Option<SessionId>,
    /// The earliest time, inclusive.
    pub since: Option<Timestamp>,
    /// The latest time, exclusive.
    pub until: Option<Timestamp>,
}

/// A line that is not an indicator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndicatorError {
    /// The text has too few letters and digits to search for.
    #[error(
        "`{0}` has fewer than {MIN_PHRASE} letters and digits, by which texts are searched; `bytes:…` finds it exactly as \
         it is written"
    )]
    Short(String),
    /// The bytes are too few to search for.
    #[error("`{0}` is shorter than {MIN_BYTES} bytes, which are in every text")]
    FewBytes(String),
    /// The value does not have the form that its word requires.
    #[error("`{given}` is not {wanted}")]
    Form {
        /// The input, shortened.
        given: String,
        /// The expected form, with an example.
        wanted: &'static str,
    },
    /// One field is given twice.
    #[error("`{0}` is given twice; use two indicators")]
    Twice(&'static str),
}

impl FromStr for Indicator {
    type Err = IndicatorError;

    fn from_str(line: &str) -> Result<Self, IndicatorError> {
        let indicator = Self::read(line)?;
        match &indicator {
            Self::Text(text) | Self::Similar(text) if Phrase::of(text).is_none() => {
                Err(IndicatorError::Short(short(text)))
            }
            Self::Bytes(bytes) if bytes.len() < MIN_BYTES => {
                Err(IndicatorError::FewBytes(short(bytes)))
            }
            Self::Entry(_)
            | Self::Position(_)
            | Self::Hash(_)
            | Self::Text(_)
            | Self::Bytes(_)
            | Self::Pattern(_)
            | Self::Origin(_)
            | Self::Similar(_) => Ok(indicator),
        }
    }
}

impl Indicator {
    /// Reads a line, whatever it can find: earlier versions recorded what is refused now.
    fn read(line: &str) -> Result<Self, IndicatorError> {
        // Blanks are among the bytes that are looked for.
        if let Some(rest) = line.trim_start().strip_prefix("bytes:") {
            return Ok(Self::Bytes(rest.to_owned()));
        }
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("id:") {
            return by_name(rest.trim()).ok_or_else(|| form(line, "an entry, like `e-…` or `#12`"));
        }
        if let Some(rest) = line.strip_prefix("hash:").or_else(|| line.strip_prefix("adapter:")) {
            let hash = digest(rest.trim()).ok_or_else(|| form(line, "64 hexadecimal digits"))?;
            return Ok(Self::Hash(hash));
        }
        if let Some(rest) = line.strip_prefix("text:") {
            return Ok(Self::Text(rest.trim().to_owned()));
        }
        if let Some(rest) = line.strip_prefix("re:") {
            return Ok(Self::Pattern(rest.to_owned()));
        }
        if let Some(rest) = line.strip_prefix("like:") {
            return Ok(Self::Similar(rest.trim().to_owned()));
        }
        if let Some(origin) = Origin::parse(line)? {
            return Ok(Self::Origin(origin));
        }
        if let Some(named) = by_name(line) {
            return Ok(named);
        }
        if let Some(hash) = digest(line) {
            return Ok(Self::Hash(hash));
        }
        if let Some(host) = host_of(line) {
            return Ok(Self::Origin(Origin { host: Some(host), ..Origin::default() }));
        }
        Ok(Self::Text(line.to_owned()))
    }
}

fn digest(text: &str) -> Option<Digest> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok().map(|()| Digest(bytes))
}

fn by_name(name: &str) -> Option<Indicator> {
    if let Ok(id) = name.parse() {
        return Some(Indicator::Entry(id));
    }
    let position = name.strip_prefix('#').and_then(|digits| digits.parse().ok());
    position.map(|position| Indicator::Position(Seq(position)))
}

/// The host of a web address, if the whole line is one.
fn host_of(line: &str) -> Option<String> {
    let rest = line.strip_prefix("https://").or_else(|| line.strip_prefix("http://"))?;
    let host: String = rest.chars().take_while(|c| !"/:?#".contains(*c)).collect();
    let is_whole = !line.contains(char::is_whitespace) && !host.is_empty();
    is_whole.then(|| host.to_ascii_lowercase())
}

impl Origin {
    /// `host:…`, `tool:…`, `channel:…`, `session:…`, `since:…` and `until:…`, joined by commas. `None` when the line
    /// begins with none of them.
    fn parse(line: &str) -> Result<Option<Self>, IndicatorError> {
        const WORDS: [&str; 6] = ["host:", "tool:", "channel:", "session:", "since:", "until:"];
        if !WORDS.iter().any(|word| line.starts_with(word)) {
            return Ok(None);
        }
        let mut origin = Self::default();
        for part in line.split(',') {
            origin.set(part.trim())?;
        }
        Ok(Some(origin))
    }

    /// Sets the field that `part` names.
    fn set(&mut self, part: &str) -> Result<(), IndicatorError> {
        let (word, value) = part.split_once(':').unwrap_or((part, ""));
        let value = value.trim();
        if value.is_empty() {
            return Err(form(
                part,
                "an origin, like `tool:read_page` or `channel:web,since:2026-01-31`",
            ));
        }
        match word {
            "host" => put(&mut self.host, "host", value.to_ascii_lowercase()),
            "tool" => put(&mut self.tool, "tool", value.to_owned()),
            "channel" => {
                let channel = Channel::ALL.into_iter().find(|known| known.as_str() == value);
                let channel = channel.ok_or_else(|| form(part, "a channel, like `channel:web`"))?;
                put(&mut self.channel, "channel", channel)
            }
            "session" => {
                let session =
                    value.parse().map_err(|_| form(part, "a session, like `session:s-…`"))?;
                put(&mut self.session, "session", session)
            }
            "since" => {
                put(&mut self.since, "since", moment(value).ok_or_else(|| form(part, A_TIME))?)
            }
            "until" => {
                put(&mut self.until, "until", moment(value).ok_or_else(|| form(part, A_TIME))?)
            }
            _ => Err(form(part, "an origin: host, tool, channel, session, since or until")),
        }
    }
}

const A_TIME: &str = "a time in UTC, like `2026-01-31` or `2026-01-31T18:00:00Z`";

fn put<T>(place: &mut Option<T>, word: &'static str, value: T) -> Result<(), IndicatorError> {
    if place.replace(value).is_some() { Err(IndicatorError::Twice(word)) } else { Ok(()) }
}

/// Parses a day or a time in UTC.
fn moment(text: &str) -> Option<Timestamp> {
    let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let day = text.parse::<jiff::civil::Date>().ok()?;
        Some(day.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    })?;
    u64::try_from(at.as_millisecond()).ok().map(Timestamp)
}

fn form(given: &str, wanted: &'static str) -> IndicatorError {
    IndicatorError::Form { given: short(given), wanted }
}

/// The beginning of the input, for a message.
fn short(given: &str) -> String {
    given.chars().take(60).flat_map(char::escape_debug).collect()
}

impl fmt::Display for Indicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(id) => write!(f, "id:{id}"),
            Self::Position(seq) => write!(f, "id:{seq}"),
            Self::Hash(hash) => write!(f, "hash:{hash}"),
            Self::Text(text) => write!(f, "text:{text}"),
            Self::Bytes(bytes) => write!(f, "bytes:{bytes}"),
            Self::Pattern(pattern) => write!(f, "re:{pattern}"),
            Self::Origin(origin) => write!(f, "{origin}"),
            Self::Similar(text) => write!(f, "like:{text}"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, tool, channel, session, since, until } = self;
        let parts = [
            host.as_ref().map(|host| format!("host:{host}")),
            tool.as_ref().map(|tool| format!("tool:{tool}")),
            channel.map(|channel| format!("channel:{channel}")),
            session.map(|session| format!("session:{session}")),
            since.as_ref().map(|since| format!("since:{}", utc(*since))),
            until.as_ref().map(|until| format!("until:{}", utc(*until))),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

/// A time in the form that [`moment`] parses.
fn utc(time: Timestamp) -> String {
    let at = i64::try_from(time.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.unwrap_or(jiff::Timestamp::MAX).to_string()
}

impl Serialize for Indicator {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Indicator {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::read(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Indicator {
        line.parse().unwrap()
    }

    #[test]
    fn one_line_is_one_indicator_and_reads_back_as_itself() {
        let hash = "ab".repeat(32);
        let id = EntryId::from_random([7; 16]);
        let origin = |line: &str| {
            let Indicator::Origin(origin) = parsed(line) else { panic!("{line}") };
            origin
        };
        assert_eq!(parsed(&id.to_string()), Indicator::Entry(id));
        assert_eq!(parsed("#12"), Indicator::Position(Seq(12)));
        assert_eq!(parsed(&hash), Indicator::Hash(Digest([0xab; 32])));
        assert_eq!(parsed("pay to DE89"), Indicator::Text("pay to DE89".into()));
        assert_eq!(parsed("text:#123 "), Indicator::Text("#123".into()));
        assert_eq!(parsed(" bytes: C++ \n"), Indicator::Bytes(" C++ \n".into()));
        assert_eq!(origin("https://Evil.example/a?b").host.as_deref(), Some("evil.example"));
        assert_eq!(origin("tool:read_page").tool.as_deref(), Some("read_page"));
        let timed = origin("channel:web,since:2024-02-29,until:2024-03-01T01:02:03Z");
        assert_eq!(timed.since, Some(Timestamp(1_709_164_800_000)));
        assert_eq!(timed.until, Some(Timestamp(1_709_254_923_000)));
        let lines = [
            "#12",
            "re:a+",
            "bytes: #12 ",
            "bytes:\u{200b}",
            "like:some words",
            "pay to DE89",
            "https://evil.example/a",
            &hash,
            "channel:web,since:2024-02-29,until:2024-03-01T01:02:03Z",
        ];
        for line in lines {
            let indicator = parsed(line);
            assert_eq!(parsed(&indicator.to_string()), indicator, "{line}");
        }
    }

    /// (G24) What is not searched any more is still read where it was recorded.
    #[test]
    fn recorded_indicators_of_earlier_versions_are_read() {
        let read: Vec<Indicator> = serde_json::from_str(r#"["text:C++", "text:pay"]"#).unwrap();
        assert_eq!(read, [Indicator::Text("C++".into()), Indicator::Text("pay".into())]);
        assert!("text:C++".parse::<Indicator>().is_err());
    }

    #[test]
    fn what_is_no_indicator_says_so() {
        let bad = [
            "",
            "  ",
            "ab",
            "text: a ",
            "text:C++ ",
            "#1x",
            "\u{200b}\u{200b}\u{200b}\u{200b}",
            "like:--- ab ---",
            "bytes:",
            "bytes:ab",
            "id:x",
            "hash:zz",
            "channel:nowhere",
            "since:2023-02-29",
            "since:yesterday",
            "tool:",
            "tool:a,tool:b",
            "host:a,colour:b",
        ];
        for line in bad {
            assert!(line.parse::<Indicator>().is_err(), "{line}");
        }
    }
}
