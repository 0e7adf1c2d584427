//! One HTTP exchange with a server.

use std::io::Read as _;
use std::time::Duration;

use ureq::http::{HeaderMap, HeaderValue};
use ureq::tls::TlsConfig;
use ureq::{Agent, BodyReader, Timeout};

use super::backoff::retry_after;
use super::clock::{self, Deadline};
use super::draft::error_text;
use super::endpoint::Endpoint;
use super::excerpt::excerpt;
use super::options::{HostedOptions, OptionsError};
use super::secret::Secret;
use crate::chat::ChatError;
use crate::fetch;

/// The status codes that are retried: timeouts, rate limits and server errors.
const PASSING: [u16; 6] = [408, 429, 500, 502, 503, 504];

/// The maximum number of bytes read of an error body.
const ERROR_BYTES: u64 = 16 * 1024;

/// A failed attempt.
#[derive(Debug)]
pub(super) struct Failure {
    /// The cause.
    pub(super) error: ChatError,
    /// Whether to retry.
    pub(super) retry: RetryAdvice,
}

/// Whether to retry after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryAdvice {
    /// No retry.
    Never,
    /// Retry, after the delay that the server requested, if any.
    After(Option<Duration>),
}

/// A client for one server.
#[derive(Debug)]
pub(super) struct Exchange {
    agent: Agent,
    endpoint: Endpoint,
    authorization: Option<HeaderValue>,
    key: Option<Secret>,
    connect: Duration,
    idle: Duration,
    total: Duration,
    max_answer_bytes: usize,
}

/// The content type of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One JSON document.
    Json,
    /// A stream of events.
    Events,
}

/// The body of a response.
pub(super) struct Reply {
    reader: BodyReader<'static>,
    bytes: usize,
}

impl Exchange {
    /// # Errors
    /// [`OptionsError`], also if a key would be sent unencrypted.
    pub(super) fn new(options: &HostedOptions) -> Result<Self, OptionsError> {
        let endpoint = Endpoint::parse(&options.base_url)?;
        let key = options.api_key.clone();
        if key.is_some() && !endpoint.is_encrypted && !endpoint.is_loopback {
            return Err(OptionsError::PlainKey { host: endpoint.host });
        }
        let authorization = key.as_ref().map(bearer).transpose()?;
        let roots = fetch::root_certificates().map_err(OptionsError::Certificates)?;
        let builder = Agent::config_builder()
            .user_agent(concat!("custody/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .https_only(endpoint.is_encrypted)
            .http_status_as_error(false)
            // A redirect is reported as its status. Following it could send the key and the prompt to another origin.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(options.connect_timeout))
            .timeout_connect(Some(options.connect_timeout))
            .timeout_per_read(Some(options.idle_timeout))
            .timeout_per_write(Some(options.idle_timeout));
        // This machine is never accessed through a proxy, which could read the key.
        let builder = if endpoint.is_loopback { builder.proxy(None) } else { builder };
        Ok(Self {
            agent: builder.build().new_agent(),
            endpoint,
            authorization,
            key,
            connect: options.connect_timeout,
            idle: options.idle_timeout,
            total: options.total_timeout,
            max_answer_bytes: options.max_answer_bytes,
        })
    }

    /// The base URL.
    pub(super) fn base(&self) -> &str {
        &self.endpoint.base
    }

    /// Sends one request and waits for the head of a successful response of the requested content type.
    pub(super) fn post(
        &self,
        body: &[u8],
        form: Form,
        deadline: &Deadline,
    ) -> Result<Reply, Failure> {
        let left = self.left(deadline)?;
        let mut request = self
            .agent
            .post(&self.endpoint.url)
            .header("content-type", "application/json")
            .header("accept", form.media_type());
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization.clone());
        }
        let request = request.config().timeout_global(Some(left)).build();
        let (head, body) = request.send(body).map_err(|error| self.failed(&error))?.into_parts();
        let media_type = body.mime_type().map(str::to_ascii_lowercase);
        let mut reply = Reply { reader: body.into_reader(), bytes: 0 };
        if head.status.as_u16() != 200 {
            return Err(self.refused(head.status.as_u16(), &head.headers, &mut reply));
        }
        match media_type {
            Some(media_type) if form.accepts(&media_type) => Ok(reply),
            Some(other) => {
                let wanted = form.media_type();
                Err(self.unreadable(&format!("it is sent as `{other}`, not as `{wanted}`")))
            }
            None => Err(self.unreadable("it does not say what it is sent as")),
        }
    }

