//! Files that hold a token: written for one user alone, and read only while nobody else can read them (G21).
//!
//! Whoever holds a user's token speaks in that user's voice, so it does not belong where an agent's tools, a commit or
//! another user may find it.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use custody_keys::KeyFolder;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

/// More than any token has, and little enough to read whatever is named by mistake.
const MAX_TOKEN_BYTES: u64 = 4 << 10;

/// What every token begins with, and how many hexadecimal digits follow.
const TOKEN_PREFIX: &str = "custody_";
const TOKEN_DIGITS: usize = 64;

/// Where the paths of the token files that were written are kept, in the key folder.
const WRITTEN: &str = "token-files";

/// A place at which a token may be written.
#[derive(Debug)]
pub(crate) struct NewTokenFile(PathBuf);

/// A file at such a place, without its name until the token is in it.
#[derive(Debug)]
pub(crate) struct ReservedTokenFile {
    path: PathBuf,
    file: NamedTempFile,
}

/// A token file that was written, as the key folder remembers it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WrittenTokenFile {
    /// Whose token it is.
    pub(crate) principal: String,
    /// Where it is.
    pub(crate) path: PathBuf,
}

impl NewTokenFile {
    /// Checks that a token may be written to `path`.
    ///
    /// # Errors
    /// When something is there, in a git work tree, and in a folder in which others can look.
    pub(crate) fn at(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let path = std::path::absolute(path).with_context(|| format!("`{shown}` is not a path"))?;
        ensure!(
            fs::symlink_metadata(&path).is_err(),
            "`{shown}` exists; a token is written to a new file only"
        );
        ensure!(path.file_name().is_some(), "`{shown}` names no file");
        let folder = path.ancestors().skip(1).find(|folder| folder.exists());
        let folder = folder.with_context(|| format!("`{shown}` is not a path"))?.canonicalize()?;
        if let Some(root) = folder.ancestors().find(|folder| folder.join(".git").exists()) {
            bail!(
                "`{shown}` is in the git work tree `{}`, where agents and commits find it; choose a place outside, \
                 such as `~/.custody/`",
                root.display()
            );
        }
        // Folders that are missing are made for this user alone.
        if Some(&*folder) == path.parent().and_then(|parent| parent.canonicalize().ok()).as_deref()
            && is_open_to_others(&folder)
        {
            bail!(
                "others can look into `{}`; run `chmod 700 {0}`, or choose another place, such as `~/.custody/`",
                folder.display()
            );
        }
        Ok(Self(path))
    }

    /// Makes the file, so that nothing but the token is missing.
    pub(crate) fn reserve(self) -> anyhow::Result<ReservedTokenFile> {
        let Self(path) = self;
        let folder = path.parent().unwrap_or(&path);
        let mut folders = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
        folders.recursive(true).create(folder).with_context(|| could_not("make", folder))?;
        // Temporary files are made with mode 0600.
        let file =
            NamedTempFile::new_in(folder).with_context(|| could_not("make a file in", folder))?;
        Ok(ReservedTokenFile { path, file })
    }
}

impl ReservedTokenFile {
    /// Writes the token and gives the file its name, unless another took it meanwhile.
    pub(crate) fn write(mut self, token: &str) -> anyhow::Result<PathBuf> {
        let written = writeln!(self.file, "{token}").and_then(|()| self.file.as_file().sync_all());
        let Self { path, file } = self;
        let kept = written.and_then(|()| Ok(file.persist_noclobber(&path)?));
        kept.with_context(|| could_not("write", &path))?;
        Ok(path)
    }
}

/// The tokens that stand in a text.
pub(crate) fn tokens_in(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(TOKEN_PREFIX).filter_map(|(start, _)| {
        let token = text.get(start..start + TOKEN_PREFIX.len() + TOKEN_DIGITS)?;
        let digits = token.get(TOKEN_PREFIX.len()..)?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(token)
    })
}

