//! The kernel, and the crates beside it that only compute, have no files, network, clock, threads,
//! environment, randomness or async, in their own source or in the crates they link.
//!
//! The crates are listed in `xtask/kernel-crates.toml`, each with its role. One that mentions what
//! is forbidden (serde can encode a `SystemTime`) says there why that is harmless. This reads
//! words, not meaning: it tells an auditor where to look, and that nothing came in unseen. It does
//! not see through foreign functions or assembly; `unsafe` is forbidden in the kernel itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cargo_metadata::Metadata;
use serde::Deserialize;

use super::files::TrackedFiles;
use super::finding::Finding;
use super::tokens::{Token, begins_with, shipped_tokens};
use crate::workspace;

/// The crates that only compute, by their names without `custody-`.
const PURE: &[&str] = &["log", "text", "arguments", "record", "certificate", "kernel", "planner"];
const AUDITED: &str = "xtask/kernel-crates.toml";

/// The parts of `std` that reach outside, and `*`, behind which they could hide.
const MODULES: &[&str] = &["env", "fs", "io", "net", "os", "process", "thread", "time", "*"];

/// Words that mean a clock, randomness or async wherever they stand.
const WORDS: &[&str] =
    &["async", "getrandom", "Instant", "rand", "rand_core", "SystemTime", "tokio"];

/// Macros that write to the terminal.
const MACROS: &[&str] = &["dbg", "eprint", "eprintln", "print", "println"];

/// A crate in the dependency tree of the pure crates.
#[derive(Debug)]
pub(crate) struct Dependency {
    name: String,
    /// Whether it runs in the product, or only in the compiler while the product is built.
    linked: bool,
    /// What a linked crate mentions of the forbidden, each with the first place.
    mentions: BTreeMap<String, String>,
}

/// What `xtask/kernel-crates.toml` says of a crate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Audited {
    name: String,
    role: Role,
    /// What it mentions of the forbidden, and why that is harmless.
    #[serde(default)]
    mentions: BTreeMap<String, String>,
}

/// What the kernel needs a crate for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Role {
    Encoding,
    Hashing,
    Signature,
    UnicodeTables,
    LanguageSupport,
    /// A procedural macro or what one needs: it is not in the product.
    BuildTime,
}

/// Finds every mention of the forbidden in the source of the pure crates, tests excepted.
pub(crate) fn check_sources(files: &TrackedFiles) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files.ending(".rs") {
        let Some(name) = pure_crate(path) else { continue };
        match mentions(text) {
            Ok(found) => findings.extend(found.into_iter().map(|(what, line)| {
                let remedy = "it only computes; take the value as an argument";
                Finding::on_line(path, line, format!("`{name}` mentions `{what}`"), remedy)
            })),
            Err(error) => {
                findings.push(Finding::in_file(path, format!("{error:#}"), "make it parse"));
            }
        }
    }
    findings
}

/// The pure crate whose source `path` is part of.
fn pure_crate(path: &str) -> Option<&'static str> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    PURE.iter().copied().find(|pure| *pure == name && rest.starts_with("src/"))
}

/// Finds where the tree and the list of audited crates disagree, in either direction.
pub(crate) fn check_dependencies(tree: &[Dependency], audited: &[Audited]) -> Vec<Finding> {
    let mut complaints = Vec::new();
    for dependency in tree {
        match audited.iter().find(|audit| audit.name == dependency.name) {
            Some(audit) => compare(dependency, audit, &mut complaints),
            None => complaints.push((
                format!("the kernel depends on `{}`, which is not listed", dependency.name),
                String::from("read it and list it with its role, or do without it"),
            )),
        }
    }
    for Audited { name, .. } in audited {
        if !tree.iter().any(|dependency| dependency.name == *name) {
            complaints.push((
                format!("`{name}` is listed, but the kernel does not depend on it"),
                String::from("remove it"),
            ));
        }
    }
    complaints.into_iter().map(|(what, remedy)| Finding::in_file(AUDITED, what, remedy)).collect()
}

fn compare(dependency: &Dependency, audit: &Audited, complaints: &mut Vec<(String, String)>) {
    let name = &dependency.name;
    if dependency.linked == (audit.role == Role::BuildTime) {
        let (is, role) =
            if dependency.linked { ("", "what it is for") } else { ("not ", "`build-time`") };
        complaints
            .push((format!("`{name}` is {is}part of the product"), format!("its role is {role}")));
    }
    for (what, place) in &dependency.mentions {
        if !audit.mentions.contains_key(what) {
            complaints.push((
                format!("`{name}` mentions `{what}` ({place})"),
                String::from("list why that is harmless, or do without the crate"),
            ));
        }
    }
    for what in audit.mentions.keys() {
        if !dependency.mentions.contains_key(what) {
            complaints.push((
                format!("`{name}` no longer mentions `{what}`"),
                String::from("remove the reason"),
            ));
        }
    }
}

