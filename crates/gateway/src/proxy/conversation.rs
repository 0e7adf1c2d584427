//! One conversation: the session that it is recorded in, what of it is recorded, and the calls that were decided.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use custody_arguments::Arguments;
use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::namespace::Namespace;
use custody_kernel::record::ObservationKind;
use custody_log::{Digest, EntryId};
use custody_runtime::ingress::Observation;
use custody_runtime::store::{Receipt, Ticket};
use custody_runtime::tools::{Gate, GateError, Output};
use custody_runtime::{Session, StoreError};

use super::ingress::{Ingress, of_opaque, of_text};
use super::instruction_files::judged_name;
use super::intents::Prompts;
use super::judge::tool_name;
use super::settings::{ConnectionSettings, GuardMode};
use super::wrapping::unwrapped;
use crate::wire::{Block, BlockContent, WireCall, WireRole};

/// A conversation of a host.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) session: Session,
    known: Mutex<Known>,
}

/// What is known of a conversation.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The blocks that are recorded.
    recorded: HashSet<Digest>,
    /// The calls of the model that were decided, by the id that the wire gives them.
    pub(super) calls: HashMap<String, DecidedCall>,
    /// The watched instruction files that its host loaded.
    pub(super) instructions: BTreeSet<(Namespace, Key)>,
    /// Whether its requests come by a proxy, which sees results in the form in which the model reads them.
    pub(super) is_proxied: bool,
    /// Whether a hook was asked something in it.
    pub(super) has_begun: bool,
    /// How many calls came without an id.
    unnamed_calls: u64,
    /// What the user said in it that is believed.
    pub(super) prompts: Prompts,
}

/// A call that was decided.
#[derive(Debug, Clone)]
pub(super) struct DecidedCall {
    /// The tool, as the record names it.
    pub(super) tool: String,
    /// The canonical arguments.
    pub(super) arguments: Option<Arguments>,
    pub(super) decided: Decided,
    /// The surfaces that asked about it. Each asks once.
    pub(super) asked_by: BTreeSet<Surface>,
    /// Whether its result is recorded.
    pub(super) is_answered: bool,
}

impl DecidedCall {
    pub(super) fn new(
        asked_by: Surface,
        tool: String,
        arguments: Option<Arguments>,
        decided: Decided,
    ) -> Self {
        let (asked_by, is_answered) = (BTreeSet::from([asked_by]), false);
        Self { tool, arguments, decided, asked_by, is_answered }
    }

    /// Whether it is a call of `tool` with these arguments.
    pub(super) fn is_of(&self, tool: &str, arguments: Option<&Arguments>) -> bool {
        let ours = self.arguments.as_ref().map(Arguments::canonical);
        self.tool == tool && ours.is_some() && ours == arguments.map(Arguments::canonical)
    }
}

/// Where a call comes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Surface {
    /// In an answer of the model.
    Proxy,
    /// In a hook of the host, just before it runs.
    Hook,
    /// On its way to an MCP server.
    Mcp,
}

/// How a call was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decided {
    /// It may run.
    Allowed(EntryId),
    /// It waits for a human, whom the host asks.
    Asked(EntryId),
    /// Nobody decided: the connection observes.
    Observed,
}

/// What is being recorded of a request.
#[derive(Debug, Default)]
struct Recording {
    blocks: Vec<Digest>,
    /// What is to be recorded next, together.
    next: Vec<Observation>,
    observed: Vec<Ticket<Vec<Receipt>>>,
    results: Vec<Ticket<Vec<Receipt>, GateError>>,
}

impl Recording {
    fn flush(&mut self, session: &Session) {
        self.observed.extend(session.observe_all(std::mem::take(&mut self.next)));
    }

    fn wait(self) -> Result<(), GateError> {
        for ticket in self.observed {
            ticket.wait()?;
        }
        for ticket in self.results {
            ticket.wait()?;
        }
        Ok(())
    }
}

impl Conversation {
    pub(super) fn new(session: Session) -> Self {
        Self { session, known: Mutex::default() }
    }

