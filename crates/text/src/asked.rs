//! What a text only asks about: `what do people say of the hotel Seeblick?` is no order to reserve it. In English and
//! German.

use std::ops::Range;

use crate::sentence::{Token, tokens};
use crate::vocabulary::{is_function_word, is_noun, is_verb};

/// Verbs that ask to be told something.
const READING: &[&str] = &[
    "read",
    "show",
    "look",
    "find",
    "search",
    "fetch",
    "visit",
    "see",
    "check",
    "list",
    "summarise",
    "summarize",
    "translate",
    "explain",
    "compare",
    "count",
    "review",
    "analyse",
    "analyze",
    "extract",
    "say",
    "think",
    "sagen",
    "lies",
    "lesen",
    "liest",
    "zeig",
    "zeige",
    "zeigen",
    "such",
    "suche",
    "suchen",
    "finde",
    "finden",
    "prüfe",
    "schau",
    "sieh",
    "fasse",
    "fass",
    "zusammenfassen",
    "übersetze",
    "vergleiche",
    "zähle",
    "nenn",
    "nenne",
];
/// Verbs that may ask for something, as in `open the file` and `let Ann know`, and may ask for nothing: `it is open`.
const EITHER: &[&str] = &["know", "open"];
/// Verbs that ask for that too where the one who asks follows: `tell me`.
const TELLING: &[&str] =
    &["let", "tell", "give", "send", "sag", "sage", "gib", "inform", "help", "lass"];
/// Verbs that ask for others to be told.
const REPORTING: &[&str] = &[
    "mail",
    "email",
    "send",
    "forward",
    "write",
    "reply",
    "answer",
    "tell",
    "share",
    "post",
    "note",
    "inform",
    "notify",
    "message",
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
    "poste",
    "informiere",
];
/// Words that begin what is to be told.
const QUESTIONS: &[&str] = &[
    "what", "how", "whether", "who", "whom", "whose", "when", "where", "why", "which", "was",
    "wie", "ob", "wer", "wann", "wo", "warum", "welche", "welcher", "welches",
];
const ME: &[&str] = &["me", "us", "mir", "uns"];
/// Words that stand for what was named before.
const REFERRING: &[&str] = &[
    "it", "its", "them", "they", "their", "that", "this", "these", "those", "there", "one", "ones",
    "same", "him", "her", "he", "she", "his", "both", "all", "each", "any", "former", "latter",
    "es", "ihn", "sie", "ihm", "ihnen", "dies", "diese", "diesen", "dieses", "dieser", "diesem",
    "dort", "dorthin", "dahin", "da", "davon", "dafür", "damit", "dazu", "den", "dem", "welche",
    "beide", "beiden", "alle", "allen", "alles",
];

/// What is asked of a value: the sentence that it stands in, where it stands, and the sentences after that.
pub(crate) struct Asked<'a> {
    pub(crate) text: &'a str,
    pub(crate) within: &'a Range<usize>,
    pub(crate) at: &'a Range<usize>,
    pub(crate) after: &'a [Range<usize>],
    /// Whether the value names something that can be sent, as a file does. Of anything else, what is known of it is
    /// sent.
    pub(crate) can_be_sent: bool,
}

impl Asked<'_> {
    /// Whether the sentence only asks to be told something of the value, and none of those after it asks for something
    /// to be done with what it names.
    pub(crate) fn is_only_asked_about(&self) -> bool {
        let words = tokens(self.text, self.within.clone());
        (asks_to_be_told(&words) || self.is_in_a_question(&words))
            && !self.after.iter().any(|later| {
                let later = tokens(self.text, later.clone());
                self.is_order(&later) && refers_back(&later, &words)
            })
    }

    /// Whether the value stands in what is to be told: `mail Ann what people say of it`.
    fn is_in_a_question(&self, words: &[Token<'_>]) -> bool {
        let asks = words.iter().position(|token| QUESTIONS.contains(&token.word.as_str()));
        let Some((before, question)) = asks.map(|asks| words.split_at(asks)) else { return false };
        let is_within = question.first().is_some_and(|first| first.at.end <= self.at.start);
        is_within && before.iter().any(|token| is_verb(&token.word)) && !acts(question, &[])
    }

    fn is_order(&self, words: &[Token<'_>]) -> bool {
        acts(words, if self.can_be_sent { &[] } else { REPORTING })
    }
}

fn asks_to_be_told(words: &[Token<'_>]) -> bool {
    let is_question = words.last().is_some_and(|token| token.ends_with(&['?']));
    let is_reading = words.iter().any(|token| READING.contains(&token.word.as_str()));
    let is_telling = words.windows(2).any(is_told);
    (is_question || is_reading || is_telling) && !acts(words, &[])
}

/// Whether `words` ask for something to be done, besides reading, telling, and what is in `but`.
fn acts(words: &[Token<'_>], but: &[&str]) -> bool {
    words.iter().enumerate().any(|(index, token)| {
        let word = token.word.as_str();
        let tells = words.get(index..index + 2).is_some_and(is_told);
        let is_other = [READING, EITHER, but].iter().any(|verbs| verbs.contains(&word));
        is_verb(word) && !is_noun(words, index) && !tells && !is_other
    })
}

/// Whether two words are like `tell me`.
fn is_told(pair: &[Token<'_>]) -> bool {
    match pair {
        [tell, me] => TELLING.contains(&tell.word.as_str()) && ME.contains(&me.word.as_str()),
        _ => false,
    }
}

/// Whether `words` speak of something that `asked` names.
fn refers_back(words: &[Token<'_>], asked: &[Token<'_>]) -> bool {
    words.iter().map(|token| token.word.as_str()).any(|word| {
        REFERRING.contains(&word)
            || (!is_function_word(word) && asked.iter().any(|token| token.word == word))
    })
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
