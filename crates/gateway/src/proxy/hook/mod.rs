//! What a host's hooks report and ask, in the conversation that its proxied requests go into too.
//!
//! The host decides nothing by what is said here but what its hooks are asked: whether a prompt and a tool call
//! may go on. A call that the proxy decided already is not decided a second time.
//!
//! `event`: what is reported, whichever host it is of. `host`: which hosts there are, and what each takes for an
//! answer. One file for each host reads its reports and writes its answers.
//!
//! Source: docs/reference/gateway.md, "Hooks".

mod claude_code;
mod codex;
mod copilot;
mod cursor;
mod event;
mod gemini;
mod host;

use std::io::Read as _;
use std::sync::Arc;

use custody_arguments::Arguments;
use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::namespace::Namespace;
use custody_runtime::ingress::Observation;
use custody_runtime::store::watch::FileState;
use custody_runtime::tools::{GateError, Output};
use custody_runtime::{Store, StoreError};
use serde_json::Value;

pub use self::host::{HookHost, HookOutput};

use self::event::{EventKind, HookCall, HookEvent, HookResult};
use self::host::Moment;
use super::connection::Connection;
use super::conversation::{Conversation, Decided, Surface, tool_output};
use super::ingress::{Ingress, of_reported_prompt};
use super::judge::{Judgement, judge, tool_name};
use super::settings::{ConnectionSettings, GuardMode};
use crate::wire::{Block, WireCall, WireRole};

/// The most bytes of an instruction file that are read.
const MAX_INSTRUCTIONS: u64 = 1 << 20;

/// The header with the name of an event, for hosts whose reports do not hold it.
pub const EVENT_HEADER: &str = "x-custody-event";

/// What a call holds that is made to try a hook. Such a call never runs.
pub const SELFTEST: &str = "custody-hook-selftest";
/// The reason for which it does not.
pub const SELFTEST_REASON: &str = "Custody: the hook works, and this call was made to try it";

/// What stands for all that was said in a conversation whose beginning was not seen.
const UNSEEN: &str = "[what was said before Custody was asked]";

/// What a hook answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// Nothing stands against it. The host asks its user as it would without.
    Nothing,
    /// The call does not run.
    Deny(String),
    /// The host asks its user about the call.
    Ask(String),
    /// The prompt goes to no model.
    BlockPrompt(String),
}

