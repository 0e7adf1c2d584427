//! An answer as events. Everything from the beginning of a call on is held until the call is complete.
//!
//! A call stands in a stream up to four times: in pieces, at the end of the pieces, at the end of its item, and in the
//! answer as a whole, which comes last. Clients differ in which they read, so all have to say the same.

use std::collections::BTreeMap;

use custody_log::Digest;
use serde_json::{Value, json};

use super::answer::{Decisions, message, message_id, note_undecided, part};
use super::item;
use crate::wire::block::{Block, BlockContent, WireCall, WireRole};
use crate::wire::splice::{self, Splices};
use crate::wire::sse::{self, Event};
use crate::wire::stream::{EventFilter, Returned};
use crate::wire::{CallRule, WireError, parsed, required, says, text_of};

/// A stream of an answer.
#[derive(Debug, Default)]
pub(in crate::wire) struct Stream {
    held: Vec<HeldEvent>,
    held_bytes: usize,
    /// Every call so far.
    calls: Vec<StreamedCall>,
    /// The place in `calls` of those that are not complete, by their place in the answer.
    open: BTreeMap<u64, usize>,
    /// What a message says that is not complete.
    text: String,
    decisions: Decisions,
    numbers: Numbers,
}

#[derive(Debug)]
struct HeldEvent {
    /// The place in `calls` of the call that it is of.
    call: Option<usize>,
    raw: Vec<u8>,
    /// Its data, as text and read.
    data: Option<(String, Value)>,
}

#[derive(Debug)]
struct StreamedCall {
    /// As its item began.
    begun: WireCall,
    /// The pieces of its arguments or its input.
    pieces: String,
    /// Its item, once that is complete, and the text that stands in its place.
    removed: Option<(Value, String)>,
}

impl EventFilter for Stream {
    fn event(
        &mut self,
        event: Event,
        out: &mut Vec<u8>,
        rule: &mut dyn CallRule,
    ) -> Result<(), WireError> {
        let Event { raw, data } = event;
        let Some(text) = data.filter(|data| data.trim() != "[DONE]") else {
            std::str::from_utf8(&raw).map_err(|_| WireError::Encoding)?;
            self.forward(HeldEvent { call: None, raw, data: None }, out);
            return Ok(());
        };
        let value = parsed(text.as_bytes())?;
        let call = match required(&value, "type")? {
            "response.output_item.added" => self.begin_item(&value, rule)?,
            "response.output_item.done" => self.end_item(&value, rule)?,
            _ if value.get("response").is_some() => {
                return self.whole(raw, (text, value), out, rule);
            }
            kind => self.piece(kind, &value)?,
        };
        self.forward(HeldEvent { call, raw, data: Some((text, value)) }, out);
        Ok(())
    }

    fn end(&mut self, rule: &mut dyn CallRule) {
        self.held.clear();
        self.held_bytes = 0;
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.decisions.decide(Block::text(WireRole::Assistant, text), rule);
        }
    }

    fn held(&self) -> usize {
        self.held_bytes
    }

    fn returned(&mut self) -> Returned {
        std::mem::take(&mut self.decisions.returned)
    }
}

impl Stream {
    /// Passes an event on, after whatever is held before it.
    fn forward(&mut self, event: HeldEvent, out: &mut Vec<u8>) {
        self.held_bytes += event.raw.len();
        self.held.push(event);
        if !self.open.is_empty() {
            return;
        }
        self.held_bytes = 0;
        for HeldEvent { call, raw, data } in std::mem::take(&mut self.held) {
            let Some((text, value)) = data else {
                out.extend(raw);
                continue;
            };
            let call = call.and_then(|call| self.calls.get_mut(call));
            let Some((item, replacing)) = call.and_then(|call| call.removed.as_ref()) else {
                self.numbers.write(raw, &text, &value, Splices::default(), out);
                continue;
            };
            // The message ends where its item did; nothing stands for the other events.
            if text_of(&value, "type") == Some("response.output_item.done") {
                for event in message_events(&value, item, replacing) {
                    self.numbers.write_new(event, &value, out);
                }
            }
        }
    }

