//! Usual spellings: what a person writes for a number, a date or an address, brought to one form.
//!
//! Only spellings that can be read in one way. `1.000` is a thousand to some readers and one to others, so it
//! is neither here.

use std::ops::Range;

/// The longest text that could spell a day, in bytes, with room to spare.
const LONGEST_DATE: usize = 64;

/// A value found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spelled {
    /// Its one form.
    pub(crate) form: String,
    /// Where it stands, in bytes.
    pub(crate) at: Range<usize>,
}

/// The decimal number that `text` spells, without superfluous zeros: `1,000.50` is `1000.5`. What two readers read in
/// two ways spells none.
pub(crate) fn number(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let plain = ungrouped(digits)?;
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    // What begins with a superfluous zero is a code: another one has none.
    if whole.len() > 1 && whole.starts_with('0') {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    Some(match fraction {
        "" if whole == "0" => "0".to_owned(),
        "" => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    })
}

/// Whether `text` is a thousand and something to some readers, and something over one to others: `1,234`, `1.234`.
pub(crate) fn is_ambiguous(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.split_once([',', '.']).is_some_and(|(whole, rest)| {
        are_digits(whole)
            && are_digits(rest)
            && rest.len() == 3
            && whole.len() <= 3
            && !whole.starts_with('0')
    })
}

/// Plain digits and nothing else.
fn are_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits with a point at most, from digits in groups of three or with a decimal comma.
fn ungrouped(text: &str) -> Option<String> {
    if is_ambiguous(text) {
        return None;
    }
    let starts_and_ends_with_digits = text.starts_with(|c: char| c.is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_digit());
    let is_number = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ','));
    if !starts_and_ends_with_digits || !is_number {
        return None;
    }
    let groups: Vec<&str> = text.split(',').collect();
    let [first, rest @ ..] = groups.as_slice() else { return None };
    if rest.is_empty() {
        return has_one_point(text).then(|| text.to_owned());
    }
    let (last, middle) = rest.split_last()?;
    let (last_whole, fraction) = last.split_once('.').unwrap_or((last, ""));
    let is_grouped = first.len() <= 3
        && !first.starts_with('0')
        && !first.contains('.')
        && middle.iter().all(|group| group.len() == 3 && !group.contains('.'))
        && last_whole.len() == 3
        && !fraction.contains('.');
    if is_grouped {
        let whole = [&[*first], middle, &[last_whole]].concat().concat();
        let point = if fraction.is_empty() { "" } else { "." };
        return Some(format!("{whole}{point}{fraction}"));
    }
    // No group of thousands follows a zero: `0,500` is a half to everybody.
    let is_fraction = last.len() != 3 || first.starts_with('0') || first.len() > 3;
    let is_decimal = rest.len() == 1 && !first.contains('.') && is_fraction && !last.contains('.');
    is_decimal.then(|| format!("{first}.{last}"))
}

/// At most one point.
fn has_one_point(text: &str) -> bool {
    text.split_once('.').is_none_or(|(_, fraction)| !fraction.contains('.'))
}

/// The number that an English or German number word names.
pub(crate) fn number_word(word: &str) -> Option<&'static str> {
    const WORDS: [(&str, &str, &str); 29] = [
        ("one", "eins", "1"),
        ("two", "zwei", "2"),
        ("three", "drei", "3"),
        ("four", "vier", "4"),
        ("five", "fünf", "5"),
        ("six", "sechs", "6"),
        ("seven", "sieben", "7"),
        ("eight", "acht", "8"),
        ("nine", "neun", "9"),
        ("ten", "zehn", "10"),
        ("eleven", "elf", "11"),
        ("twelve", "zwölf", "12"),
        ("thirteen", "dreizehn", "13"),
        ("fourteen", "vierzehn", "14"),
        ("fifteen", "fünfzehn", "15"),
        ("sixteen", "sechzehn", "16"),
        ("seventeen", "siebzehn", "17"),
        ("eighteen", "achtzehn", "18"),
        ("nineteen", "neunzehn", "19"),
        ("twenty", "zwanzig", "20"),
        ("thirty", "dreißig", "30"),
        ("forty", "vierzig", "40"),
        ("fifty", "fünfzig", "50"),
        ("sixty", "sechzig", "60"),
        ("seventy", "siebzig", "70"),
        ("eighty", "achtzig", "80"),
        ("ninety", "neunzig", "90"),
        ("hundred", "hundert", "100"),
        ("thousand", "tausend", "1000"),
    ];
    let word = word.to_lowercase();
    WORDS.iter().find(|(english, german, _)| word == *english || word == *german).map(|w| w.2)
}

