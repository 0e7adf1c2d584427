//! Files of others that Custody changed, and how they were before, so that they can be put back byte for byte.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};

use super::whole_file;
use crate::token_file;

/// How many of the lines that somebody changed are shown.
const SHOWN_LINES: usize = 5;

/// What was changed, as it is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangedFiles {
    /// The files, in the order in which they were changed.
    pub(super) files: Vec<ChangedFile>,
    /// The folders that were made for them, outermost first.
    folders: Vec<PathBuf>,
    /// The host whose files they are.
    pub(super) host: String,
    /// Whether the connection was made with them.
    pub(super) made_connection: bool,
}

/// One file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangedFile {
    /// The file itself, not a link to it.
    pub(super) path: PathBuf,
    /// What it held; nothing if there was none.
    pub(super) before: Option<String>,
    /// Its permissions, on Unix.
    mode: Option<u32>,
    /// What was written.
    pub(super) after: String,
    /// The texts that changed, where the host goes on writing the rest of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changes: Vec<TextChange>,
    /// What was written before the key in it was replaced, until the file itself is written anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaced: Option<String>,
}

/// One text in a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextChange {
    /// What stood in its place; nothing if it was added.
    pub(super) was: String,
    /// What stands there now.
    pub(super) is: String,
}

impl ChangedFile {
    /// The file at `path` as it is now, which will hold what `change` makes of that.
    ///
    /// # Errors
    /// When it is not text, or `change` fails.
    pub(super) fn plan(
        path: &Path,
        change: impl FnOnce(Option<&str>) -> anyhow::Result<String>,
    ) -> anyhow::Result<Self> {
        // A link stays, and what it leads to is changed.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let shown = path.display().to_string();
        let before = match fs::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes);
                Some(text.with_context(|| format!("`{shown}` cannot be changed: it is not UTF-8"))?)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).context(format!("could not read `{shown}`")),
        };
        let after = change(before.as_deref());
        let after = after.with_context(|| format!("`{shown}` cannot be changed"))?;
        let mode = before.as_ref().and_then(|_| mode(&path));
        Ok(Self { path, before, mode, after, changes: Vec::new(), replaced: None })
    }

    /// The file at `path` as it is now, in which single texts will change. `change` makes of what it holds what it will
    /// hold, and says which.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub(super) fn edit(
        path: &Path,
        change: impl FnOnce(&str) -> anyhow::Result<(String, Vec<TextChange>)>,
    ) -> anyhow::Result<Self> {
        let mut changes = Vec::new();
        let planned = Self::plan(path, |before| {
            let (after, changed) = change(before.unwrap_or_default())?;
            changes = changed;
            Ok(after)
        })?;
        Ok(Self { changes, ..planned })
    }

    /// The file at `path` as it is now, with `text` at its end.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub(super) fn append(
        path: &Path,
        text: &str,
        check: impl FnOnce(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        Self::edit(path, |before| {
            let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
            let after = format!("{before}{gap}{text}");
            check(&after)?;
            Ok((after, vec![TextChange { was: String::new(), is: text.to_owned() }]))
        })
    }

    /// What the file holds now without the texts that changed, if others changed the rest.
    fn without_changes(&self) -> Option<String> {
        let now = fs::read_to_string(&self.path).ok()?;
        if self.changes.is_empty() || now == self.after {
            return None;
        }
        self.changes.iter().try_fold(now, |text, TextChange { was, is }| {
            let is_once = text.matches(is.as_str()).count() == 1;
            is_once.then(|| text.replace(is.as_str(), was))
        })
    }

    fn put_back(&self) -> anyhow::Result<()> {
        let shown = self.path.display();
        if let Some(rest) = self.without_changes() {
            whole_file::write(&self.path, rest.as_bytes())?;
            return Ok(set_mode(&self.path, self.mode)?);
        }
        match &self.before {
            Some(before) => {
                whole_file::write(&self.path, before.as_bytes())?;
                set_mode(&self.path, self.mode)
                    .with_context(|| format!("could not put the permissions of `{shown}` back"))
            }
            None if self.path.exists() => {
                fs::remove_file(&self.path).with_context(|| format!("could not remove `{shown}`"))
            }
            None => Ok(()),
        }
    }

    /// Whether it is as it was written, or was never written.
    fn is_ours(&self) -> bool {
        let now = fs::read_to_string(&self.path).ok();
        now.as_deref() == Some(&self.after)
            || now == self.before
            || (now.is_some() && now == self.replaced)
            || self.without_changes().is_some()
    }

    /// Whether its host goes on writing it.
    pub(super) fn is_shared(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Plans to put `key` in the place of the one in what was written. Returns what the file will hold, if there is
    /// one.
    fn plan_key(&mut self, key: &str) -> Option<String> {
        let before = self.before.clone().unwrap_or_default();
        // What stood there before is another connection's.
        let ours = token_file::tokens_in(&self.after).filter(|token| !before.contains(token));
        let ours: Vec<String> = ours.map(str::to_owned).collect();
        if ours.is_empty() {
            return None;
        }
        let after = with_key(&self.after, &ours, key);
        for change in &mut self.changes {
            change.is = with_key(&change.is, &ours, key);
        }
        let now = fs::read_to_string(&self.path).ok().filter(|_| self.is_shared());
        let now = now.map_or_else(|| after.clone(), |now| with_key(&now, &ours, key));
        self.replaced = Some(std::mem::replace(&mut self.after, after));
        Some(now)
    }

    /// The lines that somebody changed since.
    fn foreign_lines(&self) -> String {
        let now = fs::read_to_string(&self.path).unwrap_or_default();
        let diff = TextDiff::from_lines(&self.after, &now);
        let changed = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
        let lines = changed.take(SHOWN_LINES).map(|change| {
            let line = change.new_index().or(change.old_index()).map_or(0, |at| at + 1);
            let sign = if change.tag() == ChangeTag::Insert { "+" } else { "-" };
            format!("line {line}: {sign} {}", change.value().trim())
        });
        lines.collect::<Vec<_>>().join("; ")
    }
}

