//! What we ship may be shipped: every crate has a licence that `deny.toml` allows, and comes from
//! the public registry or from this repository.
//!
//! The same as `cargo deny check licenses sources`, which reads the same file, for whoever has only
//! cargo.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, Node, PackageId};
use serde::Deserialize;
use spdx::{Expression, Licensee, ParseMode};

use super::files::TrackedFiles;
use super::finding::Finding;

const FILE: &str = "deny.toml";

/// A crate as far as its licence goes.
#[derive(Debug)]
pub(crate) struct Package {
    name: String,
    licence: Option<String>,
    source: Source,
}

/// Where a crate comes from.
#[derive(Debug)]
enum Source {
    Workspace,
    Registry,
    Elsewhere(String),
}

/// Every crate that the workspace is built from, on any platform; what only tests use is not
/// shipped and not asked.
pub(crate) fn packages(metadata: &Metadata) -> Result<Vec<Package>> {
    let resolve = metadata.resolve.as_ref().context("`cargo metadata` resolved nothing")?;
    let mut reached: BTreeSet<&PackageId> = BTreeSet::new();
    let mut open: Vec<&PackageId> = metadata.workspace_members.iter().collect();
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            let node = resolve.nodes.iter().find(|node| node.id == *id);
            open.extend(node.into_iter().flat_map(shipped_dependencies));
        }
    }
    let packages = metadata.packages.iter().filter(|package| reached.contains(&package.id));
    Ok(packages.map(|package| describe(metadata, package)).collect())
}

fn shipped_dependencies(node: &Node) -> impl Iterator<Item = &PackageId> {
    let shipped = node.deps.iter().filter(|dependency| {
        dependency.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development)
    });
    shipped.map(|dependency| &dependency.pkg)
}

fn describe(metadata: &Metadata, package: &cargo_metadata::Package) -> Package {
    let source = match &package.source {
        Some(source) if source.is_crates_io() => Source::Registry,
        None if metadata.workspace_members.contains(&package.id) => Source::Workspace,
        Some(source) => Source::Elsewhere(source.repr.clone()),
        None => Source::Elsewhere(String::from("a folder outside the workspace")),
    };
    Package { name: package.name.to_string(), licence: package.license.clone(), source }
}

/// The licences that `deny.toml` allows.
pub(crate) fn allowed(files: &TrackedFiles) -> Result<Vec<Licensee>> {
    #[derive(Deserialize)]
    struct Deny {
        licenses: Licences,
    }
    #[derive(Deserialize)]
    struct Licences {
        allow: Vec<String>,
    }
    let deny: Deny = toml::from_str(files.required(FILE)?)
        .with_context(|| format!("`{FILE}` has no list `licenses.allow`"))?;
    let allowed = deny.licenses.allow.iter().map(|name| {
        Licensee::parse(name).with_context(|| format!("`{FILE}`: `{name}` is no SPDX licence"))
    });
    allowed.collect()
}

/// Finds crates whose licence is missing, unreadable or not allowed, and crates from elsewhere.
pub(crate) fn check(packages: &[Package], allowed: &[Licensee]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Package { name, licence, source } in packages {
        if let Some(what) = objection(licence.as_deref(), allowed) {
            let remedy = "do without the crate, or allow its licence if we can keep its terms";
            findings.push(Finding::in_file(FILE, format!("`{name}`: {what}"), remedy));
        }
        if let Source::Elsewhere(place) = source {
            let remedy = "use a release from the registry";
            findings.push(Finding::in_file(FILE, format!("`{name}` comes from {place}"), remedy));
        }
    }
    findings
}

fn objection(licence: Option<&str>, allowed: &[Licensee]) -> Option<String> {
    let Some(licence) = licence else {
        return Some(String::from("names no licence"));
    };
    // Older crates write `MIT/Apache-2.0`.
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
        return Some(format!("licence `{licence}` is not an SPDX expression"));
    };
    let is_allowed =
        expression.evaluate(|required| allowed.iter().any(|licensee| licensee.satisfies(required)));
    (!is_allowed).then(|| format!("licence `{licence}` is not allowed"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    fn found(licence: Option<&str>, source: Source) -> Vec<String> {
        let deny = "[licenses]\nallow = [\"MIT\", \"Unicode-3.0\"]";
        let allowed = allowed(&TrackedFiles::from([(FILE, deny)])).unwrap();
        let licence = licence.map(str::to_owned);
        brief(&check(&[Package { name: String::from("a"), licence, source }], &allowed))
    }

    #[test]
    fn an_allowed_licence_from_the_registry_is_fine() {
        for licence in
            ["MIT", "MIT/Apache-2.0", "Apache-2.0 OR MIT", "(MIT OR BSD-3-Clause) AND Unicode-3.0"]
        {
            assert_eq!(found(Some(licence), Source::Registry), [""; 0], "{licence}");
            assert_eq!(found(Some(licence), Source::Workspace), [""; 0], "{licence}");
        }
    }

    #[test]
    fn any_other_licence_or_source_is_found() {
        let cases = [
            (Some("GPL-3.0-only"), "`a`: licence `GPL-3.0-only` is not allowed"),
            (Some("MIT AND GPL-3.0-only"), "`a`: licence `MIT AND GPL-3.0-only` is not allowed"),
            (Some("my own"), "`a`: licence `my own` is not an SPDX expression"),
            (None, "`a`: names no licence"),
        ];
        for (licence, expected) in cases {
            assert_eq!(found(licence, Source::Registry), [format!("{FILE} {expected}")]);
        }
        let fork = Source::Elsewhere(String::from("a fork"));
        assert_eq!(found(Some("MIT"), fork), [format!("{FILE} `a` comes from a fork")]);
    }
}
