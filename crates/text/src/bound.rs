//! Amounts that a text asks for, told from those that only bound one: `at most 500 euros`, `my limit is 3000`. In
//! English and German.

use std::ops::Range;

use crate::sentence::{Token, tokens};
use crate::vocabulary::is_verb;

/// How many words before an amount say what it is.
const BEFORE: usize = 6;
/// How many words after it do.
const AFTER: usize = 4;

/// Before an amount, these make it a bound, or say how much there is.
const BOUNDS: &[&str] = &[
    "most",
    "max",
    "maximum",
    "maximal",
    "maximally",
    "min",
    "minimum",
    "minimal",
    "least",
    "than",
    "under",
    "below",
    "over",
    "above",
    "beyond",
    "within",
    "exceed",
    "exceeds",
    "exceeding",
    "limit",
    "limits",
    "limited",
    "cap",
    "capped",
    "ceiling",
    "budget",
    "allowance",
    "balance",
    "threshold",
    "höchstens",
    "maximale",
    "maximalen",
    "mindestens",
    "unter",
    "unterhalb",
    "oberhalb",
    "obergrenze",
    "untergrenze",
    "grenze",
    "höchstgrenze",
    "höchstbetrag",
    "mindestbetrag",
    "rahmen",
    "guthaben",
    "kontostand",
];
/// Two words that do.
const PAIRS: &[(&str, &str)] = &[
    ("up", "to"),
    ("used", "to"),
    ("bis", "zu"),
    ("mehr", "als"),
    ("weniger", "als"),
    ("höher", "als"),
    ("niedriger", "als"),
];
/// After an amount, these do.
const BOUNDS_AFTER: &[&str] = &[
    "most",
    "max",
    "maximum",
    "maximal",
    "tops",
    "less",
    "least",
    "limit",
    "cap",
    "left",
    "remaining",
    "available",
    "höchstens",
    "mindestens",
    "weniger",
    "übrig",
    "verfügbar",
    "obergrenze",
];
/// Directly before an amount, these say what somebody has.
const HOLDINGS: &[&str] =
    &["have", "has", "had", "got", "own", "earn", "habe", "hab", "hat", "hatte", "verdiene"];

/// Whether the amount at `at` of the sentence `within` is one that the sentence asks for: the sentence asks for
/// something to be done, and says of the amount neither that it is a bound nor that somebody has it.
pub(crate) fn is_asked_amount(text: &str, within: Range<usize>, at: &Range<usize>) -> bool {
    let words = tokens(text, within);
    let is_request = words.iter().any(|token| is_verb(&token.word));
    let (before, rest): (Vec<_>, Vec<_>) =
        words.into_iter().partition(|token| token.at.end <= at.start);
    let after: Vec<_> = rest.into_iter().filter(|token| token.at.start >= at.end).collect();
    is_request && !is_bound_before(&before) && !is_bound_after(&after)
}

fn is_bound_before(before: &[Token<'_>]) -> bool {
    let near: Vec<&Token<'_>> = before.iter().rev().take(BEFORE).collect();
    let near = near.split(|token| token.ends_with(&[';'])).next().unwrap_or_default();
    let is_held = near.iter().take(2).any(|token| HOLDINGS.contains(&token.word.as_str()))
        && near.first().is_none_or(|token| !matches!(token.word.as_str(), "to" | "zu"));
    let is_pair = near
        .iter()
        .zip(near.iter().skip(1))
        .any(|(second, first)| PAIRS.contains(&(first.word.as_str(), second.word.as_str())));
    let is_until = near.first().is_some_and(|token| token.word == "bis");
    is_held || is_pair || is_until || near.iter().any(|token| BOUNDS.contains(&token.word.as_str()))
}

fn is_bound_after(after: &[Token<'_>]) -> bool {
    let same = after.split_inclusive(|token| token.ends_with(&[';', '.'])).next();
    let mut near = same.unwrap_or_default().iter().take(AFTER);
    near.any(|token| BOUNDS_AFTER.contains(&token.word.as_str()))
}
