//! Which language a text is in, as far as tables of results need to know.
//!
//! A guess by script and by the commonest words. It decides nothing and no detector uses it: it only says
//! in which row of a table a text is counted, and the rows of all languages together are all texts.

/// A text's language as a code of ISO 639-1, or `und` where neither script nor words tell it.
pub fn guess(text: &str) -> &'static str {
    by_script(text).unwrap_or_else(|| by_words(text))
}

/// The language whose script most letters are in, if it is not the Latin one.
fn by_script(text: &str) -> Option<&'static str> {
    let (mut latin, mut han, mut kana, mut others) = (0usize, 0usize, 0usize, [0usize; 5]);
    const OTHERS: [&str; 5] = ["ko", "ru", "ar", "hi", "th"];
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        match c {
            '\u{3040}'..='\u{30FF}' => kana += 1,
            '\u{3400}'..='\u{9FFF}' | '\u{20000}'..='\u{3FFFF}' => han += 1,
            '\u{1100}'..='\u{11FF}' | '\u{AC00}'..='\u{D7AF}' => others[0] += 1,
            '\u{0400}'..='\u{052F}' => others[1] += 1,
            '\u{0600}'..='\u{06FF}' | '\u{0750}'..='\u{077F}' => others[2] += 1,
            '\u{0900}'..='\u{097F}' => others[3] += 1,
            '\u{0E00}'..='\u{0E7F}' => others[4] += 1,
            _ => latin += 1,
        }
    }
    // A Han character says about as much as a Latin word of five letters.
    let asian = (han + kana) * 5;
    let (most, script) = others.iter().copied().zip(OTHERS).max_by_key(|(count, _)| *count)?;
    if asian > latin && asian > most {
        // Japanese mixes its own letters in; Chinese has none of them.
        return Some(if kana * 10 > han { "ja" } else { "zh" });
    }
    (most > latin).then_some(script)
}

/// Words that are common in one of these languages and rare in the others.
const WORDS: [(&str, &[&str]); 6] = [
    (
        "en",
        &[
            "the", "and", "of", "to", "is", "are", "you", "that", "for", "with", "what", "how",
            "this", "your", "can", "please", "i", "my", "it", "be", "from", "as", "an", "would",
            "where",
        ],
    ),
    (
        "de",
        &[
            "der", "die", "das", "und", "ist", "nicht", "ein", "eine", "ich", "sie", "wie", "mit",
            "für", "auf", "von", "zu", "den", "dem", "im", "bitte", "mir", "wer", "wo", "wird",
            "sind", "gibt", "kann", "welche", "über", "alle", "du", "mein", "jetzt", "dass",
        ],
    ),
    (
        "fr",
        &[
            "le", "les", "et", "des", "est", "une", "pour", "dans", "que", "vous", "je", "avec",
            "sur", "comment", "quel", "quelle", "du", "au", "ne", "pas", "il", "mon", "votre",
            "qui",
        ],
    ),
    (
        "es",
        &[
            "el", "los", "las", "y", "es", "una", "para", "en", "que", "por", "con", "cómo", "qué",
            "del", "mi", "su", "puedes", "cuál", "lo", "al", "se", "como",
        ],
    ),
    (
        "it",
        &[
            "il", "gli", "e", "è", "una", "per", "che", "con", "di", "della", "sono", "come",
            "non", "cosa", "mi", "del", "nel", "questo", "puoi", "quale",
        ],
    ),
    (
        "pt",
        &[
            "o", "os", "as", "e", "é", "uma", "para", "que", "com", "do", "da", "em", "não",
            "como", "você", "qual", "um", "por", "meu", "são",
        ],
    ),
];

fn by_words(text: &str) -> &'static str {
    let lower = text.to_lowercase();
    let mut counts = [0usize; WORDS.len()];
    for word in lower.split(|c: char| !c.is_alphanumeric()) {
        for (count, (_, words)) in counts.iter_mut().zip(WORDS) {
            *count += usize::from(words.contains(&word));
        }
    }
    // Letters that settle it among these languages even in a text of three words.
    counts[1] += usize::from(lower.contains(['ß', 'ä', 'ö', 'ü']));
    counts[3] += 2 * usize::from(lower.contains(['ñ', '¿', '¡']));
    counts[5] += 2 * usize::from(lower.contains(['ã', 'õ']));
    let best = counts.iter().copied().max().unwrap_or_default();
    let mut leaders = counts.iter().zip(WORDS).filter(|(count, _)| **count == best);
    match (best, leaders.next(), leaders.next()) {
        (1.., Some((_, (code, _))), None) => code,
        _ => "und",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_and_common_words_tell_the_language() {
        let cases = [
            ("What is the best way to cook rice?", "en"),
            ("Wie koche ich am besten Reis für die Kinder?", "de"),
            ("Größe?", "de"),
            ("Comment est-ce que je fais cuire le riz pour les enfants ?", "fr"),
            ("¿Cómo puedo cocinar el arroz para los niños?", "es"),
            ("Come posso cuocere il riso per i bambini della scuola?", "it"),
            ("Como você cozinha um arroz que não gruda?", "pt"),
            ("怎样煮米饭最好？", "zh"),
            ("ご飯の炊き方を教えてください", "ja"),
            ("밥을 어떻게 지어요?", "ko"),
            ("Как лучше всего варить рис?", "ru"),
            ("كيف أطبخ الأرز؟", "ar"),
            ("请用 Python 写一个函数", "zh"),
            ("🍚🍚🍚", "und"),
            ("", "und"),
            ("pdf2txt 4711", "und"),
        ];
        for (text, expected) in cases {
            assert_eq!(guess(text), expected, "{text}");
        }
    }
}
