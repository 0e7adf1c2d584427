//! `custody train`: make detectors from labelled rows.

pub(crate) mod behaviour;
pub(crate) mod embedding;
mod ngram;
mod transformer;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use custody_cli::context::GlobalContext;
use custody_cli::output::{DIM, ExitStatus, GOOD, count, json_line, line, paint};
use custody_detect::labels::read_labels;
use custody_detect::ngram::TrainingFile;
use custody_lab::data::{Row, read_rows};
use custody_lab::report::DataFile;
use custody_lab::sets::Labelled;
use serde_json::json;

/// What to train.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Behaviour(behaviour::Args),
    Embedding(embedding::Args),
    Ngram(ngram::Args),
    Transformer(transformer::Args),
}

pub(crate) fn run(context: &GlobalContext, command: &Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Behaviour(args) => behaviour::run(context, args),
        Command::Embedding(args) => embedding::run(context, args),
        Command::Ngram(args) => ngram::run(context, args),
        Command::Transformer(args) => transformer::run(context, args),
    }
}

fn thresholds_json(thresholds: &impl serde::Serialize) -> anyhow::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(thresholds)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The longest text that `--rows` may hold, in bytes.
const MAX_TRAINING_TEXT_BYTES: usize = 1 << 20;

/// Labelled rows of the user's own, and the files they stand in.
fn own_rows(files: &[PathBuf]) -> anyhow::Result<(Vec<Labelled>, Vec<TrainingFile>)> {
    let (mut texts, mut labels, mut data) = (Vec::new(), Vec::new(), Vec::new());
    for path in files {
        let set = read_rows(path)?;
        check_lengths(path, &set.rows)?;
        data.push(TrainingFile {
            file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            sha256: set.file.sha256,
            rows: set.file.rows,
        });
        labels.extend(set.rows.iter().map(|row| row.label.map(f64::from)));
        texts.extend(set.rows.into_iter().map(|row| (row.id, row.text)));
    }
    let labels = read_labels(&labels)?;
    Ok((
        texts
            .into_iter()
            .zip(labels)
            .map(|((id, text), label)| Labelled { id, text, label })
            .collect(),
        data,
    ))
}

/// Refuses a text that would crowd out all others: it is a document, to be split into its passages.
fn check_lengths(path: &Path, rows: &[Row]) -> anyhow::Result<()> {
    let long = rows.iter().zip(1..).find(|(row, _)| row.text.len() > MAX_TRAINING_TEXT_BYTES);
    let Some((row, number)) = long else { return Ok(()) };
    bail!(
        "`{}` row {number} has a text of {} bytes and at most {MAX_TRAINING_TEXT_BYTES} are learned \
         from at once; split it",
        path.display(),
        row.text.len()
    )
}

/// The files that stand in a model, as reports name them.
fn trained_on(files: &[TrainingFile]) -> Vec<DataFile> {
    files
        .iter()
        .map(|file: &TrainingFile| DataFile {
            file: file.file.clone(),
            sha256: file.sha256.clone(),
            rows: file.rows,
        })
        .collect()
}

/// Finds out before the work, not after it, whether the file `out` can be written.
fn prepare(out: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = out else { return Ok(()) };
    if path.is_dir() {
        bail!("`{}` is a folder; name a file in it with --out", path.display());
    }
    beside(path).map(drop)
}

/// Writes beside the target first, so that a full disk leaves no half a model behind.
fn save(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = beside(path)?;
    std::io::Write::write_all(&mut file, bytes).with_context(|| not_written(path))?;
    file.as_file().sync_all().with_context(|| not_written(path))?;
    file.persist(path).map_err(|error| error.error).with_context(|| not_written(path))?;
    Ok(())
}

fn not_written(path: &Path) -> String {
    format!("could not write `{}`", path.display())
}

/// An empty file in the folder of `path`, which others may read as far as the umask lets them: temporary files are
/// their owner's alone.
fn beside(path: &Path) -> anyhow::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    builder.tempfile_in(folder.unwrap_or(Path::new("."))).with_context(|| not_written(path))
}

/// What was trained on, with hashes, and what was written.
fn said(context: &GlobalContext, data: &[DataFile], written: &[PathBuf]) -> anyhow::Result<()> {
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
