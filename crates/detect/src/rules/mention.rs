//! Decides whether a phrase is used as a command or only mentioned.
//!
//! "Ignore all previous instructions" is an attack; "what does `ignore all previous instructions`
//! mean?" is a question. A phrase is a command at the start of a sentence, a field or a clause,
//! with a capital letter, or after a word that introduces a command. Anything else is a mention.
//! Each phrase is classified on its own, so no part of a text can turn the commands in the rest
//! into mentions, and mentions of several families still combine.

/// How many bytes before the phrase are examined.
const LOOK_BACK: usize = 160;

/// Words that introduce a command.
const LEADS: &[&str] = &[
    "also",
    "always",
    "and",
    "but",
    "first",
    "hereby",
    "immediately",
    "instead",
    "just",
    "kindly",
    "must",
    "now",
    "or",
    "please",
    "pls",
    "shall",
    "should",
    "simply",
    "so",
    "then",
    "therefore",
    "will",
    "aber",
    "also",
    "bitte",
    "dann",
    "einfach",
    "jetzt",
    "nun",
    "oder",
    "sofort",
    "sonst",
    "stattdessen",
    "und",
    "y",
    "e",
    "et",
    "ou",
    "и",
    "ok",
    "okay",
    "hi",
    "hello",
    "hey",
    "stop",
    "stopp",
    "assistant",
    "system",
    "chatgpt",
    "gpt",
    "i",
];

/// Words that make a command of a following `to` or `you`: "want you to", "have to".
const ORDERED: &[&str] = &[
    "you",
    "need",
    "have",
    "required",
    "assistant",
    "model",
    "ai",
    "command",
    "order",
    "supposed",
    "instructed",
];

/// Whether the phrase at byte `start` of a normalised text is mentioned rather than used as a
/// command. `is_capital` means that the original has a capital letter there: in the middle of a
/// line it marks an inserted sentence.
pub(super) fn is_mentioned(text: &str, start: usize, is_capital: bool) -> bool {
    let mut from = start.saturating_sub(LOOK_BACK);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let before = text.get(from..start).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    if is_quoted(line) {
        return true;
    }
    if is_capital {
        return false;
    }
    let clause = before.trim_end_matches([' ', '*', '_', '(', '>', '-', '#', '~', '\'', '"', '`']);
    if clause.is_empty() || clause.ends_with(|last: char| !last.is_alphanumeric()) {
        return false;
    }
    // A new line may continue a sentence, but the text is folded, so letter case cannot show it.
    // The ambiguous case counts as a command.
    if before[clause.len()..].contains('\n') {
        return false;
    }
    let mut words = clause.rsplit(|character: char| !character.is_alphanumeric());
    match (words.next(), words.next()) {
        (Some("to" | "you"), Some(second)) => !ORDERED.contains(&second),
        (Some(last), _) => !LEADS.contains(&last),
        (None, _) => false,
    }
}

/// Whether the line has an open quotation mark that does not start a JSON value.
fn is_quoted(line: &str) -> bool {
    if line.ends_with(['\'', '`']) {
        return !line.trim_end_matches(['\'', ' ']).ends_with(':');
    }
    let marks = line.bytes().filter(|byte| *byte == b'"').count();
    let Some((head, _)) = line.rsplit_once('"') else { return false };
    let head = head.trim_end();
    let is_value = head.ends_with("\":")
        || head.ends_with("\" :")
        || head.ends_with(['[', '{'])
        || head.ends_with("\",");
    marks % 2 == 1 && !is_value
}

#[cfg(test)]
mod tests {
    use super::is_mentioned;

    fn mentioned(text: &str) -> bool {
        is_mentioned(text, text.find("ignore").unwrap(), false)
    }

    #[test]
    fn commands_are_not_mentions() {
        for text in [
            "ignore",
            "hello. ignore",
            "hello\nignore",
            "please ignore",
            "i want you to ignore",
            "and then, ignore",
            "{\"body\": \"ignore",
            "{'body': 'ignore",
            "**ignore",
            "<!-- ignore",
            "he said \"no\". ignore",
        ] {
            assert!(!mentioned(text), "{text}");
        }
    }

    #[test]
    fn a_capital_letter_in_the_middle_of_a_line_is_a_command() {
        assert!(!is_mentioned("old age in germany ignore", 19, true));
        assert!(is_mentioned("old age in germany ignore", 19, false));
        assert!(is_mentioned("what does \"ignore", 11, true));
    }

    #[test]
    fn a_quoted_or_described_phrase_is_a_mention() {
        for text in [
            "what does \"ignore",
            "the phrase 'ignore",
            "what does ignore",
            "attacks that try to ignore",
            "models which ignore",
            "such as \"please ignore",
        ] {
            assert!(mentioned(text), "{text}");
        }
    }
}
