//! `custody`, set up as its users do: a store, two connections that guard, and the service.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pty_process::blocking::Pty;
use serde::Deserialize;
use tempfile::TempDir;

use super::child::ChildProgram;
use super::load::Target;
use super::service_log::ServiceLog;
use super::texts::TOOLS;
use crate::error::EvalError;
use crate::stopwatch::Stopwatch;

/// The owner's passphrase, of a store that lasts as long as the measurement.
const PASSPHRASE: &str = "nine quiet readers renew the harbour";
/// What a prompt ends with.
const PROMPTS: [&str; 2] = [": ", "[y/N] "];
/// What the key of a connection begins with.
const KEY_START: &str = "custody_";

/// A running service with a store of its own.
pub(super) struct Product {
    service: ChildProgram,
    pub(super) log: ServiceLog,
    /// Chat completions.
    pub(super) chat: Target,
    /// The hooks of a coding agent.
    pub(super) hook: Target,
    /// The hooks of another one, which are a program.
    pub(super) hook_program: HookProgram,
    pub(super) version: String,
    /// Removed last.
    _home: TempDir,
}

/// The program that a coding agent starts for its hook.
pub(super) struct HookProgram {
    program: PathBuf,
    key_file: PathBuf,
    listen: String,
}

impl HookProgram {
    /// Starts it for a call and waits for its answer, which has to let the call run. Returns the microseconds.
    pub(super) fn ask(&self, event: &[u8]) -> Result<f64, EvalError> {
        let mut command = Command::new(&self.program);
        command.args(["hook", "run", "codex", "--event", "PreToolUse", "--key"]);
        command.arg(&self.key_file).args(["--address", &self.listen]).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let watch = Stopwatch::start();
        let failed = EvalError::file(&self.program);
        let answered = command.spawn().and_then(|mut child| {
            // Dropped after that, so that the program reads to the end of the event.
            child.stdin.take().map_or(Ok(()), |mut input| input.write_all(event))?;
            child.wait_with_output()
        });
        let Output { status, stderr, .. } = answered.map_err(failed)?;
        let us = watch.seconds() * 1e6;
        if status.success() {
            return Ok(us);
        }
        let said = String::from_utf8_lossy(&stderr).trim().to_owned();
        Err(EvalError::Setup(format!("`custody hook run` did not let a call run: {said}")))
    }
}

/// What `custody connect openai --json` prints.
#[derive(Debug, Deserialize)]
struct Connected {
    base_url: String,
    key: String,
}

impl Product {
    /// Makes a store, connects to `upstream` and serves.
    pub(super) fn start(program: &Path, upstream: &str) -> Result<Self, EvalError> {
        let home = tempfile::tempdir().map_err(EvalError::file("the temporary folder"))?;
        let user = User { program, home: home.path() };
        let version = user.run(&["--version"])?.trim().to_owned();
        user.run(&["init"])?;
        let tools = home.path().join("tools.toml");
        fs::write(&tools, TOOLS).map_err(EvalError::file(&tools))?;
        let listen = format!("127.0.0.1:{}", free_port()?);
        let tools = tools.to_string_lossy().into_owned();
        let connected = user.run(&[
            "connect",
            "openai",
            "--no-wait",
            "--json",
            "--listen",
            &listen,
            "--upstream",
            upstream,
            "--tools",
            &tools,
        ])?;
        let connected: Connected = serde_json::from_str(&connected)
            .map_err(|error| EvalError::Setup(format!("`custody connect` printed: {error}")))?;
        user.run(&["enforce", "openai"])?;
        user.run(&[
            "connect",
            "claude-code",
            "--apply",
            "--surface",
            "hook",
            "--no-wait",
            "--listen",
            &listen,
        ])?;
        user.run(&["enforce", "claude-code"])?;
        let settings = home.path().join(".claude/settings.json");
        let settings = fs::read_to_string(&settings).map_err(EvalError::file(&settings))?;
        let hook_key = key_in(&settings)
            .ok_or_else(|| EvalError::Setup("the settings of the agent have no key".to_owned()))?;
        let log = home.path().join("serve.log");
        let mut serve = user.command(&["serve", "--listen", &listen]);
        serve.env("RUST_BACKTRACE", "1");
        let mut service = ChildProgram::start("custody serve", serve, &log)?;
        service.wait_until_ready(&format!("http://{listen}/readyz"), &log)?;
        let chat = Target {
            url: format!("{}/chat/completions", connected.base_url),
            headers: vec![
                ("x-custody-key", connected.key),
                ("authorization", "Bearer none".into()),
            ],
        };
        let hook = Target {
            url: format!("http://{listen}/hook/claude-code"),
            headers: vec![("x-custody-key", hook_key)],
        };
        let key_file = home.path().join("config/custody/hooks/claude-code.key");
        // What `custody hook install` writes into the settings of hosts.
        let beside = program.with_file_name("custody-hook");
        let answers = if beside.is_file() { beside } else { program.to_owned() };
        let hook_program = HookProgram { program: answers, key_file, listen };
        let log = ServiceLog::new(log);
        Ok(Self { service, log, chat, hook, hook_program, version, _home: home })
    }

