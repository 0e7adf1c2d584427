//! The coding agents that Custody installs hooks into, and where each keeps its settings.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use custody_gateway::proxy::hook::HookHost;

/// A coding agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AgentHost {
    /// Anthropic's coding agent
    ClaudeCode,
    /// OpenAI's
    Codex,
    /// Google's
    Gemini,
    /// GitHub's
    Copilot,
    /// The editor
    Cursor,
}

impl AgentHost {
    /// All of them.
    pub(super) const ALL: [Self; 5] =
        [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::Copilot, Self::Cursor];

    /// The host whose hooks it has.
    pub(super) const fn hook(self) -> HookHost {
        match self {
            Self::ClaudeCode => HookHost::ClaudeCode,
            Self::Codex => HookHost::Codex,
            Self::Gemini => HookHost::Gemini,
            Self::Copilot => HookHost::Copilot,
            Self::Cursor => HookHost::Cursor,
        }
    }

    /// Its name on the command line.
    pub(super) const fn name(self) -> &'static str {
        self.hook().name()
    }

    /// Its vendor's name for it.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Copilot => "Copilot CLI",
            Self::Cursor => "Cursor",
        }
    }

    /// The program that runs it.
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Copilot => "copilot",
            Self::Cursor => "cursor",
        }
    }

    /// The version that its hooks were tested with; none if it was never run.
    pub(super) const fn tested_with(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some("2.1.331"),
            Self::Codex => Some("0.169.0"),
            Self::Gemini => Some("0.61.0"),
            Self::Copilot => Some("1.0.102"),
            Self::Cursor => None,
        }
    }

    /// The version of the program on `PATH`, as it prints it.
    pub(super) fn version(self) -> Option<String> {
        let output = std::process::Command::new(self.program()).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // The version is the first word that begins with a digit, whatever stands around it.
        let mut words = text.split_whitespace();
        let version = words.find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
        Some(version.trim_end_matches('.').to_owned())
    }

    /// The folder of its user's settings.
    pub(super) fn folder(self) -> anyhow::Result<PathBuf> {
        let named = match self {
            Self::Codex => std::env::var_os("CODEX_HOME"),
            Self::Copilot => std::env::var_os("COPILOT_HOME"),
            Self::ClaudeCode => std::env::var_os("CLAUDE_CONFIG_DIR"),
            Self::Gemini | Self::Cursor => None,
        };
        if let Some(folder) = named.filter(|folder| !folder.is_empty()) {
            return Ok(folder.into());
        }
        let home = etcetera::home_dir().context("could not find the home folder; set HOME")?;
        Ok(home.join(self.hook().folder()))
    }

    /// Whether its requests can come by Custody.
    pub(super) const fn has_proxy(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Copilot => true,
            Self::Cursor => false,
        }
    }

    /// Whether its requests name their conversation, by the name that its hooks give it.
    pub(super) const fn names_conversations(self) -> bool {
        match self {
            Self::ClaudeCode | Self::Codex => true,
            Self::Gemini | Self::Copilot | Self::Cursor => false,
        }
    }

    /// Whether its hooks stand in a file of that name.
    pub(super) fn keeps_hooks_in(self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        matches!(
            (self, name),
            (Self::ClaudeCode, Some("settings.json" | "settings.local.json"))
                | (Self::Codex | Self::Cursor, Some("hooks.json"))
                | (Self::Gemini, Some("settings.json"))
                | (Self::Copilot, Some("custody.json"))
        )
    }

    /// The file with its hooks: the user's, or that of a project.
    pub(super) fn settings_file(self, project: Option<&Path>) -> anyhow::Result<PathBuf> {
        let folder = match (self, project) {
            (_, None) => self.folder()?,
            (Self::Copilot, Some(project)) => project.join(".github"),
            (Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Cursor, Some(project)) => {
                project.join(self.hook().folder())
            }
        };
        Ok(match (self, project) {
            // The shared file of a project would give everybody the key.
            (Self::ClaudeCode, Some(_)) => folder.join("settings.local.json"),
            (Self::ClaudeCode, None) | (Self::Gemini, _) => folder.join("settings.json"),
            (Self::Codex | Self::Cursor, _) => folder.join("hooks.json"),
            (Self::Copilot, _) => folder.join("hooks").join("custody.json"),
        })
    }
}
