//! A policy's text in pieces: what Cedar reads as code, as a string, and not at all.

use std::ops::Range;

/// What a piece is.
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
                // Either sign ends a line for Cedar.
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

/// `text` with blanks in the place of its comments, byte by byte.
pub(crate) fn without_comments(text: &str) -> String {
    let blank = |piece: &str| " ".repeat(piece.len());
    let kept = |(kind, range): (Kind, Range<usize>)| {
        let piece = text.get(range).unwrap_or_default();
        match kind {
            Kind::Code | Kind::Text => piece.to_owned(),
            Kind::Comment => blank(piece),
        }
    };
    pieces(text).into_iter().map(kept).collect()
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
