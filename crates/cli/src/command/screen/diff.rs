//! Unified diffs: what a change adds, file by file. What it takes away cannot harm anybody.

use anyhow::bail;

use super::input::{Lines, Piece};

/// Whether `text` begins like the output of `git diff`, `git show` or `diff -u`.
pub(super) fn looks_like_a_diff(text: &str) -> bool {
    let mut lines = text.lines();
    let begins = lines.by_ref().take(200).any(|line| {
        line.starts_with("diff --git ")
            || line.starts_with("--- ") && !line.trim_end().ends_with("---")
    });
    begins && text.lines().take(400).any(|line| new_start(line).is_some())
}

/// One piece for each file that gains lines.
pub(super) fn read(name: &str, text: &str) -> anyhow::Result<Vec<Piece>> {
    let mut reader =
        Reader { name, pieces: Vec::new(), file: None, next: 0, old_left: 0, new_left: 0 };
    for line in text.lines() {
        reader.take(line);
    }
    if reader.file.is_none() {
        bail!("`{name}` is not a unified diff; make one with `git diff`");
    }
    Ok(reader.pieces)
}

struct Reader<'a> {
    name: &'a str,
    pieces: Vec<Piece>,
    file: Option<String>,
    /// The number of the next line of the new file.
    next: usize,
    /// What the hunk's heading still promises: without counting, an added line that begins with `++ ` would
    /// read as the heading of another file, and hide what follows.
    old_left: usize,
    new_left: usize,
}

impl Reader<'_> {
    fn take(&mut self, line: &str) {
        if self.old_left == 0 && self.new_left == 0 {
            if let Some(path) = line.strip_prefix("+++ ") {
                let path = path.split('\t').next().unwrap_or(path);
                self.file = Some(path.strip_prefix("b/").unwrap_or(path).to_owned());
            } else if let Some((start, old, new)) = new_start(line) {
                (self.next, self.old_left, self.new_left) = (start, old, new);
            }
            return;
        }
        match line.as_bytes().first() {
            Some(b'+') => {
                self.added(&line[1..]);
                self.new_left = self.new_left.saturating_sub(1);
                self.next += 1;
            }
            Some(b'-') => self.old_left = self.old_left.saturating_sub(1),
            // `\ No newline at end of file`
            Some(b'\\') => {}
            _ => {
                self.old_left = self.old_left.saturating_sub(1);
                self.new_left = self.new_left.saturating_sub(1);
                self.next += 1;
            }
        }
    }

    fn added(&mut self, line: &str) {
        let file = self.file.clone().unwrap_or_else(|| self.name.to_owned());
        if self.pieces.last().is_none_or(|piece| piece.source != file) {
            let lines = Lines::Added(Vec::new());
            self.pieces.push(Piece {
                source: file,
                id: None,
                lines,
                channel: None,
                before: Vec::new(),
                text: String::new(),
            });
        }
        if let Some(piece) = self.pieces.last_mut() {
            if let Lines::Added(lines) = &mut piece.lines {
                if !lines.is_empty() {
                    piece.text.push('\n');
                }
                lines.push(self.next);
            }
            piece.text.push_str(line);
        }
    }
}

/// The start of the new lines and the numbers of old and new lines in `@@ -1,2 +3,4 @@`.
fn new_start(line: &str) -> Option<(usize, usize, usize)> {
    let rest = line.strip_prefix("@@ -")?;
    let (ranges, _) = rest.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let (start, new_count) = line_range(new)?;
    Some((start, line_range(old)?.1, new_count))
}

/// The first line and the number of lines; without a number it is one line.
fn line_range(text: &str) -> Option<(usize, usize)> {
    let (start, count) = text.split_once(',').unwrap_or((text, "1"));
    Some((start.parse().ok()?, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "\
diff --git a/a.md b/a.md
--- a/a.md
+++ b/a.md
@@ -3,2 +3,3 @@ heading
 kept
-gone
+new
+++ b/looks-like-a-heading
diff --git a/c.md b/c.md
--- /dev/null
+++ b/c.md
@@ -0,0 +1 @@
+first
\\ No newline at end of file
";

    #[test]
    fn only_what_is_added_is_read_with_its_lines() {
        let pieces = read("in", DIFF).expect("a diff");
        let seen: Vec<_> =
            pieces.iter().map(|p| (p.source.as_str(), p.text.as_str(), &p.lines)).collect();
        assert_eq!(
            seen,
            [
                ("a.md", "new\n++ b/looks-like-a-heading", &Lines::Added(vec![4, 5])),
                ("c.md", "first", &Lines::Added(vec![1])),
            ]
        );
    }

    #[test]
    fn a_text_with_a_rule_is_no_diff() {
        assert!(looks_like_a_diff(DIFF));
        assert!(!looks_like_a_diff("---\ntitle: x\n---\n@@ hello\n"));
        assert!(read("in", "hello").is_err());
    }
}
