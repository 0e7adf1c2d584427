//! What a text only asks about: `what do people say of the hotel Seeblick?` is no order to reserve it. In English and
//! German.

use std::collections::HashSet;
use std::ops::Range;

use crate::sentence::{Token, tokens};
use crate::vocabulary::{MESSAGING, QUESTIONS, is_function_word, is_in, is_noun, is_verb};

/// Verbs that ask to be told something.
const READING: &str = "read show look find search fetch visit see check list summarise summarize translate explain compare \
    count review analyse analyze extract say think sagen lies lesen liest zeig zeige zeigen such suche \
    suchen finde finden prüfe schau sieh fasse fass zusammenfassen übersetze vergleiche zähle nenn nenne";
/// Verbs that may ask for something, as in `open the file` and `let Ann know`, and may ask for nothing: `it is open`.
const EITHER: &str = "know open";
/// Verbs that ask to be told something where the one who asks follows: `tell me`.
const TELLING: &str = "let tell give send sag sage gib inform help lass";
const ME: &str = "me us mir uns";
/// Verbs that ask for others to be told, besides those of messages.
const REPORTING: &str = "post note inform notify message poste informiere";
/// Words that stand for what was named before.
const REFERRING: &str = "it its them they their that this these those there one ones same him her he she his both all each any \
    former latter es ihn sie ihm ihnen dies diese diesen dieses dieser diesem dort dorthin dahin da davon \
    dafür damit dazu den dem welche beide beiden alle allen alles";
/// How many sentences after a question may ask for something to be done.
const LATER: usize = 16;

/// What one sentence asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskedSentence {
    /// Whether it only asks to be told something.
    asks: bool,
    /// Where what is to be told begins, as in `mail Ann what people say`.
    question: Option<usize>,
    /// Whether a later sentence asks for something to be done with what it names.
    is_ordered: bool,
    /// The same, where sending it on is something.
    is_sent: bool,
}

/// What each of the `sentences` of `text` asks. Linear in the text.
pub(crate) fn asked(text: &str, sentences: &[Range<usize>]) -> Vec<AskedSentence> {
    let words: Vec<_> = sentences.iter().map(|sentence| tokens(text, sentence.clone())).collect();
    let orders: Vec<bool> = words.iter().map(|words| acts(words, true)).collect();
    let reports: Vec<bool> = words.iter().map(|words| acts(words, false)).collect();
    let mut found = Vec::with_capacity(words.len());
    for (index, sentence) in words.iter().enumerate() {
        let asks = asks_to_be_told(sentence);
        let question = question(sentence);
        let (mut is_ordered, mut is_sent) = (false, false);
        if asks || question.is_some() {
            let named = named(sentence);
            for later in (index + 1..words.len()).take(LATER) {
                let refers = words.get(later).is_some_and(|words| refers_back(words, &named));
                is_ordered |= refers && reports.get(later) == Some(&true);
                is_sent |= refers && orders.get(later) == Some(&true);
            }
        }
        found.push(AskedSentence { asks, question, is_ordered, is_sent });
    }
    found
}

impl AskedSentence {
    /// Whether a value at `at` is only asked about. To send it on is something if it `can_be_sent`, as a file can; of
    /// anything else, what is known of it is sent.
    pub(crate) fn is_only_asked_about(&self, at: &Range<usize>, can_be_sent: bool) -> bool {
        let is_asked = self.asks || self.question.is_some_and(|question| question <= at.start);
        is_asked && !(if can_be_sent { self.is_sent } else { self.is_ordered })
    }
}

