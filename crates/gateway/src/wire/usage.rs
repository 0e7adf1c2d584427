//! What vendors say that an answer took, in one form for all dialects. A claim: it is recorded, and nothing depends
//! on it.
//!
//! Sources: the vendors' references of `usage` (Anthropic, OpenAI) and `usageMetadata` (Google).

use custody_runtime::advice::ClaimedTokens;
use serde_json::Value;

use super::CallRule;

/// The largest number that every reader of JSON reads alike (RFC 8785). A larger one is no count.
const MAX_COUNT: u64 = (1 << 53) - 1;

/// Notes what an answer, or an event of one, says of its tokens, as `read` reads it.
pub(super) fn note(
    usage: Option<&Value>,
    read: fn(&Value) -> ClaimedTokens,
    rule: &mut dyn CallRule,
) {
    if let Some(usage) = usage.filter(|usage| usage.is_object()) {
        rule.note_tokens(read(usage));
    }
}

/// Anthropic counts what a cache gave and took apart from the rest.
pub(super) fn anthropic(usage: &Value) -> ClaimedTokens {
    let cached_input = count(usage, "/cache_read_input_tokens");
    let rest = [count(usage, "/input_tokens"), count(usage, "/cache_creation_input_tokens")];
    ClaimedTokens {
        input: sum([cached_input].into_iter().chain(rest)),
        cached_input,
        output: count(usage, "/output_tokens"),
    }
}

pub(super) fn openai_chat(usage: &Value) -> ClaimedTokens {
    ClaimedTokens {
        input: count(usage, "/prompt_tokens"),
        cached_input: count(usage, "/prompt_tokens_details/cached_tokens"),
        output: count(usage, "/completion_tokens"),
    }
}

pub(super) fn openai_responses(usage: &Value) -> ClaimedTokens {
    ClaimedTokens {
        input: count(usage, "/input_tokens"),
        cached_input: count(usage, "/input_tokens_details/cached_tokens"),
        output: count(usage, "/output_tokens"),
    }
}

/// Google counts thinking apart from the answer, and what its tools brought apart from the prompt.
pub(super) fn gemini(usage: &Value) -> ClaimedTokens {
    let input = ["/promptTokenCount", "/toolUsePromptTokenCount"];
    let output = ["/candidatesTokenCount", "/thoughtsTokenCount"];
    ClaimedTokens {
        input: sum(input.into_iter().map(|name| count(usage, name))),
        cached_input: count(usage, "/cachedContentTokenCount"),
        output: sum(output.into_iter().map(|name| count(usage, name))),
    }
}

fn count(usage: &Value, pointer: &str) -> Option<u64> {
    usage.pointer(pointer).and_then(Value::as_u64).filter(|count| *count <= MAX_COUNT)
}

/// The sum of what is there; nothing if nothing is.
fn sum(counts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    counts.flatten().reduce(|sum, count| sum.saturating_add(count).min(MAX_COUNT))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cache_is_part_of_what_was_read_and_thinking_of_what_was_written_in_every_dialect() {
        let expected = ClaimedTokens { input: Some(100), cached_input: Some(60), output: Some(30) };
        let cases = [
            (
                anthropic as fn(&Value) -> ClaimedTokens,
                json!({ "input_tokens": 30, "cache_creation_input_tokens": 10,
                        "cache_read_input_tokens": 60, "output_tokens": 30 }),
            ),
            (
                openai_chat,
                json!({ "prompt_tokens": 100, "prompt_tokens_details": { "cached_tokens": 60 },
                        "completion_tokens": 30, "total_tokens": 130 }),
            ),
            (
                openai_responses,
                json!({ "input_tokens": 100, "input_tokens_details": { "cached_tokens": 60 },
                        "output_tokens": 30, "output_tokens_details": { "reasoning_tokens": 9 } }),
            ),
            (
                gemini,
                json!({ "promptTokenCount": 90, "toolUsePromptTokenCount": 10,
                        "cachedContentTokenCount": 60, "candidatesTokenCount": 20,
                        "thoughtsTokenCount": 10, "totalTokenCount": 130 }),
            ),
        ];
        for (read, usage) in cases {
            assert_eq!(read(&usage), expected, "{usage}");
            assert_eq!(read(&json!({})), ClaimedTokens::default());
        }
    }

    #[test]
    fn what_is_no_count_is_left_out() {
        for wrong in [json!(1.5), json!(-1), json!("9"), json!(null), json!(1_u64 << 60)] {
            let claimed = openai_chat(&json!({ "prompt_tokens": wrong, "completion_tokens": 7 }));
            assert_eq!((claimed.input, claimed.output), (None, Some(7)), "{wrong}");
        }
        let most = json!({ "input_tokens": MAX_COUNT, "cache_read_input_tokens": MAX_COUNT });
        assert_eq!(anthropic(&most).input, Some(MAX_COUNT));
    }
}
