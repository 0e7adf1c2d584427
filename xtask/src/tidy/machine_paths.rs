//! Nothing tracked depends on, or gives away, the machine it was written on.

use super::exceptions::Exception;
use super::files::TrackedFiles;
use super::finding::Finding;

/// Folders at the root of a machine under which people and build services keep their work.
const PRIVATE_FOLDERS: &[&str] = &["work", "root"];

/// The folder in which each user has one of their own.
const HOMES: &str = "home";

/// Finds absolute paths into somebody's work or home folder.
pub(crate) fn check(files: &TrackedFiles, exceptions: &[Exception]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files.ending("") {
        if exceptions.iter().any(|exception| exception.covers(path)) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            if let Some(found) = machine_path(line) {
                findings.push(Finding::on_line(
                    path,
                    index + 1,
                    format!("`{found}` is a path of one machine"),
                    "use a path from the repository's root, or add the file to `xtask/tidy.toml`",
                ));
            }
        }
    }
    findings
}

/// The first such path of a line, as far as it gives the machine away.
fn machine_path(line: &str) -> Option<&str> {
    let starts = line.match_indices('/').map(|(at, _)| at);
    let mut absolute = starts.filter(|at| !line[..*at].ends_with(is_path_character));
    absolute.find_map(|at| {
        let mut names = line[at + 1..].split('/');
        let (first, second, third) = (names.next()?, names.next()?, names.next());
        if PRIVATE_FOLDERS.contains(&first) {
            return Some(&line[at..at + first.len() + 2]);
        }
        let is_home = first == HOMES && !second.is_empty() && third.is_some();
        (is_home && second.chars().all(is_name_character))
            .then(|| &line[at..at + first.len() + second.len() + 3])
    })
}

/// What can stand before a `/` inside a longer path or an address.
fn is_path_character(character: char) -> bool {
    is_name_character(character) || matches!(character, '/' | '~' | '}' | ')' | '>' | '*')
}

fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::super::exceptions::exception;
    use super::super::finding::brief;
    use super::*;

    #[test]
    fn an_absolute_path_into_a_private_folder_is_found() {
        // Put together here, so that this file passes its own check.
        let [work, root, home] = ["work", "root", "home"].map(|folder| format!("/{folder}"));
        let cases = [
            (format!("see {work}/data"), Some(format!("{work}/"))),
            (format!("\"{root}/x\""), Some(format!("{root}/"))),
            (format!("HOME={home}/ann/x"), Some(format!("{home}/ann/"))),
            (format!("under {home}/<name>/"), None),
            (format!("in {work}"), None),
            (format!("crates{work}/x"), None),
            (format!("./{}", &work[1..]), None),
            (format!("https://example.org{work}/x"), None),
            (format!("$HOME{work}/x ~{work}/x"), None),
            (format!("{work}shop/x"), None),
        ];
        for (line, expected) in cases {
            assert_eq!(machine_path(&line).map(str::to_owned), expected, "{line}");
        }
    }

    #[test]
    fn an_excepted_file_is_not_read() {
        let text = format!("a\n{}/x\n", "/root");
        let files = TrackedFiles::from([("a.md", text.as_str()), ("b.md", text.as_str())]);
        let found = brief(&check(&files, &[exception("a.md")]));
        assert_eq!(found, [format!("b.md:2 `{}/` is a path of one machine", "/root")]);
    }
}
