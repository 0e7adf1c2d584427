//! The hosts whose hooks are answered, and what each is told.
//!
//! There is no answer that all of them understand. What each takes for a denial was measured with the programs
//! themselves: docs/reference/gateway.md, "Hooks".

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::{EventKind, HookEvent};
use super::{HookAnswer, HookError, claude_code, codex, copilot, cursor, gemini};
use crate::proxy::instruction_files::is_instruction_file;

/// A coding agent with hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookHost {
    /// Anthropic's Claude Code.
    ClaudeCode,
    /// OpenAI's Codex.
    Codex,
    /// Google's Gemini CLI.
    Gemini,
    /// GitHub's Copilot CLI.
    Copilot,
    /// Cursor, the editor.
    Cursor,
}

/// When an event comes, which is all that an answer depends on besides what was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before a prompt goes to the model.
    Prompt,
    /// Before a call runs.
    BeforeCall,
    /// After a call ran.
    AfterCall,
    /// When nothing can be kept from happening.
    Report,
}

impl Moment {
    pub(super) fn of(kind: &EventKind) -> Self {
        match kind {
            EventKind::Prompt { .. } => Self::Prompt,
            EventKind::BeforeCall { .. } => Self::BeforeCall,
            EventKind::AfterCall { .. } => Self::AfterCall,
            EventKind::Start { .. }
            | EventKind::Instructions { .. }
            | EventKind::Stop { .. }
            | EventKind::Other => Self::Report,
        }
    }
}

/// What the program that a host runs for its hook does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookOutput {
    /// The exit code.
    pub exit_code: u8,
    /// The text on standard output.
    pub stdout: String,
    /// The text on standard error.
    pub stderr: String,
}

impl HookOutput {
    /// Exit code 2 with the reason on standard error, which every host but a few events takes for a denial. Without a
    /// reason some let the call run.
    pub(super) fn denial(reason: &str) -> Self {
        Self { exit_code: 2, stdout: String::new(), stderr: format!("{}\n", one_line(reason)) }
    }

    /// JSON on standard output.
    pub(super) fn json(value: &Value) -> Self {
        Self { stdout: format!("{value}\n"), ..Self::default() }
    }
}

/// A reason without line breaks, and never empty.
pub(super) fn one_line(reason: &str) -> String {
    let words: Vec<&str> = reason.split_whitespace().collect();
    if words.is_empty() { "denied by Custody".to_owned() } else { words.join(" ") }
}

impl HookHost {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::Copilot, Self::Cursor];

    /// Its name in addresses and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Copilot => "copilot",
            Self::Cursor => "cursor",
        }
    }

    /// The host of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }

    /// The folder, below the home folder and in projects, with its settings and memory.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::ClaudeCode => ".claude",
            Self::Codex => ".codex",
            Self::Gemini => ".gemini",
            Self::Copilot => ".copilot",
            Self::Cursor => ".cursor",
        }
    }

    /// The events that Custody's hook is installed for, as the host names them.
    pub const fn events(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &claude_code::EVENTS,
            Self::Codex => &codex::EVENTS,
            Self::Gemini => &gemini::EVENTS,
            Self::Copilot => &copilot::EVENTS,
            Self::Cursor => &cursor::EVENTS,
        }
    }

    /// Whether its user can be asked about a call in a dialog of its own. The others are told to ask again after an
    /// approval.
    pub const fn can_ask(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Copilot => true,
            Self::Codex | Self::Gemini | Self::Cursor => false,
        }
    }

    /// Whether it reports that a conversation begins, so that one whose beginning was not seen can be told.
    pub(super) const fn reports_start(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Copilot => true,
            Self::Cursor => false,
        }
    }

    /// Whether its hook of `event` is a request of its own. Of every other one it is a program.
    pub fn asks_by_http(self, event: &str) -> bool {
        self == Self::ClaudeCode && event != claude_code::START
    }

    /// Whether it takes the file at `path` for instructions when it works in `folder`: one of its user's, or one in
    /// that folder or above.
    pub(super) fn loads(self, path: &str, folder: Option<&str>) -> bool {
        let (path, folder) = (Path::new(path), folder.map(Path::new));
        let is_markdown =
            path.extension().is_some_and(|extension| extension == "md" || extension == "mdc");
        let named = path.to_str().is_some_and(is_instruction_file);
        let is_users = path.components().any(|part| part.as_os_str() == self.folder());
        let parent = path.parent();
        let is_above =
            folder.zip(parent).is_some_and(|(folder, parent)| folder.starts_with(parent));
        named && (is_above || (is_users && is_markdown))
    }

    /// Reads an event. `name` is the event's where the report does not hold it.
    pub(super) fn parse(self, name: Option<&str>, body: &[u8]) -> Result<HookEvent, HookError> {
        // Some programs put a byte order mark before what they write.
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        match self {
            Self::ClaudeCode => claude_code::parse(body),
            Self::Codex => codex::parse(body),
            Self::Gemini => gemini::parse(body),
            Self::Copilot => copilot::parse(name, body),
            Self::Cursor => cursor::parse(body),
        }
    }

    /// What a hook that is a program does to give an answer.
    pub(super) fn output(self, moment: Moment, answer: &HookAnswer) -> HookOutput {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Gemini => plain(answer),
            Self::Copilot => copilot::output(answer),
            Self::Cursor => cursor::output(moment, answer),
        }
    }

    /// What a hook that is a program does when no answer can be had for the event `event`: nothing goes on. At the
    /// end of a turn there is nothing to keep from happening, and a denial would begin another turn.
    pub fn failed(self, event: &str, reason: &str) -> HookOutput {
        let moment = match self {
            Self::ClaudeCode => claude_code::moment(event),
            Self::Codex => codex::moment(event),
            Self::Gemini => gemini::moment(event),
            Self::Copilot => copilot::moment(event),
            Self::Cursor => cursor::moment(event),
        };
        match (self, moment) {
            (_, Moment::Report) => HookOutput { exit_code: 0, ..HookOutput::denial(reason) },
            (Self::Copilot, Moment::Prompt) => {
                copilot::output(&HookAnswer::BlockPrompt(reason.to_owned()))
            }
            (Self::Copilot, Moment::AfterCall) => copilot::withheld(reason),
            (Self::Cursor, _) => {
                let answer = match moment {
                    Moment::Prompt => HookAnswer::BlockPrompt(reason.to_owned()),
                    Moment::BeforeCall | Moment::AfterCall | Moment::Report => {
                        HookAnswer::Deny(reason.to_owned())
                    }
                };
                let stdout = cursor::output(moment, &answer).stdout;
                HookOutput { stdout, ..HookOutput::denial(reason) }
            }
            (
                Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Copilot,
                Moment::Prompt | Moment::BeforeCall | Moment::AfterCall,
            ) => HookOutput::denial(reason),
        }
    }
}

/// An answer in the form that most hosts take: silence, or a denial.
fn plain(answer: &HookAnswer) -> HookOutput {
    match answer {
        HookAnswer::Nothing => HookOutput::default(),
        HookAnswer::Deny(reason) | HookAnswer::Ask(reason) | HookAnswer::BlockPrompt(reason) => {
            HookOutput::denial(reason)
        }
    }
}
