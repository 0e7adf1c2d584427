//! What exists for tests only is compiled into tests only: the features named here stand in `[dev-dependencies]` and
//! in no feature of another crate.

use cargo_metadata::{DependencyKind, Metadata, Package};

use super::finding::Finding;
use crate::workspace;

/// A feature that takes a protection away, so that tests run in no time.
const FOR_TESTS: [&str; 1] = ["cheap-passphrases"];

/// Where a manifest of the workspace names a feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// The manifest, relative to the workspace root.
    file: String,
    feature: String,
}

/// Every place outside `[dev-dependencies]` that switches a feature of a dependency on, and every feature that another
/// one of the same crate brings with it.
pub(crate) fn named(metadata: &Metadata) -> Vec<Named> {
    metadata.workspace_packages().into_iter().flat_map(named_by).collect()
}

fn named_by(package: &Package) -> Vec<Named> {
    let root = workspace::root();
    let path = package.manifest_path.as_std_path();
    let file = path.strip_prefix(&root).unwrap_or(path).to_string_lossy().into_owned();
    let linked = package.dependencies.iter();
    let linked = linked.filter(|dependency| dependency.kind != DependencyKind::Development);
    let by_dependencies = linked.flat_map(|dependency| dependency.features.iter());
    let by_features = package.features.values().flatten();
    let all = by_dependencies.chain(by_features);
    all.map(|feature| Named { file: file.clone(), feature: feature.clone() }).collect()
}

/// Finds features for tests that a build of the product could have.
pub(crate) fn check(named: &[Named]) -> Vec<Finding> {
    let findings = named.iter().filter(|named| is_for_tests(&named.feature)).map(|named| {
        let what = format!("names the feature `{}`, which is for tests", named.feature);
        Finding::in_file(&named.file, what, "name it in [dev-dependencies] only")
    });
    findings.collect()
}

/// Whether this is such a feature, perhaps with the name of its crate before it.
fn is_for_tests(feature: &str) -> bool {
    FOR_TESTS.contains(&feature.rsplit('/').next().unwrap_or(feature))
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    #[test]
    fn a_feature_for_tests_is_found_wherever_a_build_could_have_it() {
        for feature in ["cheap-passphrases", "custody-keys/cheap-passphrases"] {
            let expected =
                format!("crates/cli/Cargo.toml names the feature `{feature}`, which is for tests");
            assert_eq!(brief(&check(&[named("passphrase"), named(feature)])), [expected]);
        }
        assert!(check(&[named("passphrase"), named("dep:zxcvbn")]).is_empty());
    }

    fn named(feature: &str) -> Named {
        Named { file: "crates/cli/Cargo.toml".to_owned(), feature: feature.to_owned() }
    }
}
