//! Models behind OpenAI's chat-completions protocol: any vendor, Ollama, llama-server, vLLM.
//!
//! In reading order: `options` and `secret` are the configuration, `endpoint` is the validated URL; `request` is
//! the body, `exchange` sends it, `sse` and `draft` parse the response; `backoff` and `limiter` time requests
//! and retries, `meter` counts usage. `excerpt` sanitises server messages, `clock` has the side effects.
//!
//! Memory and time are bounded for any response, the key is sent to the configured origin only, and an answer
//! that is not clearly complete is an error.

mod backoff;
mod clock;
mod draft;
mod endpoint;
mod excerpt;
mod exchange;
mod limiter;
mod meter;
mod options;
mod request;
mod secret;
mod sse;

pub use meter::UsageTotals;
pub use options::{HostedOptions, OptionsError, Price, RetryPolicy, TokenLimitField};
pub use secret::{DEFAULT_KEY_VARIABLE, Secret};

use std::fmt;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clock::Deadline;
use draft::Draft;
use exchange::{Exchange, Failure, Form, Reply, RetryAdvice};
use limiter::Limiter;
use meter::Meter;
use sse::Events;

use super::{ChatAnswer, ChatError, ChatModel, ChatRequest};

/// A model on a server, with a blocking client that can be shared between threads.
pub struct HostedModel {
    options: HostedOptions,
    identity: String,
    exchange: Exchange,
    limit: Option<(NonZeroU32, Arc<Limiter>)>,
    meter: Meter,
    /// Whether this server rejects answer shapes: not every vendor supports schemas.
    refuses_shapes: AtomicBool,
}

/// The callback for the pieces of an answer.
type Show<'a> = dyn FnMut(&str) -> ControlFlow<()> + 'a;

/// How a response ended.
enum End {
    Whole,
    Stopped,
}

/// The size of the read buffer.
const BUFFER: usize = 16 * 1024;

impl HostedModel {
    /// Creates a model without sending a request.
    ///
    /// The proxy is that of `ALL_PROXY`, `HTTPS_PROXY` or `HTTP_PROXY`, and none for this machine. The trusted
    /// certificates are Mozilla's, or those of the PEM file in `SSL_CERT_FILE`.
    ///
    /// # Errors
    /// [`OptionsError`] if the options are inconsistent or would send a key unencrypted.
    pub fn new(options: HostedOptions) -> Result<Self, OptionsError> {
        if options.price.is_some_and(|price| !price.is_sound()) {
            return Err(OptionsError::Price { model: options.model });
        }
        let exchange = Exchange::new(&options)?;
        let limit = options.requests_per_minute.map(|per_minute| {
            let limiter = Limiter::shared(exchange.base(), options.api_key.as_ref(), clock::now());
            (per_minute, limiter)
        });
        Ok(Self {
            identity: format!("hosted {} {}", exchange.base(), options.model),
            limit,
            meter: Meter::new(options.price),
            exchange,
            options,
            refuses_shapes: AtomicBool::new(false),
        })
    }

    /// The accumulated usage.
    pub fn usage(&self) -> UsageTotals {
        self.meter.totals()
    }

    /// Sends the request, without the answer shape if the server rejects shapes.
    fn ask(
        &self,
        request: &ChatRequest,
        mut show: Option<&mut Show<'_>>,
    ) -> Result<ChatAnswer, ChatError> {
        let deadline = Deadline::new(clock::now(), self.options.total_timeout);
        if request.shape.is_none() {
            return self.ask_with_retries(request, show, &deadline);
        }
        if !self.refuses_shapes.load(Ordering::Relaxed) {
            let asked = self.ask_with_retries(request, show.as_deref_mut(), &deadline);
            if !asked.as_ref().is_err_and(is_not_understood) {
                return asked;
            }
        }
        let plain = ChatRequest { shape: None, ..request.clone() };
        let answer = self.ask_with_retries(&plain, show, &deadline)?;
        self.refuses_shapes.store(true, Ordering::Relaxed);
        Ok(answer)
    }

