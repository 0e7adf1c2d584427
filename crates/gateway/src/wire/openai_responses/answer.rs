//! An answer as a whole, which the last event of a stream holds, too.

use std::collections::{HashMap, VecDeque};

use custody_log::Digest;
use serde_json::{Value, json};

use super::item;
use crate::wire::block::{Block, BlockContent, WireRole};
use crate::wire::splice::{self, Splices};
use crate::wire::stream::Returned;
use crate::wire::{CallRule, CallRuling, Undecidable, WireError, text_of, usage};

/// What an answer is made of, and what was decided of it.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// Blocks that came in events of their own, and are expected in the answer as a whole: for each, the texts that
    /// stand in the places of calls, or `None` of what goes on.
    made: HashMap<Digest, VecDeque<Option<String>>>,
    pub(super) returned: Returned,
}

impl Decisions {
    /// Decides a block of an answer. The text that stands in its place, if it is a call that does not go on.
    pub(super) fn decide(&mut self, block: Block, rule: &mut dyn CallRule) -> Option<String> {
        let replaced = match &block.content {
            BlockContent::Text(text) => {
                rule.note_text(text);
                None
            }
            BlockContent::Call(call) => match rule.rule(call) {
                CallRuling::Pass => None,
                CallRuling::Replace(text) => Some(text),
            },
            BlockContent::Result { .. } | BlockContent::Opaque { .. } => None,
        };
        let returned = replaced.as_ref().map(|text| Block::text(WireRole::Assistant, text));
        self.returned.push(returned.unwrap_or(block));
        replaced
    }

    /// The same, of a block that came in an event of its own and will come again in the answer as a whole.
    pub(super) fn decide_first(&mut self, block: Block, rule: &mut dyn CallRule) -> Option<String> {
        let digest = block.digest;
        let replaced = self.decide(block, rule);
        self.made.entry(digest).or_default().push_back(replaced.clone());
        replaced
    }

    /// Decides the items of `output` that are not decided. What stands in the place of some.
    fn decide_all(
        &mut self,
        output: &[Value],
        rule: &mut dyn CallRule,
    ) -> Result<Vec<(usize, Value)>, WireError> {
        let mut replaced = Vec::new();
        for (at, item) in output.iter().enumerate() {
            let read = item::read(item)?;
            note_undecided(read.undecided, rule)?;
            for block in read.blocks {
                // The first of equal ones came first.
                let made = self.made.get_mut(&block.digest).and_then(VecDeque::pop_front);
                let text = made.unwrap_or_else(|| self.decide(block, rule));
                if let Some(text) = text {
                    replaced.push((at, message(item, &text)));
                }
            }
        }
        Ok(replaced)
    }

    /// Replaces the calls of `response`, which is a part of `text` that holds an `output`, if any do not go on.
    pub(super) fn edit(
        &mut self,
        text: &str,
        response: &str,
        value: &Value,
        rule: &mut dyn CallRule,
    ) -> Result<Splices, WireError> {
        usage::note(value.get("usage"), usage::openai_responses, rule);
        let mut splices = Splices::default();
        let output = match value.get("output") {
            None | Some(Value::Null) => return Ok(splices),
            Some(output) => output.as_array().ok_or(WireError::Shape("output"))?,
        };
        let replaced = self.decide_all(output, rule)?;
        if replaced.is_empty() {
            return Ok(splices);
        }
        let output = splice::member(response, "output").ok_or(WireError::Shape("output"))?;
        let items = splice::elements(output.get());
        for (at, message) in replaced {
            let item = items.get(at).ok_or(WireError::Shape("output"))?;
            splices.replace(splice::place(text, item), message.to_string());
        }
        Ok(splices)
    }
}

/// Says what nobody can decide of an item.
pub(super) fn note_undecided(
    undecided: Option<Undecidable>,
    rule: &mut dyn CallRule,
) -> Result<(), WireError> {
    undecided.map_or(Ok(()), |what| rule.undecided(what))
}

/// An answer after `rule`; `None` if nothing of it changes.
pub(in crate::wire) fn answer(
    text: &str,
    body: &Value,
    rule: &mut dyn CallRule,
) -> Result<(Option<String>, Returned), WireError> {
    if !body.get("output").is_some_and(Value::is_array) {
        return Err(WireError::Shape("output"));
    }
    let mut decisions = Decisions::default();
    let splices = decisions.edit(text, text, body, rule)?;
    let changed = (!splices.is_empty()).then(|| splices.apply(text));
    Ok((changed, decisions.returned))
}

/// The id of the message in the place of `item`. The vendor takes only such as begin this way, and the same answer has
/// to give the same one.
pub(super) fn message_id(item: &Value) -> String {
    let id = text_of(item, "id").or_else(|| text_of(item, "call_id")).unwrap_or_default();
    let mut digest = Digest::of(id.as_bytes()).to_string();
    digest.truncate(32);
    format!("msg_{digest}")
}

/// The part of a message that says `text`.
pub(super) fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

/// The message that says `text` in the place of `item`.
pub(super) fn message(item: &Value, text: &str) -> Value {
    json!({
        "type": "message", "id": message_id(item), "status": "completed", "role": "assistant",
        "content": [part(text)]
    })
}
