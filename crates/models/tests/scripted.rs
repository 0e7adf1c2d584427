//! Recorded conversations.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use custody_models::chat::{
    ChatAnswer, ChatError, ChatMessage, ChatModel, ChatRequest, ChatRole, FinishReason, Recorder,
    RecordingError, ScriptedModel, Usage,
};

/// Says how often it was asked.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl ChatModel for Counting {
    fn identity(&self) -> &str {
        "counting"
    }

    fn answer_streaming(
        &self,
        _: &ChatRequest,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ChatAnswer, ChatError> {
        let text = format!("answer {}", self.0.fetch_add(1, Ordering::Relaxed) + 1);
        let finish =
            if show(&text).is_break() { FinishReason::Stopped } else { FinishReason::Done };
        Ok(ChatAnswer { text, tool_calls: Vec::new(), finish, usage: Usage::default() })
    }
}

fn ask(text: &str) -> ChatRequest {
    let messages = vec![ChatMessage::new(ChatRole::User, text)];
    ChatRequest {
        messages,
        tools: Vec::new(),
        max_tokens: 5,
        temperature: 0.5,
        seed: 1,
        shape: None,
    }
}

#[test]
fn what_was_recorded_is_said_again_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recorded.jsonl");
    let recorder = Recorder::open(Counting::default(), &path).unwrap();
    let first = recorder.answer(&ask("one")).unwrap();
    let second = recorder.answer(&ask("two")).unwrap();
    // Asked again, the recorder does not ask the model.
    assert_eq!(recorder.answer(&ask("one")).unwrap(), first);
    assert_eq!((first.text.as_str(), second.text.as_str()), ("answer 1", "answer 2"));
    // Nor does another that goes on with the same file.
    let next = Recorder::open(Counting::default(), &path).unwrap();
    assert_eq!(next.answer(&ask("two")).unwrap(), second);

    let scripted = ScriptedModel::open(&path).unwrap();
    assert_eq!(scripted.answer(&ask("one")).unwrap(), first);
    assert_eq!(scripted.answer(&ask("two")).unwrap(), second);
    for other in [ask("three"), ChatRequest { seed: 2, ..ask("one") }] {
        let error = scripted.answer(&other).unwrap_err();
        assert!(matches!(error, ChatError::NotRecorded { .. }), "{error}");
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(ScriptedModel::parse(&text).unwrap().identity(), scripted.identity());
    assert_ne!(ScriptedModel::parse("").unwrap().identity(), scripted.identity());
}

#[test]
fn an_answer_that_was_broken_off_is_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recorded.jsonl");
    let recorder = Recorder::open(Counting::default(), &path).unwrap();
    let broken = recorder.answer_streaming(&ask("one"), &mut |_| ControlFlow::Break(()));
    assert_eq!(broken.unwrap().finish, FinishReason::Stopped);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    let whole = recorder.answer(&ask("one")).unwrap();
    assert_eq!(whole.text, "answer 2");
    let mut shown = String::new();
    let again = recorder.answer_streaming(&ask("one"), &mut |piece| {
        shown.push_str(piece);
        ControlFlow::Break(())
    });
    assert_eq!((again.unwrap().finish, shown.as_str()), (FinishReason::Stopped, "answer 2"));
}

#[test]
fn a_recording_that_contradicts_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recorded.jsonl");
    Recorder::open(Counting::default(), &path).unwrap().answer(&ask("one")).unwrap();
    let line = std::fs::read_to_string(&path).unwrap();
    let twice = format!("{line}\n{line}");
    assert!(ScriptedModel::parse(&twice).is_ok());
    let conflict = format!("{line}{}", line.replace("answer 1", "answer 2"));
    assert!(matches!(ScriptedModel::parse(&conflict), Err(RecordingError::Conflict { line: 2 })));
    let cases = ["{}", "[]", "x", &line[..40], &line.replacen('{', r#"{"more":1,"#, 1)];
    for text in cases {
        let refused = ScriptedModel::parse(text);
        assert!(matches!(refused, Err(RecordingError::Line { line: 1, .. })), "{text}");
    }
    std::fs::write(&path, line.replace("counting", "another")).unwrap();
    let refused = Recorder::open(Counting::default(), &path);
    assert!(matches!(refused, Err(RecordingError::AnotherModel { .. })), "{refused:?}");
}
