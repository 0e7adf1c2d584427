//! The configuration of a hosted model.

use std::num::NonZeroU32;
use std::time::Duration;

use super::secret::Secret;
use crate::fetch::FetchError;

/// The model, its address, prices, limits and timeouts.
#[derive(Debug, Clone)]
pub struct HostedOptions {
    /// The base URL, such as `https://api.openai.com/v1` or `http://localhost:11434/v1`: everything
    /// before `/chat/completions`, without user, password or query.
    pub base_url: String,
    /// The model's name on the server.
    pub model: String,
    /// The API key, if the server requires one. See [`Secret::from_environment`].
    pub api_key: Option<Secret>,
    /// The timeout of a connection, including name resolution.
    pub connect_timeout: Duration,
    /// The timeout between bytes, including the time to the first one.
    pub idle_timeout: Duration,
    /// The timeout of an answer, including the rate limit, all attempts and the delays between them.
    pub total_timeout: Duration,
    /// The size limit of a response in bytes; a stream takes about 300 per token.
    pub max_answer_bytes: usize,
    /// The retry policy.
    pub retries: RetryPolicy,
    /// The limit on requests per minute; `None` means no limit. All models of this process with the same
    /// address and key share it.
    pub requests_per_minute: Option<NonZeroU32>,
    /// The price of tokens, if it is known.
    pub price: Option<Price>,
    /// The request field for the token limit.
    pub token_limit_field: TokenLimitField,
    /// Whether to send the seed; some vendors reject it.
    pub is_seed_sent: bool,
}

impl HostedOptions {
    /// Options without a key and with default timeouts.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            connect_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(120),
            total_timeout: Duration::from_secs(600),
            max_answer_bytes: 16 * 1024 * 1024,
            retries: RetryPolicy::default(),
            requests_per_minute: None,
            price: None,
            token_limit_field: TokenLimitField::MaxTokens,
            is_seed_sent: true,
        }
    }
}

/// When to retry. Only transient failures are retried, and never after a piece of an answer was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The maximum number of retries.
    pub max_retries: u32,
    /// The maximum first delay; it doubles with each retry.
    pub base_delay: Duration,
    /// The maximum delay, unless the server requests a longer one.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 4,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
        }
    }
}

/// Prices in a currency of the reader's choice, per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// The price of prompt tokens.
    pub prompt: f64,
    /// The price of completion tokens.
    pub completion: f64,
}

impl Price {
    pub(super) fn is_sound(&self) -> bool {
        [self.prompt, self.completion].iter().all(|price| price.is_finite() && *price >= 0.0)
    }
}

/// The field of a request that limits its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLimitField {
    /// `max_tokens`, which nearly all servers support.
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models require.
    MaxCompletionTokens,
}

/// Invalid options.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The base URL is invalid. It is not shown, because it may contain a password.
    #[error("the base URL cannot be used: {why}; give something like `https://host/v1`")]
    Url {
        /// The problem.
        why: &'static str,
    },
    /// The API key is invalid.
    #[error("an API key holds visible ASCII characters only; look at what was given")]
    Key,
    /// The API key in the environment is invalid.
    #[error("`{variable}` holds no API key; set it again, with visible ASCII characters only")]
    KeyVariable {
        /// The variable.
        variable: String,
    },
    /// The API key would be sent unencrypted.
    #[error("an API key is never sent over plain http to `{host}`; use https, or no key")]
    PlainKey {
        /// The host.
        host: String,
    },
    /// The price is invalid.
    #[error("a price per million tokens is 0 or more; look at the prices of `{model}`")]
    Price {
        /// The model.
        model: String,
    },
    /// The certificates of the environment cannot be used.
    #[error(transparent)]
    Certificates(FetchError),
}
