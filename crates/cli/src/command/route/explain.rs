//! What the rules took out of a text, and what the rewriting changed.

use std::ops::Range;

use custody_pipeline::RouteResult;
use similar::{ChangeTag, TextDiff};

use crate::command::screen::input::Piece;
use crate::output::{BAD, DIM, GOOD, line, paint, shown};

/// Both differences, as `git diff --word-diff` shows them.
pub(super) fn print(piece: &Piece, routed: &RouteResult) {
    let Some(repaired) = &routed.repaired else { return };
    line(paint(DIM, "taken out by rules:"));
    line(stripped(&piece.text, &repaired.kept));
    let rest = repaired.rest(&piece.text);
    if rest != repaired.text {
        line(paint(DIM, "rewritten by the model:"));
        line(rewritten(&rest, &repaired.text));
    }
}

fn removed(text: &str) -> String {
    paint(BAD, format_args!("[-{}-]", shown(text)))
}

/// `text`, of which `kept` is left.
fn stripped(text: &str, kept: &[Range<usize>]) -> String {
    let (mut out, mut at) = (String::new(), 0);
    for range in kept.iter().cloned().chain(std::iter::once(text.len()..text.len())) {
        if at < range.start {
            out.push_str(&removed(text.get(at..range.start).unwrap_or_default()));
        }
        out.push_str(&shown(text.get(range.clone()).unwrap_or_default()));
        at = range.end;
    }
    out
}

fn rewritten(old: &str, new: &str) -> String {
    let diff = TextDiff::from_words(old, new);
    let changes = diff.iter_all_changes().map(|change| match change.tag() {
        ChangeTag::Equal => shown(change.value()),
        ChangeTag::Delete => removed(change.value()),
        ChangeTag::Insert => paint(GOOD, format_args!("{{+{}+}}", shown(change.value()))),
    });
    changes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn what_was_taken_out_and_put_in_is_marked() {
        let kept = [4..8, 10..11];
        assert_eq!(plain(&stripped("abc defghijk", &kept)), "[-abc -]defg[-hi-]j[-k-]");
        assert_eq!(plain(&rewritten("a b", "a c")), "a [-b-]{+c+}");
    }
}
