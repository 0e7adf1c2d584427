//! Text as phrases are looked for in it: with its signs and blanks, unlike the canonical form.

use custody_text::MAX_EXPANSION;
use unicode_normalization::char::decompose_compatible;

/// The characters of `text` in compatibility form and lower case, each run of blanks as one space, without invisible
/// characters. One character becomes a few at most (G29).
pub fn normalised(text: &str) -> impl Iterator<Item = char> + '_ {
    let mut is_after_blank = false;
    text.chars().flat_map(decomposed).filter(|c| !is_invisible(*c)).filter_map(move |c| {
        let is_repeated = c.is_whitespace() && is_after_blank;
        is_after_blank = c.is_whitespace();
        (!is_repeated).then_some(if c.is_whitespace() { ' ' } else { c })
    })
}

fn decomposed(c: char) -> impl Iterator<Item = char> {
    let mut parts = ['\0'; MAX_EXPANSION];
    let mut length = 0;
    decompose_compatible(c, |part| {
        if let Some(slot) = parts.get_mut(length) {
            *slot = part;
            length += 1;
        }
    });
    parts.into_iter().take(length).flat_map(char::to_lowercase)
}

fn is_invisible(c: char) -> bool {
    let is_format = matches!(c,
        '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
        | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E0FFF}');
    is_format || (c.is_control() && !c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_looked_for_without_case_forms_and_what_cannot_be_seen() {
        let text = "  IGN\u{200b}ORE\t\n ＡＬＬ\u{3000}<script";
        assert_eq!(normalised(text).collect::<String>(), " ignore all <script");
    }

    #[test]
    fn g29_a_character_of_eighteen_becomes_a_few() {
        assert_eq!(normalised(&"\u{fdfa}".repeat(1_000)).count(), 1_000 * MAX_EXPANSION);
    }
}
