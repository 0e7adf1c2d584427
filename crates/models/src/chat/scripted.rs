//! Recorded conversations: replays a model's answers from a file.
//!
//! A recording is JSON Lines, `{"model": IDENTITY, "request": REQUEST, "answer": ANSWER}` each. A request has one
//! answer in it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::chat::ChatModel;
use crate::chat::error::ChatError;
use crate::chat::request::{ChatAnswer, ChatRequest, FinishReason};
use crate::sha256::Sha256;

/// An invalid recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("could not read the recording `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// A line is not a recorded answer.
    #[error(
        "line {line} of the recording is no answer ({detail}); take the line out or record it again"
    )]
    Line {
        /// The line number, from 1.
        line: usize,
        /// The problem.
        detail: String,
    },
    /// One request has two answers.
    #[error(
        "line {line} of the recording answers a request otherwise than a line before it; keep one of them"
    )]
    Conflict {
        /// The line number, from 1.
        line: usize,
    },
    /// Another model's answers are in the file already.
    #[error(
        "the recording holds answers of `{found}`, not of `{wanted}`; record into another file"
    )]
    AnotherModel {
        /// The identity of the recorded model.
        found: String,
        /// The identity of the model to record.
        wanted: String,
    },
}

/// One line of a recording.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    model: String,
    request: ChatRequest,
    answer: ChatAnswer,
}

/// The answers by the digest of their request.
type Answers = BTreeMap<Sha256, ChatAnswer>;

/// The contents of a recording.
#[derive(Debug, Default)]
struct Recording {
    answers: Answers,
    /// Whether any request has tools.
    has_tools: bool,
    /// The model of the last line.
    model: Option<String>,
}

impl Recording {
    fn parse(text: &str) -> Result<Self, RecordingError> {
        let mut recording = Self::default();
        for (index, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let line = index + 1;
            let parsed: Line = serde_json::from_str(text)
                .map_err(|cause| RecordingError::Line { line, detail: cause.to_string() })?;
            recording.has_tools |= !parsed.request.tools.is_empty();
            match recording.answers.entry(digest(&parsed.request)) {
                Entry::Occupied(known) if *known.get() != parsed.answer => {
                    return Err(RecordingError::Conflict { line });
                }
                Entry::Occupied(_) => {}
                Entry::Vacant(place) => drop(place.insert(parsed.answer)),
            }
            recording.model = Some(parsed.model);
        }
        Ok(recording)
    }
}

/// The digest of all fields of a request.
fn digest(request: &ChatRequest) -> Sha256 {
    let text = serde_json::to_vec(request).expect("texts and numbers have a JSON form");
    Sha256::of(&text)
}

/// Replays recorded answers; other requests are errors.
#[derive(Debug)]
pub struct ScriptedModel {
    identity: String,
    answers: Answers,
    has_tools: bool,
}

impl ScriptedModel {
    /// Reads a recording from a file.
    ///
    /// # Errors
    /// [`RecordingError`] if the recording is invalid.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let text = std::fs::read_to_string(path)
            .map_err(|cause| RecordingError::Read { path: path.into(), cause })?;
        Self::parse(&text)
    }

    /// Parses the text of a recording.
    ///
    /// # Errors
    /// [`RecordingError`] if the recording is invalid.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let identity = format!("scripted/sha256:{}", Sha256::of(text.as_bytes()));
        let Recording { answers, has_tools, .. } = Recording::parse(text)?;
        Ok(Self { identity, answers, has_tools })
    }
}

impl ChatModel for ScriptedModel {
    fn identity(&self) -> &str {
        &self.identity
    }

    /// Whether the recorded requests have tools.
    fn supports_tools(&self) -> bool {
        self.has_tools
    }

    fn answer_streaming(
        &self,
        request: &ChatRequest,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ChatAnswer, ChatError> {
        let digest = digest(request);
        let answer = self.answers.get(&digest).ok_or_else(|| ChatError::NotRecorded {
            what: format!("request `{digest}` of {} messages", request.messages.len()),
        })?;
        Ok(show_whole(answer.clone(), show))
    }
}

/// Shows the text in one piece.
fn show_whole(mut answer: ChatAnswer, show: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ChatAnswer {
    if !answer.text.is_empty() && show(&answer.text).is_break() {
        answer.finish = FinishReason::Stopped;
    }
    answer
}

/// Records the answers of another model. Recorded requests are not sent again.
///
/// A stopped answer is not recorded, because it is not the model's complete answer.
#[derive(Debug)]
pub struct Recorder<M> {
    model: M,
    path: PathBuf,
    kept: Mutex<(File, Answers)>,
}

fn open_and_read(path: &Path) -> io::Result<(File, String)> {
    let mut file = File::options().read(true).append(true).create(true).open(path)?;
    let text = io::read_to_string(&mut file)?;
    Ok((file, text))
}

impl<M: ChatModel> Recorder<M> {
    /// Opens the recording at `path` and appends to it.
    ///
    /// # Errors
    /// [`RecordingError`] if the file cannot be opened or is not a recording of this model.
    pub fn open(model: M, path: &Path) -> Result<Self, RecordingError> {
        let (mut file, text) = open_and_read(path)
            .map_err(|cause| RecordingError::Read { path: path.into(), cause })?;
        let Recording { answers, model: recorded, .. } = Recording::parse(&text)?;
        if let Some(found) = recorded.filter(|found| found != model.identity()) {
            let wanted = model.identity().to_owned();
            return Err(RecordingError::AnotherModel { found, wanted });
        }
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")
                .map_err(|cause| RecordingError::Read { path: path.into(), cause })?;
        }
        Ok(Self { model, path: path.into(), kept: Mutex::new((file, answers)) })
    }
}

impl<M: ChatModel> ChatModel for Recorder<M> {
    /// The identity of the model.
    fn identity(&self) -> &str {
        self.model.identity()
    }

    fn supports_tools(&self) -> bool {
        self.model.supports_tools()
    }

    fn answer_streaming(
        &self,
        request: &ChatRequest,
        show: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ChatAnswer, ChatError> {
        // Held while the model answers, so that the same request is not sent twice. A panic leaves no partial state.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, answers) = &mut *kept;
        let digest = digest(request);
        if let Some(answer) = answers.get(&digest) {
            return Ok(show_whole(answer.clone(), show));
        }
        let answer = self.model.answer_streaming(request, show)?;
        if answer.finish != FinishReason::Stopped {
            let line = Line {
                model: self.model.identity().to_owned(),
                request: request.clone(),
                answer: answer.clone(),
            };
            let mut text = serde_json::to_vec(&line).expect("texts and numbers have a JSON form");
            text.push(b'\n');
            file.write_all(&text)
                .and_then(|()| file.sync_data())
                .map_err(|cause| ChatError::Record { path: self.path.clone(), cause })?;
            answers.insert(digest, answer.clone());
        }
        Ok(answer)
    }
}
