//! One request to a model and its answer: what enters is recorded before the request goes on, and no tool call of the
//! answer goes on before it is decided.

use std::collections::BTreeSet;
use std::sync::Arc;

use custody_runtime::StoreError;
use custody_runtime::advice::{
    Advice, ClaimedTokens, Coverage, ExchangeCoverage, ExchangeUsage, Version1,
};
use custody_runtime::ingress::Observation;
use custody_runtime::tools::GateError;

use super::connection::Connection;
use super::conversation::{Conversation, Surface, tool_output};
use super::foreseen::Foreseen;
use super::intents::IntentStep;
use super::judge::{Beside, Judgement, judge_amid};
use super::settings::{ConnectionSettings, GuardMode};
use crate::approval_code::ApprovalCode;
use crate::wire::{
    Block, CallRule, CallRuling, Dialect, Filtered, ModelRequest, StreamFilter, Undecidable,
    WireCall, WireError,
};

/// Why a request or an answer does not go on.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// It is not understood.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// It asks for what nobody can decide here, and the connection is strict.
    #[error("this connection is strict, and nobody can decide here: {0}")]
    Undecidable(String),
    /// The record cannot be read or written.
    #[error("the record cannot be kept: {0}")]
    Record(#[from] GateError),
}

impl From<StoreError> for ProxyError {
    fn from(error: StoreError) -> Self {
        Self::Record(error.into())
    }
}

/// How an exchange ended, for logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How much of the answer was decided.
    pub coverage: Coverage,
    /// What was not.
    pub undecided: Vec<&'static str>,
    /// Calls that went on.
    pub passed: usize,
    /// Calls that did not.
    pub removed: usize,
    /// What it took.
    pub usage: ExchangeUsage,
}

/// A request that is recorded and may go on.
#[derive(Debug)]
pub struct ModelExchange {
    connection: Arc<Connection>,
    settings: Arc<ConnectionSettings>,
    conversation: Arc<Conversation>,
    dialect: Dialect,
    is_named: bool,
    is_streamed: bool,
    /// The blocks of the request, of a conversation without a name.
    blocks: Vec<Block>,
    /// How many calls of the conversation have no id on the wire.
    calls_without_id: usize,
    /// What the request asks for that nobody can decide here.
    undecidable: BTreeSet<Undecidable>,
    undecided: BTreeSet<&'static str>,
    /// What of the answer is recorded as read by the model.
    entered: BTreeSet<Undecidable>,
    /// What the model said last, which is recorded with what comes next.
    said: Option<String>,
    /// What is recorded after the one call of the answer, in the same turn of the writer.
    last: Option<Observation>,
    is_last_recorded: bool,
    passed: usize,
    removed: usize,
    usage: ExchangeUsage,
    progress: Progress,
    /// Why nothing more may be decided.
    failure: Option<GateError>,
    /// The model that is to be asked first for the calls that it means to make.
    intents: Option<IntentStep>,
}

/// How far an exchange is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Nothing of an answer is recorded.
    Asked,
    /// Part of an answer is.
    Answering,
    /// All that there was of it is.
    Answered,
}

impl ModelExchange {
    /// Records what a request brings into its conversation, which the host calls `name` if it names them. The request
    /// may go on when this returns.
    ///
    /// # Errors
    /// [`ProxyError`] when it may not.
    pub fn begin(
        connection: &Arc<Connection>,
        dialect: Dialect,
        name: Option<&str>,
        body: &[u8],
    ) -> Result<Self, ProxyError> {
        let request = dialect.parse(body)?;
        let ModelRequest { blocks, is_streamed, undecidable, model, tools } = request;
        let settings = connection.settings();
        if settings.is_strict && !undecidable.is_empty() {
            let named: Vec<&str> = undecidable.iter().map(|what| what.as_str()).collect();
            return Err(ProxyError::Undecidable(named.join(", ")));
        }
        let calls_without_id = blocks.iter().filter(|block| block.is_call_without_id()).count();
        let gate = connection.gate();
        let (conversation, blocks) = match name {
            Some(name) => {
                let conversation = connection.named(name)?;
                conversation.record(&settings, gate, &blocks, |_| false)?;
                (conversation, Vec::new())
            }
            None => {
                let found = connection.continued(&blocks);
                let new = blocks.get(found.recorded..).unwrap_or_default();
                let ours = found.ours.get(found.recorded..).unwrap_or_default();
                let conversation = found.conversation;
                conversation
                    .record(&settings, gate, new, |at| ours.get(at).copied().unwrap_or(false))
                    .inspect_err(|_| connection.set_aside(Arc::clone(&conversation)))?;
                (conversation, blocks)
            }
        };
        let asks = settings.asks_intents && settings.mode == GuardMode::Guard;
        let intents = asks.then(|| {
            let prompts = &mut conversation.known().prompts;
            IntentStep::begin(prompts, gate, dialect, model.as_deref(), &tools)
        });
        let undecided = undecidable.iter().map(|what| what.as_str()).collect();
        let (said, last, is_last_recorded) = (None, None, false);
        let (passed, removed, failure) = (0, 0, None);
        let progress = Progress::Asked;
        let (connection, is_named) = (Arc::clone(connection), name.is_some());
        let usage = ExchangeUsage { request_bytes: length(body), ..ExchangeUsage::default() };
        Ok(Self {
            connection,
            settings,
            conversation,
            dialect,
            is_named,
            is_streamed,
            blocks,
            calls_without_id,
            undecidable,
            undecided,
            entered: BTreeSet::new(),
            said,
            last,
            is_last_recorded,
            passed,
            removed,
            usage,
            progress,
            failure,
            intents: intents.flatten(),
        })
    }

