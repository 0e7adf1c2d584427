//! What a request to one of Google's models wants: its address says so, after the name of the model.

use axum::http::{Method, Uri};

/// What a request wants of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelMethod {
    /// An answer, whole or as server-sent events.
    Answer,
    /// An answer as a stream of another form, in which nothing is decided.
    OtherStream,
    /// Something in which no model says anything.
    NoAnswer,
    /// Nobody could decide what it does.
    Unknown,
}

impl ModelMethod {
    /// What a request to `…/models/MODEL:METHOD` wants.
    pub(crate) fn of(method: &Method, uri: &Uri) -> Self {
        let name = uri.path().rsplit_once("/models/").map_or("", |(_, name)| name);
        let is_named = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        if !is_named || !name.chars().all(is_plain) {
            return Self::Unknown;
        }
        let wants = match name.split_once(':') {
            None if method == Method::GET => return Self::NoAnswer,
            Some((_, wants)) if method == Method::POST => wants,
            _ => return Self::Unknown,
        };
        match wants {
            "generateContent" => Self::Answer,
            "streamGenerateContent" if is_sse(uri) => Self::Answer,
            "streamGenerateContent" => Self::OtherStream,
            "countTokens" | "embedContent" | "batchEmbedContents" => Self::NoAnswer,
            _ => Self::Unknown,
        }
    }
}

/// Whether a letter is one of an address that is written one way only: written in another, it may be another one to
/// the vendor.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.:".contains(letter)
}

/// Whether a stream is asked for as server-sent events, and as nothing else.
fn is_sse(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    let mut forms = query.split('&').filter_map(|pair| pair.strip_prefix("alt="));
    (forms.next(), forms.next()) == (Some("sse"), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_the_letter_is_passed_on() {
        let cases = [
            ("POST", "m:generateContent", ModelMethod::Answer),
            ("POST", "gemini-3.1-pro:generateContent?key=k", ModelMethod::Answer),
            ("POST", "m:streamGenerateContent?alt=sse", ModelMethod::Answer),
            ("POST", "m:streamGenerateContent?key=k&alt=sse", ModelMethod::Answer),
            ("POST", "m:streamGenerateContent", ModelMethod::OtherStream),
            ("POST", "m:streamGenerateContent?alt=json", ModelMethod::OtherStream),
            ("POST", "m:streamGenerateContent?alt=sse&alt=json", ModelMethod::OtherStream),
            ("POST", "m:countTokens", ModelMethod::NoAnswer),
            ("POST", "m:embedContent", ModelMethod::NoAnswer),
            ("GET", "m", ModelMethod::NoAnswer),
            ("GET", "m:generateContent", ModelMethod::Unknown),
            ("POST", "m", ModelMethod::Unknown),
            ("POST", "m:batchGenerateContent", ModelMethod::Unknown),
            ("POST", "m:generateContent:countTokens", ModelMethod::Unknown),
            ("POST", "m%3AgenerateContent", ModelMethod::Unknown),
            ("POST", "../m:generateContent", ModelMethod::Unknown),
            ("POST", "m/n:countTokens", ModelMethod::Unknown),
            ("POST", ":generateContent", ModelMethod::Unknown),
        ];
        for (method, name, expected) in cases {
            for start in ["/gemini", "/c/custody_k/gemini"] {
                let uri: Uri = format!("{start}/v1beta/models/{name}").parse().unwrap();
                let method = Method::from_bytes(method.as_bytes()).unwrap();
                assert_eq!(ModelMethod::of(&method, &uri), expected, "{method} {name}");
            }
        }
    }
}
