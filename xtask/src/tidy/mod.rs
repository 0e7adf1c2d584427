//! `cargo xtask tidy`: what we promise and the compiler does not check.
//!
//! Each check is a function from what it reads to a list of [`Finding`]s. All run, all findings are
//! printed. Exceptions stand, each with its reason, in `xtask/tidy.toml` and
//! `xtask/kernel-crates.toml`; what is known and still to do, in `xtask/tidy-baseline.txt`.

mod baseline;
mod exceptions;
mod files;
mod finding;
mod places;
mod sources;
mod tokens;

mod changelog;
mod citations;
mod claims;
mod clock;
mod closures;
mod comments;
mod cycles;
mod dictionary;
mod embedded;
mod layering;
mod licences;
mod links;
mod lints;
mod machine_paths;
mod manifests;
mod public_names;
mod purity;
mod sizes;
mod test_features;
mod weaknesses;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::workspace;
use baseline::Baseline;
use exceptions::Exceptions;
use files::TrackedFiles;
use finding::Finding;

/// Prints every finding; fails if there is one that is not known. `--shrink` takes what is done from the list of
/// known ones.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(if report()?.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        ["--shrink"] => shrink(),
        _ => bail!("unknown arguments; `cargo xtask tidy` takes `--shrink` or nothing"),
    }
}

/// Prints every check with its findings, and returns those that fail.
///
/// # Errors
/// When something a check needs cannot be read.
pub(crate) fn report() -> Result<Vec<Finding>> {
    let files = TrackedFiles::read(&workspace::root())?;
    let mut baseline = Baseline::read(&files);
    let mut failing = Vec::new();
    let mut to_do = 0;
    for (name, findings) in run_checks(&files)? {
        let sorted = baseline.sort(name, findings);
        println!("{name}: {}", if sorted.new.is_empty() { "fine" } else { "NOT fine" });
        sorted.to_do.iter().for_each(|finding| println!("  to do: {finding}"));
        sorted.new.iter().for_each(|finding| println!("  {finding}"));
        to_do += sorted.to_do.len();
        failing.extend(sorted.new);
    }
    let stale = baseline.stale();
    stale.iter().for_each(|finding| println!("{finding}"));
    failing.extend(stale);
    println!("tidy: {}{}", conclusion(failing.len()), known(to_do));
    Ok(failing)
}

fn conclusion(failing: usize) -> String {
    match failing {
        0 => String::from("no findings"),
        count => format!("{count} to put right"),
    }
}

fn known(to_do: usize) -> String {
    match to_do {
        0 => String::new(),
        count => format!(", {count} known and to do ({})", baseline::FILE),
    }
}

/// Takes the lines whose findings are gone from the list of known findings.
fn shrink() -> Result<ExitCode> {
    let root = workspace::root();
    let files = TrackedFiles::read(&root)?;
    let mut baseline = Baseline::read(&files);
    for (name, findings) in run_checks(&files)? {
        baseline.sort(name, findings);
    }
    if let Some(text) = files.text(baseline::FILE) {
        std::fs::write(root.join(baseline::FILE), baseline.shrunk(text))
            .with_context(|| format!("could not write `{}`", baseline::FILE))?;
    }
    println!("tidy: {} lines taken from `{}`", baseline.stale().len(), baseline::FILE);
    Ok(ExitCode::SUCCESS)
}

fn run_checks(files: &TrackedFiles) -> Result<Vec<(&'static str, Vec<Finding>)>> {
    let metadata = workspace::metadata()?;
    let exceptions = Exceptions::read(files)?;
    let sources = sources::read(files)?;
    let names = public_names::public_names(&sources);
    Ok(vec![
        ("layering", layering::check(&layering::crates(&metadata))),
        ("test-features", test_features::check(&test_features::named(&metadata))),
        ("pure crates", purity::check_sources(files)),
        (
            "crates under the pure crates",
            purity::check_dependencies(&purity::dependencies(&metadata)?, &purity::audited(files)?),
        ),
        ("sizes", sizes::check(files)?),
        ("named closures", closures::check(&sources)),
        ("import cycles", cycles::check(&sources)),
        ("public types", public_names::check_types(&names)),
        ("dictionary", dictionary::check(&names)),
        ("lints", lints::check(files)),
        ("clock", clock::check(files, &exceptions.clock)),
        ("claims", claims::check(files)),
        ("citations", citations::check(files, &exceptions.citations)),
        ("weaknesses", weaknesses::check(files)),
        ("manifests", manifests::check(&manifests::manifests(&metadata), files)),
        ("links", links::check(files)),
        ("licences", licences::check(&licences::packages(&metadata)?, &licences::allowed(files)?)),
        ("machine paths", machine_paths::check(files, &exceptions.machine_paths)),
        ("comments", comments::check(files)),
        ("embedded files", embedded::check(files)),
        ("changelog", changelog::check(files)),
    ])
}
