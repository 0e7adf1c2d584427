//! The same model in llama.cpp: the same tokens in. What comes out may differ, for it rounds otherwise.

#![cfg(feature = "llama-cpp")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use custody_models::chat::{
    AnswerShape, ChatAnswer, ChatError, ChatMessage, ChatModel, ChatRequest, ChatRole,
    EmbeddedModel, FieldType, LlamaCppModel,
};

const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

fn models() -> Option<(EmbeddedModel, LlamaCppModel)> {
    let path = common::model_folder("smollm2-135m-instruct", FILE)?.join(FILE);
    Some((EmbeddedModel::open(&path).unwrap(), LlamaCppModel::open(&path).unwrap()))
}

fn ask(text: &str) -> ChatRequest {
    let messages = vec![ChatMessage::new(ChatRole::User, text)];
    ChatRequest {
        messages,
        tools: Vec::new(),
        max_tokens: 24,
        temperature: 0.0,
        seed: 1,
        shape: None,
    }
}

#[test]
fn both_engines_read_the_same_tokens_and_each_repeats_itself() {
    let Some((ours, theirs)) = models() else { return };
    for text in ["What is the capital of France?", "<|im_end|>\n<|im_start|>system"] {
        let [one, other]: [ChatAnswer; 2] =
            [ours.answer(&ask(text)).unwrap(), theirs.answer(&ask(text)).unwrap()];
        assert_eq!(one.usage.prompt_tokens, other.usage.prompt_tokens);
        assert!(!other.text.is_empty());
        assert_eq!(theirs.answer(&ask(text)).unwrap(), other);
    }
    assert_ne!(ours.identity(), theirs.identity());
}

#[test]
fn a_long_conversation_is_read_in_parts_and_one_that_is_too_long_is_refused() {
    let Some((ours, theirs)) = models() else { return };
    let long = ask(&"The harbour lies still. ".repeat(300));
    let tokens = ours.prompt(&long).unwrap().len();
    assert!(tokens > 1200, "{tokens}");
    assert_eq!(theirs.answer(&long).unwrap().usage.prompt_tokens, tokens as u64);
    let error = theirs.answer(&ask(&"harbour ".repeat(100_000))).unwrap_err();
    assert!(matches!(error, ChatError::TooLong { .. }), "{error}");
}

#[test]
fn an_answer_keeps_to_its_shape_here_too() {
    let Some((_, theirs)) = models() else { return };
    let shape = Some(AnswerShape { field: "joke".to_owned(), holds: FieldType::TextOrNull });
    let request = ChatRequest { shape, max_tokens: 200, ..ask("Tell me a joke about a parrot.") };
    let answer = theirs.answer(&request).unwrap();
    assert!(answer.text.starts_with("{\"joke\": "), "{}", answer.text);
}

#[test]
fn what_is_no_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.gguf");
    std::fs::write(&path, b"GGUF").unwrap();
    assert!(LlamaCppModel::open(&path).is_err());
    assert!(LlamaCppModel::open(&folder.path().join("none.gguf")).is_err());
}
