//! Negation: which parts of a text say what should not be, in English and German.
//!
//! Errs on the side of negation. A scope begins with its word, or with the clause before it, and goes on to the
//! end of the sentence, across commas and line breaks; only words that set something against it end it earlier.

use std::ops::Range;

use crate::sentence::{Token, is_item, sentences, tokens};
use crate::vocabulary::is_verb;

/// Words that negate what stands before them in their clause, too.
const BOTH_WAYS: &[&str] = &[
    "not",
    "never",
    "cannot",
    "dont",
    "doesnt",
    "cant",
    "wont",
    "mustnt",
    "shouldnt",
    "neither",
    "nor",
    "none",
    "nobody",
    "nothing",
    "forbidden",
    "prohibited",
    "banned",
    "blocked",
    "disallowed",
    "off-limits",
    "nicht",
    "nie",
    "niemals",
    "keinesfalls",
    "keineswegs",
    "niemand",
    "niemandem",
    "nichts",
    "verboten",
    "untersagt",
    "gesperrt",
    "tabu",
    "weder",
    "excluded",
    "ausgeschlossen",
    "ausgenommen",
    "nope",
    "ned",
    "nich",
];
/// Words that negate what follows them.
const FORWARD: &[&str] = &[
    "no",
    "without",
    "except",
    "excepting",
    "excluding",
    "exclude",
    "excludes",
    "avoid",
    "avoids",
    "avoiding",
    "ignore",
    "ignoring",
    "skip",
    "skipping",
    "refuse",
    "block",
    "ban",
    "omit",
    "omitting",
    "against",
    "beware",
    "minus",
    "kein",
    "keine",
    "keinen",
    "keinem",
    "keiner",
    "keines",
    "ohne",
    "außer",
    "ausser",
    "statt",
    "anstatt",
    "anstelle",
    "vermeide",
    "vermeiden",
    "ignoriere",
    "ignorieren",
    "überspringe",
    "sperre",
    "blockiere",
    "unterlass",
    "unterlasse",
    "verzichte",
    "mitnichten",
    "unless",
];
/// Two words that negate what follows them.
const PAIRS: &[(&str, &str)] = &[
    ("instead", "of"),
    ("rather", "than"),
    ("other", "than"),
    ("apart", "from"),
    ("aside", "from"),
    ("bis", "auf"),
    ("abgesehen", "von"),
    ("stay", "away"),
    ("keep", "away"),
    ("leave", "out"),
    ("refrain", "from"),
    ("stop", "sending"),
    ("stop", "mailing"),
    ("stop", "writing"),
    ("stop", "emailing"),
    ("stop", "paying"),
    ("stop", "running"),
];
/// Before `but`, these say that what follows is left out.
const EVERYTHING: &[&str] =
    &["all", "everyone", "everybody", "everything", "anyone", "anybody", "anything", "each", "any"];
/// After a negation, these say that the rest is meant.
const CONTRAST: &[&str] = &["but", "sondern", "aber"];
/// The same, where they begin a clause.
const CONTRAST_FIRST: &[&str] = &[
    "only",
    "just",
    "instead",
    "rather",
    "please",
    "so",
    "then",
    "nur",
    "bitte",
    "stattdessen",
    "lieber",
    "vielmehr",
    "dann",
];
/// What is negated in name only: it is to be done.
const TO_BE_DONE: &[&str] = &[
    "forget",
    "hesitate",
    "fail",
    "miss",
    "vergessen",
    "vergiss",
    "vergesst",
    "zögern",
    "zögere",
    "versäumen",
    "only",
    "just",
    "nur",
    "bloß",
];
/// What `no` says without negating what follows a comma.
const PLEASANTRIES: &[&str] = &[
    "problem", "problems", "rush", "hurry", "worries", "doubt", "need", "probleme", "eile",
    "sorge", "zweifel",
];

/// Before `stay`, these say that something is not to be touched.
const STAY: &[&str] = &["must", "should", "shall", "may", "can", "muss", "soll", "sollte", "darf"];
/// Before `alone`, these do.
const LEAVE: &[&str] = &["leave", "leaving", "lass", "lasse", "lassen"];
/// How many words after `keep` name what is kept.
const KEPT_WITHIN: usize = 4;
/// How many words of a pair of brackets are looked at.
const IN_BRACKETS: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Both,
    Forward,
}

