//! Where the other of the two programs is: `custody` runs `custody-lab`, and `custody-lab` tries edits on `custody`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The program `name` beside this one, else on `PATH`.
///
/// Folders of `PATH` that are relative are left out: an agent's workspace is no place to take programs from.
pub fn find(name: &str) -> Option<PathBuf> {
    let this = std::env::current_exe().ok();
    find_in(name, this.as_deref().and_then(Path::parent), std::env::var_os("PATH").as_deref())
}

/// The program that answers hooks: `custody-hook` beside this one, which starts in less time, else this one.
///
/// # Errors
/// When the system does not say where this one is.
pub(crate) fn hook_program() -> std::io::Result<PathBuf> {
    let this = std::env::current_exe()?;
    Ok(find_in("custody-hook", this.parent(), None).unwrap_or(this))
}

fn find_in(name: &str, beside: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let on_path =
        path.into_iter().flat_map(std::env::split_paths).filter(|folder| folder.is_absolute());
    let folders = beside.map(Path::to_owned).into_iter().chain(on_path);
    folders.map(|folder| folder.join(&file)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_beside_this_one_then_on_the_path_and_never_in_the_working_folder() {
        let folder = tempfile::tempdir().unwrap();
        let [beside, first, second] =
            ["beside", "first", "second"].map(|name| folder.path().join(name));
        let path = std::env::join_paths([Path::new(""), Path::new("."), &first, &second]).unwrap();
        let look = || find_in("custody-lab", Some(&beside), Some(&path));
        assert_eq!(look(), None);
        for expected in [&second, &first, &beside] {
            std::fs::create_dir(expected).unwrap();
            let program = expected.join(format!("custody-lab{}", std::env::consts::EXE_SUFFIX));
            std::fs::write(&program, "").unwrap();
            assert_eq!(look(), Some(program));
        }
    }
}
