//! `cargo xtask fuzz`: hostile bytes for every parser that faces the outside.
//!
//! The targets are the `[[bin]]`s of `fuzz/Cargo.toml`, a crate outside the workspace that links
//! libFuzzer. They build on the stable compiler: coverage comes from LLVM's own pass, and integer
//! overflow and debug assertions are on in our own crates. `fuzz/seeds/TARGET` is read if it exists, new inputs grow
//! `fuzz/corpus/TARGET`, and what crashes is written to `fuzz/artifacts/TARGET`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::workspace;

/// How long each target runs unless `--seconds` says otherwise.
const DEFAULT_SECONDS: u64 = 60;

/// Makes code check its arithmetic, and tell libFuzzer which branches it took and which values it compared.
/// Our own code only: a kernel of matrix products with these takes a quarter of an hour to compile, and parses
/// nothing.
const OWN_FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions=on",
    "-Coverflow-checks=on",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// Set while this program stands between cargo and the compiler.
const WRAPS_COMPILER: &str = "CUSTODY_XTASK_WRAPS_RUSTC";

/// What the caller asked for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    seconds: u64,
    target: Option<String>,
}

/// Builds the targets and runs them, one on each core; starts no other one when one has crashed.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let request = parse_request(arguments)?;
    let folder = workspace::root().join("fuzz");
    let known = known_targets(&folder)?;
    if known.is_empty() && request.target.is_none() {
        println!("there are no fuzz targets yet: `fuzz/Cargo.toml` names none");
        return Ok(ExitCode::SUCCESS);
    }
    let targets = choose_targets(known, request.target.as_deref())?;
    let binaries = build(&folder, &targets)?;
    let waiting = Mutex::new(targets.into_iter());
    let is_failed = AtomicBool::new(false);
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        let ran: Vec<_> = (0..cores)
            .map(|_| {
                scope.spawn(|| fuzz_some(&folder, &binaries, &waiting, request.seconds, &is_failed))
            })
            .collect();
        ran.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| bail!("a thread that ran a target failed"))
        })
    })?;
    Ok(if is_failed.into_inner() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs targets that are waiting, until there are none or one has crashed.
fn fuzz_some(
    folder: &Path,
    binaries: &Path,
    waiting: &Mutex<std::vec::IntoIter<String>>,
    seconds: u64,
    is_failed: &AtomicBool,
) -> Result<()> {
    while !is_failed.load(Ordering::Relaxed) {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(target) = next else { break };
        println!("==> {target}: {seconds} s");
        if !fuzz_one(folder, binaries, &target, seconds)? {
            println!("==> {target}: CRASHED; the input is in `fuzz/artifacts/{target}`");
            is_failed.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn parse_request(arguments: &[String]) -> Result<Request> {
    let mut request = Request { seconds: DEFAULT_SECONDS, target: None };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--seconds" {
            let seconds = arguments.next().context("`--seconds` needs a number")?;
            request.seconds = seconds
                .parse()
                .with_context(|| format!("`--seconds {seconds}` is not a whole number"))?;
        } else if argument.starts_with('-') || request.target.is_some() {
            bail!("unknown argument `{argument}`; give `--seconds N` and at most one target");
        } else {
            request.target = Some(argument.clone());
        }
    }
    // libFuzzer takes zero for "until it crashes".
    if request.seconds == 0 {
        bail!("`--seconds 0` would never end; give at least 1");
    }
    Ok(request)
}

/// The names in the fuzz crate's manifest; none if there is no such crate.
fn known_targets(folder: &Path) -> Result<Vec<String>> {
    let manifest = folder.join("Cargo.toml");
    if !manifest.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(manifest).context("could not read `fuzz/Cargo.toml`")?;
    target_names(&text)
}

fn target_names(manifest: &str) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Manifest {
        #[serde(default)]
        bin: Vec<Binary>,
    }
    #[derive(Deserialize)]
    struct Binary {
        name: String,
    }
    let manifest: Manifest =
        toml::from_str(manifest).context("`fuzz/Cargo.toml` is not a manifest")?;
    Ok(manifest.bin.into_iter().map(|binary| binary.name).collect())
}

fn choose_targets(known: Vec<String>, chosen: Option<&str>) -> Result<Vec<String>> {
    let Some(chosen) = chosen else {
        return Ok(known);
    };
    if !known.iter().any(|name| name == chosen) {
        bail!("no fuzz target `{chosen}`; `fuzz/Cargo.toml` has: {}", known.join(", "));
    }
    Ok(vec![chosen.to_owned()])
}

/// Builds the targets and returns the folder that holds them.
fn build(folder: &Path, targets: &[String]) -> Result<PathBuf> {
    let host = host()?;
    let target_dir = workspace::metadata()?.target_directory.join("fuzz");
    let mut command = workspace::cargo();
    command.args(["build", "--release", "--manifest-path"]).arg(folder.join("Cargo.toml"));
    // Naming the host as target keeps the flags away from build scripts and macros.
    command.args(["--target", &host, "--target-dir", target_dir.as_str()]);
    for target in targets {
        command.args(["--bin", target]);
    }
    command.env("RUSTC_WRAPPER", std::env::current_exe().context("this program has no path")?);
    command.env(WRAPS_COMPILER, "1");
    if !command.status().context("could not start cargo")?.success() {
        bail!("the fuzz targets do not build");
    }
    Ok(target_dir.join(host).join("release").into_std_path_buf())
}

/// Compiles one crate as cargo asked, with [`OWN_FLAGS`] if it is ours; `None` if cargo did not ask.
pub(crate) fn wrap_compiler(arguments: &[String]) -> Option<Result<ExitCode>> {
    std::env::var_os(WRAPS_COMPILER)?;
    let (compiler, arguments) = arguments.split_first()?;
    let mut command = Command::new(compiler);
    command.args(arguments);
    let is_ours = std::env::var_os("CARGO_MANIFEST_DIR")
        .is_some_and(|folder| Path::new(&folder).starts_with(workspace::root()));
    let for_target = arguments.iter().any(|argument| argument == "--target");
    if is_ours && for_target {
        command.args(OWN_FLAGS);
    }
    let status = command.status().with_context(|| format!("could not start `{compiler}`"));
    Some(status.map(|status| if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// The platform that this compiler runs on.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().context("could not start `rustc`")?;
    let version = String::from_utf8_lossy(&output.stdout);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` names no host")
}

/// Runs one target; `true` if it lasted the time.
fn fuzz_one(folder: &Path, binaries: &Path, target: &str, seconds: u64) -> Result<bool> {
    let corpus = folder.join("corpus").join(target);
    let artifacts = folder.join("artifacts").join(target);
    let seeds = folder.join("seeds").join(target);
    for created in [&corpus, &artifacts] {
        std::fs::create_dir_all(created).context("could not create a folder in `fuzz/`")?;
    }
    let mut command = Command::new(binaries.join(target));
    command.arg(&corpus);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    // Two targets at once would write between each other's lines.
    let ended = command.output().with_context(|| format!("could not start `{target}`"))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    if !ended.status.success() {
        print!("{said}");
    } else if let Some(last) = said.lines().last() {
        println!("==> {target}: {last}");
    }
    Ok(ended.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &str) -> Option<(u64, Option<String>)> {
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        parse_request(&arguments).ok().map(|request| (request.seconds, request.target))
    }

    #[test]
    fn a_request_is_a_time_and_at_most_one_target() {
        let key = || Some("key".to_owned());
        let cases = [
            ("", Some((DEFAULT_SECONDS, None))),
            ("key", Some((DEFAULT_SECONDS, key()))),
            ("--seconds 5 key", Some((5, key()))),
            ("key --seconds 5", Some((5, key()))),
            ("--seconds", None),
            ("--seconds soon", None),
            ("--seconds 0", None),
            ("key frame", None),
            ("--help", None),
        ];
        for (arguments, expected) in cases {
            assert_eq!(parsed(arguments), expected, "`{arguments}`");
        }
    }

    #[test]
    fn targets_are_the_binaries_of_the_manifest_and_an_unknown_one_is_refused() {
        let manifest =
            "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"key\"\n[[bin]]\nname = \"frame\"";
        let known = target_names(manifest).unwrap();
        assert_eq!(known, ["key", "frame"]);
        assert_eq!(target_names("[package]\nname = \"fuzz\"").unwrap(), Vec::<String>::new());
        assert_eq!(choose_targets(known.clone(), None).unwrap(), known);
        assert_eq!(choose_targets(known.clone(), Some("frame")).unwrap(), ["frame"]);
        assert!(choose_targets(known, Some("other")).is_err());
    }
}
