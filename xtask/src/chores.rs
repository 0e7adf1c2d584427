//! The table of chores: what `cargo xtask` can be asked to do.

use std::process::ExitCode;

use anyhow::Result;

use crate::{ci, fuzz, reports, test, tidy};

/// One thing `cargo xtask` does.
pub(crate) struct Chore {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&[String]) -> Result<ExitCode>,
}

/// Every chore, in the order a newcomer needs them.
pub(crate) const CHORES: &[Chore] = &[
    Chore {
        name: "test",
        arguments: "[CARGO TEST ARGUMENTS]",
        about: "run every test and count what passed, failed and was skipped",
        run: test::run,
    },
    Chore {
        name: "tidy",
        arguments: "",
        about: "check what the compiler cannot: layering, purity, claims, links, licences",
        run: tidy::run,
    },
    Chore { name: "ci", arguments: "", about: "run everything a change must pass", run: ci::run },
    Chore {
        name: "fuzz",
        arguments: "[--seconds N] [TARGET]",
        about: "feed hostile bytes to every fuzz target, or to one",
        run: fuzz::run,
    },
    Chore {
        name: "reports",
        arguments: "[REPORT …]",
        about: "measure every report of docs/reports again, or those that are named; takes hours",
        run: reports::run,
    },
];

/// What to print when no chore, or an unknown one, was named.
pub(crate) fn usage() -> String {
    let mut text = String::from("usage: cargo xtask CHORE\n\n");
    for Chore { name, arguments, about, .. } in CHORES {
        let call = format!("{name} {arguments}");
        text.push_str(&format!("  {call:30} {about}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_names_every_chore() {
        for chore in CHORES {
            assert!(usage().contains(&format!("\n  {} ", chore.name)), "{}", chore.name);
        }
    }
}