/// Why an event is not answered. A host has to take that for a denial.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// It is no event.
    #[error("the event is not understood: {0}")]
    Event(#[from] serde_json::Error),
    /// Part of it is missing.
    #[error("the event `{event}` has no `{field}`")]
    Missing {
        /// The event.
        event: String,
        /// What it has not.
        field: &'static str,
    },
    /// The record cannot be read or written.
    #[error("the record cannot be kept: {0}")]
    Record(#[from] GateError),
    /// An instruction file cannot be compared with the record.
    #[error(transparent)]
    Watch(#[from] custody_runtime::store::WatchError),
}

impl From<StoreError> for HookError {
    fn from(error: StoreError) -> Self {
        Self::Record(error.into())
    }
}

/// Answers an event of a hook of `host` on a connection. `event` is its name, where the report does not hold it.
///
/// # Errors
/// [`HookError`] when it cannot be understood or recorded.
pub fn answer(
    connection: &Arc<Connection>,
    host: HookHost,
    event: Option<&str>,
    body: &[u8],
) -> Result<HookAnswer, HookError> {
    decide(connection, host, host.parse(event, body)?)
}

/// Answers an event as [`answer`] does, in the body of a response: that of a hook by HTTP, or what the program does
/// that the host runs for its hook ([`HookOutput`]), which names the event.
///
/// # Errors
/// [`HookError`] when it cannot be understood or recorded.
pub fn respond(
    connection: &Arc<Connection>,
    host: HookHost,
    event: Option<&str>,
    body: &[u8],
) -> Result<Value, HookError> {
    let is_of_program = event.is_some();
    let event = host.parse(event, body)?;
    let moment = Moment::of(&event.kind);
    let answer = decide(connection, host, event)?;
    if host == HookHost::ClaudeCode && !is_of_program {
        return Ok(claude_code::body(&answer));
    }
    Ok(serde_json::to_value(host.output(moment, &answer))?)
}

fn decide(
    connection: &Connection,
    host: HookHost,
    event: HookEvent,
) -> Result<HookAnswer, HookError> {
    let HookEvent { session, subagent, folder, kind } = event;
    let conversation = connection.named(&session)?;
    let settings = settings_of(connection, host);
    let hook = Hook { connection, conversation: &conversation, settings: &settings, host };
    hook.note_beginning(&kind)?;
    match kind {
        EventKind::Prompt { text, is_typed } => {
            hook.prompt(text, is_typed && subagent.is_none(), folder.as_deref())
        }
        EventKind::Instructions { path } => hook.instructions(path),
        EventKind::BeforeCall { call, input } => hook.before_call(call, &input),
        EventKind::AfterCall { call, input, result } => hook.after_call(call, input, result),
        EventKind::Stop { said } => hook.stop(said, subagent.is_some()),
        EventKind::Start { .. } | EventKind::Other => Ok(HookAnswer::Nothing),
    }
}

/// The settings of a connection, under which no host asks its user that cannot.
fn settings_of(connection: &Connection, host: HookHost) -> Arc<ConnectionSettings> {
    let settings = connection.settings();
    if host.can_ask() || !settings.host_asks {
        return settings;
    }
    Arc::new(ConnectionSettings { host_asks: false, ..(*settings).clone() })
}

/// A hook of one conversation.
struct Hook<'a> {
    connection: &'a Connection,
    conversation: &'a Conversation,
    settings: &'a ConnectionSettings,
    host: HookHost,
}

impl Hook<'_> {
    /// Records that something untrusted may have been said in a conversation that goes on from a time when nobody
    /// looked.
    fn note_beginning(&self, kind: &EventKind) -> Result<(), HookError> {
        let is_first = !std::mem::replace(&mut self.conversation.known().has_begun, true);
        let is_new = matches!(kind, EventKind::Start { is_new: true });
        if is_first && !is_new && self.host.reports_start() {
            let observation = Observation::message(Channel::File, UNSEEN);
            self.conversation.session.observe(observation).wait()?;
        }
        Ok(())
    }

    fn prompt(
        &self,
        text: String,
        is_typed: bool,
        folder: Option<&str>,
    ) -> Result<HookAnswer, HookError> {
        let edited = self.edited_instructions(folder)?;
        if let (Some((key, path)), GuardMode::Guard) = (edited, self.settings.mode) {
            return Ok(HookAnswer::BlockPrompt(format!(
                "{path} is not what its owner adopted. Put it back with `custody memory rollback {key} --apply`, or \
                 adopt what it holds now."
            )));
        }
        let has_open_call = self.conversation.known().has_open_call();
        let Ingress { channel, is_lowered } =
            of_reported_prompt(self.settings, is_typed, has_open_call);
        let observation =
            Observation { lowered: is_lowered, ..Observation::message(channel, &text) };
        self.conversation.session.observe(observation.clone()).wait()?;
        let mut known = self.conversation.known();
        known.prompts.note(&observation);
        known.note(&Block::text(WireRole::User, text));
        drop(known);
        Ok(HookAnswer::Nothing)
    }

    /// An instruction file that is not what its owner adopted: one that this conversation loaded, or, of a host that
    /// does not report those, one that it loads for its working folder.
    fn edited_instructions(
        &self,
        folder: Option<&str>,
    ) -> Result<Option<(Key, String)>, HookError> {
        let store = self.connection.store();
        let mut loaded = self.conversation.known().instructions.clone();
        if self.host != HookHost::ClaudeCode {
            loaded.extend(store.state(|state| {
                let watched = state.watched();
                let loaded = watched.filter(|file| self.host.loads(&file.path, folder));
                loaded.map(|file| (file.namespace.clone(), file.key.clone())).collect::<Vec<_>>()
            })?);
        }
        for (namespace, key) in loaded {
            let report = store.check_file_of(&namespace, &key)?;
            if report.state != FileState::Matches {
                return Ok(Some((key, report.watched.path)));
            }
        }
        Ok(None)
    }

    /// Records the text of an instruction file: what its owner adopted is the operator's, everything else a file.
    fn instructions(&self, path: String) -> Result<HookAnswer, HookError> {
        let mut adopted = None;
        if let Some((namespace, key)) = watched_at(self.connection.store(), &path)? {
            let report = self.connection.store().check_file_of(&namespace, &key)?;
            let is_adopted = report.state == FileState::Matches;
            adopted = report.recorded.filter(|_| is_adopted);
            self.conversation.known().instructions.insert((namespace, key));
        }
        let observation = match adopted {
            Some(text) => Observation::message(Channel::System, String::from_utf8_lossy(&text)),
            None => Observation::message(Channel::File, read(&path)),
        };
        self.conversation.session.observe(observation.from(path)).wait()?;
        Ok(HookAnswer::Nothing)
    }

    fn before_call(&self, call: HookCall, input: &Value) -> Result<HookAnswer, HookError> {
        let HookCall { id, tool } = call;
        let arguments = input.to_string();
        if arguments.contains(SELFTEST) {
            return Ok(HookAnswer::Deny(SELFTEST_REASON.to_owned()));
        }
        let id = match id {
            Some(id) => id,
            None => self.id_before(&tool, &arguments)?,
        };
        let call = self.as_made(WireCall { id, name: tool, arguments });
        let gate = self.connection.gate();
        Ok(match judge(self.conversation, self.settings, gate, Surface::Hook, &call)? {
            Judgement::Allowed => HookAnswer::Nothing,
            Judgement::Asked { proposal, because } => self.ask(&proposal.to_string(), because),
            Judgement::Denied { decision, because } => {
                let id = decision.map_or(String::new(), |id| format!(" [{id}]"));
                HookAnswer::Deny(format!("Custody: {because}{id}"))
            }
        })
    }

    /// A call as the model made it, where the host reports it in other words than the answer that came by the proxy.
    fn as_made(&self, reported: WireCall) -> WireCall {
        let known = self.conversation.known();
        let proxied = known.calls.get(&reported.id).filter(|_| self.host == HookHost::Codex);
        proxied.and_then(|proxied| codex::on_wire(&reported, proxied)).unwrap_or(reported)
    }

    /// Asks the host's user, or says how the call is approved where a host cannot ask.
    fn ask(&self, proposal: &str, because: Option<impl std::fmt::Display>) -> HookAnswer {
        let because = because.map_or(String::new(), |because| format!(": {because}"));
        if self.settings.host_asks {
            HookAnswer::Ask(format!("Custody asks about this call{because} [{proposal}]"))
        } else {
            HookAnswer::Deny(format!(
                "Custody: this call waits for approval{because}. To approve it, run: custody session approve \
                 {proposal}, after which the same call goes on once"
            ))
        }
    }

    /// A name for a call to which the host gives none: that of the same call in an answer of the model, if it came by
    /// the proxy, else a new one.
    fn id_before(&self, tool: &str, arguments: &str) -> Result<String, HookError> {
        let tool = self.conversation.judged_tool(tool, arguments)?;
        let same = Arguments::parse(arguments).ok();
        Ok(self.conversation.known().unnamed_call(&tool, same.as_ref()))
    }

    /// What a call brought back. Where requests come by the proxy too, they bring it in the form that the model
    /// reads. What an MCP server of ours returned is recorded by that.
    fn after_call(
        &self,
        call: HookCall,
        input: Option<Value>,
        result: HookResult,
    ) -> Result<HookAnswer, HookError> {
        let HookCall { id, tool } = call;
        let tool = tool_name(&tool);
        let input = input.unwrap_or_default().to_string();
        let judged = self.conversation.judged_tool(&tool, &input)?;
        let input = Arguments::parse(&input).ok();
        let (id, decided) = {
            let known = self.conversation.known();
            let is_noted = match &id {
                Some(id) => known.is_noted(id, &result.text),
                None => known.is_noted_of(&judged, input.as_ref(), &result.text),
            };
            if known.is_proxied || is_noted {
                return Ok(HookAnswer::Nothing);
            }
            let id = id.or_else(|| known.open_call(&judged, input.as_ref()));
            let decided = id.as_ref().and_then(|id| known.calls.get(id)).cloned();
            (id, decided)
        };
        let HookResult { text, structured } = result;
        let session = &self.conversation.session;
        match decided.filter(|call| !call.is_answered).map(|call| call.decided) {
            Some(Decided::Allowed(decision)) => {
                let output = Output { text, structured };
                session.result(self.connection.gate(), decision, output).wait()?;
            }
            Some(Decided::Asked(_) | Decided::Observed) | None => {
                session.observe(tool_output(&text, tool)).wait()?;
            }
        }
        let mut known = self.conversation.known();
        if let Some(call) = id.and_then(|id| known.calls.get_mut(&id)) {
            call.is_answered = true;
        }
        Ok(HookAnswer::Nothing)
    }

    /// The turn is over: no call of it is open any more. The turn of a subagent ends within a call.
    fn stop(&self, said: Option<String>, is_of_subagent: bool) -> Result<HookAnswer, HookError> {
        let is_proxied = {
            let mut known = self.conversation.known();
            let is_proxied = known.is_proxied;
            if !is_proxied && !is_of_subagent {
                known.calls.values_mut().for_each(|call| call.is_answered = true);
            }
            is_proxied
        };
        if let (Some(said), false) = (said, is_proxied) {
            self.conversation.session.observe(Observation::completion(said)).wait()?;
        }
        Ok(HookAnswer::Nothing)
    }
}

/// The watched item whose file stands at `path`.
fn watched_at(store: &Store, path: &str) -> Result<Option<(Namespace, Key)>, HookError> {
    let real = std::fs::canonicalize(path).ok();
    let real = real.as_deref().and_then(|path| path.to_str()).unwrap_or(path);
    Ok(store.state(|state| {
        let mut watched = state.watched();
        let found = watched.find(|watched| watched.path == real || watched.path == path);
        found.map(|watched| (watched.namespace.clone(), watched.key.clone()))
    })?)
}

/// The beginning of a file that a host loaded. One that cannot be read is known by its name.
fn read(path: &str) -> String {
    let mut text = Vec::new();
    let is_file = std::fs::metadata(path).is_ok_and(|data| data.is_file());
    if let Some(file) = is_file.then(|| std::fs::File::open(path).ok()).flatten() {
        // What was read before an error was loaded too.
        drop(file.take(MAX_INSTRUCTIONS).read_to_end(&mut text));
    }
    String::from_utf8_lossy(&text).into_owned()
}
