//! Limits on a policy, checked before Cedar parses it.
//!
//! Cedar's parser recurses once per bracket and aborts the process when the stack overflows; its validator accepts a
//! policy that it could not finish. A text within these limits is parsed and validated completely in 2 MiB of stack.

use crate::lexemes::{Kind, pieces};
use crate::problem::{PolicyProblem, misleads};

/// The longest policy, in bytes.
const MAX_POLICY_BYTES: usize = 1 << 20;
/// The deepest nesting of brackets.
const MAX_DEPTH: usize = 32;
/// The most operators in one statement: each can add a level to an expression.
const MAX_OPERATORS: usize = 400;

/// Refuses a text beyond the limits, and characters that make a text look different from what Cedar parses.
pub(crate) fn check(text: &str) -> Result<(), PolicyProblem> {
    if text.len() > MAX_POLICY_BYTES {
        let size = text.len();
        let what = format!("the policy is {size} bytes; the limit is {MAX_POLICY_BYTES}");
        return Err(PolicyProblem::new(what));
    }
    let mut hidden =
        text.char_indices().filter(|(_, c)| misleads(*c) && !matches!(c, '\n' | '\r' | '\t'));
    if let Some((at, c)) = hidden.next() {
        let what =
            format!("the character {} hides or reorders text; remove it", c.escape_unicode());
        return Err(PolicyProblem::new(what).at(text, at));
    }
    measure(text)
}

fn measure(text: &str) -> Result<(), PolicyProblem> {
    let mut depth = 0_usize;
    let mut operators = 0_usize;
    for (_, piece) in pieces(text).into_iter().filter(|(kind, _)| *kind == Kind::Code) {
        let code = text.get(piece.clone()).unwrap_or_default();
        let mut word = String::new();
        for (at, c) in code.char_indices().chain([(code.len(), ' ')]) {
            if c.is_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            let is_operator = matches!(word.as_str(), "if" | "in" | "is" | "has" | "like");
            operators += usize::from(is_operator);
            word.clear();
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                '.' | '!' | '=' | '<' | '>' | '&' | '|' | '+' | '-' | '*' => operators += 1,
                ';' => operators = 0,
                _ => {}
            }
            let what = if depth > MAX_DEPTH {
                format!(
                    "brackets are nested more than {MAX_DEPTH} deep; split the policy in several"
                )
            } else if operators > MAX_OPERATORS {
                format!(
                    "one policy has more than {MAX_OPERATORS} operators; split it, or compare with `[…].contains(…)`"
                )
            } else {
                continue;
            };
            return Err(PolicyProblem::new(what).at(text, piece.start + at));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        check(text).err().map(|problem| problem.to_string())
    }

    #[test]
    fn what_is_too_deep_too_long_or_hidden_is_refused() {
        let cases = [
            ("(".repeat(MAX_DEPTH + 1), Some("nested")),
            (format!("// {}", "(".repeat(MAX_DEPTH + 1)), None),
            (format!("\"{}\"", "(".repeat(MAX_DEPTH + 1)), None),
            (format!("\"\\\"{}\"", "(".repeat(MAX_DEPTH + 1)), None),
            (format!("// \r{}", "(".repeat(MAX_DEPTH + 1)), Some("nested")),
            ("(;".repeat(MAX_DEPTH + 1), Some("nested")),
            ("();".repeat(MAX_DEPTH + 1), None),
            (".a".repeat(MAX_OPERATORS + 1), Some("operators")),
            ("if x ".repeat(MAX_OPERATORS + 1), Some("operators")),
            ("a.b;".repeat(MAX_OPERATORS + 1), None),
            ("a".repeat(MAX_POLICY_BYTES + 1), Some("bytes")),
            ("permit\u{202E}".to_owned(), Some("\\u{202e}")),
            ("// \u{7}".to_owned(), Some("\\u{7}")),
            ("\"".to_owned(), None),
            ("/".to_owned(), None),
        ];
        for (text, why) in cases {
            let found = found(&text);
            let shown: String = text.chars().take(20).collect();
            match why {
                None => assert_eq!(found, None, "{shown}"),
                Some(why) => assert!(found.is_some_and(|found| found.contains(why)), "{shown}"),
            }
        }
    }

    /// What passes is validated to the end: its one mistake, at the deepest place, is found.
    #[test]
    fn nothing_that_passes_is_too_much_for_cedar() {
        let deep = MAX_DEPTH - 2;
        let chain = |operators: usize, part: &str| part.repeat(operators);
        let nope = "context.nope";
        let conditions = [
            format!("context{}", chain(MAX_OPERATORS, ".nope")),
            format!("{nope}{}", chain(MAX_OPERATORS / 2 - 1, " && true")),
            format!("{nope}{}", chain(MAX_OPERATORS / 2 - 1, " || false")),
            format!("{nope}{} == 1", chain(MAX_OPERATORS - 4, " + 1")),
            format!("{}{nope}", chain(MAX_OPERATORS / 2 - 1, "if context.tainted then true else ")),
            format!("{}{nope}{}", "(".repeat(deep), ")".repeat(deep)),
            format!("{}{nope}{}", "!(".repeat(deep), ")".repeat(deep)),
            format!("{}{nope}{} == [1]", "[".repeat(deep), "]".repeat(deep)),
            format!("{}{nope}{} == 1", "{a:".repeat(deep), "}".repeat(deep)),
            format!(
                "{}{nope}{}{}",
                "(".repeat(deep),
                ")".repeat(deep),
                chain(MAX_OPERATORS / 2 - 1, " && true")
            ),
            format!(
                "{}({nope}{})",
                "if context.tainted then true else (".repeat(deep - 1),
                chain(MAX_OPERATORS / 2 - deep, " && true") + &")".repeat(deep - 1)
            ),
        ];
        for condition in conditions {
            let text = format!("permit (principal, action, resource) when {{ {condition} }};");
            let shown: String = condition.chars().take(60).collect();
            assert_eq!(found(&text), None, "{shown}");
            let error = crate::Policy::parse(&text).err().map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.contains("`nope`")), "{shown}");
        }
    }
}
