//! `custody train`: make detectors from labelled rows.

pub(crate) mod embedding;
mod ngram;
#[cfg(feature = "train")]
mod transformer;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use custody_detect::screen::Cuts;
use custody_eval::report::DataFile;
use serde_json::json;

use crate::context::Context;
use crate::output::{DIM, GOOD, Outcome, count, json_line, line, paint};

/// What to train.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Embedding(embedding::Args),
    Ngram(ngram::Args),
    #[cfg(feature = "train")]
    Transformer(transformer::Args),
}

pub(crate) fn run(context: &Context, command: &Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Embedding(args) => embedding::run(context, args),
        Command::Ngram(args) => ngram::run(context, args),
        #[cfg(feature = "train")]
        Command::Transformer(args) => transformer::run(context, args),
    }
}

fn cuts_json(cuts: &Cuts) -> anyhow::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(cuts)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Writes beside the target first, so that a full disk leaves no half a model behind.
fn save(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let context = || format!("could not write `{}`", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file =
        tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).with_context(context)?;
    std::io::Write::write_all(&mut file, bytes).with_context(context)?;
    file.as_file().sync_all().with_context(context)?;
    file.persist(path).map_err(|error| error.error).with_context(context)?;
    Ok(())
}

/// What was trained on, with hashes, and what was written.
fn said(context: &Context, data: &[DataFile], written: &[PathBuf]) -> anyhow::Result<()> {
    if context.json {
        return json_line(&json!({ "data": data, "written": written }));
    }
    for file in data {
        let rows = count(file.rows, "row");
        line(format_args!("{}  {} ({rows})", paint(DIM, &file.sha256), file.file));
    }
    for path in written {
        line(format_args!("{} {}", paint(GOOD, "wrote"), path.display()));
    }
    Ok(())
}
