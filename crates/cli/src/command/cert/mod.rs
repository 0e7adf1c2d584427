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

use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use custody_certificate::{
    Certificate, CertificateError, EntryReader, Expectations, MAX_BYTES, MAX_LINE_BYTES,
    Unverified, Verified, entry_lines,
};
use custody_incident::stage::SignedCertificate;
use ed25519_dalek::VerifyingKey;
use serde_json::json;

use crate::context::GlobalContext;
use crate::file_error::{unreadable, unwritable};
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

/// Where the entries of a certificate lie that do not all stand inside it: `certificate.entries.jsonl` beside
/// `certificate.json`.
fn entries_beside(certificate: &Path) -> PathBuf {
    certificate.with_extension("entries.jsonl")
}

/// Writes a certificate, and beside it its entries if they do not all stand inside. Returns the file of entries.
pub(super) fn write(out: &Path, signed: &SignedCertificate) -> anyhow::Result<Option<PathBuf>> {
    std::fs::write(out, &signed.file).with_context(|| unwritable(out))?;
    if Certificate::read_unverified(&signed.file)?.certificate().is_whole() {
        return Ok(None);
    }
    let beside = entries_beside(out);
    let file = std::fs::File::create(&beside).with_context(|| unwritable(&beside))?;
    let mut file = BufWriter::new(file);
    for line in entry_lines(&signed.recovery) {
        file.write_all(&line?).with_context(|| unwritable(&beside))?;
    }
    file.flush().with_context(|| unwritable(&beside))?;
    Ok(Some(beside))
}

/// Checks the entries of a certificate from the file that `given` names, or else from the one beside it, if there is
/// one and it is needed. Returns that file with the result.
fn with_entries(
    verified: Verified,
    certificate: &Path,
    given: Option<&Path>,
) -> anyhow::Result<(Result<Verified, CertificateError>, Option<PathBuf>)> {
    let beside = entries_beside(certificate);
    let is_needed = !verified.certificate().is_whole();
    let found = (is_needed && certificate != Path::new("-") && beside.exists()).then_some(beside);
    let Some(path) = given.map(Path::to_owned).or(found) else { return Ok((Ok(verified), None)) };
    let file = std::fs::File::open(&path).with_context(|| unreadable(&path))?;
    let mut file = BufReader::new(file);
    let (mut reader, mut line) = (EntryReader::new(verified), Vec::new());
    loop {
        line.clear();
        // A longer line is refused and never held as a whole.
        let limit = MAX_LINE_BYTES as u64 + 1;
        file.by_ref()
            .take(limit)
            .read_until(b'\n', &mut line)
            .with_context(|| unreadable(&path))?;
        if line.is_empty() {
            return Ok((reader.finish(), Some(path)));
        }
        if let Err(refusal) = reader.push(&line) {
            return Ok((Err(refusal), Some(path)));
        }
    }
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
