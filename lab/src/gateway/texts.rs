//! The requests of the load: texts of words that are drawn, so that no two conversations hold the same page.

use serde_json::{Value, json};

use crate::random::Generator;

/// The operator's text, the same in every conversation, as with real agents.
const SYSTEM: &str = "You are the assistant of a public library. Answer from the handbook, be brief, and look up what you \
                      do not know with the tool `search`. Never promise what the handbook does not say.";

/// The words that texts are made of.
const WORDS: [&str; 48] = [
    "library", "shelf", "reader", "window", "garden", "morning", "paper", "station", "river",
    "bridge", "market", "number", "letter", "winter", "summer", "teacher", "kitchen", "harbour",
    "village", "mountain", "journey", "picture", "question", "answer", "returns", "borrows",
    "opens", "closes", "renews", "reserves", "reads", "writes", "brings", "finds", "keeps",
    "early", "late", "quiet", "narrow", "broad", "old", "new", "with", "without", "under",
    "behind", "before", "after",
];

/// The name of the model in every request.
pub(super) const MODEL: &str = "gpt-4o-mini";

/// The manifest of the tool that the scripted model calls.
pub(super) const TOOLS: &str = "[tools.search]\neffect = \"reads\"\narguments = { query = {} }\n";

/// A text of about `bytes` bytes, another one for each `number`.
pub(super) fn drawn(number: u64, bytes: usize) -> String {
    let mut generator = Generator::new(number);
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        let at = usize::try_from(generator.below(WORDS.len() as u64)).unwrap_or_default();
        text.push_str(WORDS.get(at).copied().unwrap_or_default());
        text.push(if generator.below(12) == 0 { '.' } else { ' ' });
    }
    text
}

/// A conversation that begins with the same system text as all others, then asks, and has read a page of its own.
pub(super) fn conversation(number: u64, is_streamed: bool) -> Vec<u8> {
    let call = json!([{
        "id": "call_page",
        "type": "function",
        "function": { "name": "search", "arguments": format!("{{\"query\":\"question {number}\"}}") },
    }]);
    let messages = json!([
        { "role": "system", "content": SYSTEM },
        { "role": "user", "content": format!("Question {number}: when does the library open on Sundays?") },
        { "role": "assistant", "content": null, "tool_calls": call },
        { "role": "tool", "tool_call_id": "call_page", "content": drawn(number, 600) },
    ]);
    request(&messages, is_streamed)
}

/// A request with `texts` of the user after the system text.
pub(super) fn request_of(texts: &[String]) -> Vec<u8> {
    let system = std::iter::once(json!({ "role": "system", "content": SYSTEM }));
    let texts = texts.iter().map(|text| json!({ "role": "user", "content": text }));
    request(&Value::from_iter(system.chain(texts)), false)
}

fn request(messages: &Value, is_streamed: bool) -> Vec<u8> {
    let parameters = json!({
        "type": "object",
        "properties": { "query": { "type": "string" } },
        "required": ["query"],
    });
    let tool = json!({ "name": "search", "description": "Looks up the handbook.", "parameters": parameters });
    let mut request = json!({
        "model": MODEL,
        "messages": messages,
        "tools": [{ "type": "function", "function": tool }],
    });
    if is_streamed {
        request["stream"] = true.into();
    }
    request.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_as_long_as_asked_and_differ() {
        let text = drawn(1, 600);
        assert!((600..620).contains(&text.len()), "{}", text.len());
        assert_eq!(text, drawn(1, 600));
        assert_ne!(text, drawn(2, 600));
    }
}
