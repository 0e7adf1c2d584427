//! `cargo xtask tidy`: what we promise and the compiler does not check.
//!
//! Each check is a function from what it reads to a list of [`Finding`]s. All run, all findings are
//! printed. Exceptions stand, each with its reason, in `xtask/tidy.toml` and
//! `xtask/kernel-crates.toml`.

mod exceptions;
mod files;
mod finding;
mod places;
mod tokens;

mod changelog;
mod citations;
mod claims;
mod clock;
mod comments;
mod embedded;
mod layering;
mod licences;
mod links;
mod lints;
mod machine_paths;
mod purity;
mod sizes;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::workspace;
use exceptions::Exceptions;
use files::TrackedFiles;
use finding::Finding;

/// Prints every finding; fails if there is one.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if let Some(argument) = arguments.first() {
        bail!("unknown argument `{argument}`; `cargo xtask tidy` takes none");
    }
    Ok(if report()?.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints every check with its findings, and returns the findings.
///
/// # Errors
/// When something a check needs cannot be read.
pub(crate) fn report() -> Result<Vec<Finding>> {
    let mut all = Vec::new();
    for (name, findings) in run_checks()? {
        println!("{name}: {}", if findings.is_empty() { "fine" } else { "NOT fine" });
        for finding in &findings {
            println!("  {finding}");
        }
        all.extend(findings);
    }
    match all.len() {
        0 => println!("tidy: no findings"),
        count => println!("tidy: {count} to put right"),
    }
    Ok(all)
}

fn run_checks() -> Result<Vec<(&'static str, Vec<Finding>)>> {
    let files = TrackedFiles::read(&workspace::root())?;
    let metadata = workspace::metadata()?;
    let exceptions = Exceptions::read(&files)?;
    Ok(vec![
        ("layering", layering::check(&layering::crates(&metadata))),
        ("pure crates", purity::check_sources(&files)),
        (
            "crates under the pure crates",
            purity::check_dependencies(
                &purity::dependencies(&metadata)?,
                &purity::audited(&files)?,
            ),
        ),
        ("sizes", sizes::check(&files)?),
        ("lints", lints::check(&files)),
        ("clock", clock::check(&files, &exceptions.clock)),
        ("claims", claims::check(&files)),
        ("citations", citations::check(&files, &exceptions.citations)),
        ("links", links::check(&files)),
        ("licences", licences::check(&licences::packages(&metadata)?, &licences::allowed(&files)?)),
        ("machine paths", machine_paths::check(&files, &exceptions.machine_paths)),
        ("comments", comments::check(&files)),
        ("embedded files", embedded::check(&files)),
        ("changelog", changelog::check(&files)),
    ])
}
