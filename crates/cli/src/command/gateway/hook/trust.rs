//! Whether a host runs the hooks that stand in its settings.
//!
//! Codex runs a hook only after its user trusted just this definition, and says nothing of one that it leaves out. It
//! tells a program that asks.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::super::agent_host::AgentHost;
use super::super::changed_files::{ChangedFile, ChangedFiles};
use super::super::connection::kept;
use crate::context::GlobalContext;
use crate::output::{line, note};

/// How long Codex may take to say what it trusts.
const LIMIT: Duration = Duration::from_secs(20);

/// Whether a host runs Custody's hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum HookTrust {
    /// It does.
    Trusted,
    /// It does not until its user trusts them: each hook that is not, with the hash of its definition.
    Untrusted(Vec<(String, String)>),
    /// Nobody here can tell.
    Unknown(&'static str),
}

impl HookTrust {
    /// A word for it.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Untrusted(_) => "untrusted",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Says what is left to do for the host to run them.
    pub(in super::super) fn print(&self) {
        match self {
            Self::Trusted => {}
            Self::Untrusted(_) => line(
                "Codex does not run them yet, and says nothing about it: open it, type /hooks and trust them, or \
                 install with --trust.",
            ),
            Self::Unknown(why) => note(why),
        }
    }
}

/// Whether `host` runs the hooks of the connection `name`, after they were trusted if `wants_trust`.
///
/// # Errors
/// When Codex's settings cannot be changed.
pub(in super::super) fn ensure(
    context: &GlobalContext,
    (host, name): (AgentHost, &str),
    (file, project): (&Path, Option<&Path>),
    wants_trust: bool,
) -> anyhow::Result<HookTrust> {
    let trust = of(host, file, project);
    let (HookTrust::Untrusted(hooks), true) = (&trust, wants_trust) else { return Ok(trust) };
    let kept = kept(context, name);
    let changed = ChangedFiles::load(&kept)?.context("nothing was installed")?;
    changed.add(&kept, codex_trust(hooks)?)?;
    Ok(of(host, file, project))
}

/// Whether `host` runs the hooks in `file`.
pub(super) fn of(host: AgentHost, file: &Path, project: Option<&Path>) -> HookTrust {
    match (host, project) {
        (AgentHost::Codex, _) => codex(file, project).unwrap_or(HookTrust::Unknown(
            "Codex did not say which hooks it trusts; open it and type /hooks",
        )),
        (AgentHost::Copilot | AgentHost::ClaudeCode | AgentHost::Gemini, Some(_)) => {
            HookTrust::Unknown("the hooks of a project run once its folder is trusted")
        }
        (AgentHost::Cursor, _) => HookTrust::Unknown("Cursor does not say which hooks it runs"),
        // Hooks of the user need no trust there.
        (AgentHost::Copilot | AgentHost::ClaudeCode | AgentHost::Gemini, None) => {
            HookTrust::Trusted
        }
    }
}

/// Asks Codex which hooks of `file` it trusts.
fn codex(file: &Path, project: Option<&Path>) -> anyhow::Result<HookTrust> {
    let folder = match project {
        Some(project) => project.to_owned(),
        None => std::env::current_dir()?,
    };
    let listed = listed_hooks(&folder)?;
    let hooks = listed["data"].as_array().context("no list")?.iter();
    let hooks: Vec<&Value> =
        hooks.filter_map(|entry| entry["hooks"].as_array()).flatten().collect();
    let file = file.to_string_lossy();
    let ours = hooks.iter().filter(|hook| {
        let command = hook["command"].as_str().unwrap_or_default();
        command.contains("hook run codex")
            && hook["key"].as_str().is_some_and(|key| key.starts_with(&*file))
    });
    let (mut count, mut untrusted) = (0, Vec::new());
    for hook in ours {
        count += 1;
        let is_trusted = matches!(hook["trustStatus"].as_str(), Some("trusted" | "managed"));
        if !is_trusted || hook["enabled"] == false {
            untrusted.push((text(hook, "key"), text(hook, "currentHash")));
        }
    }
    ensure!(count > 0, "Codex lists none of them");
    Ok(if untrusted.is_empty() { HookTrust::Trusted } else { HookTrust::Untrusted(untrusted) })
}

fn text(hook: &Value, field: &str) -> String {
    hook[field].as_str().unwrap_or_default().to_owned()
}

/// What Codex answers to `hooks/list`.
fn listed_hooks(folder: &Path) -> anyhow::Result<Value> {
    let mut command = Command::new(AgentHost::Codex.program());
    command.arg("app-server").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().context("could not run `codex`")?;
    let asked = server.stdin.take().context("no way in").and_then(|mut input| {
        let client =
            json!({ "name": "custody", "title": "Custody", "version": env!("CARGO_PKG_VERSION") });
        for request in [
            json!({ "id": 1, "method": "initialize", "params": { "clientInfo": client } }),
            json!({ "method": "initialized" }),
            json!({ "id": 2, "method": "hooks/list", "params": { "cwds": [folder] } }),
        ] {
            writeln!(input, "{request}")?;
        }
        Ok(input)
    });
    let (sender, receiver) = mpsc::channel();
    if let Some(output) = server.stdout.take() {
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            let mut answers = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
            sender.send(answers.find(|answer| answer["id"] == 2))
        });
    }
    let answer = asked.and_then(|_input| Ok(receiver.recv_timeout(LIMIT)?));
    // It has nothing left to do.
    drop(server.kill());
    drop(server.wait());
    Ok(answer?.context("no answer")?["result"].take())
}

/// The change of Codex's settings that trusts hooks: lines at the end, so that the rest stays byte for byte.
fn codex_trust(hooks: &[(String, String)]) -> anyhow::Result<ChangedFile> {
    let file = AgentHost::Codex.folder()?.join("config.toml");
    let trusted = hooks.iter().map(|(key, hash)| {
        let (key, hash) = (toml::Value::from(key.as_str()), toml::Value::from(hash.as_str()));
        format!("\n[hooks.state.{key}]\ntrusted_hash = {hash}\n")
    });
    ChangedFile::append(&file, &trusted.collect::<String>(), |text| {
        toml::from_str::<toml::Table>(text).context("it holds another trust of these hooks")?;
        Ok(())
    })
}