    /// An item begins: the call that it is, if it is one.
    fn begin_item(
        &mut self,
        value: &Value,
        rule: &mut dyn CallRule,
    ) -> Result<Option<usize>, WireError> {
        let read = item::read(value.get("item").ok_or(WireError::Shape("item"))?)?;
        note_undecided(read.undecided, rule)?;
        let index = index_of(value)?;
        if self.open.contains_key(&index) {
            return Err(WireError::Shape("output_index"));
        }
        let Some(begun) = read.call().cloned() else { return Ok(None) };
        let call = self.calls.len();
        self.calls.push(StreamedCall { begun, pieces: String::new(), removed: None });
        self.open.insert(index, call);
        Ok(Some(call))
    }

    /// An item is complete.
    fn end_item(
        &mut self,
        value: &Value,
        rule: &mut dyn CallRule,
    ) -> Result<Option<usize>, WireError> {
        let item = value.get("item").ok_or(WireError::Shape("item"))?;
        let read = item::read(item)?;
        note_undecided(read.undecided, rule)?;
        let open = self.open.remove(&index_of(value)?);
        let Some(complete) = read.call() else {
            if open.is_some() {
                return Err(WireError::Shape("item"));
            }
            self.text.clear();
            for block in read.blocks {
                self.decisions.decide_first(block, rule);
            }
            return Ok(None);
        };
        let at = open.unwrap_or(self.calls.len());
        if let Some(begun) = self.calls.get(at) {
            begun.check(item, complete)?;
        } else {
            let (begun, pieces) = (complete.clone(), String::new());
            self.calls.push(StreamedCall { begun, pieces, removed: None });
        }
        for block in read.blocks {
            let removed = self.decisions.decide_first(block, rule);
            if let (Some(text), Some(call)) = (removed, self.calls.get_mut(at)) {
                call.removed = Some((item.clone(), text));
            }
        }
        Ok(Some(at))
    }

    /// A piece of an item: the call that it is of, if it is of one.
    fn piece(&mut self, kind: &str, value: &Value) -> Result<Option<usize>, WireError> {
        let index = value.get("output_index").and_then(Value::as_u64);
        let at = index.and_then(|index| self.open.get(&index)).copied();
        let call = at.and_then(|at| self.calls.get_mut(at));
        match kind {
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let call = call.ok_or(WireError::Shape("output_index"))?;
                call.pieces.push_str(required(value, "delta")?);
            }
            "response.function_call_arguments.done" => {
                let call = call.ok_or(WireError::Shape("output_index"))?;
                call.end_pieces(required(value, "arguments")?)?;
            }
            "response.custom_tool_call_input.done" => {
                let call = call.ok_or(WireError::Shape("output_index"))?;
                call.end_pieces(required(value, "input")?)?;
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                self.text.push_str(required(value, "delta")?);
            }
            // Items come in two kinds of events; one in another would go by undecided.
            _ if value.get("item").is_some() => return Err(WireError::Shape("item")),
            _ => {}
        }
        Ok(at)
    }

    /// An event that holds the answer as a whole, as far as it has come.
    fn whole(
        &mut self,
        raw: Vec<u8>,
        (text, value): (String, Value),
        out: &mut Vec<u8>,
        rule: &mut dyn CallRule,
    ) -> Result<(), WireError> {
        if !self.open.is_empty() {
            return Err(WireError::Shape("response.output_item.done"));
        }
        let response = value.get("response").ok_or(WireError::Shape("response"))?;
        let written = splice::member(&text, "response").ok_or(WireError::Shape("response"))?;
        let splices = self.decisions.edit(&text, written.get(), response, rule)?;
        if says(response, "output") {
            self.text.clear();
        }
        self.numbers.write(raw, &text, &value, splices, out);
        Ok(())
    }
}

