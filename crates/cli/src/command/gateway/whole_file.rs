//! Files that are written whole or not at all, and that their user alone can read.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

/// Writes `bytes` to `path`, in place of what is there. Makes its folder.
pub(super) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let shown = path.display();
    let folder = path.parent().with_context(|| format!("`{shown}` has no folder"))?;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("could not make the folder of `{shown}`"))?;
    // Temporary files are made with mode 0600.
    let file = tempfile::NamedTempFile::new_in(folder);
    let mut file = file.with_context(|| format!("could not write `{shown}`"))?;
    let written = file.write_all(bytes).and_then(|()| file.as_file().sync_all());
    let kept = written.and_then(|()| Ok(file.persist(path)?));
    kept.with_context(|| format!("could not write `{shown}`"))?;
    Ok(())
}