/// The parts of `text` that stand in the scope of a negation, ascending. `is_said` tells whether the word at a place is
/// the writer's own; a negation that is quoted negates nothing.
pub(crate) fn negated(text: &str, is_said: impl Fn(&Range<usize>) -> bool) -> Vec<Range<usize>> {
    let sentences = sentences(text);
    let ends = ends_of_lists(text, &sentences);
    let mut found: Vec<Range<usize>> = Vec::new();
    for (number, sentence) in sentences.iter().enumerate() {
        let words = tokens(text, sentence.clone());
        let mut is_covered = false;
        for index in 0..words.len() {
            let is_here = words.get(index).is_some_and(|word| is_said(&word.at));
            let Some(reach) = reach(&words, index).filter(|_| is_here) else { continue };
            if is_covered && reach == Reach::Forward {
                continue;
            }
            let mut scope = scope(&words, index, reach, sentence);
            let is_to_end = scope.end == sentence.end;
            if is_to_end && !is_covered {
                scope.end = ends.get(number).map_or(scope.end, |end| scope.end.max(*end));
            }
            is_covered |= is_to_end;
            let is_answer = words.len() == 1;
            if let Some(asked) = number.checked_sub(1).and_then(|before| sentences.get(before))
                && is_answer
                && text.get(asked.clone()).is_some_and(|asked| asked.trim_end().ends_with('?'))
            {
                scope.start = asked.start;
            }
            found.push(scope);
            // A later one in this sentence begins no earlier.
            if is_to_end && reach == Reach::Both {
                break;
            }
        }
    }
    merged(found)
}

