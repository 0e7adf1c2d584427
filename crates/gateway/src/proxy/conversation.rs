//! One conversation: the session that it is recorded in, what of it is recorded, and the calls that were decided.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use custody_arguments::Arguments;
use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::namespace::Namespace;
use custody_kernel::record::ObservationKind;
use custody_log::{Digest, EntryId};
use custody_runtime::Session;
use custody_runtime::ingress::Observation;
use custody_runtime::store::{Receipt, Ticket};
use custody_runtime::tools::{Gate, GateError};

use super::ingress::{Ingress, of_opaque, of_text};
use super::settings::ConnectionSettings;
use crate::wire::{Block, BlockContent, WireCall, WireRole};

/// A conversation of a host.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) session: Session,
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
}

/// A call that was decided.
#[derive(Debug, Clone)]
pub(super) struct DecidedCall {
    /// The tool, as the record names it.
    pub(super) tool: String,
    /// The canonical arguments.
    pub(super) arguments: Option<Arguments>,
    pub(super) decided: Decided,
    /// Who asked about it first.
    pub(super) asked_by: Surface,
    /// Whether the other surface asked about it too.
    pub(super) is_joined: bool,
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
        let (is_joined, is_answered) = (false, false);
        Self { tool, arguments, decided, asked_by, is_joined, is_answered }
    }
}

/// Where a call comes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surface {
    /// In an answer of the model.
    Proxy,
    /// In a hook of the host, just before it runs.
    Hook,
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
        recording.wait().inspect_err(|_| {
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
            if !known.recorded.insert(block.digest) {
                continue;
            }
            recording.blocks.push(block.digest);
            if let BlockContent::Result { call, text } = &block.content {
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

    /// Notes blocks that this gateway returned, and recorded while they came.
    pub(super) fn note_returned(&self, blocks: &[Block]) {
        self.known().recorded.extend(blocks.iter().map(|block| block.digest));
    }
}

impl Known {
    /// Notes a block as recorded, as one that came on another way.
    pub(super) fn note(&mut self, block: &Block) {
        self.recorded.insert(block.digest);
    }

    /// Whether a call that went on has no result.
    pub(super) fn has_open_call(&self) -> bool {
        self.calls.values().any(|call| !call.is_answered)
    }
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
