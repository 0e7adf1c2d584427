//! Dependencies between our crates point one way.

use cargo_metadata::{DependencyKind, Metadata};

use super::finding::Finding;

/// Which of our crates each crate may use. A boundary is a promise the compiler then keeps: with
/// no path from `kernel` to `detect`, no score can be an input to a write decision.
const MAY_USE: &[(&str, &[&str])] = &[
    ("log", &[]),
    ("arguments", &["log"]),
    ("certificate", &["log"]),
    ("kernel", &["log", "arguments"]),
    ("planner", &["log", "kernel"]),
    ("keys", &["log"]),
    ("policy", &["log", "arguments", "kernel"]),
    ("models", &[]),
    ("detect", &["models"]),
    ("store", &["log", "kernel", "keys"]),
    ("runtime", &["log", "arguments", "kernel", "policy", "keys", "store"]),
    ("pipeline", &["log", "kernel", "models", "detect", "runtime"]),
    (
        "incident",
        &[
            "log",
            "arguments",
            "certificate",
            "kernel",
            "planner",
            "policy",
            "keys",
            "models",
            "runtime",
        ],
    ),
    ("verify", &["log", "certificate", "kernel", "planner", "policy", "runtime", "incident"]),
    ("gateway", &["log", "arguments", "kernel", "runtime"]),
    (
        "lab",
        &[
            "log",
            "arguments",
            "certificate",
            "kernel",
            "planner",
            "policy",
            "models",
            "detect",
            "runtime",
            "pipeline",
            "incident",
            "verify",
            "keys",
            "gateway",
            "cli",
        ],
    ),
    (
        "cli",
        &[
            "log",
            "arguments",
            "certificate",
            "kernel",
            "planner",
            "policy",
            "models",
            "detect",
            "runtime",
            "pipeline",
            "incident",
            "verify",
            "keys",
            "gateway",
        ],
    ),
];

/// The chores, which use nothing of ours and are used by nothing.
const XTASK: &str = "xtask";

/// Crates that are no part of the product, and lie beside `crates/`.
const BESIDE: [&str; 2] = ["lab", XTASK];

/// One crate of the workspace and what it uses of ours.
#[derive(Debug)]
pub(crate) struct Crate {
    name: String,
    uses: Vec<(String, DependencyKind)>,
}

/// The crates of the workspace, as their manifests say.
pub(crate) fn crates(metadata: &Metadata) -> Vec<Crate> {
    let members = metadata.workspace_packages();
    let is_ours = |name: &str| members.iter().any(|member| *member.name == name);
    let describe = |package: &&cargo_metadata::Package| Crate {
        name: package.name.to_string(),
        uses: package
            .dependencies
            .iter()
            .filter(|dependency| is_ours(&dependency.name))
            .map(|dependency| (dependency.name.clone(), dependency.kind))
            .collect(),
    };
    members.iter().map(describe).collect()
}

/// Finds every use that the table does not allow. The tests of a crate may use more, but those of
/// `kernel` may not: an auditor builds and tests it alone.
pub(crate) fn check(crates: &[Crate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Crate { name, uses } in crates {
        let name = short(name);
        let Some(allowed) = allowed(name) else {
            findings.push(Finding::in_file(
                &manifest(name),
                format!("crate `{name}` has no layer"),
                "give it a row in `xtask/src/tidy/layering.rs` and in the design",
            ));
            continue;
        };
        for (used, kind) in uses {
            let binds = *kind != DependencyKind::Development || name == "kernel";
            if binds && !allowed.contains(&short(used)) {
                findings.push(Finding::in_file(
                    &manifest(name),
                    format!("`{name}` uses `{}`", short(used)),
                    "dependencies point one way; move the code to the layer that may have it",
                ));
            }
        }
    }
    findings
}

/// The crate's name as the table has it.
fn short(name: &str) -> &str {
    name.strip_prefix("custody-").unwrap_or(name)
}

fn manifest(name: &str) -> String {
    let is_beside = BESIDE.contains(&name);
    if is_beside { format!("{name}/Cargo.toml") } else { format!("crates/{name}/Cargo.toml") }
}

fn allowed(name: &str) -> Option<&'static [&'static str]> {
    let row = MAY_USE.iter().find(|(row, _)| *row == name).map(|(_, allowed)| *allowed);
    if name == XTASK { Some(&[]) } else { row }
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    fn found(name: &str, used: &str, kind: DependencyKind) -> Vec<String> {
        let crates = [Crate {
            name: format!("custody-{name}"),
            uses: vec![(format!("custody-{used}"), kind)],
        }];
        brief(&check(&crates))
    }

    #[test]
    fn a_use_that_the_table_does_not_allow_is_found() {
        use DependencyKind::{Build, Development, Normal};
        let cases = [
            ("runtime", "kernel", Normal, true),
            ("cli", "gateway", Normal, true),
            ("kernel", "detect", Normal, false),
            ("kernel", "detect", Build, false),
            ("kernel", "detect", Development, false),
            ("detect", "kernel", Normal, false),
            ("detect", "kernel", Development, true),
            ("gateway", "cli", Normal, false),
            ("cli", "lab", Normal, false),
            ("cli", "lab", Development, true),
        ];
        for (name, used, kind, allowed) in cases {
            let expected = match allowed {
                true => Vec::new(),
                false => vec![format!("crates/{name}/Cargo.toml `{name}` uses `{used}`")],
            };
            assert_eq!(found(name, used, kind), expected, "{name} uses {used} ({kind})");
        }
    }

    #[test]
    fn a_crate_outside_the_table_is_found_and_xtask_stands_alone() {
        let crate_named = |name: &str, uses: &[&str]| Crate {
            name: name.to_owned(),
            uses: uses.iter().map(|used| (used.to_string(), DependencyKind::Normal)).collect(),
        };
        let crates = [
            crate_named("custody-extra", &[]),
            crate_named("xtask", &["custody-kernel"]),
            crate_named("custody-cli", &["xtask"]),
            crate_named("custody-lab", &["custody-cli", "xtask"]),
        ];
        assert_eq!(
            brief(&check(&crates)),
            [
                "crates/extra/Cargo.toml crate `extra` has no layer",
                "xtask/Cargo.toml `xtask` uses `kernel`",
                "crates/cli/Cargo.toml `cli` uses `xtask`",
                "lab/Cargo.toml `lab` uses `xtask`",
            ]
        );
    }
}