/// Reads the token in `path`.
///
/// # Errors
/// When it cannot be read, or others than its owner can read it too. A link is followed: what counts is the file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    let shown = path.display();
    let file = File::open(path).with_context(|| could_not("read", path))?;
    let metadata = file.metadata().with_context(|| could_not("read", path))?;
    // Asked of the open file, which no rename exchanges for another.
    if let Some(mode) = mode_for_others(&metadata) {
        bail!(
            "`{shown}` has mode {mode:04o}, so that others can read the token; run `chmod 600 {shown}`"
        );
    }
    let mut token = Zeroizing::new(String::new());
    let read = file.take(MAX_TOKEN_BYTES).read_to_string(&mut token);
    read.with_context(|| could_not("read", path))?;
    Ok(Zeroizing::new(token.trim().to_owned()))
}

/// Refuses to print a token into a file that others can read, such as the one that a shell made for `>`.
pub(crate) fn check_standard_output() -> anyhow::Result<()> {
    if is_open_file(&std::io::stdout()) {
        bail!(
            "standard output is a file that others can read; write the token with `--token-out FILE`"
        );
    }
    Ok(())
}

/// Keeps where a token was written, for `custody doctor`.
pub(crate) fn remember(keys: &KeyFolder, principal: &str, path: &Path) -> anyhow::Result<()> {
    let list = keys.path().join(WRITTEN);
    let written = WrittenTokenFile { principal: principal.to_owned(), path: path.to_owned() };
    let line = serde_json::to_string(&written)?;
    let mut options = File::options();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let kept = options.open(&list).and_then(|mut list| writeln!(list, "{line}"));
    kept.with_context(|| could_not("write", &list))
}

fn could_not(doing: &str, path: &Path) -> String {
    format!("could not {doing} `{}`", path.display())
}

/// The token files that were written, and are still there.
pub(crate) fn written(keys: &KeyFolder) -> Vec<WrittenTokenFile> {
    let list = fs::read_to_string(keys.path().join(WRITTEN)).unwrap_or_default();
    let written = list.lines().filter_map(|line| serde_json::from_str(line).ok());
    written.filter(|file: &WrittenTokenFile| file.path.exists()).collect()
}

/// What is wrong with a token file that was written, with the remedy.
pub(crate) fn problem(written: &WrittenTokenFile) -> Option<String> {
    let path = written.path.display();
    let metadata = match fs::metadata(&written.path) {
        Ok(metadata) => metadata,
        Err(cause) => return Some(format!("`{path}` cannot be looked at: {cause}")),
    };
    let mode = mode_for_others(&metadata)?;
    Some(format!(
        "the token of `{}` in `{path}` has mode {mode:04o}; run `chmod 600 {path}`",
        written.principal
    ))
}

/// The mode of a file that others than its owner can read or change.
#[cfg(unix)]
fn mode_for_others(metadata: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn mode_for_others(_: &fs::Metadata) -> Option<u32> {
    None
}

/// Whether others can come to `folder` and list it.
#[cfg(unix)]
fn is_open_to_others(folder: &Path) -> bool {
    allows_others(folder, 0o044) && folder.ancestors().all(|folder| allows_others(folder, 0o011))
}

#[cfg(unix)]
fn allows_others(folder: &Path, bits: u32) -> bool {
    let mode = fs::metadata(folder).ok().and_then(|metadata| mode_for_others(&metadata));
    mode.is_some_and(|mode| mode & bits != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &Path) -> bool {
    false
}

/// Whether this is a regular file that others can read.
#[cfg(unix)]
fn is_open_file(output: &impl std::os::fd::AsFd) -> bool {
    use rustix::fs::{FileType, fstat};
    fstat(output).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_mode & 0o077 != 0
    })
}

#[cfg(not(unix))]
fn is_open_file(_: &std::io::Stdout) -> bool {
    false
}
