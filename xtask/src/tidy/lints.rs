//! Every crate obeys the workspace's lints, the ban on `unsafe` among them.

use toml::{Table, Value};

use super::files::TrackedFiles;
use super::finding::Finding;

/// Finds manifests that do not inherit the lints, and a root that no longer forbids `unsafe`.
/// A manifest below the root with a `[workspace]` of its own (the fuzz targets) is not ours to ship.
pub(crate) fn check(files: &TrackedFiles) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files.ending("Cargo.toml") {
        let is_root = path == "Cargo.toml";
        match toml::from_str::<Table>(text) {
            Err(_) => findings.push(Finding::in_file(path, "not a manifest", "make it valid TOML")),
            Ok(manifest) if is_root && !forbids_unsafe(&manifest) => {
                findings.push(Finding::in_file(
                    path,
                    "`unsafe` is not forbidden",
                    "set `unsafe_code = \"forbid\"` under `[workspace.lints.rust]`",
                ));
            }
            Ok(manifest) if !manifest.contains_key("workspace") && !inherits(&manifest) => {
                findings.push(Finding::in_file(
                    path,
                    "the workspace's lints do not apply",
                    "add `[lints]` with `workspace = true`",
                ));
            }
            Ok(_) => {}
        }
    }
    findings
}

fn forbids_unsafe(manifest: &Table) -> bool {
    look_up(manifest, &["workspace", "lints", "rust", "unsafe_code"]).and_then(Value::as_str)
        == Some("forbid")
}

fn inherits(manifest: &Table) -> bool {
    look_up(manifest, &["lints", "workspace"]).and_then(Value::as_bool) == Some(true)
}

fn look_up<'a>(table: &'a Table, keys: &[&str]) -> Option<&'a Value> {
    let (first, rest) = keys.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(*key))
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    const ROOT: &str = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n";
    const OBEYS: &str = "[package]\nname = \"a\"\n[lints]\nworkspace = true\n";

    #[test]
    fn a_workspace_whose_crates_all_inherit_is_fine() {
        let files = TrackedFiles::from([
            ("Cargo.toml", ROOT),
            ("crates/a/Cargo.toml", OBEYS),
            ("fuzz/Cargo.toml", "[package]\nname = \"fuzz\"\n[workspace]\n"),
        ]);
        assert_eq!(check(&files), []);
    }

    #[test]
    fn a_crate_that_does_not_inherit_and_a_root_that_allows_unsafe_are_found() {
        let files = TrackedFiles::from([
            ("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"deny\"\n"),
            ("crates/a/Cargo.toml", "[package]\nname = \"a\"\n"),
            ("crates/b/Cargo.toml", "[lints]\nworkspace = false\n"),
            ("crates/c/Cargo.toml", "[lints"),
        ]);
        assert_eq!(
            brief(&check(&files)),
            [
                "Cargo.toml `unsafe` is not forbidden",
                "crates/a/Cargo.toml the workspace's lints do not apply",
                "crates/b/Cargo.toml the workspace's lints do not apply",
                "crates/c/Cargo.toml not a manifest",
            ]
        );
    }
}
