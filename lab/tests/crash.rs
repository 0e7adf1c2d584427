//! Nothing that was acknowledged is lost when the program is killed.

mod common;

use std::process::Command;

use custody_lab::memory::crash::{self, Crashes, Program};
use custody_runtime::Paths;

/// This test once more, as the program that is killed.
fn child(paths: &Paths) -> Command {
    common::child("two_hundred_kills_lose_nothing_acknowledged_and_keep_nothing_refused", paths)
}

#[test]
fn two_hundred_kills_lose_nothing_acknowledged_and_keep_nothing_refused() {
    if common::wrote_as_a_child() {
        return;
    }
    const SEED: u64 = 7;
    let program = Program::Other(child);
    let found = crash::run(&program, 200, SEED, &mut |_, _, _| {}).unwrap();
    let acknowledged = found.acknowledged;
    assert!(acknowledged >= 200, "the kills came before anything was written: {found:?}");
    let expected = Crashes { runs: 200, acknowledged, ..Crashes::default() };
    assert_eq!(found, expected, "seed {SEED}");
}
