//! Every library can be packaged: its manifest says what a registry asks for, and its dependencies on ours name a
//! version.

use cargo_metadata::semver::VersionReq;
use cargo_metadata::{DependencyKind, Metadata, Package};

use super::files::TrackedFiles;
use super::finding::Finding;
use crate::workspace;

/// A registry takes no more keywords and no more categories.
const AT_MOST: usize = 5;

/// A registry takes no longer keyword.
const LONGEST_KEYWORD: usize = 20;

/// What the manifest of a package that may be published says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manifest {
    /// Relative to the workspace root.
    file: String,
    name: String,
    description: Option<String>,
    licence: Option<String>,
    repository: Option<String>,
    /// Relative to the workspace root.
    readme: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    /// The dependencies on crates of ours that name no version.
    unversioned: Vec<String>,
}

/// The manifests of the workspace, without packages that are never published.
pub(crate) fn manifests(metadata: &Metadata) -> Vec<Manifest> {
    let packages = metadata.workspace_packages().into_iter();
    let published =
        packages.filter(|package| package.publish.as_ref().is_none_or(|to| !to.is_empty()));
    published.map(describe).collect()
}

fn describe(package: &Package) -> Manifest {
    let root = workspace::root();
    let path = package.manifest_path.as_std_path();
    let file = path.strip_prefix(&root).unwrap_or(path).to_string_lossy().into_owned();
    let folder = file.trim_end_matches("Cargo.toml");
    let unversioned = package.dependencies.iter().filter(|dependency| {
        let is_ours = dependency.path.is_some() && dependency.kind != DependencyKind::Development;
        is_ours && dependency.req == VersionReq::STAR
    });
    Manifest {
        name: package.name.to_string(),
        description: package.description.clone(),
        licence: package.license.clone(),
        repository: package.repository.clone(),
        readme: package.readme.as_ref().map(|readme| format!("{folder}{readme}")),
        keywords: package.keywords.clone(),
        categories: package.categories.clone(),
        unversioned: unversioned.map(|dependency| dependency.name.clone()).collect(),
        file,
    }
}

/// Finds what a manifest lacks.
pub(crate) fn check(manifests: &[Manifest], files: &TrackedFiles) -> Vec<Finding> {
    let findings = manifests.iter().flat_map(|manifest| {
        let lacking = lacking(manifest, files).into_iter();
        lacking.map(|what| Finding::in_file(&manifest.file, what, "a registry asks for it: add it"))
    });
    findings.collect()
}

fn lacking(manifest: &Manifest, files: &TrackedFiles) -> Vec<String> {
    let wanted = [
        (manifest.description.is_some(), "a description"),
        (manifest.licence.is_some(), "a licence"),
        (manifest.repository.is_some(), "a repository"),
        (has_readme(manifest, files), "a README that is tracked by git"),
        (has_keywords(manifest), "one to five keywords of at most 20 characters"),
        ((1..=AT_MOST).contains(&manifest.categories.len()), "one to five categories"),
    ];
    let lacking = wanted.iter().filter(|(is_there, _)| !is_there);
    let lacking = lacking.map(|(_, what)| format!("`{}` lacks {what}", manifest.name));
    let unversioned = manifest.unversioned.iter();
    lacking
        .chain(unversioned.map(|used| format!("`{}` names no version of `{used}`", manifest.name)))
        .collect()
}

fn has_readme(manifest: &Manifest, files: &TrackedFiles) -> bool {
    manifest.readme.as_ref().is_some_and(|readme| files.text(readme).is_some())
}

fn has_keywords(manifest: &Manifest) -> bool {
    let keywords = &manifest.keywords;
    (1..=AT_MOST).contains(&keywords.len())
        && keywords.iter().all(|keyword| keyword.len() <= LONGEST_KEYWORD)
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    fn complete() -> Manifest {
        let text = |text: &str| Some(text.to_owned());
        Manifest {
            file: String::from("crates/log/Cargo.toml"),
            name: String::from("custody-log"),
            description: text("A log."),
            licence: text("Apache-2.0"),
            repository: text("https://example.org"),
            readme: text("crates/log/README.md"),
            keywords: vec![String::from("audit")],
            categories: vec![String::from("encoding")],
            unversioned: Vec::new(),
        }
    }

    fn found(manifest: Manifest) -> Vec<String> {
        brief(&check(
            &[manifest],
            &TrackedFiles::from([("crates/log/README.md", "# custody-log\n")]),
        ))
    }

    #[test]
    fn what_a_registry_asks_for_is_there() {
        assert_eq!(found(complete()), [""; 0]);
    }

    #[test]
    fn each_thing_that_lacks_is_found() {
        let keyword = |keyword: &str| vec![keyword.to_owned()];
        let cases = [
            (Manifest { description: None, ..complete() }, "lacks a description"),
            (Manifest { licence: None, ..complete() }, "lacks a licence"),
            (Manifest { repository: None, ..complete() }, "lacks a repository"),
            (Manifest { readme: None, ..complete() }, "lacks a README that is tracked by git"),
            (
                Manifest { readme: Some(String::from("crates/log/none.md")), ..complete() },
                "lacks a README that is tracked by git",
            ),
            (
                Manifest { keywords: Vec::new(), ..complete() },
                "lacks one to five keywords of at most 20 characters",
            ),
            (
                Manifest { keywords: keyword("a-word-that-is-too-long"), ..complete() },
                "lacks one to five keywords of at most 20 characters",
            ),
            (Manifest { categories: Vec::new(), ..complete() }, "lacks one to five categories"),
            (
                Manifest { unversioned: keyword("custody-keys"), ..complete() },
                "names no version of `custody-keys`",
            ),
        ];
        for (manifest, expected) in cases {
            assert_eq!(
                found(manifest),
                [format!("crates/log/Cargo.toml `custody-log` {expected}")]
            );
        }
    }
}