    /// The name under which a call of the tool `wire` is judged: one of its own, if it writes an instruction file or
    /// another that the owner adopted.
    pub(super) fn judged_tool(&self, wire: &str, arguments: &str) -> Result<String, StoreError> {
        self.session.store().state(|state| {
            judged_name(tool_name(wire), arguments, |path| {
                state.watched().any(|watched| is_at(&watched.path, path))
            })
        })
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the blocks that are not recorded, and waits until they are durable. `is_ours` says of a block
    /// whether this gateway returned it in answer to just what stands before it.
    pub(super) fn record(
        &self,
        settings: &ConnectionSettings,
        gate: &Gate,
        blocks: &[Block],
        is_ours: impl Fn(usize) -> bool,
    ) -> Result<(), GateError> {
        let recording = self.begin(settings, gate, blocks, is_ours);
        let begun = recording.blocks.clone();
        let opened = self.session.opened().map_err(GateError::from);
        opened.and_then(|()| recording.wait()).inspect_err(|_| {
            let mut known = self.known();
            for digest in &begun {
                known.recorded.remove(digest);
            }
        })
    }

    fn begin(
        &self,
        settings: &ConnectionSettings,
        gate: &Gate,
        blocks: &[Block],
        is_ours: impl Fn(usize) -> bool,
    ) -> Recording {
        let mut known = self.known();
        known.is_proxied = true;
        let mut recording = Recording::default();
        for (at, block) in blocks.iter().enumerate() {
            let is_new = known.recorded.insert(block.digest);
            if !is_new && !known.is_awaited(block) {
                continue;
            }
            recording.blocks.push(block.digest);
            if let BlockContent::Result { call, text } = &block.content {
                if known.is_noted(call, text) {
                    continue;
                }
                self.record_result(&mut known, gate, call, text, &mut recording);
                continue;
            }
            let observation = match (&block.content, is_ours(at)) {
                (BlockContent::Text(text), true) => Observation::completion(text),
                (BlockContent::Call(WireCall { name, arguments, .. }), true) => {
                    Observation::tool_call(name, arguments)
                }
                (content, _) => entered(settings, block.role, content),
            };
            known.prompts.note(&observation);
            recording.next.push(observation);
        }
        recording.flush(&self.session);
        recording
    }

    /// Records what a call brought back: of one that was allowed as its result, else as what a tool said.
    fn record_result(
        &self,
        known: &mut Known,
        gate: &Gate,
        call: &str,
        text: &str,
        recording: &mut Recording,
    ) {
        let decided = known.calls.get_mut(call);
        let tool = decided.as_ref().map(|decided| decided.tool.clone());
        if let Some(decided) = decided
            && !std::mem::replace(&mut decided.is_answered, true)
            && let Decided::Allowed(decision) = decided.decided
        {
            recording.flush(&self.session);
            recording.results.push(self.session.result(gate, decision, text));
            return;
        }
        recording.next.push(tool_output(text, tool.unwrap_or_default()));
    }

    /// Records the output of the call with the id `id`, of one that was allowed as its result.
    pub(crate) fn record_output(
        &self,
        gate: &Gate,
        id: &str,
        output: Output,
    ) -> Result<(), GateError> {
        let call = self.known().calls.get(id).filter(|call| !call.is_answered).cloned();
        let text = output.text.clone();
        match call.as_ref().map(|call| &call.decided) {
            Some(Decided::Allowed(decision)) => {
                self.session.result(gate, *decision, output).wait()?;
            }
            Some(Decided::Asked(_) | Decided::Observed) | None => {
                let tool = call.map_or(String::new(), |call| call.tool);
                self.session.observe(tool_output(&output.text, tool)).wait()?;
            }
        }
        self.note_output(id, &text);
        Ok(())
    }

    /// Joins an open call with the same call on `surface`, and returns its id. One that was only observed is none
    /// once the connection guards.
    pub(super) fn join(
        &self,
        mode: GuardMode,
        surface: Surface,
        tool: &str,
        arguments: &Arguments,
        id: Option<&str>,
    ) -> Option<String> {
        let mut known = self.known();
        let mut calls = known.calls.iter_mut();
        calls.find_map(|(known, call)| {
            let is_it = id.is_none_or(|id| id == known) && call.is_of(tool, Some(arguments));
            let is_decided = mode == GuardMode::Observe || call.decided != Decided::Observed;
            (is_it && is_decided && call.join(surface)).then(|| known.clone())
        })
    }

    /// Notes that the output `text` of the call `id` is recorded already.
    pub(crate) fn note_output(&self, id: &str, text: &str) {
        let mut known = self.known();
        known.note(&output_block(id, text));
        if let Some(call) = known.calls.get_mut(id) {
            call.is_answered = true;
        }
    }

    /// Whether a block is recorded.
    pub(super) fn is_recorded(&self, block: &Block) -> bool {
        self.known().recorded.contains(&block.digest)
    }

    /// Notes blocks that this gateway returned, and recorded while they came.
    pub(super) fn note_returned(&self, blocks: &[Block]) {
        self.known().recorded.extend(blocks.iter().map(|block| block.digest));
    }
}

impl DecidedCall {
    /// Notes that `surface` asks about the call too. Whether it is the first time: a call that one surface asks
    /// about twice is two calls, whatever ids they have.
    pub(super) fn join(&mut self, surface: Surface) -> bool {
        !self.is_answered && self.asked_by.insert(surface)
    }
}

impl Known {
    /// Notes a block as recorded, as one that came on another way.
    pub(super) fn note(&mut self, block: &Block) {
        self.recorded.insert(block.digest);
    }