/// The day that `text` names, as `2024-05-15`: ISO, German with points, or with the month in words.
pub(crate) fn date(text: &str) -> Option<String> {
    if text.len() > LONGEST_DATE || !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let cleaned = text.replace(',', " ").replace('.', " . ");
    let words: Vec<&str> = cleaned.split_whitespace().filter(|word| *word != "of").collect();
    match words.as_slice() {
        [iso] => {
            let mut parts = iso.split('-');
            let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
            day_of(year, month.parse().ok()?, day).filter(|_| parts.next().is_none())
        }
        [day, ".", month, ".", year] => match month.parse() {
            Ok(month) => day_of(year, month, day),
            Err(_) => None,
        },
        [day, ".", name, year] | [day, name, year] if month_of(name).is_some() => {
            day_of(year, month_of(name)?, ordinal(day))
        }
        [name, day, year] => day_of(year, month_of(name)?, ordinal(day)),
        _ => None,
    }
}

fn day_of(year: &str, month: u8, day: &str) -> Option<String> {
    let is_year = year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    let day: u8 = day.parse().ok()?;
    let is_day = (1..=31).contains(&day) && (1..=12).contains(&month);
    (is_year && is_day).then(|| format!("{year}-{month:02}-{day:02}"))
}

/// Whether `text` is a day of the calendar in exactly the form `2024-05-15`.
pub(crate) fn is_iso_day(text: &str) -> bool {
    let is_form = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| {
            if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() }
        });
    if !is_form {
        return false;
    }
    let parts: Vec<u32> = text.split('-').filter_map(|part| part.parse().ok()).collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (1..=12).contains(month) && (1..=last).contains(day)
}

fn ordinal(day: &str) -> &str {
    day.trim_end_matches(|c: char| c.is_ascii_alphabetic())
}

/// Whether `name` is that of a month.
pub(crate) fn is_month(name: &str) -> bool {
    month_of(name).is_some()
}

/// Whether `year` is one that texts speak of.
pub(crate) const fn is_year(year: u32) -> bool {
    matches!(year, 1900..=2100)
}

fn month_of(name: &str) -> Option<u8> {
    const MONTHS: [(&str, &str); 12] = [
        ("january", "januar"),
        ("february", "februar"),
        ("march", "märz"),
        ("april", "april"),
        ("may", "mai"),
        ("june", "juni"),
        ("july", "juli"),
        ("august", "august"),
        ("september", "september"),
        ("october", "oktober"),
        ("november", "november"),
        ("december", "dezember"),
    ];
    let name = name.to_lowercase();
    let month = MONTHS.iter().position(|(english, german)| {
        name == *english || name == *german || (name.len() == 3 && english.starts_with(&name))
    });
    month.and_then(|at| u8::try_from(at + 1).ok())
}

/// Days in a text.
pub(crate) fn dates(text: &str) -> Vec<Spelled> {
    let words = words(text);
    let mut found = Vec::new();
    for (first, start) in words.iter().enumerate() {
        // The longest spelling has four words: `15 th of May 2024` has none longer.
        let longest = words.len().min(first + 4);
        let spelled = (first..longest).rev().find_map(|last| {
            let at = start.start..words.get(last)?.end;
            let form = date(text.get(at.clone())?)?;
            Some(Spelled { form, at })
        });
        found.extend(spelled);
    }
    found
}

/// Numbers in a text, in digits or as one word.
pub(crate) fn numbers(text: &str) -> Vec<Spelled> {
    words(text)
        .into_iter()
        .filter_map(|at| {
            let word = text.get(at.clone())?;
            let form = number(word).or_else(|| number_word(word).map(str::to_owned))?;
            Some(Spelled { form, at })
        })
        .collect()
}

/// Whether `c` separates words.
fn is_edge(c: char) -> bool {
    c.is_whitespace() || "<>()[]{}\"“”„‘`|;".contains(c)
}

/// Whether `c` is punctuation or a currency sign around a word.
fn is_around(c: char) -> bool {
    c.is_ascii_punctuation() && !"-/~_%+&=\\@#".contains(c) || "’$€£".contains(c)
}

/// The words of a text: between blanks and brackets, without the punctuation and currency signs around them.
pub(crate) fn words(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut start = None;
    let ends = text.char_indices().chain([(text.len(), ' ')]);
    for (at, c) in ends {
        match (is_edge(c), start) {
            (false, None) => start = Some(at),
            (true, Some(from)) => {
                start = None;
                let word = text.get(from..at).unwrap_or_default();
                let from = from + (word.len() - word.trim_start_matches(is_around).len());
                let to = from + word.trim_matches(is_around).len();
                if from < to {
                    words.push(from..to);
                }
            }
            (false, Some(_)) | (true, None) => {}
        }
    }
    words
}