fn asks_to_be_told(words: &[Token<'_>]) -> bool {
    let is_question = words.last().is_some_and(|token| token.ends_with(&['?']));
    let is_reading = words.iter().any(|token| is_in(READING, &token.word));
    let is_telling = words.windows(2).any(is_told);
    (is_question || is_reading || is_telling) && !acts(words, true)
}

/// Where what is to be told begins, if somebody is to be told and nothing is to be done in that part.
fn question(words: &[Token<'_>]) -> Option<usize> {
    let asks = words.iter().position(|token| is_in(QUESTIONS, &token.word))?;
    let (before, question) = words.split_at(asks);
    let is_told = before.iter().any(|token| is_verb(&token.word)) && !acts(question, true);
    question.first().filter(|_| is_told).map(|first| first.at.end)
}

/// Whether `words` ask for something to be done, besides reading and being told; that others are told is something if
/// `reporting` counts.
fn acts(words: &[Token<'_>], reporting: bool) -> bool {
    words.iter().enumerate().any(|(index, token)| {
        let word = token.word.as_str();
        let tells = words.get(index..index + 2).is_some_and(is_told);
        let reports = is_in(MESSAGING, word) || is_in(REPORTING, word);
        let is_other = is_in(READING, word) || is_in(EITHER, word) || (reports && !reporting);
        is_verb(word) && !is_noun(words, index) && !tells && !is_other
    })
}

/// Whether two words are like `tell me`.
fn is_told(pair: &[Token<'_>]) -> bool {
    match pair {
        [tell, me] => is_in(TELLING, &tell.word) && is_in(ME, &me.word),
        _ => false,
    }
}

/// The words by which a sentence can be referred to.
fn named<'a>(words: &'a [Token<'_>]) -> HashSet<&'a str> {
    let words = words.iter().map(|token| token.word.as_str());
    words.filter(|word| !is_function_word(word)).collect()
}

fn refers_back(words: &[Token<'_>], named: &HashSet<&str>) -> bool {
    let mut words = words.iter().map(|token| token.word.as_str());
    words.any(|word| is_in(REFERRING, word) || named.contains(word))
}

#[cfg(test)]
mod tests {
    use crate::Said;

    #[test]
    fn what_is_only_asked_about_is_told_from_what_is_to_be_done() {
        let cases = [
            ("What do people say of the hotel Seeblick?", true),
            ("What do people say of Seeblick? Mail the gist to dana@firm.example.", true),
            ("Show me the ratings of Seeblick and Lindenhof.", true),
            ("Tell me what Seeblick costs.", true),
            ("What do people say of Seeblick? Mail it to dana@firm.example.", true),
            ("Mail dana@firm.example what people say of Seeblick.", true),
            ("Schreib Dana, wie Seeblick bewertet ist.", true),
            ("Write in Seeblick what you found.", false),
            ("Let Seeblick know.", false),
            ("Let me know what Seeblick costs.", true),
            ("Find out who runs Seeblick and book a room there.", false),
            ("Was sagen die Leute über Seeblick? Schick die Zusammenfassung an Dana.", true),
            ("Zeig mir die Bewertungen von Seeblick.", true),
            ("Is the order at Seeblick still open?", true),
            ("What do people say of Seeblick? If they like it, book it for two nights.", false),
            (
                "What do people say of the hotel Seeblick? Reserve the hotel if they like the food.",
                false,
            ),
            ("Compare Seeblick and Lindenhof and book the cheaper one.", false),
            ("Compare Seeblick and Lindenhof. Book the cheaper one.", false),
            ("Could you reserve Seeblick for me?", false),
            ("Book Seeblick.", false),
            ("Two nights in Seeblick, please.", false),
            ("Wie ist Seeblick bewertet? Wenn gut, dann buche es.", false),
            ("Seeblick", false),
        ];
        for (text, only) in cases {
            let at = text.find("Seeblick").unwrap();
            assert_eq!(Said::of(text).is_only_asked_about(&(at..at + 8), false), only, "{text}");
        }
        let text = "Read Seeblick. Then send it to Dana.";
        let at = 5..13;
        assert!(!Said::of(text).is_only_asked_about(&at, true), "a file can be sent");
        assert!(Said::of(text).is_only_asked_about(&at, false));
    }
}
