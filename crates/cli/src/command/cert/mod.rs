//! `custody cert`: recovery certificates: verify one, read one, take one apart for other people's tools.

mod checks;
mod describe;
mod export;
mod html;
mod key;
mod markdown;
mod page;
mod show;
mod text;
mod verify;

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use custody_certificate::{Certificate, CertificateError, Expectations, MAX_BYTES, Unverified};
use ed25519_dalek::VerifyingKey;
use serde_json::json;

use crate::context::GlobalContext;
use crate::file_error::unreadable;
use crate::output::{BAD, ExitStatus, json_line, line, paint, shown};

/// Verify recovery certificates, show them to people, take them apart for other tools.
///
/// A certificate says what an incident reached, what was done about it and what is left, signed by the owner of
/// the store. Verifying needs the file and the owner's public key. See docs/reference/certificate.md.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Verify(verify::Args),
    Show(show::Args),
    Export(export::Args),
}

pub(crate) fn run(context: &GlobalContext, command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Verify(args) => verify::run(context, &args),
        Command::Show(args) => show::run(context, &args),
        Command::Export(args) => export::run(context, &args),
    }
}

/// The bytes of a certificate; `-` is standard input. No more is read than a certificate can have, and one byte,
/// so that a longer file is refused and never cut.
fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let limit = MAX_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(limit)
            .read_to_end(&mut bytes)
            .with_context(|| unreadable(file))?;
    } else {
        let opened = std::fs::File::open(file).with_context(|| unreadable(file))?;
        opened.take(limit).read_to_end(&mut bytes).with_context(|| unreadable(file))?;
    }
    Ok(bytes)
}

/// What a file says, verified first if there is a key to do it with.
fn opened(file: &[u8], key: Option<&VerifyingKey>) -> Result<Unverified, CertificateError> {
    if let Some(key) = key {
        Certificate::verify(file, key, Expectations::default())?;
    }
    Certificate::read_unverified(file)
}

/// Says why a file is not what it should be.
fn refused(context: &GlobalContext, refusal: &CertificateError) -> anyhow::Result<ExitStatus> {
    let why = reason(refusal);
    if context.json {
        json_line(&json!({ "verified": false, "refused": why }))?;
    } else {
        line(format_args!("{}: {why}", paint(BAD, "refused")));
    }
    Ok(ExitStatus::Failure)
}

/// A refusal and its causes, on one line.
fn reason(refusal: &CertificateError) -> String {
    let mut parts = vec![refusal.to_string()];
    let mut cause = std::error::Error::source(refusal);
    while let Some(next) = cause {
        parts.push(next.to_string());
        cause = next.source();
    }
    shown(&parts.join(": ")).replace('\n', " ")
}
