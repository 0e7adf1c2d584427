//! `custody cert export`: a certificate taken apart for other people's tools.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use custody_certificate::{SignedCheckpoint, Unverified};
use custody_keys::public_key;
use custody_log::{key_name, vkey};
use ed25519_dalek::VerifyingKey;
use serde_json::json;

use super::key::KeyArgs;
use crate::context::GlobalContext;
use crate::file_error::unwritable;
use crate::output::{ExitStatus, WARN, json_line, line, paint, shown};

/// What is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// The in-toto Statement: `statement.json`
    Statement,
    /// The envelope as it is: `certificate.dsse.json`
    Dsse,
    /// The signed notes before and after, each with the C2SP verifier key of its log key
    Checkpoints,
}

/// Take a certificate apart, for tools that read in-toto Statements, DSSE envelopes or C2SP checkpoints.
///
/// With the owner's public key it is verified first, and nothing is written unless it holds; the key is written too, as
/// `owner.pem`. No file that is there already is replaced.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The certificate; `-` is standard input
    file: PathBuf,
    /// What to take out; may be repeated [default: all]
    #[arg(long, value_enum)]
    format: Vec<Format>,
    /// The folder to write to; made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    key: KeyArgs,
}

impl Args {
    /// Whether `format` is written: all are where none is named.
    fn wants(&self, format: Format) -> bool {
        self.format.is_empty() || self.format.contains(&format)
    }
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let key = args.key.given()?;
    let file = super::read(&args.file)?;
    let unverified = match super::opened(&file, key.as_ref()) {
        Ok(unverified) => unverified,
        Err(refusal) => return super::refused(context, &refusal),
    };
    let mut parts: Vec<(&str, Vec<u8>)> = Vec::new();
    if args.wants(Format::Dsse) {
        parts.push(("certificate.dsse.json", file));
    }
    if args.wants(Format::Statement) {
        parts.push(("statement.json", unverified.payload().to_vec()));
    }
    if args.wants(Format::Checkpoints) {
        parts.extend(checkpoints(&unverified)?);
    }
    if let Some(key) = &key {
        parts.push(("owner.pem", public_key::pem(key).into_bytes()));
    }
    write_all(&args.out, &parts)?;
    print_written(context, &args.out, &parts, key.is_some())
}

fn checkpoints(unverified: &Unverified) -> anyhow::Result<[(&'static str, Vec<u8>); 4]> {
    let audit = &unverified.certificate().recovery.audit;
    Ok([
        ("checkpoint-before.txt", audit.before.note.clone().into_bytes()),
        ("checkpoint-before.vkey", verifier(&audit.before)?),
        ("checkpoint-after.txt", audit.after.note.clone().into_bytes()),
        ("checkpoint-after.vkey", verifier(&audit.after)?),
    ])
}

/// The key that signed a checkpoint, as C2SP writes it.
fn verifier(checkpoint: &SignedCheckpoint) -> anyhow::Result<Vec<u8>> {
    let key = VerifyingKey::from_bytes(&checkpoint.log_key.public_key.0)
        .context("the log key of a checkpoint is no Ed25519 key; do not trust the file")?;
    Ok(format!("{}\n", vkey(&key_name(), &key)).into_bytes())
}

/// Writes every file or none.
fn write_all(folder: &Path, parts: &[(&str, Vec<u8>)]) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| unwritable(folder))?;
    for (name, _) in parts {
        let path = folder.join(name);
        ensure!(!path.exists(), "`{}` is there already; choose another folder", path.display());
    }
    let mut ready = Vec::new();
    for (name, bytes) in parts {
        let path = folder.join(name);
        let mut file =
            tempfile::NamedTempFile::new_in(folder).with_context(|| unwritable(&path))?;
        file.write_all(bytes).with_context(|| unwritable(&path))?;
        ready.push((path, file));
    }
    for (path, file) in ready {
        let kept = file.persist_noclobber(&path).map_err(|error| error.error);
        kept.with_context(|| unwritable(&path))?;
    }
    Ok(())
}

fn print_written(
    context: &GlobalContext,
    folder: &Path,
    parts: &[(&str, Vec<u8>)],
    is_verified: bool,
) -> anyhow::Result<ExitStatus> {
    let files: Vec<String> =
        parts.iter().map(|(name, _)| folder.join(name).display().to_string()).collect();
    if context.json {
        json_line(&json!({ "verified": is_verified, "files": files }))?;
        return Ok(ExitStatus::Success);
    }
    for file in &files {
        line(shown(file));
    }
    if !is_verified {
        let what = "nothing was verified; give the owner's public key with --key";
        line(format_args!("{}: {what}", paint(WARN, "warning")));
    }
    Ok(ExitStatus::Success)
}