/// An e-mail address in its one form: hosts do not tell cases apart, and what stands before them may.
pub(crate) fn address(text: &str) -> Option<String> {
    let (local, host) = text.split_once('@')?;
    let is_local = !local.is_empty()
        && local.chars().all(|c| c.is_ascii_alphanumeric() || "._%+-".contains(c));
    (is_local && is_host(host)).then(|| format!("{local}@{}", host.to_lowercase()))
}

/// A web address in its one form: scheme and host in lower case, no slash where it is the whole path.
///
/// What would make two readers see two hosts, such as a name before `@`, has none.
///
/// Source: RFC 3986 sections 6.2.2.1 and 6.2.3.
pub(crate) fn url(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let scheme = ["https://", "http://"].into_iter().find(|scheme| lower.starts_with(scheme));
    let scheme = scheme.unwrap_or_default();
    let rest = text.get(scheme.len()..)?;
    let host_ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at_checked(host_ends)?;
    let (name, port) = host.split_once(':').unwrap_or((host, ""));
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = path.chars().all(|c| !c.is_whitespace() && c != '\\');
    let path = if path == "/" { "" } else { path };
    (is_host(name) && is_port && is_plain).then(|| format!("{scheme}{}{path}", host.to_lowercase()))
}

/// The host of a web address, or a host by itself.
pub(crate) fn host(text: &str) -> Option<&str> {
    url(text)?;
    let place = text.split_once("://").map_or(text, |(_, place)| place);
    place.split(['/', '?', '#', ':']).next()
}

/// The web address that a person means who gives a host without a scheme, in its one form.
pub(crate) fn with_scheme(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("https://{url}") }
}

fn is_host(text: &str) -> bool {
    text.contains('.') && text.split('.').all(is_host_label)
}

fn is_host_label(label: &str) -> bool {
    !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_form_or_none() {
        let cases = [
            ("1000", Some("1000")),
            ("1,000", None),
            ("-1,234", None),
            ("1,000.00", Some("1000")),
            ("1,000,000", Some("1000000")),
            ("0,500", Some("0.5")),
            ("1234,567", Some("1234.567")),
            ("1,234,567.80", Some("1234567.8")),
            ("50.0", Some("50")),
            ("-7.5", Some("-7.5")),
            ("12,50", Some("12.5")),
            ("007", None),
            ("-0", Some("0")),
            ("0.125", Some("0.125")),
            ("1.000", None),
            ("1,00,000", None),
            ("1,000,5", None),
            ("0,500,000", None),
            ("1.2.3", None),
            ("", None),
            ("5k", None),
            ("--5", None),
        ];
        for (text, form) in cases {
            assert_eq!(number(text).as_deref(), form, "{text}");
        }
    }

    #[test]
    fn a_date_has_one_form_or_none() {
        let cases = [
            ("2024-05-15", Some("2024-05-15")),
            ("15.5.2024", Some("2024-05-15")),
            ("May 15th, 2024", Some("2024-05-15")),
            ("15 May 2024", Some("2024-05-15")),
            ("15th of May, 2024", Some("2024-05-15")),
            ("15. Mai 2024", Some("2024-05-15")),
            ("05/06/2024", None),
            ("May 15", None),
            ("2024-13-01", None),
        ];
        for (text, form) in cases {
            assert_eq!(date(text).as_deref(), form, "{text}");
        }
        let found = dates("Lunch on May 15th, 2024 at noon, or 2024-06-01.");
        let forms: Vec<&str> = found.iter().map(|spelled| spelled.form.as_str()).collect();
        assert_eq!(forms, ["2024-05-15", "2024-06-01"]);
    }

    #[test]
    fn an_address_has_one_form_and_tricks_have_none() {
        assert_eq!(
            url("HTTPS://WWW.Example.com/A/").as_deref(),
            Some("https://www.example.com/A/")
        );
        assert_eq!(url("http://Example.com/").as_deref(), Some("http://example.com"));
        assert_eq!(url("example.com:8080?q=1").as_deref(), Some("example.com:8080?q=1"));
        for trick in
            ["https://bank.com@evil.com/", "http://evil.com\\@bank.com", "https://a b.com", "x"]
        {
            assert_eq!(url(trick), None, "{trick}");
        }
        assert_eq!(address("Ann.Lee+x@Example.com").as_deref(), Some("Ann.Lee+x@example.com"));
        assert_eq!(address("a@b@c.com"), None);
    }
}
