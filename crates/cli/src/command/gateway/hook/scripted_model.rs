//! A model that asks for one call of a shell, whatever it is told: what a host talks to while its hook is tried.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

/// The most bytes of a request.
const MAX_REQUEST_BYTES: u64 = 64 << 20;
/// What it says when it asks for nothing more.
const DONE: &str = "Done.";
/// The shells of the hosts, as their models call them, with the name of the argument that takes the command.
const SHELLS: [(&str, &str); 5] = [
    ("Bash", "command"),
    ("exec_command", "cmd"),
    ("shell_command", "command"),
    ("run_shell_command", "command"),
    ("bash", "command"),
];

/// The server. It ends with the program.
pub(super) struct ScriptedModel {
    /// Its address, without a slash at the end.
    pub(super) url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ScriptedModel {
    /// A server on this machine whose model asks for `command`.
    pub(super) fn start(command: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let url = format!("http://{}", listener.local_addr()?);
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (keeps, command) = (Arc::clone(&requests), command.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (keeps, command) = (Arc::clone(&keeps), command.clone());
                // A client that leaves early is no concern of the others.
                std::thread::spawn(move || serve(stream, &keeps, &command));
            }
        });
        Ok(Self { url, requests })
    }

    /// The bodies of the requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(stream: TcpStream, keeps: &Mutex<Vec<String>>, command: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = String::new();
    reader.take(MAX_REQUEST_BYTES.min(length)).read_to_string(&mut body)?;
    let path = first.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let path = path.split('?').next().unwrap_or_default();
    let (kind, answer) = if first.starts_with("POST") {
        keeps.lock().unwrap_or_else(PoisonError::into_inner).push(body.clone());
        answer(path, &serde_json::from_str(&body).unwrap_or_default(), command)
    } else {
        ("application/json", json!({ "object": "list", "data": [] }).to_string())
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    )
}

/// The answer to a request in the format that its path stands for: the call if a shell is there and nothing was called
/// yet.
fn answer(path: &str, body: &Value, command: &str) -> (&'static str, String) {
    let (tools, history) = (tool_names(&body["tools"]), history(body));
    let shell = SHELLS.iter().find(|(shell, _)| tools.iter().any(|tool| tool == shell));
    let results = ["\"tool_result\"", "call_output\"", "\"functionResponse\"", "\"role\":\"tool\""];
    let is_called = results.iter().any(|result| history.contains(result));
    let call = shell.filter(|_| !is_called).map(|(shell, argument)| {
        (*shell, json!({ *argument: command, "description": "Try the hook" }))
    });
    let events = if path.ends_with("/messages") {
        anthropic(call)
    } else if path.ends_with("/responses") {
        responses(call)
    } else if path.ends_with(":streamGenerateContent") {
        vec![gemini(call)]
    } else if path.ends_with("/chat/completions") {
        chat(call)
    } else if path.ends_with(":generateContent") {
        return ("application/json", gemini(call).to_string());
    } else {
        return ("application/json", json!({ "input_tokens": 1 }).to_string());
    };
    let is_chat = path.ends_with("/chat/completions");
    let mut stream: String = events.iter().map(frame).collect();
    if is_chat {
        stream += "data: [DONE]\n\n";
    }
    ("text/event-stream", stream)
}