    /// Whether the output `text` of the call `id` is recorded already, by the MCP server that the call went to. Nothing
    /// but that text may stand there: a server of the same name that is not ours can say what it likes.
    pub(super) fn is_noted(&self, id: &str, text: &str) -> bool {
        let is_returned = self
            .calls
            .get(id)
            .is_some_and(|call| call.is_answered && call.asked_by.contains(&Surface::Mcp));
        is_returned && self.recorded.contains(&output_block(id, &unwrapped(text)).digest)
    }

    /// As [`Self::is_noted`], of any call of a tool with these arguments.
    pub(super) fn is_noted_of(
        &self,
        tool: &str,
        arguments: Option<&Arguments>,
        text: &str,
    ) -> bool {
        let mut same = self.calls.iter().filter(|(_, call)| call.is_of(tool, arguments));
        same.any(|(id, _)| self.is_noted(id, text))
    }

    /// Whether a block is the result of a call that has none yet. One that stands there already, word for word, was
    /// another call's of that id.
    fn is_awaited(&self, block: &Block) -> bool {
        let BlockContent::Result { call, .. } = &block.content else { return false };
        self.calls.get(call).is_some_and(|call| !call.is_answered)
    }

    /// The id under which a call goes that its host's hook gives none: that of the same call by the proxy which no hook
    /// asked about, else one that no call has.
    pub(super) fn unnamed_call(&mut self, tool: &str, arguments: Option<&Arguments>) -> String {
        let proxied = self.calls.iter().find(|(_, call)| {
            let is_new = !call.is_answered && !call.asked_by.contains(&Surface::Hook);
            is_new && call.is_of(tool, arguments)
        });
        if let Some((id, _)) = proxied {
            return id.clone();
        }
        self.unnamed_calls += 1;
        format!("hook {}", self.unnamed_calls)
    }

    /// The id of a call of a tool that went on and has no result.
    pub(super) fn open_call(&self, tool: &str, arguments: Option<&Arguments>) -> Option<String> {
        let open = self.calls.iter().filter(|(_, call)| !call.is_answered);
        let mut same = open.filter(|(_, call)| call.is_of(tool, arguments));
        same.next().map(|(id, _)| id.clone())
    }

    /// Whether a call that went on has no result.
    pub(super) fn has_open_call(&self) -> bool {
        self.calls.values().any(|call| !call.is_answered)
    }
}

/// What a call brought back, as it stands in a request.
fn output_block(id: &str, text: &str) -> Block {
    let result = BlockContent::Result { call: id.to_owned(), text: text.to_owned() };
    Block::new(WireRole::Tool, result)
}

/// Whether a path, which may be relative, leads to the file at `absolute`. Taken broadly: nobody here knows the
/// folder that it is relative to.
fn is_at(absolute: &str, path: &str) -> bool {
    let path = path.trim_start_matches("./");
    let rest = absolute.strip_suffix(path);
    !path.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

/// What a tool said that was not asked under a decision.
pub(super) fn tool_output(text: &str, tool: String) -> Observation {
    let output = Observation {
        kind: ObservationKind::ToolOutput,
        ..Observation::message(Channel::Tool, text)
    };
    if tool.is_empty() { output } else { output.from(tool) }
}

/// A block that entered with a request.
fn entered(settings: &ConnectionSettings, role: WireRole, content: &BlockContent) -> Observation {
    let (ingress, text, origin) = match content {
        BlockContent::Text(text) => (of_text(settings, role, text), text.clone(), None),
        BlockContent::Call(WireCall { name, arguments, .. }) => {
            (of_text(settings, WireRole::Unknown, arguments), arguments.clone(), Some(name.clone()))
        }
        BlockContent::Result { text, .. } => {
            (of_text(settings, WireRole::Tool, text), text.clone(), None)
        }
        BlockContent::Opaque { kind, digest } => {
            (of_opaque(role), format!("[{kind} {digest}]"), None)
        }
    };
    let Ingress { channel, is_lowered } = ingress;
    Observation { lowered: is_lowered, origin, ..Observation::message(channel, text) }
}
