//! Places in a source, as a citation writes them: `§3.3`, `Tables 1–3`, `rules 2–5 and 9`, `M7`.

/// What a numbered place is called, and how it is written down once it was read.
const KINDS: &[(&str, &str)] = &[
    ("§", "§"),
    ("tables ", "table "),
    ("table ", "table "),
    ("theorems ", "theorem "),
    ("theorem ", "theorem "),
    ("corollary ", "corollary "),
    ("figures ", "figure "),
    ("figure ", "figure "),
    ("rules ", "rule "),
    ("rule ", "rule "),
    ("steps ", "step "),
    ("step ", "step "),
];

/// What stands between two numbers and means everything from one to the other.
const RANGES: &[&str] = &["–", " to "];

/// What stands between two places.
const SEPARATORS: &[&str] = &[", and ", ", ", " and ", " "];

/// The letters of numbered weaknesses and tampering cases.
const CODE_LETTERS: &[char] = &['R', 'P', 'M', 'G', 'T'];

/// A range longer than this is no citation.
const MAX_RANGE: u32 = 100;

/// The places that `text` begins with, each as it is listed: `§3.3`, `table 2`, `rule 4`.
pub(super) fn places(text: &str) -> Vec<String> {
    let mut places = Vec::new();
    let mut rest = text;
    while let Some((kind, after)) = kind(rest) {
        let Some(after) = numbers(kind, after, &mut places) else { break };
        rest = after_separator(after_remark(after)).unwrap_or_default();
    }
    places
}

/// The codes of weaknesses that `text` begins with: `R10, R11 and R13`, `T1–T9`.
pub(super) fn codes(text: &str) -> Vec<String> {
    let mut codes = Vec::new();
    let mut rest = text;
    while let Some((letter, number, after)) = code(rest) {
        let end = range_end(after, |after| code(after).filter(|(other, ..)| *other == letter));
        let (last, after) = end.map_or((number, after), |(_, last, after)| (last, after));
        codes.extend(up_to(number, last).map(|number| format!("{letter}{number}")));
        rest = after_separator(after).unwrap_or_default();
    }
    codes
}

/// The numbers of one kind that `text` begins with. What follows them is returned; `None` if there are none.
fn numbers<'a>(kind: &str, text: &'a str, places: &mut Vec<String>) -> Option<&'a str> {
    let (mut number, mut rest) = number(text)?;
    loop {
        places.push(format!("{kind}{number}"));
        if let Some((last, after)) = range_end(rest, self::number) {
            let ends = number.parse().ok().zip(last.parse().ok());
            let between =
                ends.into_iter().flat_map(|(first, last): (u32, u32)| up_to(first + 1, last));
            places.extend(between.map(|number| format!("{kind}{number}")));
            rest = after;
        }
        let Some((next, after)) = rest.strip_prefix(" and ").and_then(self::number) else {
            return Some(rest);
        };
        (number, rest) = (next, after);
    }
}

fn kind(text: &str) -> Option<(&'static str, &str)> {
    KINDS.iter().find_map(|(written, listed)| {
        let start = text.get(..written.len())?;
        start.eq_ignore_ascii_case(written).then(|| (*listed, &text[written.len()..]))
    })
}

/// `3` or `3.1.2`; a dot that ends a sentence belongs to no number.
fn number(text: &str) -> Option<(&str, &str)> {
    let mut end = digits(text);
    if end == 0 {
        return None;
    }
    while let Some(part) = text[end..].strip_prefix('.').map(digits).filter(|part| *part > 0) {
        end += 1 + part;
    }
    Some(text.split_at(end))
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// One code, which ends where its word ends.
fn code(text: &str) -> Option<(char, u32, &str)> {
    let letter = text.chars().next().filter(|letter| CODE_LETTERS.contains(letter))?;
    let end = 1 + digits(&text[1..]);
    let number = text[1..end].parse().ok().filter(|_| end <= 3)?;
    let ends_word = !text[end..].starts_with(|next: char| next.is_alphanumeric() || next == '_');
    ends_word.then(|| (letter, number, &text[end..]))
}

/// What `read` finds behind the mark of a range.
fn range_end<'a, T>(text: &'a str, read: impl Fn(&'a str) -> Option<T>) -> Option<T> {
    RANGES.iter().find_map(|mark| text.strip_prefix(mark).and_then(&read))
}

fn up_to(first: u32, last: u32) -> impl Iterator<Item = u32> {
    first..=last.min(first.saturating_add(MAX_RANGE))
}

/// Past a remark in parentheses, as in `§5.2 (D1, D2), §7.4`.
fn after_remark(text: &str) -> &str {
    let remark = text.strip_prefix(" (").and_then(|remark| remark.split_once(')'));
    remark.map_or(text, |(_, after)| after)
}

fn after_separator(text: &str) -> Option<&str> {
    SEPARATORS.iter().find_map(|separator| text.strip_prefix(separator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_people_write_them() {
        let cases = [
            ("§3.3 rules 2–5; more", "§3.3, rule 2, rule 3, rule 4, rule 5"),
            ("§3.2 and §3.4.", "§3.2, §3.4"),
            (
                "rules 1–7 and 9, one function",
                "rule 1, rule 2, rule 3, rule 4, rule 5, rule 6, rule 7, rule 9",
            ),
            ("Table 6, §6.7 |", "table 6, §6.7"),
            ("§5.2 (D1, D2, D5), §7.4 (ensemble).", "§5.2, §7.4"),
            ("§3.8 and Theorem 4; in-toto", "§3.8, theorem 4"),
            ("§3.4, Corollary 3.1.", "§3.4, corollary 3.1"),
            ("Tables 6 and 7 on real data", "table 6, table 7"),
            ("§4, 50,000 actions", "§4"),
            ("step 3, its classifier", "step 3"),
            ("and nothing", ""),
            ("§", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(places(text).join(", "), expected, "{text}");
        }
    }

    #[test]
    fn codes_are_read_as_people_write_them() {
        let cases = [
            ("R10, R11 and R13)", "R10, R11, R13"),
            ("M18–M20 concern", "M18, M19, M20"),
            ("R35 to R38.", "R35, R36, R37, R38"),
            ("P12, in part)", "P12"),
            ("P6 and M19: the", "P6, M19"),
            ("M1x", ""),
            ("M100", ""),
            ("Mutex", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(codes(text).join(", "), expected, "{text}");
        }
    }
}