fn tool_names(tools: &Value) -> Vec<String> {
    let tools = tools.as_array().into_iter().flatten();
    let declared = tools.flat_map(|tool| {
        let nested = tool["functionDeclarations"].as_array().into_iter().flatten();
        [&tool["name"], &tool["function"]["name"]]
            .into_iter()
            .chain(nested.map(|tool| &tool["name"]))
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    declared.collect()
}

/// What was said before, as JSON.
fn history(body: &Value) -> String {
    ["messages", "input", "contents"].iter().map(|name| body[*name].to_string()).collect()
}

fn frame(event: &Value) -> String {
    match event["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    }
}

type Call = Option<(&'static str, Value)>;

fn anthropic(call: Call) -> Vec<Value> {
    let usage = json!({ "input_tokens": 1, "output_tokens": 1 });
    let (block, delta, reason) = match call {
        Some((name, input)) => (
            json!({ "type": "tool_use", "id": "toolu_selftest", "name": name, "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": input.to_string() }),
            "tool_use",
        ),
        None => (
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": DONE }),
            "end_turn",
        ),
    };
    let message = json!({
        "id": "msg_selftest", "type": "message", "role": "assistant", "model": "selftest", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({
            "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
            "usage": { "output_tokens": 1 },
        }),
        json!({ "type": "message_stop" }),
    ]
}

fn responses(call: Call) -> Vec<Value> {
    let item = match call {
        Some((name, mut input)) => {
            if let Some(input) = input.as_object_mut() {
                input.remove("description");
            }
            json!({
                "type": "function_call", "id": "fc_selftest", "call_id": "call_selftest", "name": name,
                "arguments": input.to_string(),
            })
        }
        None => json!({
            "type": "message", "id": "msg_selftest", "role": "assistant",
            "content": [{ "type": "output_text", "text": DONE, "annotations": [] }],
        }),
    };
    let usage = json!({
        "input_tokens": 1, "input_tokens_details": null, "output_tokens": 1, "output_tokens_details": null,
        "total_tokens": 2,
    });
    let completed =
        json!({ "id": "resp_selftest", "status": "completed", "output": [item], "usage": usage });
    vec![
        json!({ "type": "response.created", "response": { "id": "resp_selftest" } }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": completed }),
    ]
}

fn gemini(call: Call) -> Value {
    let part = match call {
        Some((name, args)) => json!({ "functionCall": { "name": name, "args": args } }),
        None => json!({ "text": DONE }),
    };
    let counts = json!({ "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2 });
    let content = json!({ "role": "model", "parts": [part] });
    let candidate = json!({ "content": content, "finishReason": "STOP", "index": 0 });
    json!({ "candidates": [candidate], "usageMetadata": counts })
}

fn chat(call: Call) -> Vec<Value> {
    let (delta, reason) = match call {
        Some((name, input)) => {
            let function = json!({ "name": name, "arguments": input.to_string() });
            let call = json!({ "index": 0, "id": "call_selftest", "type": "function", "function": function });
            (json!({ "role": "assistant", "content": null, "tool_calls": [call] }), "tool_calls")
        }
        None => (json!({ "role": "assistant", "content": DONE }), "stop"),
    };
    [(delta, Value::Null), (json!({}), reason.into())]
        .map(|(delta, reason)| {
            json!({
                "id": "chatcmpl-selftest", "object": "chat.completion.chunk", "created": 1, "model": "selftest",
                "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }],
            })
        })
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(history: &Value) -> Value {
        json!({ "tools": [{ "function": { "name": "bash" } }], "messages": history })
    }

    #[test]
    fn it_asks_for_one_call_of_the_shell_that_is_there_and_then_for_nothing() {
        let cases = [
            ("/v1/messages", json!({ "tools": [{ "name": "Bash" }], "messages": [] }), true),
            (
                "/v1/messages",
                json!({ "tools": [{ "name": "Bash" }], "messages": [{ "content": [{ "type": "tool_result" }] }] }),
                false,
            ),
            ("/v1/messages", json!({ "messages": [] }), false),
            ("/v1/responses", json!({ "tools": [{ "name": "exec_command" }], "input": [] }), true),
            (
                "/v1/responses",
                json!({ "tools": [{ "name": "exec_command" }], "input": [{ "type": "function_call_output" }] }),
                false,
            ),
            (
                "/v1beta/models/m:streamGenerateContent",
                json!({ "tools": [{ "functionDeclarations": [{ "name": "run_shell_command" }] }] }),
                true,
            ),
            ("/v1/chat/completions", chat(&json!([])), true),
            ("/v1/chat/completions", chat(&json!([{ "role": "tool" }])), false),
        ];
        for (path, body, calls) in cases {
            let (_, answer) = answer(path, &body, "touch it");
            assert_eq!(answer.contains("touch it"), calls, "{path} {body}: {answer}");
            assert_eq!(answer.contains(DONE), !calls, "{path} {body}: {answer}");
        }
    }
}