    /// Repeats the request until it succeeds, fails permanently, or the deadline leaves no time for
    /// another attempt.
    fn ask_with_retries(
        &self,
        request: &ChatRequest,
        mut show: Option<&mut Show<'_>>,
        deadline: &Deadline,
    ) -> Result<ChatAnswer, ChatError> {
        let body = request::body(request, &self.options, show.is_some())
            .map_err(|detail| ChatError::Request { model: self.options.model.clone(), detail })?;
        let (mut retried, mut last) = (0, None);
        loop {
            if !self.wait_for_slot(deadline) {
                return Err(last.unwrap_or_else(|| self.exchange.out_of_time().error));
            }
            self.meter.count_request(retried > 0);
            let failure = match self.attempt(&body, show.as_deref_mut(), deadline) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let RetryAdvice::After(asked_for) = failure.retry else { return Err(failure.error) };
            let retries = &self.options.retries;
            let wait = backoff::wait(retries, retried, asked_for, clock::random());
            // The last failure is more informative than a timeout, so it is returned without waiting.
            if retried >= retries.max_retries || wait >= deadline.left(clock::now()) {
                return Err(failure.error);
            }
            clock::sleep(wait);
            retried += 1;
            last = Some(failure.error);
        }
    }

    /// Waits for the rate limiter; `false` if the wait would exceed the deadline. Retries wait like first attempts.
    fn wait_for_slot(&self, deadline: &Deadline) -> bool {
        let Some((per_minute, limiter)) = &self.limit else { return true };
        let now = clock::now();
        let wait = limiter.reserve(*per_minute, now, deadline.left(now));
        wait.map(clock::sleep).is_some()
    }

    fn attempt(
        &self,
        body: &[u8],
        show: Option<&mut Show<'_>>,
        deadline: &Deadline,
    ) -> Result<ChatAnswer, Failure> {
        let form = if show.is_some() { Form::Events } else { Form::Json };
        let reply = self.exchange.post(body, form, deadline)?;
        let mut draft = Draft::default();
        let end = match show {
            Some(show) => self.read_events(reply, &mut draft, show, deadline),
            None => self.read_whole(reply, &mut draft, deadline),
        };
        self.meter.count_answer(draft.usage());
        match end? {
            End::Whole => draft.whole().map_err(|detail| self.exchange.unreadable(&detail)),
            End::Stopped => Ok(draft.stopped()),
        }
    }

    fn read_whole(
        &self,
        mut reply: Reply,
        draft: &mut Draft,
        deadline: &Deadline,
    ) -> Result<End, Failure> {
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; BUFFER]);
        loop {
            let next = self.exchange.read(&mut reply, &mut buffer, deadline)?;
            if next.is_empty() {
                break;
            }
            bytes.extend_from_slice(next);
        }
        draft.take_whole(&bytes).map_err(|detail| self.exchange.unreadable(&detail))?;
        Ok(End::Whole)
    }

    /// Reads a stream to its end, which is `[DONE]` or the end of its bytes; the draft decides whether the answer is
    /// complete.
    fn read_events(
        &self,
        mut reply: Reply,
        draft: &mut Draft,
        show: &mut Show<'_>,
        deadline: &Deadline,
    ) -> Result<End, Failure> {
        let mut events = Events::new(self.options.max_answer_bytes);
        let (mut buffer, mut was_shown) = (vec![0; BUFFER], false);
        loop {
            let next = match self.exchange.read(&mut reply, &mut buffer, deadline) {
                Ok([]) => return Ok(End::Whole),
                Ok(next) => next,
                // A caller that received the beginning of one answer must not receive the end of another.
                Err(failure) if was_shown => {
                    return Err(Failure { retry: RetryAdvice::Never, ..failure });
                }
                Err(failure) => return Err(failure),
            };
            let chunks =
                events.push(next).map_err(|error| self.exchange.unreadable(&error.to_string()))?;
            for data in chunks {
                if data == "[DONE]" {
                    return Ok(End::Whole);
                }
                let piece =
                    draft.take_chunk(&data).map_err(|detail| self.exchange.unreadable(&detail))?;
                if piece.is_empty() {
                    continue;
                }
                was_shown = true;
                if show(&piece).is_break() {
                    return Ok(End::Stopped);
                }
            }
        }
    }
}

/// Whether the server rejects something in the request.
fn is_not_understood(error: &ChatError) -> bool {
    matches!(error, ChatError::Status { status: 400 | 422, .. })
}

impl ChatModel for HostedModel {
    /// The protocol, the base URL and the model's name. The server can change the model behind that name.
    fn identity(&self) -> &str {
        &self.identity
    }

    /// Most servers do; others return an error.
    fn supports_tools(&self) -> bool {
        true
    }

    fn answer(&self, request: &ChatRequest) -> Result<ChatAnswer, ChatError> {
        self.ask(request, None)
    }

    fn answer_streaming(
        &self,
        request: &ChatRequest,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ChatAnswer, ChatError> {
        self.ask(request, Some(show))
    }
}

impl fmt::Debug for HostedModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HostedModel")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}
