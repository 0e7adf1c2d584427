//! Whether a path names a watched file.

use unicode_normalization::UnicodeNormalization;

/// The last segment of a path, as written, if it is a watched name.
///
/// Some file systems ignore letter case, Unicode form, invisible characters, or dots
/// and spaces at the end, so all of these are ignored here.
pub(super) fn watched_name<'p>(path: &'p str, watched: &[String]) -> Option<&'p str> {
    let name = path.rsplit(['/', '\\']).find(|segment| !segment.is_empty() && *segment != ".")?;
    let wanted = folded(name);
    watched.iter().any(|watched| folded(watched) == wanted).then_some(name)
}

fn folded(name: &str) -> String {
    let visible = name.nfkc().filter(|character| !is_invisible(*character));
    let folded = visible.collect::<String>().to_lowercase();
    folded.trim_end_matches([' ', '.']).to_owned()
}

/// The characters that HFS+ leaves out of a name.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watched_file_is_known_in_every_folder_and_spelling() {
        let watched = ["SOUL.md".to_owned(), ".cursorrules".to_owned()];
        let cases = [
            ("SOUL.md", Some("SOUL.md")),
            ("project/project/SOUL.md", Some("SOUL.md")),
            (r"C:\project\SOUL.md", Some("SOUL.md")),
            ("./.cursorrules", Some(".cursorrules")),
            ("a/soul.MD", Some("soul.MD")),
            ("ＳＯＵＬ.md", Some("ＳＯＵＬ.md")),
            ("ſoul.md", Some("ſoul.md")),
            ("SO\u{200d}UL.md", Some("SO\u{200d}UL.md")),
            ("SOUL.md. ", Some("SOUL.md. ")),
            ("a/SOUL.md//.", Some("SOUL.md")),
            ("SOUL.md.txt", None),
            ("SOUL.md/x", None),
            ("MY-SOUL.md", None),
            ("", None),
            ("/", None),
        ];
        for (path, expected) in cases {
            assert_eq!(watched_name(path, &watched), expected, "{path}");
        }
    }
}