impl StreamedCall {
    /// The pieces are complete, and have to be `whole`.
    fn end_pieces(&mut self, whole: &str) -> Result<(), WireError> {
        if !self.pieces.is_empty() && self.pieces != whole {
            return Err(WireError::Shape("delta"));
        }
        whole.clone_into(&mut self.pieces);
        Ok(())
    }

    /// Whether the call is what its item began as, and what came in pieces.
    fn check(&self, item: &Value, complete: &WireCall) -> Result<(), WireError> {
        if (&self.begun.id, &self.begun.name) != (&complete.id, &complete.name) {
            return Err(WireError::Shape("call_id"));
        }
        if self.pieces.is_empty() {
            return Ok(());
        }
        let is_custom = item.get("input").is_some();
        let arguments = if is_custom {
            json!({ "input": self.pieces }).to_string()
        } else {
            self.pieces.clone()
        };
        let of_pieces = WireCall { arguments, ..complete.clone() };
        if digest_of(of_pieces) == digest_of(complete.clone()) {
            Ok(())
        } else {
            Err(WireError::Shape("arguments"))
        }
    }
}

/// What a call is known by, however its arguments are written.
fn digest_of(call: WireCall) -> Digest {
    Block::new(WireRole::Assistant, BlockContent::Call(call)).digest
}

fn index_of(value: &Value) -> Result<u64, WireError> {
    let index = value.get("output_index").and_then(Value::as_u64);
    index.ok_or(WireError::Shape("output_index"))
}

/// The events of the message that says `text` in the place of `item`, whose last event was `end`.
fn message_events(end: &Value, item: &Value, text: &str) -> [Value; 6] {
    let (at, id) = (&end["output_index"], message_id(item));
    let whole = message(item, text);
    let mut empty = whole.clone();
    empty["status"] = "in_progress".into();
    empty["content"] = json!([]);
    [
        json!({ "type": "response.output_item.added", "output_index": at, "item": empty }),
        json!({
            "type": "response.content_part.added", "item_id": id, "output_index": at, "content_index": 0,
            "part": part("")
        }),
        json!({
            "type": "response.output_text.delta", "item_id": id, "output_index": at, "content_index": 0,
            "delta": text, "logprobs": []
        }),
        json!({
            "type": "response.output_text.done", "item_id": id, "output_index": at, "content_index": 0,
            "text": text, "logprobs": []
        }),
        json!({
            "type": "response.content_part.done", "item_id": id, "output_index": at, "content_index": 0,
            "part": part(text)
        }),
        json!({ "type": "response.output_item.done", "output_index": at, "item": whole }),
    ]
}

/// The numbers of events. From the first event on that is not the vendor's, they are counted anew, without gaps.
#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    is_changed: bool,
}

impl Numbers {
    /// Writes an event of the vendor's.
    fn write(
        &mut self,
        raw: Vec<u8>,
        text: &str,
        value: &Value,
        mut splices: Splices,
        out: &mut Vec<u8>,
    ) {
        let number = value.get("sequence_number").and_then(Value::as_u64);
        if let Some(number) = number {
            if self.is_changed && number != self.next {
                if let Some(written) = splice::member(text, "sequence_number") {
                    splices.replace(splice::place(text, written), self.next.to_string());
                }
                self.next = self.next.saturating_add(1);
            } else {
                self.next = number.saturating_add(1);
            }
        }
        if splices.is_empty() {
            out.extend(raw);
        } else {
            out.extend(sse::written(text_of(value, "type"), &splices.apply(text)));
        }
    }

    /// Writes an event in the place of `instead`.
    fn write_new(&mut self, mut event: Value, instead: &Value, out: &mut Vec<u8>) {
        if let (Some(object), true) = (event.as_object_mut(), instead["sequence_number"].is_u64()) {
            object.insert("sequence_number".to_owned(), self.next.into());
            self.next = self.next.saturating_add(1);
            self.is_changed = true;
        }
        out.extend(sse::written(text_of(&event, "type"), &event));
    }
}
