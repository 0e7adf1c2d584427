//! The example prints what its README says.

use std::process::Command;

#[test]
fn only_what_the_user_asked_for_runs_and_nothing_tainted_is_remembered() {
    let output = Command::new(env!("CARGO_BIN_EXE_custody-embed")).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    let readme = include_str!("../README.md");
    assert!(readme.contains(&format!("```text\n{printed}```")), "it printed:\n{printed}");
}
