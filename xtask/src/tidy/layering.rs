//! Dependencies between our crates point one way.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, Metadata};

use super::finding::Finding;

/// Which of our crates each crate may use. A boundary is a promise the compiler then keeps: with
/// no path from `kernel` to `detect`, no score can be an input to a write decision.
///
/// A crate may use what its row names and nothing else, not even what those use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("log", &[]),
    ("text", &[]),
    ("adapters", &["log"]),
    ("arguments", &["log", "text"]),
    ("record", &["log", "arguments"]),
    ("kernel", &["log", "arguments", "record"]),
    ("planner", &["log", "text", "kernel"]),
    ("certificate", &["log"]),
    ("policy", &["log", "arguments", "kernel"]),
    ("keys", &["log"]),
    ("witness", &["log", "keys"]),
    ("store", &["log", "text", "kernel", "keys"]),
    ("models", &[]),
    ("detect", &["models"]),
    ("runtime", &["log", "text", "arguments", "kernel", "policy", "keys", "store"]),
    ("pipeline", &["log", "kernel", "store", "models", "detect", "runtime"]),
    ("incident", BELOW_INCIDENT),
    ("verify", BELOW_VERIFY),
    ("gateway", &["log", "arguments", "kernel", "store", "runtime"]),
    ("service", &["log", "kernel", "policy", "runtime", "gateway"]),
    ("cli", PRODUCT),
    ("lab", PRODUCT_AND_CLI),
    ("embed", &["arguments", "kernel", "policy", "runtime"]),
];

const BELOW_INCIDENT: &[&str] = &[
    "log",
    "text",
    "arguments",
    "kernel",
    "planner",
    "certificate",
    "policy",
    "keys",
    "store",
    "models",
    "runtime",
];

const BELOW_VERIFY: &[&str] = &[
    "log",
    "text",
    "arguments",
    "kernel",
    "planner",
    "certificate",
    "policy",
    "keys",
    "store",
    "models",
    "runtime",
    "incident",
];

const PRODUCT: &[&str] = &[
    "log",
    "text",
    "adapters",
    "arguments",
    "kernel",
    "planner",
    "certificate",
    "policy",
    "keys",
    "store",
    "models",
    "detect",
    "runtime",
    "pipeline",
    "incident",
    "verify",
    "witness",
    "gateway",
    "service",
];

const PRODUCT_AND_CLI: &[&str] = &[
    "log",
    "text",
    "adapters",
    "arguments",
    "kernel",
    "planner",
    "certificate",
    "policy",
    "keys",
    "store",
    "models",
    "detect",
    "runtime",
    "pipeline",
    "incident",
    "verify",
    "witness",
    "gateway",
    "service",
    "cli",
];

/// The chores, which use nothing of ours and are used by nothing.
const XTASK: &str = "xtask";

/// Crates that are no part of the product, and lie beside `crates/`.
const BESIDE: [(&str, &str); 3] = [("lab", "lab"), ("embed", "examples/embed"), (XTASK, XTASK)];

/// One crate of the workspace and what it uses of ours.
#[derive(Debug)]
pub(crate) struct Crate {
    name: String,
    uses: Vec<(String, DependencyKind)>,
}

/// The crates of the workspace, as their manifests say.
pub(crate) fn crates(metadata: &Metadata) -> Vec<Crate> {
    let members = metadata.workspace_packages();
    let names: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let crates = members.iter().map(|package| Crate {
        name: package.name.to_string(),
        uses: package
            .dependencies
            .iter()
            .filter(|dependency| names.contains(dependency.name.as_str()))
            .map(|dependency| (dependency.name.clone(), dependency.kind))
            .collect(),
    });
    crates.collect()
}

/// Finds every use that the table does not allow: of crates that are linked, on any platform and with any feature,
/// and of those that a build script runs. The tests of a crate may use more, but those of `kernel` may not: an
/// auditor builds and tests it alone.
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
                let what = format!("`{name}` uses `{}`", short(used));
                let remedy =
                    "dependencies point one way; move the code to the layer that may have it";
                let subject = format!("{name} -> {}", short(used));
                findings.push(Finding::in_file(&manifest(name), what, remedy).about(subject));
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
    let beside = BESIDE.iter().find(|(beside, _)| *beside == name);
    let folder =
        beside.map_or_else(|| format!("crates/{name}"), |(_, folder)| (*folder).to_owned());
    format!("{folder}/Cargo.toml")
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
            ("runtime", "planner", Normal, false),
            ("store", "kernel", Normal, true),
            ("store", "runtime", Normal, false),
            ("store", "runtime", Build, false),
            ("verify", "incident", Normal, true),
            ("incident", "verify", Normal, false),
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
    fn each_row_names_crates_of_the_rows_above_it() {
        for (at, (name, used)) in MAY_USE.iter().enumerate() {
            let above: Vec<&str> = MAY_USE[..at].iter().map(|(name, _)| *name).collect();
            assert!(used.iter().all(|used| above.contains(used)), "`{name}`");
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