/// How far the word at `index` negates, if it does.
fn reach(words: &[Token<'_>], index: usize) -> Option<Reach> {
    let token = words.get(index)?;
    let word = token.word.as_str();
    let next = words.get(index + 1).map_or("", |token| token.word.as_str());
    let after_next = words.get(index + 2).map_or("", |token| token.word.as_str());
    let last = index
        .checked_sub(1)
        .and_then(|last| words.get(last))
        .map_or("", |token| token.word.as_str());
    let is_both = BOTH_WAYS.contains(&word) || word.ends_with("n't");
    if is_both {
        let is_to_be_done = TO_BE_DONE.contains(&next)
            || TO_BE_DONE.contains(&after_next)
            || matches!(last, "vergiss" | "vergesst");
        // `Never only` is no encouragement.
        return (!is_to_be_done || matches!(word, "never" | "niemals" | "nie"))
            .then_some(Reach::Both);
    }
    if spares(words, index) {
        return Some(Reach::Both);
    }
    let is_last = index + 1 == words.len();
    match word {
        "no" | "nein" if is_last => Some(Reach::Both),
        // An answer: `No, mail it to Ann.`
        "no" if token.ends_with(&[',']) => None,
        "but" => EVERYTHING.contains(&last).then_some(Reach::Forward),
        _ if FORWARD.contains(&word) => Some(Reach::Forward),
        _ => PAIRS.contains(&(word, next)).then_some(Reach::Forward),
    }
}

/// Whether the word at `index` says that something is to be left as it is: `25 must stay`, `leave it alone`.
fn spares(words: &[Token<'_>], index: usize) -> bool {
    let Some(token) = words.get(index) else { return false };
    let (before, after) = words.split_at(index);
    let last = before.last().map_or("", |token| token.word.as_str());
    match token.word.as_str() {
        "stays" | "remains" | "untouched" | "bleibt" | "unangetastet" | "unberührt" => true,
        "stay" | "remain" | "bleiben" => STAY.contains(&last),
        "alone" | "intact" | "ruhe" => {
            before.iter().any(|token| LEAVE.contains(&token.word.as_str()))
        }
        // Whom to keep in a conversation is another matter.
        "keep" | "behalte" => {
            let mut near = after.iter().skip(1).take(KEPT_WITHIN);
            near.any(|token| token.is_value() && !token.word.contains('@'))
        }
        _ => false,
    }
}

fn scope(words: &[Token<'_>], index: usize, reach: Reach, sentence: &Range<usize>) -> Range<usize> {
    let start = match reach {
        Reach::Forward => words.get(index).map_or(sentence.start, |token| token.at.start),
        Reach::Both => clause_start(words, index).unwrap_or(sentence.start),
    };
    start..scope_end(words, index).unwrap_or(sentence.end)
}

/// Where the clause begins in which the word at `index` stands, if something was asked for before it. A list of values
/// is one clause.
fn clause_start(words: &[Token<'_>], index: usize) -> Option<usize> {
    if let Some(bracket) = bracket_start(words, index) {
        return Some(bracket);
    }
    let first_verb = words.iter().position(|token| is_verb(&token.word))?;
    let before = words.get(..index)?;
    let parts = before.iter().enumerate().rev();
    for (at, token) in parts {
        let follows = words.get(at + 1)?;
        let is_conjunction = matches!(
            token.word.as_str(),
            "and" | "but" | "und" | "aber" | "sondern" | "then" | "dann"
        );
        let is_break =
            is_conjunction || token.ends_with(&[',', ';']) || matches!(token.raw, "-" | "–" | "—");
        let is_list = follows.is_value() && !token.ends_with(&[';']);
        if is_break && first_verb < at + 1 && !is_list {
            return Some(follows.at.start);
        }
    }
    None
}

/// Where the brackets begin around the word at `index`, if what they rule out stands in them.
fn bracket_start(words: &[Token<'_>], index: usize) -> Option<usize> {
    let (mut depth, mut open) = (0, None);
    for (at, token) in words.iter().enumerate().take(index + 1).rev().take(IN_BRACKETS) {
        depth += bracket_depth(token.raw);
        if depth > 0 {
            open = Some(at);
            break;
        }
    }
    let within = words.get(open?..)?.iter().take(IN_BRACKETS);
    let mut is_closed = false;
    let mut within =
        within.take_while(|token| !std::mem::replace(&mut is_closed, token.raw.contains(')')));
    let holds_value = within.any(Token::is_value);
    words.get(open?).filter(|_| holds_value).map(|token| token.at.start)
}

/// Where what is negated ends before the sentence does.
fn scope_end(words: &[Token<'_>], index: usize) -> Option<usize> {
    let first = words.get(index)?;
    let is_pleasantry =
        words.get(index + 1).is_some_and(|next| PLEASANTRIES.contains(&next.word.as_str()));
    // The bracket in which the word stands ends what it negates.
    let (mut depth, mut is_said) = (if first.raw.starts_with('(') { -1 } else { 0 }, false);
    let mut last = first;
    for token in words.get(index..)? {
        let begins_clause = token.at.start > first.at.start
            && (last.ends_with(&[',', ';'])
                || matches!(last.raw, "-" | "–" | "—")
                || matches!(last.word.as_str(), "and" | "und"));
        let is_contrast = CONTRAST.contains(&token.word.as_str())
            || (begins_clause
                && CONTRAST_FIRST.contains(&token.word.as_str())
                && !is_pair(words, token));
        let is_next = last.ends_with(&[';']) && !token.is_value();
        if (is_said && (is_contrast || is_next)) || (is_pleasantry && begins_clause) {
            return Some(token.at.start);
        }
        // Until something was negated, nothing can be set against it.
        let is_object = token.is_value()
            || is_verb(&token.word)
            || matches!(token.word.as_str(), "anyone" | "anybody" | "it" | "them");
        is_said |= is_object && token.at.start > first.at.start;
        depth += bracket_depth(token.raw);
        if depth < 0 {
            return Some(token.at.end);
        }
        last = token;
    }
    None
}

fn is_pair(words: &[Token<'_>], token: &Token<'_>) -> bool {
    let mut rest = words.iter().skip_while(|word| word.at.start <= token.at.start);
    let next = rest.next().map_or("", |next| next.word.as_str());
    PAIRS.contains(&(token.word.as_str(), next))
}

fn bracket_depth(raw: &str) -> i32 {
    raw.chars()
        .map(|c| match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        })
        .sum()
}

/// For each sentence, where the list ends that it introduces: `never mail:`.
fn ends_of_lists(text: &str, sentences: &[Range<usize>]) -> Vec<usize> {
    let mut ends = Vec::with_capacity(sentences.len());
    // Where the items end that begin with the sentence after, and what is said next.
    let (mut items, mut next_end) = (None, None);
    for at in sentences.iter().rev() {
        let part = text.get(at.clone()).unwrap_or_default();
        let trimmed = part.trim_end();
        let announced = next_end.filter(|_| trimmed.ends_with(':'));
        let is_closed = trimmed.ends_with(['.', '!', '?']);
        let end = if is_closed { at.end } else { items.or(announced).unwrap_or(at.end) };
        ends.push(end);
        if !part.trim().is_empty() {
            items = is_item(part).then(|| items.unwrap_or(at.end));
            next_end = Some(at.end);
        }
    }
    ends.reverse();
    ends
}

fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            Some(_) | None => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use crate::Said;

    #[test]
    fn what_is_ruled_out_is_told_from_what_is_asked_for() {
        // In each text `NO` is ruled out and `YES` is not.
        let cases = [
            "Never mail a@no.example.",
            "Mail a@yes.example, not b@no.example.",
            "Mail a@yes.example and never b@no.example",
            "Do not mail a@no.example or b@no.example, only c@yes.example.",
            "Don't send it to a@no.example, b@no.example or c@no.example.",
            "Send it to everybody except a@no.example.",
            "Mail everyone but a@no.example",
            "Never mail anyone but a@no.example",
            "Use a@yes.example instead of a@no.example.",
            "Instead of a@no.example, please use b@yes.example? No: that is a@no.example",
            "a@no.example must not get this. Mail b@yes.example.",
            "a@no.example and b@no.example must not get anything.",
            "Do not, under any circumstances, mail a@no.example.",
            "Never ever (really) mail a@no.example",
            "do not mail\na@no.example",
            "Do NOT do any of these:\n- mail a@no.example\n- mail b@no.example\n\nMail c@yes.example.",
            "Forbidden: a@no.example, b@no.example",
            "Never mail people outside, e.g. a@no.example.",
            "Mail a@yes.example (not b@no.example) the report, and c@yes.example",
            "No, mail a@yes.example.",
            "No problem, mail a@yes.example.",
            "Don't forget to mail a@yes.example.",
            "a@no.example is off-limits. Send it to a@yes.example.",
            "Mail a@no.example? No.",
            "Schreib niemals an a@no.example.",
            "Schick es nicht an a@no.example, sondern an b@yes.example.",
            "Schick es an a@yes.example, aber nicht an b@no.example.",
            "Statt an a@no.example geht es an b@no.example. Schick es an c@yes.example.",
            "An alle außer a@no.example",
            "a@no.example darf das keinesfalls bekommen.",
            "Bitte nicht vergessen: Mail an a@yes.example.",
            "Vergiss nicht, a@yes.example zu schreiben.",
            "Ohne Rücksprache nie an a@no.example",
            "Reply \"no\" to a@yes.example",
            "> never mail a@yes.example\n\nMail a@yes.example.",
            "Mail a@yes.example; a@no.example must stay out of it.",
            "Leave a@no.example alone.",
            "Lass a@no.example in Ruhe.",
            "Keep a@yes.example posted.",
            "I want to stay near a@yes.example",
        ];
        for text in cases {
            let said = Said::of(text);
            for (at, host) in text.match_indices("@no.").chain(text.match_indices("@yes.")) {
                let value = at - 1..at + host.len() + 7;
                let is_quoted = text
                    .get(..at)
                    .is_some_and(|before| before.starts_with("> ") && !before.contains('\n'));
                if !is_quoted {
                    assert_eq!(
                        said.is_negated(&value),
                        host == "@no.",
                        "{} in {text:?}",
                        &text[value]
                    );
                }
            }
        }
    }

    #[test]
    fn many_negations_cost_no_more_than_few() {
        for text in ["not ", "no ", "never mail a@b.example but ", "- no\n", "not, ", "(not "] {
            let _ = Said::of(&text.repeat(50_000));
        }
    }
}