    /// Reads the next bytes of a response, none at its end. The deadline also applies to slow responses.
    pub(super) fn read<'buffer>(
        &self,
        reply: &mut Reply,
        buffer: &'buffer mut [u8],
        deadline: &Deadline,
    ) -> Result<&'buffer [u8], Failure> {
        self.left(deadline)?;
        let length = reply.reader.read(buffer).map_err(|error| self.failed(&error.into()))?;
        self.left(deadline)?;
        reply.bytes = reply.bytes.saturating_add(length);
        if reply.bytes > self.max_answer_bytes {
            let limit = self.max_answer_bytes;
            return Err(self.unreadable(&format!("it is longer than {limit} bytes")));
        }
        Ok(buffer.get(..length).unwrap_or_default())
    }

    /// The failure for an invalid answer.
    pub(super) fn unreadable(&self, detail: &str) -> Failure {
        let error = ChatError::Answer { url: self.url(), detail: self.excerpt(detail) };
        Failure { error, retry: RetryAdvice::Never }
    }

    /// The failure for an expired deadline.
    pub(super) fn out_of_time(&self) -> Failure {
        self.timed_out(self.total)
    }

    fn left(&self, deadline: &Deadline) -> Result<Duration, Failure> {
        let left = deadline.left(clock::now());
        if left.is_zero() { Err(self.out_of_time()) } else { Ok(left) }
    }

    /// The failure for an error status, with the server's message.
    fn refused(&self, status: u16, headers: &HeaderMap, reply: &mut Reply) -> Failure {
        let mut bytes = Vec::new();
        // Errors while reading the body are ignored, because the status is known.
        let _ = (&mut reply.reader).take(ERROR_BYTES).read_to_end(&mut bytes);
        let detail = match (status, serde_json::from_slice(&bytes)) {
            (300..=399, _) => {
                "a redirect, which is not followed; configure the address it leads to".to_owned()
            }
            (_, Ok(error)) => self.excerpt(&error_text(&error)),
            (_, Err(_)) => self.excerpt(&String::from_utf8_lossy(&bytes)),
        };
        let detail = if detail.is_empty() { "no reason is given".to_owned() } else { detail };
        let retry = if PASSING.contains(&status) {
            let asked_for = headers.get("retry-after").and_then(|value| value.to_str().ok());
            RetryAdvice::After(asked_for.and_then(|value| retry_after(value, clock::date())))
        } else {
            RetryAdvice::Never
        };
        Failure { error: ChatError::Status { url: self.url(), status, detail }, retry }
    }

    /// The failure for a broken connection.
    fn failed(&self, error: &ureq::Error) -> Failure {
        use ureq::Error as E;
        let detail = error.to_string();
        if matches!(error, E::Timeout(Timeout::Resolve | Timeout::Connect)) {
            let seconds = self.connect.as_secs_f64();
            return self.unreachable(&format!("no connection within {seconds} s"), TRANSIENT);
        }
        if matches!(error, E::Timeout(Timeout::PerRead | Timeout::PerWrite)) {
            return self.timed_out(self.idle);
        }
        if matches!(error, E::Timeout(_)) {
            return self.out_of_time();
        }
        if matches!(error, E::Protocol(_) | E::LargeResponseHeader(..)) {
            return self.unreadable(&detail);
        }
        let passes = if let E::Io(cause) = error {
            // An untrusted certificate, which a retry would not fix.
            cause.kind() != std::io::ErrorKind::InvalidData
        } else {
            matches!(error, E::HostNotFound | E::ConnectionFailed | E::ConnectProxyFailed(_))
        };
        self.unreachable(&detail, if passes { TRANSIENT } else { RetryAdvice::Never })
    }

    fn timed_out(&self, limit: Duration) -> Failure {
        Failure { error: ChatError::Timeout { url: self.url(), limit }, retry: RetryAdvice::Never }
    }

    fn unreachable(&self, detail: &str, retry: RetryAdvice) -> Failure {
        let error = ChatError::Unreachable { url: self.url(), detail: self.excerpt(detail) };
        Failure { error, retry }
    }

    fn url(&self) -> String {
        self.endpoint.url.clone()
    }

    fn excerpt(&self, text: &str) -> String {
        excerpt(text, self.key.as_ref())
    }
}

/// A failed connection is retried.
const TRANSIENT: RetryAdvice = RetryAdvice::After(None);

impl Form {
    fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Events => "text/event-stream",
        }
    }

    fn accepts(self, media_type: &str) -> bool {
        let is_json = media_type.starts_with("application/") && media_type.ends_with("+json");
        media_type == self.media_type() || (self == Self::Json && is_json)
    }
}

fn bearer(key: &Secret) -> Result<HeaderValue, OptionsError> {
    let text = zeroize::Zeroizing::new(format!("Bearer {}", key.expose()));
    let mut value = HeaderValue::from_str(&text).map_err(|_| OptionsError::Key)?;
    value.set_sensitive(true);
    Ok(value)
}
