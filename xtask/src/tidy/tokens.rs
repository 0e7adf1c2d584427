//! Rust source as a flat row of tokens: no comments, strings kept whole.
//!
//! Tokens rather than syntax, so that what a macro is given is read too.

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// One token. `::` is one token, any other punctuation is one per character; the two halves of a
/// bracket are tokens of their own. A doc comment is `#[doc = "…"]`, so its text is one literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    /// Counted from one.
    pub(crate) line: usize,
}

/// All tokens of a source file.
///
/// # Errors
/// When the text is not Rust.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token>> {
    let stream: TokenStream = source.parse().map_err(|error| anyhow!("not Rust: {error}"))?;
    let mut flat = Vec::new();
    flatten(stream, &mut flat);
    Ok(flat)
}

/// The tokens that are compiled into the product: all but items marked `#[test]`, `#[cfg(test)]`
/// or `#[cfg(all(test, …))]`.
pub(crate) fn shipped_tokens(source: &str) -> Result<Vec<Token>> {
    let all = tokens(source)?;
    let mut shipped = Vec::new();
    let mut at = 0;
    while at < all.len() {
        if is_test_attribute(&all[at..]) {
            at = end_of_item(&all, at);
        } else {
            shipped.push(all[at].clone());
            at += 1;
        }
    }
    Ok(shipped)
}

/// Whether `tokens` begin with these words.
pub(crate) fn begins_with(tokens: &[Token], words: &[&str]) -> bool {
    tokens.len() >= words.len() && tokens.iter().zip(words).all(|(token, word)| token.text == *word)
}

fn flatten(stream: TokenStream, flat: &mut Vec<Token>) {
    let mut colon_before = false;
    for tree in stream {
        let line = tree.span().start().line;
        let mut colon = false;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                let end = group.span_close().start().line;
                flat.push(Token { text: open.to_owned(), line });
                flatten(group.stream(), flat);
                flat.push(Token { text: close.to_owned(), line: end });
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' && colon_before => {
                flat.pop();
                flat.push(Token { text: String::from("::"), line });
            }
            TokenTree::Punct(punct) => {
                colon = punct.as_char() == ':' && punct.spacing() == Spacing::Joint;
                flat.push(Token { text: punct.as_char().to_string(), line });
            }
            TokenTree::Ident(ident) => flat.push(Token { text: ident.to_string(), line }),
            TokenTree::Literal(literal) => flat.push(Token { text: literal.to_string(), line }),
        }
        colon_before = colon;
    }
}

fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

fn is_test_attribute(tokens: &[Token]) -> bool {
    let marks: [&[&str]; 3] = [
        &["#", "[", "test", "]"],
        &["#", "[", "cfg", "(", "test", ")", "]"],
        &["#", "[", "cfg", "(", "all", "(", "test", ","],
    ];
    marks.iter().any(|mark| begins_with(tokens, mark))
}

/// The index after the item whose attributes begin at `start`: after its `;`, after its body, or
/// where the brackets around it close.
fn end_of_item(tokens: &[Token], start: usize) -> usize {
    let mut at = start;
    while begins_with(&tokens[at..], &["#", "["]) {
        at = after_bracket(tokens, at + 1);
    }
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            ";" => return at + 1,
            "{" => return after_bracket(tokens, at),
            "}" | ")" | "]" => return at,
            "(" | "[" => at = after_bracket(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// The index after the bracket that closes the one at `open`.
fn after_bracket(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(tokens: &[Token]) -> String {
        tokens.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_vanish_strings_stay_whole_and_lines_are_kept() {
        let source = "// std::fs\n/* std::fs */ let a = \"std::fs\";\na::b(c :: d, e: ::f);";
        let tokens = tokens(source).unwrap();
        assert_eq!(words(&tokens), "let a = \"std::fs\" ; a :: b ( c :: d , e : :: f ) ;");
        assert_eq!(tokens.iter().map(|token| token.line).max(), Some(3));
        assert_eq!(tokens[0].line, 2);
    }

    #[test]
    fn what_is_compiled_for_tests_only_is_left_out() {
        let cases = [
            ("#[cfg(test)] mod tests { a } b", "b"),
            ("#[cfg(test)] mod tests; b", "b"),
            ("#[cfg(test)] #[path = \"x\"] mod tests; b", "b"),
            ("#[test] fn a() -> [u8; 3] { x; y } b", "b"),
            ("#[cfg(all(test, unix))] use a::b; c", "c"),
            ("struct A { #[cfg(test)] a: u8 } b", "struct A { } b"),
            ("#[cfg(any(test, unix))] a", "# [ cfg ( any ( test , unix ) ) ] a"),
            ("#[cfg(not(test))] a", "# [ cfg ( not ( test ) ) ] a"),
        ];
        for (source, expected) in cases {
            assert_eq!(words(&shipped_tokens(source).unwrap()), expected, "{source}");
        }
    }
}
