//! A folder as PEFT writes it: `adapter_model.safetensors`, `adapter_config.json`, and what lies beside them.

use std::path::{Path, PathBuf};

use crate::error::AdapterError;

/// The file with the weights.
const WEIGHTS: &str = "adapter_model.safetensors";
/// The file with the configuration.
const CONFIGURATION: &str = "adapter_config.json";
/// The most files in a folder.
const MAX_FILES: usize = 10_000;
/// The endings of files whose reading can run code.
const PICKLES: [&str; 8] = ["bin", "pt", "pth", "pkl", "pickle", "ckpt", "joblib", "npy"];
/// The endings of programs, which no adapter needs.
const PROGRAMS: [&str; 4] = ["py", "sh", "so", "dll"];

/// The files of an adapter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AdapterFolder {
    pub(crate) weights: PathBuf,
    /// Not there for a file of weights alone.
    pub(crate) configuration: Option<PathBuf>,
    /// Files whose reading can run code, by name.
    pub(crate) pickles: Vec<String>,
    /// Programs, by name.
    pub(crate) programs: Vec<String>,
}

impl AdapterFolder {
    /// Finds the files of the adapter at `path`, which is a folder or a file of weights.
    pub(crate) fn open(path: &Path) -> Result<Self, AdapterError> {
        let failed = AdapterError::file(path);
        let real = path.canonicalize().map_err(&failed)?;
        if real.is_file() {
            let (weights, configuration) = (real, None);
            return Ok(Self { weights, configuration, pickles: Vec::new(), programs: Vec::new() });
        }
        let (mut pickles, mut programs) = (Vec::new(), Vec::new());
        for (at, entry) in std::fs::read_dir(&real).map_err(&failed)?.enumerate() {
            let entry = entry.map_err(&failed)?;
            if at >= MAX_FILES {
                let (path, most) = (path.to_owned(), MAX_FILES);
                return Err(AdapterError::TooManyFiles { path, most });
            }
            within(&real, &entry.path())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match Path::new(&name).extension().and_then(|ending| ending.to_str()) {
                Some(ending) if PICKLES.contains(&ending) => pickles.push(name),
                Some(ending) if PROGRAMS.contains(&ending) => programs.push(name),
                _ => {}
            }
        }
        pickles.sort();
        programs.sort();
        let weights = real.join(WEIGHTS);
        if !weights.is_file() {
            return Err(AdapterError::NoWeights(path.to_owned()));
        }
        let configuration = Some(real.join(CONFIGURATION)).filter(|file| file.is_file());
        Ok(Self { weights, configuration, pickles, programs })
    }
}

/// Fails if `path` is a link that leads out of `folder`.
fn within(folder: &Path, path: &Path) -> Result<(), AdapterError> {
    let is_link = std::fs::symlink_metadata(path).map_err(AdapterError::file(path))?.is_symlink();
    let leads = path.canonicalize().ok();
    if is_link && !leads.is_some_and(|leads| leads.starts_with(folder)) {
        return Err(AdapterError::LinkOut(path.to_owned()));
    }
    Ok(())
}
