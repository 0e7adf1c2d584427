//! The one change that Claude Code needs: its settings file, and that file as it was before.
//!
//! Source: Claude Code documentation, "Settings" and "Hooks"
//! (<https://docs.anthropic.com/en/docs/claude-code/hooks>).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value, json};

use super::connect::Surface;
use super::whole_file;

/// The version that this was tested with.
pub(super) const TESTED_WITH: &str = "2.1.331";

/// The events that the hooks report or ask about.
const EVENTS: [&str; 6] = [
    "UserPromptSubmit",
    "InstructionsLoaded",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
];

/// How long a hook may take, in seconds, before the host blocks what it asked about.
const TIMEOUT_S: u64 = 30;

/// The first version whose hooks block when they cannot be asked. Older ones ignore that without a word.
const BLOCKS_SINCE: [u64; 3] = [2, 1, 295];

/// Fails if the Claude Code on `PATH` lets calls run when its hooks cannot be asked. Whether there is one.
pub(super) fn check_version() -> anyhow::Result<bool> {
    let Ok(output) = std::process::Command::new("claude").arg("--version").output() else {
        return Ok(false);
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some(version) = version(&text) else { return Ok(false) };
    let [major, minor, patch] = version;
    ensure!(
        version >= BLOCKS_SINCE,
        "Claude Code {major}.{minor}.{patch} runs calls when its hooks cannot be asked; update it to 2.1.295 or newer, or \
         use --surface proxy"
    );
    Ok(true)
}

/// The version in `2.1.331 (Claude Code)`.
fn version(text: &str) -> Option<[u64; 3]> {
    let mut numbers = text.split_whitespace().next()?.split('.').map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// The settings of the user that `HOME` is of.
pub(super) fn settings_file() -> anyhow::Result<PathBuf> {
    let home = etcetera::home_dir().context("could not find the home folder; set HOME")?;
    Ok(home.join(".claude").join("settings.json"))
}

/// The settings of the host, changed so that its requests and hooks come to `address` with `key`.
pub(super) fn changed(
    before: Option<&str>,
    address: SocketAddr,
    key: &str,
    surface: Surface,
) -> anyhow::Result<String> {
    let mut settings: Map<String, Value> = match before {
        None => Map::new(),
        Some(text) => serde_json::from_str(text).context("it is not JSON with names and values")?,
    };
    if surface.has_proxy() {
        let env = object(&mut settings, "env")?;
        env.insert("ANTHROPIC_BASE_URL".into(), format!("http://{address}/anthropic").into());
        env.insert("ANTHROPIC_CUSTOM_HEADERS".into(), format!("x-custody-key: {key}").into());
    }
    if surface.has_hook() {
        let hooks = object(&mut settings, "hooks")?;
        for event in EVENTS {
            let handlers = hooks.entry(event).or_insert_with(|| json!([]));
            let handlers = handlers.as_array_mut();
            let handlers = handlers.with_context(|| format!("`hooks.{event}` is no list"))?;
            handlers.push(handler(address, key));
        }
    }
    Ok(format!("{:#}\n", Value::Object(settings)))
}

/// A hook that blocks what it asks about when Custody does not answer.
fn handler(address: SocketAddr, key: &str) -> Value {
    json!({ "matcher": "*", "hooks": [{
        "type": "http",
        "url": format!("http://{address}/hook/claude-code"),
        "headers": { "x-custody-key": key },
        "timeout": TIMEOUT_S,
        "onFailure": "block",
    }] })
}

fn object<'a>(
    settings: &'a mut Map<String, Value>,
    name: &str,
) -> anyhow::Result<&'a mut Map<String, Value>> {
    let value = settings.entry(name).or_insert_with(|| json!({}));
    value.as_object_mut().with_context(|| format!("`{name}` has no names and values"))
}

/// Fails if settings were changed already and are kept at `kept`.
pub(super) fn ensure_unchanged(kept: &Path) -> anyhow::Result<()> {
    ensure!(
        !kept.exists(),
        "Claude Code is connected already; run `custody connect claude-code --undo` first"
    );
    Ok(())
}

/// Writes the changed settings, and keeps what was there at `kept`.
pub(super) fn write(file: &Path, kept: &Path, text: &str) -> anyhow::Result<()> {
    ensure_unchanged(kept)?;
    let before = std::fs::read(file).ok();
    let kept_now = json!({
        "before": before.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()), "after": text
    });
    whole_file::write(kept, kept_now.to_string().as_bytes())?;
    // The key of the connection is in it.
    whole_file::write(file, text.as_bytes())
}

/// Puts the settings back as they were. Fails if somebody changed them since.
pub(super) fn undo(file: &Path, kept: &Path) -> anyhow::Result<()> {
    let shown = file.display();
    let text = std::fs::read_to_string(kept).with_context(|| "Claude Code is not connected")?;
    let state: Value = serde_json::from_str(&text)?;
    let now = std::fs::read_to_string(file).unwrap_or_default();
    ensure!(
        state["after"] == now,
        "`{shown}` was changed since; take the lines with `custody` and `127.0.0.1` out of it, and remove `{}`",
        kept.display()
    );
    match state["before"].as_str() {
        Some(before) => whole_file::write(file, before.as_bytes())?,
        None => {
            std::fs::remove_file(file).with_context(|| format!("could not remove `{shown}`"))?;
        }
    }
    std::fs::remove_file(kept).with_context(|| format!("could not remove `{}`", kept.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_number_by_number() {
        assert_eq!(version("2.1.331 (Claude Code)\n"), Some([2, 1, 331]));
        assert!(version("2.1.1000") > Some(BLOCKS_SINCE) && version("2.1.99") < Some(BLOCKS_SINCE));
        assert_eq!([version(""), version("2.1"), version("two.1.3")], [None; 3]);
    }

    #[test]
    fn what_was_there_stays_and_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let (file, kept) = (folder.path().join("a/settings.json"), folder.path().join("b/kept"));
        let before = "{\"hooks\": {\"Stop\": [{\"hooks\": []}]}, \"model\": \"opus\"}";
        let address = "127.0.0.1:7411".parse().unwrap();
        let text = changed(Some(before), address, "custody_x", Surface::Both).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["model"], "opus");
        assert_eq!(value["hooks"]["Stop"].as_array().map(Vec::len), Some(2));
        assert_eq!(value["env"]["ANTHROPIC_BASE_URL"], "http://127.0.0.1:7411/anthropic");

        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, before).unwrap();
        write(&file, &kept, &text).unwrap();
        assert!(write(&file, &kept, &text).is_err(), "not twice");
        std::fs::write(&file, "{}").unwrap();
        assert!(undo(&file, &kept).is_err(), "somebody changed it");
        std::fs::write(&file, &text).unwrap();
        undo(&file, &kept).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before);

        std::fs::remove_file(&file).unwrap();
        write(&file, &kept, &text).unwrap();
        undo(&file, &kept).unwrap();
        assert!(!file.exists());
    }
}
