//! An answer, whole or as a stream. Each event of a stream has the form of a whole answer, and a call comes in one
//! event, so nothing is held: only the event that holds a call waits for its decision.

use serde_json::{Value, json};

use super::named;
use super::part::{Part, part_of, written_in_two_ways};
use crate::wire::block::{Block, BlockContent, WireRole};
use crate::wire::splice::{self, Splices};
use crate::wire::sse::{self, Event};
use crate::wire::stream::{EventFilter, Returned};
use crate::wire::{CallRule, CallRuling, Undecidable, WireError, parsed, usage};

/// An answer after `rule`; `None` if nothing of it changes.
pub(in crate::wire) fn answer(
    text: &str,
    body: &Value,
    rule: &mut dyn CallRule,
) -> Result<(Option<String>, Returned), WireError> {
    if !body.is_object() {
        return Err(WireError::Shape("candidates"));
    }
    let mut turn = Turn::default();
    let splices = turn.read(text, body, rule)?;
    turn.end(rule);
    Ok(((!splices.is_empty()).then(|| splices.apply(text)), turn.returned))
}

/// A stream of an answer.
#[derive(Debug, Default)]
pub(in crate::wire) struct Stream(Turn);

impl EventFilter for Stream {
    fn event(
        &mut self,
        event: Event,
        out: &mut Vec<u8>,
        rule: &mut dyn CallRule,
    ) -> Result<(), WireError> {
        let Event { raw, data } = event;
        let Some(text) = data else {
            std::str::from_utf8(&raw).map_err(|_| WireError::Encoding)?;
            out.extend(raw);
            return Ok(());
        };
        let value = parsed(text.as_bytes())?;
        if !value.is_object() {
            return Err(WireError::Shape("candidates"));
        }
        let splices = self.0.read(&text, &value, rule)?;
        if splices.is_empty() {
            out.extend(raw);
        } else {
            out.extend(sse::written(None, &splices.apply(&text)));
        }
        Ok(())
    }

    fn end(&mut self, rule: &mut dyn CallRule) {
        self.0.end(rule);
    }

    fn held(&self) -> usize {
        0
    }

    fn returned(&mut self) -> Returned {
        std::mem::take(&mut self.0.returned)
    }
}

/// What the model says in one answer.
#[derive(Debug, Default)]
struct Turn {
    /// What it said since the last call, which is not noted.
    said: String,
    /// The same with what stands in the places of calls, as its client will send it back.
    text: String,
    /// How many calls went on that have no id.
    calls_without_id: usize,
    /// The signature of a call that did not go on. The first call of a turn has to have one, so the next one takes it.
    signature: Option<Value>,
    returned: Returned,
}

impl Turn {
    /// Reads an answer, or one event of a stream, and decides its calls.
    fn read(
        &mut self,
        text: &str,
        body: &Value,
        rule: &mut dyn CallRule,
    ) -> Result<Splices, WireError> {
        usage::note(body.get("usageMetadata"), usage::gemini, rule);
        let mut splices = Splices::default();
        let candidates = match body.get("candidates") {
            // An answer that was refused has none, and neither has an error.
            None | Some(Value::Null) => return Ok(splices),
            Some(candidates) => candidates.as_array().ok_or(WireError::Shape("candidates"))?,
        };
        let Some(candidate) = candidates.first() else { return Ok(splices) };
        if candidates.len() > 1 || candidate.get("index").is_some_and(|index| *index != 0) {
            rule.undecided(Undecidable::SeveralAnswers)?;
            return Ok(splices);
        }
        let parts = match candidate.get("content").and_then(|content| content.get("parts")) {
            None | Some(Value::Null) => return Ok(splices),
            Some(parts) => parts.as_array().ok_or(WireError::Shape("parts"))?,
        };
        let mut changed = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            if let Some(change) = self.read_part(part, rule)? {
                changed.push((at, change));
            }
        }
        if changed.is_empty() {
            return Ok(splices);
        }
        let written = written_parts(text)?;
        for (at, change) in changed {
            let part = written.get(at).ok_or(WireError::Shape("parts"))?;
            let place = splice::place(text, part);
            match change {
                Change::Text(said) => splices.replace(place, json!({ "text": said }).to_string()),
                Change::Signature(signature) => {
                    let start = place.start + 1;
                    splices.replace(start..start, format!("\"thoughtSignature\":{signature},"));
                }
            }
        }
        Ok(splices)
    }

    fn read_part(
        &mut self,
        part: &Value,
        rule: &mut dyn CallRule,
    ) -> Result<Option<Change>, WireError> {
        match part_of(part)? {
            Part::Nothing | Part::Thought(_) => Ok(None),
            Part::Text(text) => {
                self.said.push_str(text);
                self.text.push_str(text);
                Ok(None)
            }
            Part::Call { id, name, arguments } => {
                let number = rule.calls_without_id() + self.calls_without_id;
                let call = named(id, number, name, arguments);
                self.note(rule);
                match rule.rule(&call) {
                    CallRuling::Pass => {
                        self.calls_without_id += usize::from(id.is_none());
                        self.push(Block::new(WireRole::Assistant, BlockContent::Call(call)));
                        let has_signature = signature_of(part)?.is_some();
                        let signature = self.signature.take();
                        Ok(signature.filter(|_| !has_signature).map(Change::Signature))
                    }
                    CallRuling::Replace(text) => {
                        self.signature = signature_of(part)?.cloned().or(self.signature.take());
                        let separator = if self.text.is_empty() { "" } else { "\n\n" };
                        let text = format!("{separator}{text}");
                        self.text.push_str(&text);
                        Ok(Some(Change::Text(text)))
                    }
                }
            }
            Part::Content(what) => {
                self.push(Block::opaque(WireRole::Assistant, &what));
                Ok(None)
            }
            Part::Undecided(undecidable, what) => {
                rule.undecided(undecidable)?;
                self.push(Block::opaque(WireRole::Assistant, &what));
                Ok(None)
            }
            // Nobody but a client has results.
            Part::Result { name, .. } => {
                rule.undecided(Undecidable::UnknownBlock)?;
                self.push(Block::opaque(WireRole::Assistant, &json!({ "type": name })));
                Ok(None)
            }
        }
    }

    fn note(&mut self, rule: &mut dyn CallRule) {
        if !self.said.is_empty() {
            rule.note_text(&std::mem::take(&mut self.said));
        }
    }

    fn push(&mut self, block: Block) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.returned.push(Block::text(WireRole::Assistant, text));
        }
        self.returned.push(block);
    }

    fn end(&mut self, rule: &mut dyn CallRule) {
        self.note(rule);
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.returned.push(Block::text(WireRole::Assistant, text));
        }
    }
}

/// What changes of a part.
#[derive(Debug)]
enum Change {
    /// A text stands in its place.
    Text(String),
    /// It has the signature of a call before it.
    Signature(Value),
}

fn signature_of(part: &Value) -> Result<Option<&Value>, WireError> {
    written_in_two_ways(part, "thoughtSignature")
}

/// The parts of the first answer, as they are written.
fn written_parts(text: &str) -> Result<Vec<&serde_json::value::RawValue>, WireError> {
    let candidates = splice::member(text, "candidates").ok_or(WireError::Shape("parts"))?;
    let candidates = splice::elements(candidates.get());
    let candidate = candidates.first().ok_or(WireError::Shape("parts"))?;
    let content = splice::member(candidate.get(), "content").ok_or(WireError::Shape("parts"))?;
    let parts = splice::member(content.get(), "parts").ok_or(WireError::Shape("parts"))?;
    Ok(splice::elements(parts.get()))
}