/// The list of audited crates.
pub(crate) fn audited(files: &TrackedFiles) -> Result<Vec<Audited>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct List {
        #[serde(rename = "crate")]
        crates: Vec<Audited>,
    }
    let list: List = toml::from_str(files.required(AUDITED)?)
        .with_context(|| format!("`{AUDITED}` is not as expected"))?;
    Ok(list.crates)
}

/// Every crate that the pure crates depend on, on any platform, tests and build scripts excepted.
pub(crate) fn dependencies(metadata: &Metadata) -> Result<Vec<Dependency>> {
    let everything = tree("normal")?;
    let linked = tree("normal,no-proc-macro")?;
    let mut dependencies: BTreeMap<&str, Dependency> = BTreeMap::new();
    for id in &everything {
        let name = id.0.as_str();
        let dependency = dependencies.entry(name).or_insert_with(|| Dependency {
            name: name.to_owned(),
            linked: false,
            mentions: BTreeMap::new(),
        });
        if linked.contains(id) {
            dependency.linked = true;
            dependency.mentions.extend(mentions_in_crate(metadata, id)?);
        }
    }
    Ok(dependencies.into_values().collect())
}

/// A crate's name and version.
type CrateId = (String, String);

/// The kernel's tree as `cargo tree` resolves it. The metadata alone would show features that only
/// tests turn on.
fn tree(edges: &str) -> Result<BTreeSet<CrateId>> {
    let packages = PURE.iter().flat_map(|name| ["--package".to_owned(), ours(name)]);
    let output = workspace::cargo()
        .arg("tree")
        .args(packages)
        .args(["--edges", edges, "--target", "all"])
        .args(["--prefix", "none", "--format", "{p}"])
        .output()
        .context("could not start `cargo tree`")?;
    if !output.status.success() {
        bail!("`cargo tree` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let output = String::from_utf8(output.stdout).context("`cargo tree` is not UTF-8")?;
    // Each line is `name v1.2.3`, then perhaps `(proc-macro)` and `(*)`.
    let ids = output.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.trim_start_matches('v').to_owned()))
    });
    Ok(ids.filter(|(name, _)| !PURE.iter().any(|pure| ours(pure) == *name)).collect())
}

fn ours(name: &str) -> String {
    format!("custody-{name}")
}

/// What the sources of a crate mention, each with the first place.
fn mentions_in_crate(metadata: &Metadata, id: &CrateId) -> Result<BTreeMap<String, String>> {
    let (name, version) = id;
    let package = metadata
        .packages
        .iter()
        .find(|package| *package.name == *name && package.version.to_string() == *version)
        .with_context(|| format!("`{name}` {version} is in the tree but not in the metadata"))?;
    let folder = package.manifest_path.parent().context("a manifest lies in a folder")?;
    let mut found = BTreeMap::new();
    for path in rust_files(folder.join("src").as_std_path())? {
        let place = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("could not read `{place}` of `{name}`"))?;
        let mentions =
            mentions(&text).with_context(|| format!("could not read `{place}` of `{name}`"))?;
        for (what, line) in mentions {
            found.entry(what).or_insert_with(|| format!("{place}:{line}"));
        }
    }
    Ok(found)
}

/// Every Rust file below a folder, in the order of the paths.
fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).context("could not read the sources of a crate")?;
    for entry in entries {
        let path = entry.context("could not read the sources of a crate")?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// What a source file mentions of the forbidden, each with its line.
fn mentions(source: &str) -> Result<Vec<(String, usize)>> {
    let tokens = shipped_tokens(source)?;
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let rest = &tokens[at + 1..];
        if WORDS.contains(&token.text.as_str()) {
            found.push((token.text.clone(), token.line));
        } else if MACROS.contains(&token.text.as_str()) && begins_with(rest, &["!"]) {
            found.push((format!("{}!", token.text), token.line));
        } else if token.text == "std" && begins_with(rest, &["::"]) {
            let names = imported(&rest[1..]);
            let forbidden = names.iter().filter(|name| MODULES.contains(&name.text.as_str()));
            found.extend(forbidden.map(|name| (format!("std::{}", name.text), name.line)));
        }
        // Under another name, `std` could not be followed.
        if begins_with(&tokens[at..], &["std", "as"])
            || begins_with(&tokens[at..], &["std", "::", "{", "self", "as"])
        {
            found.push((String::from("std as"), token.line));
        }
    }
    Ok(found)
}