impl ChangedFiles {
    /// What is kept at `kept`; nothing if nothing was changed.
    pub(super) fn load(kept: &Path) -> anyhow::Result<Option<Self>> {
        match fs::read_to_string(kept) {
            Ok(text) => {
                let changed = serde_json::from_str(&text);
                Ok(Some(changed.with_context(|| format!("`{}` is damaged", kept.display()))?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(format!("could not read `{}`", kept.display())),
        }
    }

    /// Changes `files` of `host`, and keeps at `kept` what they were. If one cannot be written, none is changed.
    pub(super) fn apply(
        kept: &Path,
        host: &str,
        files: Vec<ChangedFile>,
        made_connection: bool,
    ) -> anyhow::Result<()> {
        ensure!(
            !kept.exists(),
            "`{}` keeps an earlier change; take that back first",
            kept.display()
        );
        let folders = files.iter().flat_map(|file| missing_folders(&file.path)).collect();
        let changed = Self { files, folders, host: host.to_owned(), made_connection };
        changed.keep(kept)?;
        let written = changed.files.iter().try_for_each(|file| {
            // A key may stand in it.
            whole_file::write(&file.path, file.after.as_bytes())
        });
        if let Err(error) = written {
            changed.put_back(kept)?;
            return Err(error);
        }
        Ok(())
    }

    /// Changes one more file.
    pub(super) fn add(mut self, kept: &Path, file: ChangedFile) -> anyhow::Result<()> {
        let (path, after) = (file.path.clone(), file.after.clone());
        self.folders.extend(missing_folders(&path));
        self.files.push(file);
        self.keep(kept)?;
        whole_file::write(&path, after.as_bytes())
    }

    /// Puts `key` in the place of the one in the files. Returns those that have one. They have to be
    /// [as they were written](Self::ensure_ours); whenever this is interrupted they can still be put back.
    pub(super) fn replace_key(mut self, kept: &Path, key: &str) -> anyhow::Result<Vec<PathBuf>> {
        let (mut changed, mut done) = (Vec::new(), Vec::new());
        for file in &mut self.files {
            changed.extend(file.plan_key(key).map(|text| (file.path.clone(), text)));
        }
        self.keep(kept)?;
        for (path, text) in changed {
            whole_file::write(&path, text.as_bytes())?;
            done.push(path);
        }
        for file in &mut self.files {
            file.replaced = None;
        }
        self.keep(kept)?;
        Ok(done)
    }

    /// Whether all files are as they were written.
    pub(super) fn are_ours(&self) -> bool {
        self.files.iter().all(|file| {
            let is_written = fs::read_to_string(&file.path).is_ok_and(|now| now == file.after);
            is_written || file.without_changes().is_some()
        })
    }

    /// Fails if somebody changed a file since, and says which lines.
    pub(super) fn ensure_ours(&self, kept: &Path) -> anyhow::Result<()> {
        if let Some(file) = self.files.iter().find(|file| !file.is_ours()) {
            bail!(
                "`{}` was changed since: {}. Undo that change, or take out of it what Custody wrote (it names `custody` or \
                 `127.0.0.1`) and remove `{}`",
                file.path.display(),
                file.foreign_lines(),
                kept.display()
            );
        }
        Ok(())
    }

    /// Puts every file back, and forgets the change.
    ///
    /// # Errors
    /// When somebody changed a file since.
    pub(super) fn undo(&self, kept: &Path) -> anyhow::Result<()> {
        self.ensure_ours(kept)?;
        self.put_back(kept)
    }

    fn put_back(&self, kept: &Path) -> anyhow::Result<()> {
        for file in self.files.iter().rev() {
            file.put_back()?;
        }
        for folder in self.folders.iter().rev() {
            // One in which somebody put something stays.
            drop(fs::remove_dir(folder));
        }
        fs::remove_file(kept).with_context(|| format!("could not remove `{}`", kept.display()))
    }

    fn keep(&self, kept: &Path) -> anyhow::Result<()> {
        whole_file::write(kept, serde_json::to_string(self)?.as_bytes())
    }
}

/// `text` with `key` in the place of each of `tokens`.
fn with_key(text: &str, tokens: &[String], key: &str) -> String {
    tokens.iter().fold(text.to_owned(), |text, token| text.replace(token, key))
}

/// The folders of `path` that are not there, outermost first.
fn missing_folders(path: &Path) -> Vec<PathBuf> {
    let missing = path.ancestors().skip(1).take_while(|folder| !folder.exists());
    let mut folders: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    folders.reverse();
    folders
}

#[cfg(unix)]
fn mode(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).ok().map(|data| data.permissions().mode() & 0o7777)
}

#[cfg(not(unix))]
fn mode(_: &Path) -> Option<u32> {
    None
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: Option<u32>) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    mode.map_or(Ok(()), |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: Option<u32>) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(paths: [&Path; 2]) -> Vec<ChangedFile> {
        paths.map(|path| ChangedFile::plan(path, |_| Ok("{}\n".into())).unwrap()).to_vec()
    }

    #[test]
    fn what_was_there_comes_back_and_what_was_not_there_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old.json"), folder.path().join("a/b/new.json"));
        let kept = folder.path().join("kept/it.json");
        fs::write(&old, "{ \"a\":1 }").unwrap();
        set_mode(&old, Some(0o640)).unwrap();
        ChangedFiles::apply(&kept, "codex", planned([&old, &new]), true).unwrap();
        assert!(
            ChangedFiles::apply(&kept, "codex", planned([&old, &new]), true).is_err(),
            "not twice"
        );
        let changed = ChangedFiles::load(&kept).unwrap().unwrap();
        assert!(changed.are_ours() && changed.made_connection && changed.host == "codex");

        fs::write(&new, "{}\n\"mine\"\n").unwrap();
        let error = changed.undo(&kept).unwrap_err().to_string();
        assert!(error.contains("line 2: + \"mine\""), "{error}");
        assert_eq!(fs::read_to_string(&old).unwrap(), "{}\n", "all or nothing");
        fs::write(&new, "{}\n").unwrap();
        changed.undo(&kept).unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "{ \"a\":1 }");
        assert_eq!(mode(&old), Some(0o640));
        assert!(!folder.path().join("a").exists() && !kept.exists());
        assert!(ChangedFiles::load(&kept).unwrap().is_none());
    }

    #[test]
    fn what_was_only_added_to_goes_whatever_the_host_wrote_besides() {
        let folder = tempfile::tempdir().unwrap();
        let (file, kept) = (folder.path().join("config.toml"), folder.path().join("kept"));
        fs::write(&file, "a = 1").unwrap();
        let planned = ChangedFile::append(&file, "\n[ours]\nb = 2\n", |_| Ok(())).unwrap();
        ChangedFiles::apply(&kept, "codex", vec![planned], false).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "a = 1\n\n[ours]\nb = 2\n");
        fs::write(&file, "a = 3\n\n[ours]\nb = 2\n\n[theirs]\n").unwrap();
        let changed = ChangedFiles::load(&kept).unwrap().unwrap();
        assert!(changed.are_ours());
        changed.undo(&kept).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "a = 3\n\n[theirs]\n");
    }

    #[test]
    fn a_link_stays_and_what_it_leads_to_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        let kept = folder.path().join("kept");
        fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let planned = ChangedFile::plan(&link, |_| Ok("after".into())).unwrap();
        ChangedFiles::apply(&kept, "codex", vec![planned], false).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "after");
        ChangedFiles::load(&kept).unwrap().unwrap().undo(&kept).unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "before");
        assert!(link.is_symlink());
    }

    #[test]
    fn a_new_key_takes_the_place_of_ours_and_of_no_other_and_what_was_there_still_comes_back() {
        let token = |digit: &str| format!("custody_{}", digit.repeat(64));
        let (others, ours, new) = (token("0"), token("1"), token("2"));
        let folder = tempfile::tempdir().unwrap();
        let (file, kept) = (folder.path().join("settings.json"), folder.path().join("kept.json"));
        let before = format!("{{\"other\": \"{others}\"}}");
        fs::write(&file, &before).unwrap();
        let planned = ChangedFile::plan(&file, |_| Ok(format!("{before} {ours} {ours}"))).unwrap();
        ChangedFiles::apply(&kept, "claude-code", vec![planned], true).unwrap();

        let changed = ChangedFiles::load(&kept).unwrap().unwrap();
        let written = changed.replace_key(&kept, &new).unwrap();
        assert_eq!(written, [file.canonicalize().unwrap()]);
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{before} {new} {new}"));
        let changed = ChangedFiles::load(&kept).unwrap().unwrap();
        assert!(changed.are_ours());
        assert!(!fs::read_to_string(&kept).unwrap().contains(&ours), "the old key is nowhere");

        // As if it was interrupted before the file was written.
        let mut planned = changed;
        planned.files.iter_mut().for_each(|file| assert!(file.plan_key(&ours).is_some()));
        planned.keep(&kept).unwrap();
        let interrupted = ChangedFiles::load(&kept).unwrap().unwrap();
        interrupted.undo(&kept).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), before);
    }

    #[test]
    fn a_new_key_leaves_what_the_host_wrote_besides_and_is_taken_back_all_the_same() {
        let token = |digit: &str| format!("custody_{}", digit.repeat(64));
        let folder = tempfile::tempdir().unwrap();
        let (file, kept) = (folder.path().join("config.toml"), folder.path().join("kept.json"));
        fs::write(&file, "a = 1\n").unwrap();
        let ours = format!("key = \"{}\"\n", token("1"));
        let planned = ChangedFile::append(&file, &ours, |_| Ok(())).unwrap();
        ChangedFiles::apply(&kept, "codex", vec![planned], false).unwrap();
        fs::write(&file, format!("a = 3\n{ours}[theirs]\n")).unwrap();
        let changed = ChangedFiles::load(&kept).unwrap().unwrap();
        changed.replace_key(&kept, &token("2")).unwrap();
        let now = fs::read_to_string(&file).unwrap();
        assert_eq!(now, format!("a = 3\nkey = \"{}\"\n[theirs]\n", token("2")));
        let changed = ChangedFiles::load(&kept).unwrap().unwrap();
        assert!(changed.are_ours());
        changed.undo(&kept).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "a = 3\n[theirs]\n");
    }
}
