//! What a hosted model is told once.

use std::num::NonZeroU32;
use std::time::Duration;

use super::secret::Secret;
use crate::fetch::FetchError;

/// Which model, where, at what price, and with how much patience.
#[derive(Debug, Clone)]
pub struct HostedOptions {
    /// Where the protocol begins, such as `https://api.openai.com/v1` or `http://localhost:11434/v1`: everything
    /// before `/chat/completions`, without user, password or query.
    pub base_url: String,
    /// The model's name there.
    pub model: String,
    /// The key, for servers that ask for one. See [`Secret::from_environment`].
    pub api_key: Option<Secret>,
    /// How long to wait for a connection, name lookup included.
    pub connect_timeout: Duration,
    /// How long a server may be silent, also while it thinks before its first byte.
    pub idle_timeout: Duration,
    /// How long an answer may take altogether: waiting for the rate limit, every attempt, and the pauses between them.
    pub total_timeout: Duration,
    /// The longest answer that is read, in bytes as they come: a stream takes some 300 of them per token.
    pub max_answer_bytes: usize,
    /// Whether and when to ask again.
    pub retries: RetryPolicy,
    /// How many requests may go out per minute; no limit when `None`. All models of this process with the same
    /// address and key share it.
    pub requests_per_minute: Option<NonZeroU32>,
    /// What tokens cost, if it is known.
    pub price: Option<Price>,
    /// How to say what the longest answer is.
    pub token_limit_field: TokenLimitField,
    /// Whether to send the seed; some vendors refuse requests that hold one.
    pub sends_seed: bool,
}

impl HostedOptions {
    /// A model without a key, with some patience.
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
            sends_seed: true,
        }
    }
}

/// When to ask again. Only what may pass by itself is asked again, and never after a piece of an answer was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often.
    pub max_retries: u32,
    /// The longest first pause; each further one may be twice as long.
    pub base_delay: Duration,
    /// No pause is longer, unless the server asks for it.
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
    /// Of tokens read.
    pub prompt: f64,
    /// Of tokens written.
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
    /// `max_tokens`, which nearly everyone understands.
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models want.
    MaxCompletionTokens,
}

/// Options that no model can be made of.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The address. It is not shown: it may hold a password.
    #[error("the base URL cannot be used: {why}; give something like `https://host/v1`")]
    Url {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The key.
    #[error("an API key holds visible ASCII characters only; look at what was given")]
    Key,
    /// The key in the environment.
    #[error("`{variable}` holds no API key; set it again, with visible ASCII characters only")]
    KeyVariable {
        /// The variable.
        variable: String,
    },
    /// Everybody on the way could read the key.
    #[error("an API key is never sent over plain http to `{host}`; use https, or no key")]
    PlainKey {
        /// The host.
        host: String,
    },
    /// The price.
    #[error("a price per million tokens is 0 or more; look at the prices of `{model}`")]
    Price {
        /// The model.
        model: String,
    },
    /// The certificates named by the environment.
    #[error(transparent)]
    Certificates(FetchError),
}
