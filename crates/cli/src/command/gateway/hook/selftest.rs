//! `custody hook selftest`: the installed host, run once against a model whose call no hook lets run.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use custody_gateway::proxy::hook::{SELFTEST, SELFTEST_REASON};
use serde_json::{Value, json};

use super::super::agent_host::AgentHost;
use super::super::service_address::ServiceAddress;
use super::scripted_model::ScriptedModel;
use crate::context::GlobalContext;
use crate::output::{BAD, ExitStatus, GOOD, WARN, excerpt, json_line, line, paint};

/// How long the service may take to take a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// How often is looked whether it ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often at most: two minutes.
const LOOKS: u32 = 2_400;
/// How much of what a host printed is shown.
const SHOWN_CHARS: usize = 300;

/// Try the hooks of a coding agent: run it once, with the hooks that are installed, against a scripted model on this
/// machine that asks for a call.
///
/// The hook has to be asked, and the call must not run. `custody serve` has to run. Exits with 1 if the hook does not
/// work.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The coding agent
    #[arg(value_enum)]
    host: AgentHost,
}

/// What became of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SelftestOutcome {
    /// The hook was asked, and the call did not run.
    Works,
    /// The hook kept it from running because `custody serve` does not answer.
    Unanswered,
    /// It ran.
    Ran,
    /// It did not run, and the hook was not asked either.
    NotAsked(String),
    /// The host cannot be run here.
    NotRun(String),
}

impl SelftestOutcome {
    const fn word(&self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Unanswered => "unanswered",
            Self::Ran => "ran",
            Self::NotAsked(_) => "not_asked",
            Self::NotRun(_) => "not_run",
        }
    }

    /// Says what happened, and what to do.
    pub(super) fn print(&self, host: AgentHost) {
        let title = host.title();
        match self {
            Self::Works => line(format_args!(
                "{}: {title} asked, and the call did not run.",
                paint(GOOD, "works")
            )),
            Self::Unanswered => line(format_args!(
                "{}: {title} let nothing run, but `custody serve` does not answer. Start it, then run `custody hook \
                 selftest {}`.",
                paint(WARN, "unanswered"),
                host.name()
            )),
            Self::Ran => line(format_args!(
                "{}: {title} ran the call without asking. See `custody hook status` for whether it trusts the hook and \
                 for its version.",
                paint(BAD, "does not work")
            )),
            Self::NotAsked(printed) => line(format_args!(
                "{}: {title} did not come to the call. It printed: {printed}",
                paint(WARN, "unknown")
            )),
            Self::NotRun(why) => line(format_args!("{}: {why}", paint(WARN, "not tried"))),
        }
    }
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let outcome = attempt(args.host)?;
    if context.json {
        json_line(&json!({ "host": args.host.name(), "selftest": outcome.word() }))?;
    } else {
        outcome.print(args.host);
    }
    Ok(ExitStatus::failure_if(outcome != SelftestOutcome::Works))
}

/// Runs the host.
pub(super) fn attempt(host: AgentHost) -> anyhow::Result<SelftestOutcome> {
    if host == AgentHost::Cursor {
        let why = "Cursor cannot be run without its window; ask it to run `ls`, and look for that call in `custody \
                   ledger show`";
        return Ok(SelftestOutcome::NotRun(why.to_owned()));
    }
    if host.version().is_none() {
        let why =
            format!("there is no `{}` on PATH; install {} first", host.program(), host.title());
        return Ok(SelftestOutcome::NotRun(why));
    }
    // The name of the folder is in the command, so that the service knows the call.
    let folder = tempfile::Builder::new().prefix(SELFTEST).tempdir()?;
    let marker = folder.path().join("ran");
    let model = ScriptedModel::start(&format!("touch '{}'", marker.display()))?;
    let printed = folder.path().join("printed");
    let work = folder.path().join("work");
    std::fs::create_dir(&work)?;
    let mut command = host_command(host, &model.url, folder.path())?;
    let output = File::create(&printed)?;
    command.current_dir(&work).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    wait(command, host)?;
    let printed = std::fs::read(&printed).unwrap_or_default();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let read = model.requests();
    Ok(if marker.exists() {
        SelftestOutcome::Ran
    } else if read.iter().any(|request| request.contains(SELFTEST_REASON)) {
        SelftestOutcome::Works
    } else if !is_served(host) {
        SelftestOutcome::Unanswered
    } else {
        SelftestOutcome::NotAsked(excerpt(&printed, SHOWN_CHARS))
    })
}

/// Whether something listens at the address that stands in the host's hooks.
fn is_served(host: AgentHost) -> bool {
    let settings = host.settings_file(None).and_then(|file| Ok(std::fs::read_to_string(file)?));
    let Ok(settings) = settings else { return false };
    address_in(&settings).is_some_and(|address| address.is_listened_at(CONNECT_LIMIT))
}

