//! The memory suite as a whole, in its small size.

mod common;

use std::process::Command;

use custody_lab::memory::crash::Program;
use custody_lab::memory::{MemoryOptions, run};
use custody_lab::report::EvalReport;
use custody_lab::size::Size;
use custody_runtime::Paths;

/// This test once more, as the program that is killed.
fn child(paths: &Paths) -> Command {
    common::child("the_suite_gives_every_published_figure_and_ours_are_whole", paths)
}

#[test]
fn the_suite_gives_every_published_figure_and_ours_are_whole() {
    if common::wrote_as_a_child() {
        return;
    }
    let Some(data) = common::data() else { return };
    let options = MemoryOptions {
        data: Some(data),
        seed: 42,
        size: Size::Smoke,
        program: Program::Other(child),
    };
    let report = run(&options, &mut |_, _, _| {}).unwrap();
    let expected = [
        ("payloads.total", 199.0),
        ("payloads.cases", 1_194.0),
        ("payloads.blocked", 1_194.0),
        ("payloads.controls", 199.0),
        ("payloads.controls_accepted", 199.0),
        ("attacks.total", 10.0),
        ("attacks.defeated", 10.0),
        ("attacks.7.defeated", 1.0),
        ("echo.reuses", 69.0),
        ("echo.innocents", 44.0),
        ("echo.false_taints", 0.0),
        ("echo.launderings", 46.0),
        ("echo.laundered", 0.0),
        ("forgeries.controls_refused", 0.0),
        ("forgeries.missed", 4.0),
        ("isolation.sessions", 50.0),
        ("isolation.secrets", 50.0),
        ("isolation.pairs", 2_450.0),
        ("isolation.leaks", 0.0),
        ("protected_files.changed", 0.0),
        ("rules.divergences", 0.0),
        ("rules.extended_divergences", 0.0),
        ("crash.runs", 20.0),
        ("crash.lost_acknowledged", 0.0),
        ("crash.refused_present", 0.0),
        ("crash.unverified", 0.0),
    ];
    for (id, value) in expected {
        assert_eq!(report.value(id), Some(value), "{id} in\n{}", report.to_markdown());
    }
    assert!(report.value("echo.recognised") >= Some(0.95));
    let [tried, found] = ["tried", "found"].map(|id| report.value(&format!("forgeries.{id}")));
    assert!(tried >= Some(60.0) && found == tried.map(|tried| tried - 4.0), "{tried:?} {found:?}");
    assert!(report.value("rules.model_steps") >= Some(20_000.0));
    assert_eq!(report.data.len(), 4);
    assert_eq!(EvalReport::from_json(report.to_json().as_bytes()), Ok(report));
}
