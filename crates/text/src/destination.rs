//! Whom or what a text names as where something goes: `share it with ann@…`, told from `what ann@… wrote`. In English
//! and German. What can be read either way, as `forward what Bob wrote to ann@…`, names nobody.

use std::ops::Range;

use crate::sentence::{Token, tokens};
use crate::vocabulary::{MESSAGING, QUESTIONS, is_in, is_noun};

/// Verbs of which something goes to somebody, besides those of messages.
const GIVING: &str = "deliver pay transfer wire give refund reimburse donate invite create schedule überweis überweise zahl \
    zahle erstatte spende";
/// Directly before a name, these say that something goes there.
const TOWARDS: &str = "to cc bcc an";
/// Verbs of which something goes `with` or `mit` somebody.
const SHARING: &str = "share teile";
const WITH: &str = "with mit";
const FOR: &str = "for für";
const INTO: &str = "in into as als";
/// Verbs of which a text comes that goes `into` a file.
const MAKING: &str =
    "summarise summarize translate list explain extract compare fasse fass übersetze vergleiche";
/// Those of which one comes `for` somebody: others, as `search`, are done for what is sought.
const SUMMARISING: &str = "summarise summarize translate explain fasse fass übersetze";
const ADDRESSES: &str = "address email e-mail adresse e-mail-adresse mailadresse";
const IS: &str = "is ist lautet";
/// In the same clause, these say that something was done, or ask whether.
const PAST: &str = "did does has had have was were is are hat hatte habe haben wurde ist sind";
/// Words that begin a clause.
const CLAUSES: &str = "and or but then und oder aber dann";
/// The longest sentence that is read, in bytes.
const MAX_SENTENCE: usize = 2_048;
/// How far back an address may be asked for, in sentences.
const BEFORE: usize = 4;

/// Whether the name at `at` of the sentence `within` is where something is sent by this sentence, or is given as an
/// address for one of the sentences `before` it. Of several names that something could go to, the last one is meant.
pub(crate) fn is_destination(
    text: &str,
    within: &Range<usize>,
    at: &Range<usize>,
    before: &[Range<usize>],
) -> bool {
    if within.len() > MAX_SENTENCE {
        return false;
    }
    let words = tokens(text, within.clone());
    let Some(index) = words.iter().position(|token| token.at.end > at.start) else { return false };
    let (before_it, after) = words.split_at(index);
    let name = text.get(at.clone()).unwrap_or_default();
    let nearest: Vec<&str> = before_it.iter().rev().map(|token| token.word.as_str()).collect();
    match nearest.as_slice() {
        [is, address, ..] if is_in(IS, is) && is_in(ADDRESSES, address) => {
            let near = before.iter().rev().take(BEFORE).filter(|near| near.len() <= MAX_SENTENCE);
            near.map(|sentence| tokens(text, sentence.clone()))
                .any(|words| clauses(&words).any(|clause| is_order(clause, is_sending)))
        }
        [towards, ..] if is_in(TOWARDS, towards) => {
            let goes_on = after.iter().skip(1).any(|token| is_in(TOWARDS, &token.word));
            sends(before_it) && !goes_on
        }
        [r#for, ..] if is_in(FOR, r#for) => {
            name.contains('@') && orders(before_it, |verb| is_in(SUMMARISING, verb))
        }
        [into, ..] if is_in(INTO, into) => {
            name.contains(['.', '/']) && orders(before_it, |verb| is_in(MAKING, verb))
        }
        [with, ..] if is_in(WITH, with) => orders(before_it, |verb| is_in(SHARING, verb)),
        [verb, ..] if is_sending(verb) => sends(before_it),
        _ => false,
    }
}

fn is_sending(word: &str) -> bool {
    is_in(MESSAGING, word) || is_in(GIVING, word)
}

fn sends(words: &[Token<'_>]) -> bool {
    orders(words, is_sending)
}

/// Whether the last clause of `words` asks for something by a verb that `is_verb`.
fn orders(words: &[Token<'_>], is_verb: impl Fn(&str) -> bool) -> bool {
    clauses(words).last().is_some_and(|clause| is_order(clause, is_verb))
}

fn clauses<'a, 't>(words: &'a [Token<'t>]) -> impl Iterator<Item = &'a [Token<'t>]> {
    words.split_inclusive(|token| is_in(CLAUSES, &token.word) || token.ends_with(&[',', ';', ':']))
}

/// Whether a clause asks for something by a verb that `is_verb`, and neither tells nor asks of what was done.
fn is_order(clause: &[Token<'_>], is_verb: impl Fn(&str) -> bool) -> bool {
    let mut words = clause.iter().enumerate();
    !clause.iter().any(|token| is_in(QUESTIONS, &token.word) || is_in(PAST, &token.word))
        && words.any(|(index, token)| is_verb(&token.word) && !is_noun(clause, index))
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
            ("Please forward what Bob wrote to eve@x.example", false),
            (
                "Plan it, create an event with Eve, titled 'Lunch' and long. Her address is eve@x.example.",
                true,
            ),
            ("Create an event with Eve at noon. Her email address is 'eve@x.example'.", true),
            ("Schick den Bericht an eve@x.example.", true),
            ("Tell eve@x.example what Bob wrote.", true),
            ("Summarise Bob's mails for eve@x.example.", true),
            ("Search my mails for eve@x.example.", false),
            ("Look for eve@x.example and send it to Bob.", false),
            ("What did I send to eve@x.example?", false),
            ("Did Bob mail eve@x.example?", false),
            ("What did I share with eve@x.example?", false),
            ("What did I send to Eve? Her address is eve@x.example.", false),
            ("List the mails for eve@x.example.", false),
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
