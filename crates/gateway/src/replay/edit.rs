//! What an edit makes of a value.

use crate::memory_tools::Edit;

/// The value after `edit`; `None` when the edit does not fit it, as when the text to replace is not
/// there. A tool would then have failed.
pub(super) fn applied(value: Option<&str>, edit: &Edit) -> Option<String> {
    let old_value = value.unwrap_or_default();
    match edit {
        Edit::Replace(text) => Some(text.clone()),
        Edit::Append(text) if old_value.is_empty() => Some(text.clone()),
        Edit::Append(text) => Some(format!("{old_value}\n{text}")),
        Edit::Substitute { old, new, all: true } => {
            old_value.contains(old.as_str()).then(|| old_value.replace(old.as_str(), new))
        }
        Edit::Substitute { old, new, all: false } => (old_value.matches(old.as_str()).count() == 1)
            .then(|| old_value.replacen(old.as_str(), new, 1)),
        Edit::Insert { line, text } => {
            let at = usize::try_from(*line).ok()?;
            let mut lines: Vec<&str> = old_value.lines().collect();
            (at <= lines.len()).then(|| {
                lines.insert(at, text);
                lines.join("\n")
            })
        }
        Edit::Sequence(edits) => {
            let mut value = old_value.to_owned();
            for edit in edits {
                value = applied(Some(&value), edit)?;
            }
            Some(value)
        }
    }
}

/// What an edit would add, whatever the value: the text that is decided about when the edit does not
/// fit. The verdict does not depend on it; only a diff would show it.
pub(super) fn added(edit: &Edit) -> String {
    match edit {
        Edit::Replace(text) | Edit::Append(text) | Edit::Insert { text, .. } => text.clone(),
        Edit::Substitute { new, .. } => new.clone(),
        Edit::Sequence(edits) => edits.iter().map(added).collect::<Vec<_>>().join("\n"),
    }
}

/// Whether the new value depends on the present one, so that making it is a read as well.
pub(super) fn reads(edit: &Edit) -> bool {
    !matches!(edit, Edit::Replace(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_fits_or_it_does_not() {
        let substitute =
            |old: &str, all| Edit::Substitute { old: old.into(), new: "X".into(), all };
        let cases = [
            (Some("a b a"), substitute("b", false), Some("a X a")),
            (Some("a b a"), substitute("a", false), None),
            (Some("a b a"), substitute("a", true), Some("X b X")),
            (None, substitute("a", true), None),
            (Some("a\nb"), Edit::Insert { line: 1, text: "X".into() }, Some("a\nX\nb")),
            (Some("a"), Edit::Insert { line: 9, text: "X".into() }, None),
            (None, Edit::Append("X".into()), Some("X")),
            (Some("a"), Edit::Append("X".into()), Some("a\nX")),
        ];
        for (value, edit, expected) in cases {
            assert_eq!(applied(value, &edit).as_deref(), expected, "{value:?} {edit:?}");
        }
    }
}
