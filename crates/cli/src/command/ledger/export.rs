//! `custody ledger export`: the whole record as JSON Lines, for whoever audits elsewhere.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use custody_kernel::record::Record;
use custody_log::{Frontier, leaf_hash};
use custody_runtime::Store;
use serde_json::json;

use super::describe::{CHUNK, kept_content};
use crate::context::GlobalContext;
use crate::file_error::unwritable;
use crate::output::{ExitStatus, count, json_line};

/// Write every record as JSON Lines, with the signed checkpoint over them.
///
/// Each line is one record, byte for byte what was hashed into the log: RFC 9162 leaf hashes of the lines,
/// without their line ends, lead to the root in the checkpoint. The last line is the checkpoint, with the
/// verifier key of the log key. Texts are not in it: records name them by commitment. With --contents each
/// line is `{"record":…,"content":…}`, with the text under `utf8` or `base64`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Add the texts that are kept
    #[arg(long)]
    contents: bool,
    /// The file to write; `-` is standard output
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    if args.file == Path::new("-") {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let written = write_all(&store, &mut out, args.contents, false);
        return match written {
            Err(error) if is_closed_pipe(&error) => Ok(ExitStatus::Success),
            written => written.map(|_| ExitStatus::Success),
        };
    }
    let folder = args.file.parent().filter(|folder| !folder.as_os_str().is_empty());
    // Whole or not at all, and for nobody else to read: the texts may be private.
    let file = tempfile::NamedTempFile::new_in(folder.unwrap_or_else(|| Path::new(".")));
    let mut out = BufWriter::new(file.with_context(|| unwritable(&args.file))?);
    let records = write_all(&store, &mut out, args.contents, true)?;
    let file = out.into_inner().map_err(std::io::IntoInnerError::into_error);
    let file = file.with_context(|| unwritable(&args.file))?;
    file.as_file().sync_all().with_context(|| unwritable(&args.file))?;
    file.persist(&args.file)
        .map_err(|error| error.error)
        .with_context(|| unwritable(&args.file))?;
    if context.json {
        let file = args.file.display().to_string();
        json_line(&json!({ "file": file, "records": records }))?;
    } else {
        anstream::eprintln!("{} in {}", count(records, "record"), args.file.display());
    }
    Ok(ExitStatus::Success)
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn write_all(
    store: &Store,
    out: &mut impl Write,
    contents: bool,
    to_file: bool,
) -> anyhow::Result<u64> {
    let signed = store.checkpoint()?;
    let size = signed.checkpoint.size;
    let mut progress = Progress { shown: to_file && std::io::stderr().is_terminal(), size };
    let mut frontier = Frontier::new();
    let mut start = 0;
    while start < size {
        let end = size.min(start + CHUNK);
        for record in store.records(start..end)? {
            let bytes = record.to_bytes()?;
            frontier.push(leaf_hash(&bytes));
            if contents {
                write_with_content(store, out, &record, &bytes)?;
            } else {
                out.write_all(&bytes)?;
            }
            out.write_all(b"\n")?;
        }
        progress.tick(end);
        start = end;
    }
    progress.end();
    ensure!(
        frontier.root() == signed.checkpoint.root,
        "what was written is not what was signed; run `custody ledger verify`"
    );
    let last = json!({ "checkpoint": signed.note, "vkey": signed.vkey });
    writeln!(out, "{last}")?;
    out.flush()?;
    Ok(size)
}

fn write_with_content(
    store: &Store,
    out: &mut impl Write,
    record: &Record,
    bytes: &[u8],
) -> anyhow::Result<()> {
    out.write_all(b"{\"record\":")?;
    out.write_all(bytes)?;
    if let Some(content) = kept_content(store, record)? {
        let content = match std::str::from_utf8(&content) {
            Ok(text) => json!({ "utf8": text }),
            Err(_) => json!({ "base64": STANDARD.encode(&content) }),
        };
        write!(out, ",\"content\":{content}")?;
    }
    out.write_all(b"}")?;
    Ok(())
}

/// Counts on the terminal, and is silent everywhere else.
struct Progress {
    shown: bool,
    size: u64,
}

impl Progress {
    fn tick(&mut self, records: u64) {
        if self.shown && self.size > 10_000 {
            anstream::eprint!("\r{records} of {} records written", self.size);
        }
    }

    fn end(&self) {
        if self.shown {
            anstream::eprint!("\r{:50}\r", "");
        }
    }
}
