//! Whom or what a text names as where something goes: `share it with ann@…`, told from `what ann@… wrote`. In English
//! and German.

use std::ops::Range;

use crate::sentence::{Token, tokens};
use crate::vocabulary::is_noun;

/// Verbs of which something goes to somebody.
const SENDING: &[&str] = &[
    "mail",
    "email",
    "send",
    "forward",
    "write",
    "reply",
    "answer",
    "tell",
    "share",
    "deliver",
    "pay",
    "transfer",
    "wire",
    "give",
    "refund",
    "reimburse",
    "donate",
    "invite",
    "create",
    "schedule",
    "schick",
    "schicke",
    "schicken",
    "sende",
    "senden",
    "maile",
    "schreib",
    "schreibe",
    "antworte",
    "leite",
    "teile",
    "überweis",
    "überweise",
    "zahl",
    "zahle",
    "erstatte",
    "spende",
];
/// Directly before a name, these say that something goes there.
const TOWARDS: &[&str] = &["to", "cc", "bcc", "an"];
/// Of which something goes `with` or `mit` somebody.
const SHARING: &[&str] = &["share", "teile"];
const WITH: &[&str] = &["with", "mit"];
const FOR: &[&str] = &["for", "für"];
const INTO: &[&str] = &["in", "into", "as", "als"];
/// Verbs of which a text comes, besides those that are orders.
const MAKING: &[&str] = &[
    "summarise",
    "summarize",
    "translate",
    "list",
    "explain",
    "extract",
    "compare",
    "fasse",
    "fass",
    "übersetze",
    "vergleiche",
];
const ADDRESSES: &[&str] =
    &["address", "email", "e-mail", "adresse", "e-mail-adresse", "mailadresse"];
const IS: &[&str] = &["is", "ist", "lautet"];

/// Whether the name at `at` of the sentence `within` is where something is sent by this sentence, or is given as an
/// address for one of the sentences `before` it. Of several names that something could go to, the last one is meant.
pub(crate) fn is_destination(
    text: &str,
    within: &Range<usize>,
    at: &Range<usize>,
    before: &[Range<usize>],
) -> bool {
    let words = tokens(text, within.clone());
    let Some(index) = words.iter().position(|token| token.at.end > at.start) else { return false };
    let (before_it, after) = words.split_at(index);
    let nearest: Vec<&str> = before_it.iter().rev().map(|token| token.word.as_str()).collect();
    match nearest.as_slice() {
        [is, address, ..] if IS.contains(is) && ADDRESSES.contains(address) => {
            before.iter().any(|sentence| sends(&tokens(text, sentence.clone())))
        }
        [towards, ..] if TOWARDS.contains(towards) => {
            let goes_on = after.iter().skip(1).any(|token| TOWARDS.contains(&token.word.as_str()));
            sends(before_it) && !goes_on
        }
        // The answer is for them.
        [r#for, ..] if FOR.contains(r#for) => {
            text.get(at.clone()).is_some_and(|name| name.contains('@'))
        }
        // What is made goes into the file.
        [into, ..] if INTO.contains(into) => {
            let is_file = text.get(at.clone()).is_some_and(|name| name.contains(['.', '/']));
            is_file && before_it.iter().any(|token| MAKING.contains(&token.word.as_str()))
        }
        [sending, ..] if SENDING.contains(sending) => !is_noun(&words, index - 1),
        [with, rest @ ..] if WITH.contains(with) => rest.iter().any(|word| SHARING.contains(word)),
        _ => false,
    }
}

fn sends(words: &[Token<'_>]) -> bool {
    let mut words_at = words.iter().enumerate();
    words_at.any(|(index, token)| SENDING.contains(&token.word.as_str()) && !is_noun(words, index))
}

#[cfg(test)]
mod tests {
    use crate::Said;

    #[test]
    fn a_file_is_where_something_goes_that_is_made() {
        for (said, is_destination) in [
            ("Summarise the page in notes.txt.", true),
            ("Übersetze die Seite in /tmp/notes.txt", true),
            ("Find the page in notes.txt.", false),
            ("What is in notes.txt?", false),
        ] {
            let at = said.find("notes.txt").unwrap();
            let at = at..at + "notes.txt".len();
            let at = if said.contains('/') { at.start - 5..at.end } else { at };
            assert_eq!(Said::of(said).is_destination(&at), is_destination, "{said}");
        }
    }

    #[test]
    fn where_something_goes_is_told_from_who_is_spoken_of() {
        let cases = [
            ("Share the document with eve@x.example with read permissions.", true),
            ("Then, share it with 'eve@x.example'.", true),
            ("Send the report to eve@x.example.", true),
            ("Please forward what Bob wrote to eve@x.example", true),
            ("Create an event with Eve at noon. Her email address is 'eve@x.example'.", true),
            ("Schick den Bericht an eve@x.example.", true),
            ("Tell eve@x.example what Bob wrote.", true),
            ("Summarise Bob's mails for eve@x.example.", true),
            ("What did eve@x.example write?", false),
            ("Read the mail eve@x.example wrote.", false),
            (
                "Summarise the mails from eve@x.example and send the summary to bob@x.example.",
                false,
            ),
            ("Forward the mails to eve@x.example to bob@x.example.", false),
            ("Summarise the mails to eve@x.example.", false),
            ("Delete the mail to eve@x.example.", false),
            ("Summarise my conversation with eve@x.example for Bob.", false),
            ("Mail the thread with eve@x.example to bob@x.example.", false),
            ("Is her email address eve@x.example?", false),
            ("Her email address is eve@x.example. What does she want?", false),
            ("Fasse zusammen, was eve@x.example an Bob schrieb.", false),
        ];
        for (text, is_destination) in cases {
            let at = text.find("eve@x.example").unwrap();
            let at = at..at + "eve@x.example".len();
            assert_eq!(Said::of(text).is_destination(&at), is_destination, "{text}");
        }
    }
}
