//! What holds for every trace.

use custody_gateway::trace::{
    Conversation, Message, MessageRole, Step, ToolCall, TraceError, TraceLimits, read_trace,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn read(bytes: &[u8]) -> Result<Vec<Step>, TraceError> {
    read_trace(bytes, &TraceLimits::default()).collect()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53) + 1..1_i64 << 53).prop_map(Value::from),
        (-1e15..1e15).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            any_object(inner).prop_map(Value::from),
        ]
    })
}

fn any_object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    proptest::collection::btree_map(any::<String>(), value, 0..4)
        .prop_map(|members| members.into_iter().collect())
}

fn any_call() -> impl Strategy<Value = ToolCall> {
    (any::<String>(), any::<String>(), any_object(any_json())).prop_map(|(id, name, arguments)| {
        let arguments_raw = Value::from(arguments.clone()).to_string();
        ToolCall { id: Some(id), name, arguments, arguments_raw }
    })
}

fn any_message() -> impl Strategy<Value = Message> {
    let role = prop_oneof![
        Just("system".to_owned()),
        Just("developer".to_owned()),
        Just("user".to_owned()),
        Just("assistant".to_owned()),
        Just("tool".to_owned()),
        any::<String>(),
    ]
    .prop_map(MessageRole::parse);
    let calls = proptest::collection::vec(any_call(), 0..3);
    let names = (any::<Option<String>>(), any::<Option<String>>());
    (role, any::<String>(), calls, names).prop_map(|(role, text, calls, (tool_call_id, name))| {
        let tool_calls = match role {
            MessageRole::Assistant | MessageRole::Unknown(_) => calls,
            MessageRole::System
            | MessageRole::Developer
            | MessageRole::User
            | MessageRole::Tool => Vec::new(),
        };
        Message { role, text, other_parts: Vec::new(), tool_calls, tool_call_id, name }
    })
}

fn rendered(message: &Message, session: Option<&str>) -> Value {
    let calls: Vec<_> = message
        .tool_calls
        .iter()
        .map(|call| {
            let function = json!({"name": call.name, "arguments": call.arguments_raw});
            json!({"id": call.id, "type": "function", "function": function})
        })
        .collect();
    json!({
        "role": message.role.as_str(),
        "content": message.text,
        "tool_calls": calls,
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "session": session,
    })
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let _ = read(&bytes);
    }

    #[test]
    fn random_json_never_panics(line in any_json()) {
        let _ = read(line.to_string().as_bytes());
    }

    #[test]
    fn a_damaged_trace_never_panics(
        message in any_message(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = rendered(&message, Some("s")).to_string().into_bytes();
        for (index, byte) in flips {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        let _ = read(&bytes);
    }

    #[test]
    fn a_cut_line_is_refused(message in any_message(), cut in any::<prop::sample::Index>()) {
        let bytes = rendered(&message, None).to_string().into_bytes();
        let kept = &bytes[..1 + cut.index(bytes.len() - 1)];
        prop_assert!(read(kept).is_err());
    }

    #[test]
    fn damaged_python_parameters_never_panic(parameters in r"[{}\[\]'\\,: x0-9eTNu-]{0,40}") {
        let case = json!({
            "attacker_instruction": "", "user_instruction": "", "user_tool": "",
            "tool_parameters": format!("{{'a': {parameters}}}"), "text": "",
        });
        let _ = read(case.to_string().as_bytes());
    }

    #[test]
    fn a_written_message_is_read_back(
        messages in proptest::collection::vec(any_message(), 0..4),
        session: Option<String>,
        as_one_line: bool,
    ) {
        let lines: Vec<_> =
            messages.iter().map(|message| rendered(message, session.as_deref())).collect();
        let trace = if as_one_line {
            json!({"messages": lines}).to_string()
        } else {
            lines.iter().map(|line| format!("{line}\r\n")).collect()
        };
        let unnamed = if as_one_line { Conversation::Fresh(1) } else { Conversation::Default };
        let conversation = session.map_or(unnamed, Conversation::Named);
        let steps = read(trace.as_bytes()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        for step in &steps {
            prop_assert_eq!(&step.conversation, &conversation);
        }
        let read_back: Vec<_> = steps.into_iter().map(|step| step.message).collect();
        prop_assert_eq!(read_back, messages);
    }
}