    /// The body of the request with which the model is asked first for the calls that it means to make, if it is. Its
    /// answer goes to [`Self::declare`].
    pub fn intent_request(&self) -> Option<&[u8]> {
        self.intents.as_ref().map(|step| step.body.as_slice())
    }

    /// Declares the calls that the model stated in `answer`; `None` if it was not reached, so that it is asked again
    /// with the next request. Returns how many intents that were.
    ///
    /// # Errors
    /// [`ProxyError::Record`] when the record cannot be kept.
    pub fn declare(&mut self, answer: Option<Vec<u8>>) -> Result<usize, ProxyError> {
        let Some(step) = self.intents.take() else { return Ok(0) };
        let Some(answer) = answer else {
            self.conversation.known().prompts.put_back();
            return Ok(0);
        };
        let (covered, gate) = (&self.conversation.session, self.connection.gate());
        let declaring = self.connection.open_beside(covered)?;
        let declared = step.declare(&declaring, covered, gate, self.dialect, answer);
        declaring.close_soon();
        Ok(declared?)
    }

    /// Passes an answer on that came as a whole.
    ///
    /// # Errors
    /// [`ProxyError`] when none of it may go on.
    pub fn answer(mut self, body: Vec<u8>) -> Result<(Vec<u8>, Outcome), ProxyError> {
        self.usage.answer_bytes = length(&body);
        if let Some(foreseen) =
            Foreseen::of(self.dialect, &body).filter(Foreseen::ends_with_its_call)
        {
            self.note_tokens(foreseen.claimed());
            self.last = Some(self.last_observation().1);
        }
        let answer = self.dialect.filter(body, &mut self)?;
        let outcome = self.end(&answer.returned)?;
        Ok((answer.body, outcome))
    }

    /// What becomes of calls that are not allowed.
    pub(super) fn mode(&self) -> GuardMode {
        self.settings.mode
    }

    /// Whether a block stands in the conversation.
    pub(super) fn holds(&self, block: &Block) -> bool {
        self.conversation.is_recorded(block)
    }

    /// Records the end of an answer that came as a whole.
    pub(super) fn end(&mut self, returned: &[Block]) -> Result<Outcome, ProxyError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        self.finish(returned, false)
    }

    /// Passes an answer on as it comes.
    pub fn stream(mut self) -> Streaming {
        self.is_streamed = true;
        let filter = StreamFilter::new(self.dialect);
        Streaming { exchange: self, filter }
    }

    fn finish(&mut self, returned: &[Block], is_cut: bool) -> Result<Outcome, ProxyError> {
        if is_cut {
            self.undecided.insert("what would have come after it was cut off");
        }
        let (coverage, last) = self.last_observation();
        self.progress = Progress::Answering;
        if !self.is_last_recorded {
            self.conversation.session.observe(last).wait()?;
        }
        self.progress = Progress::Answered;
        self.conversation.note_returned(returned);
        if !self.is_named {
            let conversation = Arc::clone(&self.conversation);
            self.connection.put(conversation, &self.blocks, returned);
        }
        let (passed, removed, usage) = (self.passed, self.removed, self.usage);
        let undecided = self.undecided.iter().copied().collect();
        Ok(Outcome { coverage, undecided, passed, removed, usage })
    }

    /// How much of the answer was decided, and what is recorded last of it, which says so.
    fn last_observation(&mut self) -> (Coverage, Observation) {
        if self.settings.mode == GuardMode::Observe {
            self.undecided.insert("the connection observes");
        }
        let coverage = match (self.settings.mode, self.undecided.is_empty()) {
            (GuardMode::Observe, _) => Coverage::NotChecked,
            (GuardMode::Guard, true) => Coverage::Checked,
            (GuardMode::Guard, false) => Coverage::Partly,
        };
        let advice = ExchangeCoverage {
            v: Version1,
            wire: self.dialect.as_str().to_owned(),
            streamed: self.is_streamed,
            coverage,
            undecided: self.undecided.iter().map(|what| (*what).to_owned()).collect(),
            usage: Some(self.usage),
        };
        let last = Observation::completion(self.said.take().unwrap_or_default());
        (coverage, Observation { advice: Some(Advice::Exchange(advice)), ..last })
    }

    fn record_said(&mut self) {
        if let Some(said) = self.said.take() {
            self.record(Observation::completion(said));
        }
    }

    fn record(&mut self, observation: Observation) {
        self.progress = Progress::Answering;
        if let Err(error) = self.conversation.session.observe(observation).wait() {
            self.failure = Some(error.into());
        }
    }

    fn judge(&mut self, call: &WireCall) -> Judgement {
        self.progress = Progress::Answering;
        if self.failure.is_none() {
            let gate = self.connection.gate();
            let said = self.said.take().map(Observation::completion);
            let beside = Beside { said, last: self.last.take() };
            let (conversation, settings) = (&self.conversation, &self.settings);
            match judge_amid(beside, conversation, settings, gate, Surface::Proxy, call) {
                Ok((judgement, is_over)) => {
                    self.is_last_recorded = is_over;
                    return judgement;
                }
                Err(error) => self.failure = Some(error),
            }
        }
        let because = "the record cannot be kept".to_owned();
        Judgement::Denied { decision: None, because }
    }
}

