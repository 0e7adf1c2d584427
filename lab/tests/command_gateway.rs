//! `custody eval gateway`: what it prints and refuses.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../crates/cli/tests/common/mod.rs"]
mod common;

use common::Home;

#[test]
fn without_a_size_it_prints_the_committed_report() {
    let home = Home::new();
    let printed = home.alone(&["eval", "gateway", "--json"]).expect(0);
    assert!(printed.stderr.contains("add --size smoke or --size full"), "{printed:?}");
    for id in [
        "overhead.custody.c16.p99_us",
        "overhead.custody.c16.inside_p99_us",
        "overhead.custody.group_commit_p50_us",
        "overhead.nginx.c64.rps",
        "hook.p99_us",
        "hook_program.p99_us",
    ] {
        assert!(printed.stdout.contains(&format!("\"{id}\"")), "{id}");
    }
}

#[test]
fn a_file_without_figures_of_the_checks_is_refused_before_anything_is_started() {
    let home = Home::new();
    let file = home.path().join("checks.txt");
    std::fs::write(&file, "ok clients.openai_py.text\n").unwrap();
    let hosts = file.to_str().unwrap();
    let ran = home.alone(&["eval", "gateway", "--size", "smoke", "--hosts", hosts]);
    assert!(ran.stderr.contains("has no figures of"), "{ran:?}");
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
}
