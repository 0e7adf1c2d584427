//! An MCP server as a process, and the digest of the command that starts it.

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use custody_log::Digest;
use serde_json::json;

/// How often is looked whether a server has ended whose input has, and for how long.
const LOOKS: usize = 250;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Passes the signal that ends this process on to its server: the host knows of no other process.
#[derive(Debug, Default)]
pub(super) struct PassedSignal(Arc<OnceLock<u32>>);

impl PassedSignal {
    /// Begins to wait for the signal.
    ///
    /// # Errors
    /// When something else waits for it.
    pub(super) fn awaited() -> anyhow::Result<Self> {
        let server = Arc::<OnceLock<u32>>::default();
        let passed = Self(Arc::clone(&server));
        ctrlc::set_handler(move || match server.get() {
            // Its output ends with it, and so does this process.
            Some(server) => terminate(*server),
            None => std::process::exit(2),
        })?;
        Ok(passed)
    }

    /// Passes it on to `server`.
    pub(super) fn to(&self, server: &ServerProcess) {
        // Set once, as there is one server.
        let _ = self.0.set(server.0.id());
    }
}

#[cfg(unix)]
fn terminate(process: u32) {
    let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(process) = process {
        // One that has ended already stays so.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
    }
}

#[cfg(not(unix))]
fn terminate(_: u32) {
    std::process::exit(2);
}

/// A server that runs. It ends with the value.
#[derive(Debug)]
pub(super) struct ServerProcess(Child);

impl ServerProcess {
    /// Starts a server. What it says on standard error goes where that of this process goes.
    pub(super) fn start(
        command: &[OsString],
    ) -> anyhow::Result<(Self, ChildStdin, BufReader<ChildStdout>)> {
        let (program, arguments) =
            command.split_first().context("give the command of the server after `--`")?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let shown = program.display();
        let mut child = child.with_context(|| format!("could not start `{shown}`"))?;
        let input = child.stdin.take().context("the server has no input")?;
        let output = child.stdout.take().context("the server has no output")?;
        Ok((Self(child), input, BufReader::new(output)))
    }

    /// Waits for a server whose input has ended, and ends it if it does not.
    pub(super) fn end(mut self) -> io::Result<ExitStatus> {
        for _ in 0..LOOKS {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.0.kill()?;
        self.0.wait()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // One that has ended already stays so.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// SHA-256 over the words of a command and the contents of the files that they name, the program's above all.
pub(super) fn command_digest(command: &[OsString]) -> anyhow::Result<Digest> {
    let mut words = Vec::new();
    for (at, word) in command.iter().enumerate() {
        let path = if at == 0 { found(Path::new(word)) } else { Some(PathBuf::from(word)) };
        let file = path.filter(|path| path.is_file()).map(|path| file_digest(&path)).transpose()?;
        words.push(json!([word.to_string_lossy(), file]));
    }
    Ok(Digest::of(serde_json::Value::Array(words).to_string().as_bytes()))
}

/// The file that a program's name leads to.
fn found(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn file_digest(path: &Path) -> anyhow::Result<Digest> {
    let bytes = std::fs::read(path);
    let bytes = bytes.with_context(|| format!("could not read `{}`", path.display()))?;
    Ok(Digest::of(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_its_words_and_the_files_that_they_name() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("server.py");
        std::fs::write(&script, "one").unwrap();
        let command = [OsString::from("sh"), script.clone().into_os_string()];
        let first = command_digest(&command).unwrap();
        assert_eq!(first, command_digest(&command).unwrap());
        std::fs::write(&script, "two").unwrap();
        assert_ne!(first, command_digest(&command).unwrap());
        assert_ne!(first, command_digest(&[&command[..], &["-x".into()]].concat()).unwrap());
    }
}