impl Drop for ModelExchange {
    /// Without an answer the same request may be sent again, and goes on here. What part of an answer was recorded in
    /// is more than its client has, so no request goes on there.
    fn drop(&mut self) {
        if self.is_named {
            return;
        }
        let conversation = Arc::clone(&self.conversation);
        match self.progress {
            Progress::Asked => self.connection.put(conversation, &self.blocks, &[]),
            Progress::Answering => self.connection.set_aside(conversation),
            Progress::Answered => {}
        }
    }
}

impl CallRule for ModelExchange {
    fn note_text(&mut self, text: &str) {
        self.record_said();
        self.said = Some(text.to_owned());
    }

    fn rule(&mut self, call: &WireCall) -> CallRuling {
        let text = match self.judge(call) {
            Judgement::Allowed => None,
            Judgement::Asked { .. } if self.settings.host_asks => None,
            Judgement::Asked { proposal, .. } => Some(format!(
                "[Custody] This call of `{}` waits for approval and was not made. Its code is {}. To approve it, run: \
                 custody session approve {proposal}",
                shown(&call.name),
                ApprovalCode::of(proposal)
            )),
            Judgement::Denied { decision, .. } => {
                let id = decision.map_or(String::new(), |id| format!(" [{id}]"));
                let tool = shown(&call.name);
                Some(format!("[Custody] This call of `{tool}` was not made. Go on without it.{id}"))
            }
        };
        match text {
            None => {
                self.passed += 1;
                CallRuling::Pass
            }
            Some(text) => {
                self.removed += 1;
                CallRuling::Replace(text)
            }
        }
    }

    fn undecided(&mut self, what: Undecidable) -> Result<(), WireError> {
        self.undecided.insert(what.as_str());
        // A vendor opens no way past a decision by itself.
        let is_unasked = what.is_asked_for() && !self.undecidable.contains(&what);
        let is_refused = is_unasked || self.settings.is_strict;
        if is_refused && self.settings.mode == GuardMode::Guard {
            return Err(WireError::Unasked(what));
        }
        if what.brings_text() && self.entered.insert(what) {
            self.record_said();
            self.record(tool_output(&format!("[{what}]"), String::new()));
        }
        Ok(())
    }

    fn note_tokens(&mut self, claimed: ClaimedTokens) {
        self.usage.claimed = self.usage.claimed.later(claimed);
    }

    fn calls_without_id(&self) -> usize {
        self.calls_without_id
    }
}

/// How many bytes there are.
fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// A tool's name as it is shown.
fn shown(name: &str) -> String {
    custody_arguments::ShownName::of(name).to_string()
}

/// An answer that is passed on as it comes.
#[derive(Debug)]
pub struct Streaming {
    exchange: ModelExchange,
    filter: StreamFilter,
}

impl Streaming {
    /// Takes bytes as they come.
    pub fn push(&mut self, bytes: &[u8]) -> Filtered {
        let so_far = &mut self.exchange.usage.answer_bytes;
        *so_far = so_far.saturating_add(length(bytes));
        self.filter.push(bytes, &mut self.exchange)
    }

    /// There are no more bytes: the vendor ended the answer, or `is_cut` somewhere. Returns what may still go on.
    ///
    /// # Errors
    /// [`ProxyError`] when the end could not be recorded. What went on before was.
    pub fn end(mut self, is_cut: bool) -> Result<(Filtered, Outcome), ProxyError> {
        let filtered = self.filter.end(&mut self.exchange);
        let returned = self.filter.returned();
        let is_cut = is_cut || filtered.cut.is_some();
        if let Some(failure) = self.exchange.failure.take() {
            return Err(failure.into());
        }
        let outcome = self.exchange.finish(&returned, is_cut)?;
        Ok((filtered, outcome))
    }

    /// How its client and vendor speak.
    pub fn dialect(&self) -> Dialect {
        self.exchange.dialect
    }
}
