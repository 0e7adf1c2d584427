//! `custody data`: listing, fetching, importing and verifying the benchmark data.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../crates/cli/tests/common/mod.rs"]
mod common;
#[path = "../../crates/models/tests/common/server.rs"]
mod server;

use std::path::PathBuf;

use common::Home;
use server::{Answer, Server};

#[test]
fn without_data_everything_is_absent_and_nothing_is_wrong() {
    let home = Home::new();
    let rows = home.alone(&["data", "list", "--json"]).expect(0).json();
    assert!(rows.len() > 20 && rows.iter().all(|row| row["state"] == "absent"), "{rows:?}");
    assert!(rows.iter().all(|row| row["licence"] != ""), "{rows:?}");
    let ran = home.alone(&["data", "verify"]).expect(0);
    assert!(ran.stdout.contains("`custody data import DIR` copies what is not here"), "{ran:?}");
    assert!(!home.path().join("data").exists(), "looking makes no folder");
}

#[test]
fn a_fetch_that_fails_is_said_and_leaves_nothing() {
    let home = Home::new();
    let path = "/enkryptai/xInjectAgent/21af27703ad4e591b8fc686ab9d79249d299a0e8/data/tools.json";
    for (answer, why) in [
        (Answer::Status(404), "status 404"),
        (Answer::Cut(vec![b'['; 10], 541_498), "cut off after 10 of 541498"),
        (Answer::Endless, "longer than 541498 bytes"),
    ] {
        let server = Server::new(&[(path, answer)]);
        let fetch = ["data", "fetch", "injecagent/tools.json", "--server", &server.url];
        let ran = home.alone(&fetch).expect(2);
        assert!(ran.stderr.contains(why) && ran.stderr.contains("0 of 1 original"), "{ran:?}");
        assert_eq!(server.asked(), [path]);
        assert!(!home.path().join("data").exists());
    }
    let ran = home.alone(&["data", "fetch", "nothing.jsonl"]).expect(2);
    assert!(ran.stderr.contains("there is no data file `nothing.jsonl`"), "{ran:?}");
}

#[test]
fn data_is_imported_verified_and_a_change_is_found() {
    let Some(real) = data() else { return };
    let home = Home::new();
    let ran = home.alone(&["data", "import", real.to_str().unwrap()]).expect(0);
    assert!(ran.stdout.contains("26 files copied into"), "{ran:?}");
    let ran = home.alone(&["data", "verify"]).expect(0);
    assert!(ran.stdout.contains("26 as pinned, 0 not, 0 not here"), "{ran:?}");
    let changed = home.path().join("data/custody/data/notinject.jsonl");
    let mut bytes = std::fs::read(&changed).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&changed, bytes).unwrap();
    let ran = home.alone(&["data", "verify"]).expect(1);
    assert!(ran.stdout.contains("notinject.jsonl has the SHA-256"), "{ran:?}");
    // A copy with a wrong file is not taken, and brings nothing.
    let copy = home.path().join("data/custody/data");
    let other = home.path().join("other");
    let (copy, other) = (copy.to_str().unwrap(), other.to_str().unwrap());
    let ran = home.alone(&["data", "import", copy, "--data", other]).expect(2);
    assert!(ran.stderr.contains("nothing was copied"), "{ran:?}");
    assert!(!std::path::Path::new(other).exists());
}

#[test]
fn an_original_that_is_the_data_file_itself_makes_it() {
    let Some(real) = data() else { return };
    let home = Home::new();
    let path = "/enkryptai/xInjectAgent/21af27703ad4e591b8fc686ab9d79249d299a0e8/data/tools.json";
    let bytes = std::fs::read(real.join("injecagent/tools.json")).unwrap();
    let server = Server::new(&[(path, Answer::Bytes(bytes))]);
    let fetch = ["data", "fetch", "injecagent/tools.json", "--server", &server.url, "--json"];
    let report = home.alone(&fetch).expect(0).json().remove(0);
    assert_eq!(report["made"][0], "injecagent/tools.json");
    let row = home.alone(&["data", "list", "--json"]).json();
    let tools = row.iter().find(|row| row["file"] == "injecagent/tools.json").unwrap();
    assert_eq!(tools["state"], "verified");
}

/// The folder of the benchmark data; without it the calling test is skipped.
fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("CUSTODY_DATA").map(PathBuf::from);
    if let Some(folder) = folder.filter(|folder| folder.join("splits").is_dir()) {
        return Some(folder.canonicalize().unwrap());
    }
    common::skipped("the benchmark data is not here; name its folder in `CUSTODY_DATA`");
    None
}
