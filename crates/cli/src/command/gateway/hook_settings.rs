//! What stands in a host's settings for its hooks to run Custody's program.
//!
//! Sources: the hosts' documentation of their hooks; the shapes were tried with the versions that [`AgentHost`] names.

use anyhow::Context as _;
use custody_gateway::proxy::hook::HookHost;
use serde_json::{Map, Value, json};

use super::agent_host::AgentHost;
use super::hook_command::{HookRoute, TIMEOUT_S, hook_command};

/// The settings of a host, with Custody's hooks added.
///
/// # Errors
/// When what stood there is not understood.
pub(super) fn with_hooks(
    host: AgentHost,
    before: Option<&str>,
    route: HookRoute<'_>,
) -> anyhow::Result<String> {
    let hook = host.hook();
    let mut settings: Map<String, Value> = match before {
        None => Map::new(),
        Some(text) => serde_json::from_str(text).context("it is not JSON with names and values")?,
    };
    if matches!(host, AgentHost::Copilot | AgentHost::Cursor) {
        settings.entry("version").or_insert_with(|| json!(1));
    }
    let hooks = object(&mut settings, "hooks")?;
    for event in hook.events() {
        let handlers = hooks.entry(*event).or_insert_with(|| json!([]));
        let handlers = handlers.as_array_mut();
        let handlers = handlers.with_context(|| format!("`hooks.{event}` is no list"))?;
        handlers.push(handler(hook, &hook_command(hook, event, route)?));
    }
    Ok(format!("{:#}\n", Value::Object(settings)))
}

/// What runs `command` for a hook of `host`.
pub(super) fn handler(host: HookHost, command: &str) -> Value {
    match host {
        HookHost::ClaudeCode | HookHost::Codex => json!({ "hooks": [
            { "type": "command", "command": command, "timeout": TIMEOUT_S }
        ] }),
        // In milliseconds.
        HookHost::Gemini => json!({ "matcher": "*", "hooks": [
            { "type": "command", "name": "custody", "command": command, "timeout": TIMEOUT_S * 1000 }
        ] }),
        HookHost::Copilot => json!({ "type": "command", "bash": command, "timeoutSec": TIMEOUT_S }),
        HookHost::Cursor => json!({ "command": command, "timeout": TIMEOUT_S, "failClosed": true }),
    }
}

/// The object `name` in settings, made if there is none.
pub(super) fn object<'a>(
    settings: &'a mut Map<String, Value>,
    name: &str,
) -> anyhow::Result<&'a mut Map<String, Value>> {
    let value = settings.entry(name).or_insert_with(|| json!({}));
    value.as_object_mut().with_context(|| format!("`{name}` has no names and values"))
}
