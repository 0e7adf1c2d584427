//! What the tests of suites share: where the data is, and a child to kill.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod words;

use std::path::PathBuf;
use std::process::Command;

use custody_lab::memory::crash::{THREADS, crash_writer};
use custody_runtime::Paths;

const STORE: &str = "CUSTODY_TEST_CRASH_STORE";
const KEYS: &str = "CUSTODY_TEST_CRASH_KEYS";

/// The folder of the benchmark data; without it the calling test is skipped.
pub fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("CUSTODY_DATA").map(PathBuf::from);
    if let Some(folder) = folder.filter(|folder| folder.join("splits").is_dir()) {
        return Some(folder);
    }
    skipped("the benchmark data is not here; name its folder in `CUSTODY_DATA`");
    None
}

/// Records that the calling test could not run here, and why. The caller returns.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED: {}: {reason}\n", thread.name().unwrap_or("a test"));
    eprint!("{line}");
    if let Some(list) = std::env::var_os("CUSTODY_SKIPPED_TESTS") {
        let mut list = std::fs::File::options().append(true).open(list).expect("the list is open");
        std::io::Write::write_all(&mut list, line.as_bytes()).expect("the list can be written");
    }
}

/// The test `name` of this program once more, as a child that writes to `paths`.
pub fn child(name: &str, paths: &Paths) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program is a file"));
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(STORE, &paths.store).env(KEYS, &paths.keys);
    command
}

/// Writes until it is killed, if a parent asked for that.
pub fn wrote_as_a_child() -> bool {
    let (Some(store), Some(keys)) = (std::env::var_os(STORE), std::env::var_os(KEYS)) else {
        return false;
    };
    let paths = Paths { store: store.into(), keys: keys.into() };
    crash_writer(&paths, THREADS).expect("the store works");
    true
}
