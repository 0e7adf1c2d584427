//! Stores on media that cannot be written (G5): all that only looks works, nothing is made or changed there, and what
//! would write is refused in one line.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Home, OWNER_PASSPHRASE, Ran, skipped};

/// A home with a few records. If whoever wrote them was killed, the write-ahead log holds some of them.
fn lived_in(is_killed: bool) -> Home {
    let home = Home::founded();
    home.write("SOUL.md", "I am Iris.");
    let adopt = ["memory", "adopt", "SOUL.md", "--apply"];
    home.typing(&adopt, &[OWNER_PASSPHRASE]).expect(0);
    if is_killed {
        let mut host = home.host("");
        for word in ["one", "two", "three"] {
            host.hears("web", word);
        }
        host.kill();
        assert!(home.database().with_extension("db-wal").metadata().unwrap().len() > 0);
    }
    home
}

/// Every file below a folder, with its bytes and its time of change.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let changed = path.metadata().unwrap().modified().unwrap();
            found.insert(path.clone(), (fs::read(&path).unwrap(), changed));
        }
    }
    found
}

/// All that only looks, and what it says.
fn look(home: &Home, option: &[&str]) {
    let run = |line: &str| -> Ran {
        let args: Vec<&str> = line.split_whitespace().chain(option.iter().copied()).collect();
        home.alone(&args)
    };
    let verified = run("ledger verify").expect(0);
    assert!(verified.stdout.contains("the record is the one that was signed"), "{verified:?}");
    assert!(verified.stderr.contains("open for reading only"), "{verified:?}");
    assert!(run("ledger show").expect(0).stdout.contains("SOUL.md"));
    assert!(run("ledger show 1").expect(0).stdout.contains("SOUL.md"));
    run("ledger trace 1").expect(0);
    let exported = run("ledger export");
    assert!(exported.expect(0).stdout.lines().count() > 1);
    // A read of an item is recorded, so it needs a store that can be written.
    let read = run("memory get SOUL.md").expect(2);
    assert!(read.stderr.contains("open for reading only; nothing was stored"), "{read:?}");
    run("memory pending").expect(0);
    run("principal list").expect(0);
    run("keys show").expect(0);
    let doctor = run("doctor").expect(0);
    assert!(doctor.stdout.contains("open for reading only"), "{doctor:?}");
    let written = home.alone_with(
        &["session"].into_iter().chain(option.iter().copied()).collect::<Vec<_>>(),
        &[],
        "{\"id\":0,\"op\":\"open\"}\n",
    );
    assert!(written.stdout.contains("open for reading only; nothing was stored"), "{written:?}");
}

#[test]
fn g5_a_store_is_looked_at_without_a_write_beside_it() {
    for is_killed in [false, true] {
        let home = lived_in(is_killed);
        let before = (contents(&home.path().join("data")), contents(&home.path().join("state")));
        look(&home, &["--read-only"]);
        let after = (contents(&home.path().join("data")), contents(&home.path().join("state")));
        assert_eq!(before, after, "killed: {is_killed}");
        // Tampering is found there too.
        home.tamper("UPDATE contents SET bytes = 'I am Eve.'");
        home.alone(&["ledger", "verify", "--read-only"]).expect(1);
        home.alone(&["doctor", "--read-only"]).expect(1);
    }
}

/// G5: nothing has to be said where the folders forbid writing. Root may write whatever modes say, so as root
/// this needs a mount that is read-only.
#[test]
fn g5_a_store_that_cannot_be_written_is_looked_at() {
    let is_root = is_root();
    for is_killed in [false, true] {
        let home = lived_in(is_killed);
        let folders = [home.path().join("data/custody"), home.keys()];
        let Some(frozen) = Frozen::these(&folders, is_root) else {
            return skipped("root may write whatever modes say, and nothing can be mounted here");
        };
        look(&home, &[]);
        drop(frozen);
    }
}

/// G5: the name of a store means nothing to SQLite, whatever is in it.
#[test]
fn g5_a_store_with_a_strange_name_is_looked_at() {
    let home = Home::founded();
    for name in ["a b.db", "what?mode=rwc&x=y.db", "100%25.db", "#1.db", "Größe.db"] {
        let (from, to) = (home.database(), home.path().join("data/custody").join(name));
        fs::copy(&from, &to).unwrap();
        let keys = home.keys();
        let args = ["ledger", "verify", "--read-only", "--store"].map(std::ffi::OsStr::new);
        let args = [&args[..], &[to.as_os_str(), "--keys".as_ref(), keys.as_os_str()]].concat();
        home.alone(&args).expect(0);
    }
}

#[test]
fn a_store_that_was_never_made_is_not_made_by_looking() {
    let home = Home::new();
    let ran = home.alone(&["ledger", "verify", "--read-only"]);
    ran.refused("run `custody keys init` on a terminal");
    assert!(!home.path().join("data").exists() && !home.path().join("state").exists());
    let ran = home.typing(&["principal", "list", "--read-only"], &["yes"]).expect(2);
    assert_eq!(ran.terminal, "", "nothing can be made, so nothing is offered");
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

/// Folders that cannot be written until this is dropped.
struct Frozen {
    folders: Vec<PathBuf>,
    is_mounted: bool,
}

impl Frozen {
    fn these(folders: &[PathBuf], is_root: bool) -> Option<Self> {
        let mut frozen = Self { folders: Vec::new(), is_mounted: is_root };
        for folder in folders {
            if !is_root {
                fs::set_permissions(folder, Permissions::from_mode(0o500)).unwrap();
            } else if !is_run("mount", &["--bind"], &[folder, folder]) {
                return None;
            } else if !is_run("mount", &["-o", "remount,bind,ro"], &[folder]) {
                is_run("umount", &[], &[folder]);
                return None;
            }
            frozen.folders.push(folder.clone());
        }
        Some(frozen)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for folder in &self.folders {
            if self.is_mounted {
                is_run("umount", &[], &[folder]);
            } else {
                fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
            }
        }
    }
}

fn is_run(program: &str, options: &[&str], folders: &[&PathBuf]) -> bool {
    let output = Command::new(program).args(options).args(folders).output();
    output.is_ok_and(|output| output.status.success())
}
