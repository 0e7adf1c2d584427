//! A program that runs beside the measurement, and ends with it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::error::EvalError;
use crate::stopwatch::Stopwatch;

/// How long a program may take until it answers, in seconds.
const READY_SECONDS: f64 = 180.0;
/// How long is waited between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// A program that is killed when this is dropped.
pub(super) struct ChildProgram {
    name: &'static str,
    child: Child,
}

impl ChildProgram {
    /// Starts `command`, whose output goes into `log`.
    pub(super) fn start(
        name: &'static str,
        mut command: Command,
        log: &Path,
    ) -> Result<Self, EvalError> {
        let out = fs::File::create(log).map_err(EvalError::file(log))?;
        let err = out.try_clone().map_err(EvalError::file(log))?;
        let program = command.get_program().to_owned();
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        Ok(Self { name, child: child.map_err(EvalError::file(program))? })
    }

    /// Waits until a request to `url` is answered, whatever the answer is.
    pub(super) fn wait_until_ready(&mut self, url: &str, log: &Path) -> Result<(), EvalError> {
        let waiting = Stopwatch::start();
        let agent = super::load::agent();
        while agent.get(url).call().is_err() {
            let ended = self.child.try_wait().map_err(EvalError::file(log))?.is_some();
            if ended || waiting.seconds() > READY_SECONDS {
                let said = fs::read_to_string(log).unwrap_or_default();
                let last: Vec<&str> = said.lines().rev().take(3).collect();
                return Err(EvalError::Setup(format!(
                    "{} did not start: {}",
                    self.name,
                    last.join(" / ")
                )));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Memory that it and its children hold, in MB.
    pub(super) fn resident_mb(&self) -> f64 {
        let kib: u64 = family(self.child.id()).into_iter().filter_map(resident_kib).sum();
        kib as f64 * 1024.0 / 1e6
    }
}

impl Drop for ChildProgram {
    fn drop(&mut self) {
        // Whatever has ended already needs no signal. Children of a parent that is killed may outlive it.
        let family = family(self.child.id());
        for id in family {
            let _ = Command::new("kill").arg(id.to_string()).stderr(Stdio::null()).status();
        }
        let waiting = Stopwatch::start();
        while matches!(self.child.try_wait(), Ok(None)) && waiting.seconds() < 5.0 {
            std::thread::sleep(PAUSE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process and those that descend from it.
fn family(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let id = entry.ok()?.file_name().to_str()?.parse().ok()?;
            Some((id, parent(id)?))
        })
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(id) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, parent)| *parent == id).map(|(id, _)| *id));
        at += 1;
    }
    found
}

fn parent(id: u32) -> Option<u32> {
    status_field(id, "PPid:")
}

fn resident_kib(id: u32) -> Option<u64> {
    status_field(id, "VmRSS:")
}

fn status_field<T: std::str::FromStr>(id: u32, name: &str) -> Option<T> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}
