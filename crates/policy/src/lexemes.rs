//! The lexemes of a policy: code, string literals and comments.

use std::ops::Range;

/// The kind of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Code,
    Text,
    Comment,
}

/// The pieces of `text`, in order, without gaps.
pub(crate) fn pieces(text: &str) -> Vec<(Kind, Range<usize>)> {
    let mut pieces: Vec<(Kind, Range<usize>)> = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((start, c)) = rest.next() {
        let kind = match c {
            '"' => {
                while let Some((_, c)) = rest.next() {
                    match c {
                        '\\' => drop(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
                Kind::Text
            }
            '/' if rest.peek().is_some_and(|next| next.1 == '/') => {
                // Cedar ends a comment at either character.
                while rest.next_if(|next| !matches!(next.1, '\n' | '\r')).is_some() {}
                Kind::Comment
            }
            _ => Kind::Code,
        };
        let end = rest.peek().map_or(text.len(), |next| next.0);
        match pieces.last_mut() {
            Some((Kind::Code, piece)) if kind == Kind::Code => piece.end = end,
            _ => pieces.push((kind, start..end)),
        }
    }
    pieces
}

/// `text` with a blank for every byte of a comment, so that offsets stay.
pub(crate) fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for (kind, range) in pieces(text) {
        let piece = text.get(range).unwrap_or_default();
        match kind {
            Kind::Code | Kind::Text => kept.push_str(piece),
            Kind::Comment => kept.extend(std::iter::repeat_n(' ', piece.len())),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_told_apart() {
        let text = "a \"b // \\\" c\" d // e \"f\n/ g \"h";
        let found: Vec<(Kind, &str)> =
            pieces(text).into_iter().map(|(kind, at)| (kind, &text[at])).collect();
        let expected = [
            (Kind::Code, "a "),
            (Kind::Text, "\"b // \\\" c\""),
            (Kind::Code, " d "),
            (Kind::Comment, "// e \"f"),
            (Kind::Code, "\n/ g "),
            (Kind::Text, "\"h"),
        ];
        assert_eq!(found, expected);
        assert_eq!(without_comments("é // é\nx"), "é      \nx");
    }
}