    pub(super) fn resident_mb(&self) -> f64 {
        self.service.resident_mb()
    }
}

/// Whoever types the commands.
struct User<'a> {
    program: &'a Path,
    home: &'a Path,
}

impl User<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(arguments).current_dir(self.home).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home);
        for (variable, folder) in [
            ("XDG_DATA_HOME", "data"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_CACHE_HOME", "cache"),
        ] {
            command.env(variable, self.home.join(folder));
        }
        command
    }

    /// Runs a command on a terminal on which its prompts are answered. Returns what it prints.
    fn run(&self, arguments: &[&str]) -> Result<String, EvalError> {
        let title = format!("custody {}", arguments.first().copied().unwrap_or_default());
        let Output { status, stdout, stderr } = self
            .typing(arguments)
            .map_err(|error| EvalError::Setup(format!("`{title}` could not be run: {error}")))?;
        if status.success() {
            return Ok(String::from_utf8_lossy(&stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&stderr).trim().to_owned();
        Err(EvalError::Setup(format!("`{title}` failed: {said}")))
    }

    fn typing(&self, arguments: &[&str]) -> Result<Output, pty_process::Error> {
        let (terminal, end) = pty_process::blocking::open()?;
        let child = pty_process::blocking::Command::from(self.command(arguments))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn_borrowed(&end)?;
        let typist = std::thread::spawn(move || answer_prompts(terminal));
        let ended = child.wait_with_output()?;
        drop(end);
        // Whoever answers has nothing to say of the command.
        drop(typist.join());
        Ok(ended)
    }
}

/// Types the passphrase at every prompt until nobody holds the other end of the terminal.
fn answer_prompts(mut terminal: Pty) {
    let (mut shown, mut buffer) = (String::new(), [0; 1024]);
    while let Ok(bytes @ 1..) = terminal.read(&mut buffer) {
        shown.push_str(&String::from_utf8_lossy(buffer.get(..bytes).unwrap_or_default()));
        if PROMPTS.iter().any(|prompt| shown.ends_with(prompt)) {
            let answer = if shown.ends_with("[y/N] ") { "y" } else { PASSPHRASE };
            shown.clear();
            // A command that is gone is asked about by whoever waits for it.
            drop(terminal.write_all(format!("{answer}\n").as_bytes()));
        }
    }
}

/// The key of a connection in the settings of a client.
fn key_in(settings: &str) -> Option<String> {
    let rest = settings.get(settings.find(KEY_START)?..)?;
    Some(rest.chars().take_while(|c: &char| c.is_ascii_alphanumeric() || *c == '_').collect())
}

/// A port that nobody listens on.
pub(super) fn free_port() -> Result<u16, EvalError> {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    Ok(address.map_err(EvalError::file("127.0.0.1:0"))?.port())
}

/// `custody` beside this program or on `PATH`.
///
/// # Errors
/// When there is none.
pub(super) fn found(named: Option<&Path>) -> Result<PathBuf, EvalError> {
    let found = named.map(Path::to_owned).or_else(|| custody_cli::programs::find("custody"));
    found.ok_or_else(|| {
        EvalError::Setup(
            "there is no `custody` beside `custody-lab`; build it, or name it with --custody"
                .to_owned(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_found_in_the_settings_of_a_client() {
        let settings = "{\"headers\": {\"x-custody-key\": \"custody_0af\"}}";
        assert_eq!(key_in(settings).as_deref(), Some("custody_0af"));
        assert_eq!(key_in("{}"), None);
    }
}