/// The first names after `std::`: one, or each of a `{…}` list.
fn imported(tokens: &[Token]) -> Vec<&Token> {
    if !begins_with(tokens, &["{"]) {
        return tokens.first().into_iter().collect();
    }
    let mut names = Vec::new();
    let mut depth = 0usize;
    let mut starts_a_name = false;
    for token in tokens {
        match token.text.as_str() {
            "{" => {
                depth += 1;
                starts_a_name = depth == 1;
                continue;
            }
            "}" => depth -= 1,
            "," => {
                starts_a_name = depth == 1;
                continue;
            }
            _ if starts_a_name => names.push(token),
            _ => {}
        }
        starts_a_name = false;
        if depth == 0 {
            break;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    fn mentioned(source: &str) -> String {
        let found = mentions(source).unwrap();
        found.into_iter().map(|(what, _)| what).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn what_reaches_outside_is_seen_however_it_is_written() {
        let cases = [
            ("use std::fs;", "std::fs"),
            ("let a = ::std::fs::read(b);", "std::fs"),
            ("use std::{collections::BTreeMap, io::{self, Read}, net};", "std::io, std::net"),
            ("use std::{self as s, fmt};", "std as"),
            ("use std as s;", "std as"),
            ("extern crate std as s;", "std as"),
            ("pub use std::*;", "std::*"),
            ("a_macro! { std::thread::spawn(b) }", "std::thread"),
            ("async fn a() {}", "async"),
            ("let a = clock::SystemTime::default();", "SystemTime"),
            ("use rand::Rng;", "rand"),
            ("println!(\"{a}\");", "println!"),
        ];
        for (source, expected) in cases {
            assert_eq!(mentioned(source), expected, "{source}");
        }
    }

    #[test]
    fn what_only_reads_like_it_is_not_seen() {
        let cases = [
            "use std::{collections::BTreeMap, fmt::{self, io}};",
            "use std::error::Error;",
            "/// Never uses `std::fs`.\n// nor std::net\nfn a() {}",
            "const A: &str = \"std::fs::read\";",
            "#[cfg(test)] mod tests { use std::fs; }",
            "fn instant(random: u8) {}",
            "use core::time::Duration;",
        ];
        for source in cases {
            assert_eq!(mentioned(source), "", "{source}");
        }
    }

    #[test]
    fn only_pure_crates_are_held_to_it_and_their_tests_are_not() {
        let files = TrackedFiles::from([
            ("crates/kernel/src/closure.rs", "fn a() {}\nuse std::fs;"),
            ("crates/kernel/tests/model.rs", "use std::fs;"),
            ("crates/runtime/src/store.rs", "use std::fs;"),
        ]);
        let found = brief(&check_sources(&files));
        assert_eq!(found, ["crates/kernel/src/closure.rs:2 `kernel` mentions `std::fs`"]);
    }

    fn dependency(name: &str, linked: bool, mentions: &[&str]) -> Dependency {
        let mentions = mentions.iter().map(|what| (what.to_string(), String::from("src/lib.rs:1")));
        Dependency { name: name.to_owned(), linked, mentions: mentions.collect() }
    }

    fn audit(name: &str, role: Role, mentions: &[&str]) -> Audited {
        let mentions = mentions.iter().map(|what| (what.to_string(), String::from("harmless")));
        Audited { name: name.to_owned(), role, mentions: mentions.collect() }
    }

    #[test]
    fn a_tree_that_is_as_listed_is_fine() {
        let tree = [dependency("serde", true, &["std::io"]), dependency("syn", false, &[])];
        let list =
            [audit("serde", Role::Encoding, &["std::io"]), audit("syn", Role::BuildTime, &[])];
        assert_eq!(check_dependencies(&tree, &list), []);
    }

    #[test]
    fn every_difference_between_tree_and_list_is_found() {
        let tree = [
            dependency("unlisted", true, &[]),
            dependency("linked", true, &[]),
            dependency("unlinked", false, &[]),
            dependency("talks", true, &["std::net"]),
        ];
        let list = [
            audit("linked", Role::BuildTime, &[]),
            audit("unlinked", Role::Hashing, &[]),
            audit("talks", Role::Encoding, &["std::io"]),
            audit("gone", Role::UnicodeTables, &[]),
        ];
        let expected = [
            "the kernel depends on `unlisted`, which is not listed",
            "`linked` is part of the product",
            "`unlinked` is not part of the product",
            "`talks` mentions `std::net` (src/lib.rs:1)",
            "`talks` no longer mentions `std::io`",
            "`gone` is listed, but the kernel does not depend on it",
        ]
        .map(|what| format!("{AUDITED} {what}"));
        assert_eq!(brief(&check_dependencies(&tree, &list)), expected);
    }
}