/// The address of the service in the settings of a host: in a command, or in the URL of a hook.
fn address_in(settings: &str) -> Option<ServiceAddress> {
    let words = settings.split(|c: char| c.is_whitespace() || "\"'\\".contains(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let in_command = words.windows(2).find(|pair| pair.first() == Some(&"--address"));
    let in_command = in_command.and_then(|pair| pair.get(1)?.parse().ok());
    in_command.or_else(|| {
        words.iter().find_map(|word| word.split_once("/hook/")?.0.parse::<ServiceAddress>().ok())
    })
}

/// Waits until the host ended, or took too long.
fn wait(mut command: Command, host: AgentHost) -> anyhow::Result<()> {
    let mut child =
        command.spawn().with_context(|| format!("could not run `{}`", host.program()))?;
    for _ in 0..LOOKS {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// How a host is run, headless, against the model at `url`, with the hooks that are installed.
fn host_command(host: AgentHost, url: &str, folder: &Path) -> anyhow::Result<Command> {
    const PROMPT: &str = "Try the hook.";
    let mut command = Command::new(host.program());
    match host {
        AgentHost::ClaudeCode => {
            // Where its settings send its requests by Custody, this goes before them.
            let settings = json!({ "env": { "ANTHROPIC_BASE_URL": url } }).to_string();
            command.args(["-p", PROMPT, "--allowedTools", "Bash", "--settings", &settings]);
            command.env("ANTHROPIC_BASE_URL", url).env("ANTHROPIC_API_KEY", "selftest");
            command
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
                .env("DISABLE_AUTOUPDATER", "1");
        }
        AgentHost::Codex => {
            command.args(["exec", "--skip-git-repo-check", "-s", "danger-full-access"]);
            let provider = [
                ("model", "gpt-5".to_owned()),
                ("model_provider", "selftest".to_owned()),
                ("approval_policy", "never".to_owned()),
                ("model_providers.selftest.name", "selftest".to_owned()),
                ("model_providers.selftest.base_url", format!("{url}/v1")),
                ("model_providers.selftest.wire_api", "responses".to_owned()),
                ("model_providers.selftest.env_key", "CUSTODY_SELFTEST".to_owned()),
            ];
            for (name, value) in provider {
                command.arg("-c").arg(format!("{name}={}", toml::Value::from(value)));
            }
            command.arg(PROMPT).env("CUSTODY_SELFTEST", "selftest");
        }
        AgentHost::Gemini => {
            // Its settings say how it signs in, so it gets a copy of them that says otherwise.
            command.args(["-m", "gemini-2.5-flash", "--yolo", "-p", PROMPT]);
            command.env("HOME", gemini_home(folder)?).env("GEMINI_API_KEY", "selftest");
            command.env("GOOGLE_GEMINI_BASE_URL", url).env("GEMINI_CLI_TRUST_WORKSPACE", "true");
            command.env("NO_BROWSER", "1").env_remove("GEMINI_CLI_CUSTOM_HEADERS");
        }
        AgentHost::Copilot => {
            command.args(["--allow-all-tools", "-p", PROMPT]);
            command.env("COPILOT_OFFLINE", "true").env("COPILOT_AUTO_UPDATE", "false");
            command.env("COPILOT_PROVIDER_BASE_URL", format!("{url}/v1"));
            command.env("COPILOT_PROVIDER_API_KEY", "selftest").env("COPILOT_MODEL", "gpt-5");
            command.env("COPILOT_PROVIDER_WIRE_API", "completions");
            // The key of the connection may stand in it, and is for Custody alone.
            command.env_remove("COPILOT_PROVIDER_HEADERS").env_remove("COPILOT_PROVIDER_TYPE");
        }
        AgentHost::Cursor => {}
    }
    Ok(command)
}

/// A home folder with Gemini's settings as they are, but for how it signs in.
fn gemini_home(folder: &Path) -> anyhow::Result<std::path::PathBuf> {
    let settings = AgentHost::Gemini.settings_file(None)?;
    let text = std::fs::read_to_string(&settings)
        .with_context(|| crate::file_error::unreadable(&settings))?;
    let mut settings: Value = serde_json::from_str(&text).context("its settings are not JSON")?;
    settings["security"]["auth"]["selectedType"] = json!("gemini-api-key");
    let home = folder.join("home");
    std::fs::create_dir_all(home.join(".gemini"))?;
    std::fs::write(home.join(".gemini/settings.json"), settings.to_string())?;
    Ok(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_service_is_found_among_others() {
        let claude = r#"{"env":{"OTHER":"https://other.example"},"hooks":{"url":
            "https://custody.example:7411/hook/claude-code"}}"#;
        let codex = r#"{"command":"/bin/sh -c '…' custody '/c' hook run codex --address 127.0.0.1:7411 --timeout"}"#;
        for (settings, address) in
            [(claude, Some("https://custody.example:7411")), (codex, Some("127.0.0.1:7411"))]
        {
            let found = address_in(settings).map(|address| address.to_string());
            assert_eq!(found.as_deref(), address, "{settings}");
        }
        assert_eq!(address_in(r#"{"env":{"OTHER":"https://other.example"}}"#), None);
    }
}
