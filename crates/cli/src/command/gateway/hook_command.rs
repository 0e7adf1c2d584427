//! The command that a host runs for its hook.
//!
//! Hosts let a call run when the program of a hook is missing or crashes. So a shell looks at how it ended, and makes a
//! denial of every end that is not one of Custody's answers.

use std::path::Path;

use anyhow::Context as _;
use custody_gateway::proxy::hook::{HookHost, HookOutput};

use super::service_address::ServiceAddress;

/// How long a host waits for a hook, in seconds.
pub(super) const TIMEOUT_S: u32 = 30;

/// What the shell prints when the program does not answer. No character of it means anything to a shell.
const MISSING: &str = "Custody is not answering, so this does not go on: its program is missing or crashed. \
                       See custody hook status; custody hook uninstall takes the hook back.";

/// How a hook reaches Custody.
#[derive(Debug, Clone, Copy)]
pub(super) struct HookRoute<'a> {
    /// The `custody` program.
    pub(super) program: &'a Path,
    /// The file with the key of the connection.
    pub(super) key_file: &'a Path,
    /// The address of `custody serve`.
    pub(super) address: &'a ServiceAddress,
    /// The file with the roots that are believed, if not those of browsers.
    pub(super) ca: Option<&'a Path>,
}

/// The command for `event` of `host`. It is for any shell that knows single quotes; `/bin/sh` does the rest.
///
/// # Errors
/// When a path is not UTF-8.
pub(super) fn hook_command(
    host: HookHost,
    event: &str,
    route: HookRoute<'_>,
) -> anyhow::Result<String> {
    let program = route.program.to_str().context("the path of `custody` is not UTF-8")?;
    let key = route.key_file.to_str().context("the path of the key is not UTF-8")?;
    let script = quoted(&script(&host.failed(event, MISSING)));
    let ca = match route.ca {
        None => String::new(),
        Some(ca) => {
            let ca = ca.to_str().context("the path of the roots is not UTF-8")?;
            format!(" --ca {}", quoted(ca))
        }
    };
    let (program, key, host, address) = (quoted(program), quoted(key), host.name(), route.address);
    Ok(format!(
        "/bin/sh -c {script} custody {program} hook run {host} --event {event} --key {key} --address {address}{ca} \
         --timeout {TIMEOUT_S}"
    ))
}

/// Runs its arguments, and does as `otherwise` unless they end with exit code 0 or 2.
fn script(otherwise: &HookOutput) -> String {
    let HookOutput { exit_code, stdout, stderr } = otherwise;
    let stdout = match stdout.trim_end() {
        "" => String::new(),
        stdout => format!("printf '%s\\n' {}; ", quoted(stdout)),
    };
    let stderr = quoted(stderr.trim_end());
    format!(
        "\"$@\"; case $? in 0) exit 0;; 2) exit 2;; esac; {stdout}printf '%s\\n' {stderr} >&2; exit {exit_code}"
    )
}

/// `text` as one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Command, Output};

    use super::*;

    fn run(program: &Path, host: HookHost, event: &str) -> Output {
        let (key_file, ca) = (Path::new("/a key's \"$file\""), Some(Path::new("/it's a `root`")));
        let address = &"https://custody.example:7411".parse().unwrap();
        let route = HookRoute { program, key_file, address, ca };
        let command = hook_command(host, event, route).unwrap();
        Command::new("/bin/sh").arg("-c").arg(command).output().unwrap()
    }

    /// A program at an awkward path that does what `script` says.
    fn program(folder: &Path, script: &str) -> std::path::PathBuf {
        let folder = folder.join("it's `a` \"$HOME\" & more");
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("custody");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn an_answer_goes_through_and_everything_else_is_a_denial_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let cases = [
            ("exit 0", 0, ""),
            ("echo no >&2; exit 2", 2, "no\n"),
            ("exit 1", 2, MISSING),
            ("kill -9 $$", 2, MISSING),
            ("exit 127", 2, MISSING),
        ];
        for (script, code, stderr) in cases {
            let output = run(&program(folder.path(), script), HookHost::Codex, "PreToolUse");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(code), "{script}: {said}");
            assert!(said.contains(stderr) && output.stdout.is_empty(), "{script}: {said}");
        }
        let output = run(&folder.path().join("none"), HookHost::Gemini, "BeforeTool");
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(MISSING));
    }

    #[test]
    fn the_program_gets_its_arguments_whatever_is_in_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path(), "for word in \"$@\"; do echo \"$word\"; done");
        let output = run(&program, HookHost::Codex, "PreToolUse");
        let words = "hook\nrun\ncodex\n--event\nPreToolUse\n--key\n/a key's \"$file\"\n--address\n\
                     https://custody.example:7411\n--ca\n/it's a `root`\n--timeout\n30\n";
        assert_eq!(String::from_utf8_lossy(&output.stdout), words);
    }

    #[test]
    fn a_missing_program_is_a_denial_in_the_hosts_own_form() {
        let none = Path::new("/nonexistent/custody");
        let output = run(none, HookHost::Copilot, "userPromptSubmitted");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &answer["decision"]), (Some(0), &"block".into()));
        let output = run(none, HookHost::Cursor, "preToolUse");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &answer["permission"]), (Some(2), &"deny".into()));
        let output = run(none, HookHost::Codex, "Stop");
        assert_eq!(output.status.code(), Some(0), "the end of a turn begins no other");
    }
}
