//! `cargo xtask reports`: measures every report of `docs/reports` again, with the code of this checkout.
//!
//! A whole run takes hours and needs the benchmark data, AgentDojo's and agmi's packages and the published weights. A
//! suite that lacks something says so and prints null with the reason; it does not keep what an older run measured.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Where reports are written.
const FOLDER: &str = "docs/reports";

/// The suites, and the arguments of `custody-lab` that measure each. What takes longest comes last.
const SUITES: &[(&str, &[&[&str]])] = &[
    ("memory", &[&["eval", "memory", "--size", "full", "--seed", "42"]]),
    ("recovery", &[&["eval", "recovery", "--size", "full"]]),
    ("gateway", &[&["eval", "gateway", "--size", "full"]]),
    ("overdefence", &[&["eval", "overdefence"]]),
    ("prefilter", &[&["eval", "prefilter", "--size", "full"]]),
    ("behaviour", &[&["eval", "behaviour"]]),
    (
        // From the scores of the training runs that are kept beside it.
        "detection",
        &[&[
            "eval",
            "detection",
            "--size",
            "full",
            "--run",
            "docs/reports/runs/detection",
            "--finished",
        ]],
    ),
    (
        "agent",
        &[
            &["eval", "agent", "--size", "full"],
            &["eval", "agent", "--size", "full", "--agent", "model", "--model", MODEL],
        ],
    ),
    ("baseline", &[&["eval", "baseline", "--size", "full", "--model", MODEL]]),
    ("route", &[&["eval", "route", "--size", "full", "--model", MODEL]]),
    ("buried", &[&["eval", "buried", "--size", "full"]]),
];

/// The language model of the reports.
const MODEL: &str = "smollm2-135m-instruct";

/// Measures the suites that are named, or all.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    for name in arguments {
        if !SUITES.iter().any(|(suite, _)| suite == name) {
            let known: Vec<&str> = SUITES.iter().map(|(suite, _)| *suite).collect();
            bail!(
                "unknown report `{name}`; name one or more of {}, or none for all",
                known.join(", ")
            );
        }
    }
    let built =
        workspace::cargo().args(["build", "--release"]).args(PACKAGES).args(FEATURES).status();
    if !built.context("could not start cargo")?.success() {
        return Ok(ExitCode::FAILURE);
    }
    for (suite, runs) in SUITES {
        if !arguments.is_empty() && !arguments.iter().any(|name| name == suite) {
            continue;
        }
        for run in *runs {
            println!("==> custody-lab {}", run.join(" "));
            let mut command = workspace::cargo();
            command.args(["run", "--release", "--package", "custody-lab"]).args(FEATURES).arg("--");
            command.args(*run).args(["--out", FOLDER]);
            if !command.status().context("could not start cargo")?.success() {
                println!("==> {suite}: FAILED");
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Agmi's edits are tried on the `custody` that stands beside the laboratory.
const PACKAGES: [&str; 4] = ["--package", "custody-cli", "--package", "custody-lab"];

/// D3 is a published classifier in an ONNX file.
const FEATURES: [&str; 2] = ["--features", "custody-lab/rten"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_committed_report_is_measured_by_one_command() {
        let folder = std::fs::read_dir(workspace::root().join(FOLDER)).unwrap();
        let names = folder.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        let committed: BTreeSet<String> =
            names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect();
        let measured: BTreeSet<String> =
            SUITES.iter().map(|(suite, _)| (*suite).to_owned()).collect();
        assert_eq!(committed, measured);
    }
}
