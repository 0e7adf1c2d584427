//! What a model may read of a message: every text in it, in order.

use serde_json::Value;

/// The texts in `value`, names of members left out, each on a line of its own.
pub(super) fn all_texts(value: &Value) -> String {
    let mut texts = Vec::new();
    gather(value, &mut texts);
    texts.join("\n")
}

fn gather<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| gather(item, texts)),
        Value::Object(members) => members.values().for_each(|member| gather(member, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What a tool returned, as its host shows it to the model: the texts of `content`, and what else is in it by its
/// kind alone.
pub(super) fn tool_output(result: &Value) -> String {
    let content = result.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let parts: Vec<String> = content.iter().map(part).collect();
    match (parts.is_empty(), result.get("structuredContent")) {
        (true, Some(structured)) => structured.to_string(),
        (true, None) => all_texts(result),
        (false, _) => parts.join("\n"),
    }
}

fn part(part: &Value) -> String {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "text" => part.get("text").and_then(Value::as_str).unwrap_or_default().to_owned(),
        "image" | "audio" => format!("[{kind}]"),
        // Resources and links hold texts; an unknown kind may.
        _ => all_texts(part),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_text_that_a_host_may_show_is_left_out() {
        let result = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "aGk="},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "two"}},
            {"type": "later", "words": ["three"]},
        ]});
        assert_eq!(tool_output(&result), "one\n[image]\nresource\nfile:///a\ntwo\nlater\nthree");
        assert_eq!(tool_output(&json!({"structuredContent": {"a": "b"}})), r#"{"a":"b"}"#);
        assert_eq!(tool_output(&json!({"other": ["x"]})), "x");
    }
}
