//! The items of requests and answers: messages, calls, and what calls brought back.

use serde_json::{Value, json};

use crate::wire::block::{self, Block, BlockContent, WireCall};
use crate::wire::{Undecidable, WireError, WireRole, offered, required, text_of};

/// The custom tool in which Codex's code mode runs calls of its own.
pub(super) const HOST_TOOL: &str = "exec";

/// An item as it is read here.
#[derive(Debug, Default)]
pub(super) struct Item {
    /// What it is made of: the texts of a message, or one call, or one result.
    pub(super) blocks: Vec<Block>,
    /// What nobody can decide of it, if it stands in an answer.
    pub(super) undecided: Option<Undecidable>,
}

impl Item {
    fn of(block: Block) -> Self {
        Self { blocks: vec![block], undecided: None }
    }

    fn opaque(item: &Value, undecided: Option<Undecidable>) -> Self {
        Self { blocks: vec![Block::opaque(WireRole::Assistant, item)], undecided }
    }

    /// The call that it is.
    pub(super) fn call(&self) -> Option<&WireCall> {
        self.blocks.iter().find_map(|block| match &block.content {
            BlockContent::Call(call) => Some(call),
            BlockContent::Text(_) | BlockContent::Result { .. } | BlockContent::Opaque { .. } => {
                None
            }
        })
    }
}

/// Reads an item. The model's reasoning is left out: the vendor encrypts it, and refuses what it did not make.
pub(super) fn read(item: &Value) -> Result<Item, WireError> {
    let kind = match item.get("type") {
        None if item.get("role").is_some() => "message",
        _ => required(item, "type")?,
    };
    Ok(match kind {
        "message" => message(item)?,
        "reasoning" => Item::default(),
        "function_call" => call(item, &function_name(item)?, item.get("arguments"))?,
        "custom_tool_call" => {
            let name = function_name(item)?;
            let input = json!({ "input": text_of(item, "input").unwrap_or_default() });
            let undecided = (name == HOST_TOOL).then_some(Undecidable::HostTool);
            Item { undecided, ..call(item, &name, Some(&input))? }
        }
        "local_shell_call" => call(item, "local_shell", item.get("action"))?,
        "shell_call" if runs_at_client(item) => call(item, "shell", item.get("action"))?,
        "apply_patch_call" => call(item, "apply_patch", item.get("operation"))?,
        "computer_call" => {
            let several = item.get("actions").map(|actions| json!({ "actions": actions }));
            call(item, "computer", several.as_ref().or_else(|| item.get("action")))?
        }
        "tool_search_call" if text_of(item, "execution") == Some("client") => {
            call(item, "tool_search", item.get("arguments"))?
        }
        "function_call_output"
        | "custom_tool_call_output"
        | "local_shell_call_output"
        | "apply_patch_call_output"
        | "computer_call_output"
        | "shell_call_output" => result(item)?,
        "mcp_call" | "mcp_list_tools" | "mcp_approval_request" | "mcp_approval_response" => {
            Item::opaque(item, Some(Undecidable::VendorMcp))
        }
        // What the model remembers of what was left out. The vendor encrypts it.
        "compaction" | "compaction_summary" | "context_compaction" => Item::opaque(item, None),
        // The last asks the vendor to compact what stands before it, and says nothing.
        "additional_tools" | "compaction_trigger" => Item::default(),
        kind if kind.ends_with("_call") || kind.ends_with("_output") => {
            Item::opaque(item, Some(Undecidable::VendorTool))
        }
        _ => Item::opaque(item, Some(Undecidable::UnknownBlock)),
    })
}

/// Whether a shell, or a call of one, is the client's. Other ones are in a container at the vendor.
pub(super) fn runs_at_client(shell: &Value) -> bool {
    match shell.get("environment") {
        None | Some(Value::Null) => true,
        Some(environment) => text_of(environment, "type") == Some("local"),
    }
}

fn message(item: &Value) -> Result<Item, WireError> {
    let role = match required(item, "role")? {
        "system" | "developer" => WireRole::System,
        "user" => WireRole::User,
        "assistant" => WireRole::Assistant,
        _ => WireRole::Unknown,
    };
    let mut read = Item::default();
    match item.get("content") {
        Some(Value::String(text)) => read.blocks.push(Block::text(role, text)),
        Some(Value::Array(parts)) => {
            for part in parts {
                let text = match required(part, "type")? {
                    "input_text" | "output_text" | "text" => Some(required(part, "text")?),
                    "refusal" => Some(required(part, "refusal")?),
                    _ => None,
                };
                match text {
                    Some("") => {}
                    Some(text) => read.blocks.push(Block::text(role, text)),
                    None => {
                        read.blocks.push(Block::opaque(role, part));
                        read.undecided = Some(Undecidable::UnknownBlock);
                    }
                }
            }
        }
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            return Err(WireError::Shape("content"));
        }
    }
    Ok(read)
}

fn function_name(item: &Value) -> Result<String, WireError> {
    let namespace = text_of(item, "namespace").unwrap_or_default();
    Ok(offered::in_namespace(namespace, required(item, "name")?))
}

/// Arguments stand in a call as text or, of tools that OpenAI names, as an object.
fn call(item: &Value, name: &str, arguments: Option<&Value>) -> Result<Item, WireError> {
    let arguments = match arguments {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(object @ Value::Object(_)) => object.to_string(),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            return Err(WireError::Shape("arguments"));
        }
    };
    let (id, name) = (call_id(item)?.to_owned(), name.to_owned());
    let call = WireCall { id, name, arguments };
    Ok(Item::of(Block::new(WireRole::Assistant, BlockContent::Call(call))))
}

/// The id that joins a call and its result. That of some calls is the item's own.
fn call_id(item: &Value) -> Result<&str, WireError> {
    text_of(item, "call_id").map_or_else(|| required(item, "id"), Ok)
}

fn result(item: &Value) -> Result<Item, WireError> {
    let text = match item.get("output") {
        // A screenshot is one part.
        Some(part @ Value::Object(_)) => block::result_text(Some(&json!([part])))?,
        Some(Value::Array(parts)) if parts.iter().any(|part| part.get("stdout").is_some()) => {
            printed(parts)
        }
        output => block::result_text(output)?,
    };
    let call = call_id(item)?.to_owned();
    let result = Block::new(WireRole::Tool, BlockContent::Result { call, text });
    Ok(Item { blocks: vec![result], undecided: Some(Undecidable::VendorTool) })
}

/// What the commands of a shell printed.
fn printed(parts: &[Value]) -> String {
    let texts = parts.iter().flat_map(|part| [text_of(part, "stdout"), text_of(part, "stderr")]);
    texts.flatten().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}
