//! What Claude Code needs in its settings: where its requests go, and its hooks. These ask by HTTP, since only such a
//! hook blocks a call whatever goes wrong.
//!
//! Source: Claude Code documentation, "Settings" and "Hooks"
//! (<https://docs.anthropic.com/en/docs/claude-code/hooks>).

use anyhow::{Context as _, ensure};
use custody_gateway::proxy::hook::HookHost;
use serde_json::{Map, Value, json};

use super::agent_host::AgentHost;
use super::connect::Surface;
use super::hook_command::{HookRoute, TIMEOUT_S, hook_command};
use super::hook_settings::{handler, object};

/// The first version whose hooks block when they cannot be asked. Older ones ignore that without a word.
const BLOCKS_SINCE: [u64; 3] = [2, 1, 295];

/// Fails if the Claude Code on `PATH` lets calls run when its hooks cannot be asked. Whether there is one.
pub(super) fn check_version() -> anyhow::Result<bool> {
    let version = AgentHost::ClaudeCode.version().and_then(|text| version(&text));
    let Some(version) = version else { return Ok(false) };
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

/// The variable with a file of roots that it believes besides its own.
const ROOTS: &str = "NODE_EXTRA_CA_CERTS";

/// The settings of the host, changed so that its requests and hooks come by `route` with `key`. The roots that it names
/// are believed, too.
pub(super) fn changed(
    before: Option<&str>,
    route: HookRoute<'_>,
    key: &str,
    surface: Surface,
) -> anyhow::Result<String> {
    let mut settings: Map<String, Value> = match before {
        None => Map::new(),
        Some(text) => serde_json::from_str(text).context("it is not JSON with names and values")?,
    };
    let base_url = route.address.base_url();
    if let Some(ca) = route.ca {
        let ca = ca.to_str().context("the path of the roots is not UTF-8")?;
        let before = object(&mut settings, "env")?.insert(ROOTS.to_owned(), ca.into());
        ensure!(
            before.is_none_or(|before| before == ca),
            "`env.{ROOTS}` names another file; add the root to that one, and leave --ca out"
        );
    }
    if surface.has_proxy() {
        let env = object(&mut settings, "env")?;
        env.insert("ANTHROPIC_BASE_URL".into(), format!("{base_url}/anthropic").into());
        env.insert("ANTHROPIC_CUSTOM_HEADERS".into(), format!("x-custody-key: {key}").into());
    }
    if surface.has_hook() {
        let hooks = object(&mut settings, "hooks")?;
        for event in HookHost::ClaudeCode.events() {
            let handler = if HookHost::ClaudeCode.asks_by_http(event) {
                asking(&base_url, key)
            } else {
                // It blocks nothing: a conversation whose beginning was not reported begins with something untrusted.
                handler(HookHost::ClaudeCode, &hook_command(HookHost::ClaudeCode, event, route)?)
            };
            let handlers = hooks.entry(*event).or_insert_with(|| json!([]));
            let handlers = handlers.as_array_mut();
            let handlers = handlers.with_context(|| format!("`hooks.{event}` is no list"))?;
            handlers.push(handler);
        }
    }
    Ok(format!("{:#}\n", Value::Object(settings)))
}

/// A hook that blocks what it asks about when Custody does not answer.
fn asking(base_url: &str, key: &str) -> Value {
    json!({ "matcher": "*", "hooks": [{
        "type": "http",
        "url": format!("{base_url}/hook/claude-code"),
        "headers": { "x-custody-key": key },
        "timeout": TIMEOUT_S,
        "onFailure": "block",
    }] })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn versions_are_compared_number_by_number() {
        assert_eq!(version("2.1.331 (Claude Code)\n"), Some([2, 1, 331]));
        assert!(version("2.1.1000") > Some(BLOCKS_SINCE) && version("2.1.99") < Some(BLOCKS_SINCE));
        assert_eq!([version(""), version("2.1"), version("two.1.3")], [None; 3]);
    }

    #[test]
    fn what_was_there_stays() {
        let before = "{\"hooks\": {\"Stop\": [{\"hooks\": []}]}, \"model\": \"opus\"}";
        let (program, key_file) = (Path::new("/bin/custody"), Path::new("/keys/it.key"));
        let address = &"127.0.0.1:7411".parse().unwrap();
        let route = HookRoute { program, key_file, address, ca: None };
        let text = changed(Some(before), route, "custody_x", Surface::Both).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["model"], "opus");
        assert_eq!(value["hooks"]["Stop"].as_array().map(Vec::len), Some(2));
        assert_eq!(value["env"]["ANTHROPIC_BASE_URL"], "http://127.0.0.1:7411/anthropic");
        let kind = |event: &str| value["hooks"][event][0]["hooks"][0]["type"].clone();
        assert_eq!((kind("SessionStart"), kind("PreToolUse")), ("command".into(), "http".into()));
    }

    #[test]
    fn over_https_the_roots_are_named_and_those_of_others_are_not_replaced() {
        let (program, key_file) = (Path::new("/bin/custody"), Path::new("/keys/it.key"));
        let address = &"https://custody.example:7411".parse().unwrap();
        let route = HookRoute { program, key_file, address, ca: Some(Path::new("/root.pem")) };
        let text = changed(None, route, "custody_x", Surface::Both).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["env"][ROOTS], "/root.pem");
        assert_eq!(value["env"]["ANTHROPIC_BASE_URL"], "https://custody.example:7411/anthropic");
        let hook = &value["hooks"]["PreToolUse"][0]["hooks"][0];
        assert_eq!(hook["url"], "https://custody.example:7411/hook/claude-code");
        let others = json!({ "env": { ROOTS: "/other.pem" } }).to_string();
        let refused = changed(Some(&others), route, "custody_x", Surface::Hook).unwrap_err();
        assert!(refused.to_string().contains("names another file"), "{refused}");
    }
}
