//! The machine that a report was measured on, without its name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What bears on a measurement. Unknown parts say `unknown` or 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's model name.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: u64,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Operating system and kernel release.
    pub os: String,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let release = read("/proc/sys/kernel/osrelease");
        let os = [std::env::consts::OS, std::env::consts::ARCH, release.trim()].join(" ");
        let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get() as u64);
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or("unknown").to_owned(),
            cores,
            memory_bytes: memory_bytes(&read("/proc/meminfo")).unwrap_or_default(),
            os: os.trim_end().to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = self.memory_bytes >> 30;
        write!(f, "{}, {} cores, {gib} GiB, {}", self.cpu, self.cores, self.os)
    }
}

/// The text of a file; empty where it cannot be read.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line: &'a str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read_from_what_linux_says_of_it() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n\nmodel name\t: Other\n";
        assert_eq!(field(cpuinfo, "model name"), Some("Some CPU @ 2 GHz"));
        assert_eq!(memory_bytes("MemTotal:       2048 kB\n"), Some(2 << 20));
        assert_eq!(memory_bytes("nothing of the kind"), None);
    }
}
