//! The order of durability, as the kernel of the machine saw it: the log is synced, then the head is
//! written and synced, and only then does anybody hear that it was done.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of a test may fail it")]

mod common;

use std::process::{Command, Stdio};

use common::{Scratch, Talk, answer, child_command, hears, skipped, tell, writes};
use custody_kernel::label::Channel;
use custody_kernel::principal::Role;

const WRITES: usize = 5;

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child() {
    let Some((_, _store, session)) = common::child() else { return };
    hears(&session, Channel::User, "hello");
    for number in 1..=WRITES {
        writes(&session, "number", &number.to_string());
        answer(&format!("acknowledged {number}"));
    }
}

#[derive(Debug, PartialEq)]
enum Step {
    LogWritten,
    LogSynced,
    HeadWritten,
    HeadSynced,
    Acknowledged,
}

/// The steps in the order in which the calls returned. A call that is interrupted in the listing by
/// another thread's stands on two lines.
fn steps(listing: &str) -> Vec<Step> {
    let mut unfinished = std::collections::BTreeMap::new();
    let mut steps = Vec::new();
    for line in listing.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if let Some(begun) = call.strip_suffix("<unfinished ...>") {
            unfinished.insert(thread, begun.to_owned());
            continue;
        }
        let whole = match call.split_once(" resumed>") {
            Some((_, rest)) => unfinished.remove(thread).unwrap_or_default() + rest,
            None => call.to_owned(),
        };
        let log = whole.contains("custody.db-wal>");
        let head = whole.contains("/head>");
        let sync = whole.starts_with("fdatasync(") || whole.starts_with("fsync(");
        steps.extend(match (sync, log, head) {
            (true, true, _) => Some(Step::LogSynced),
            (true, _, true) => Some(Step::HeadSynced),
            (false, true, _) => Some(Step::LogWritten),
            (false, _, true) => Some(Step::HeadWritten),
            _ if whole.contains("acknowledged ") => Some(Step::Acknowledged),
            _ => None,
        });
    }
    steps
}

fn can_trace(folder: &std::path::Path) -> bool {
    let mut probe = Command::new("strace");
    probe.args(["-f", "-o"]).arg(folder.join("probe")).arg("true");
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

#[test]
fn nothing_is_acknowledged_before_the_log_and_then_its_head_were_synced() {
    let scratch = Scratch::new();
    let folder = scratch.folder.path();
    if !can_trace(folder) {
        skipped("`strace` is not installed or may not trace");
        return;
    }
    let (_, token) = scratch.add("ada", Role::User);
    let listing = folder.join("listing");
    let program = format!(
        "strace -f -y -s 64 -e trace=write,pwrite64,pwritev,writev,fsync,fdatasync -o {} {}",
        listing.display(),
        std::env::current_exe().unwrap().display()
    );
    let mut command = child_command(&program, "writer");
    tell(&mut command, &scratch.paths, &token);
    Talk::start(command).finish();

    let steps = steps(&std::fs::read_to_string(listing).unwrap());
    let acknowledged: Vec<usize> =
        (0..steps.len()).filter(|at| steps[*at] == Step::Acknowledged).collect();
    assert_eq!(acknowledged.len(), WRITES, "{steps:?}");
    let mut from = 0;
    for end in acknowledged {
        let group = &steps[from..end];
        let last = |step: Step| group.iter().rposition(|found| *found == step);
        let order =
            [Step::LogWritten, Step::LogSynced, Step::HeadWritten, Step::HeadSynced].map(last);
        assert!(order[0].is_some() && order.is_sorted(), "{group:?}");
        assert_eq!(group.last(), Some(&Step::HeadSynced), "nothing after it: {group:?}");
        from = end + 1;
    }
}
