//! Numbers in a text that could be an account, a telephone number or a code, however their digits are parted.

use crate::spelling::is_year;

/// The fewest digits of such a number.
const LONG_NUMBER: usize = 6;
/// How many amounts of money a run of digits may hold without counting as a number: a range has two.
const MAX_AMOUNTS: usize = 2;
/// The most letters and digits on either side that belong to a number: `GB29NWBK`.
const MAX_LETTERS: usize = 16;
/// The signs of currencies.
const CURRENCIES: [char; 5] = ['$', '€', '£', '¥', '₹'];
/// The most digits before the point of an amount.
const MAX_UNITS: usize = 6;

/// The numbers of six or more digits in `text`, letters that touch them included: `555-0100-22`, `DE89 3704 0044`.
///
/// Whatever is no letter parts digits and does not end a number. Days, times, a year that begins the run and amounts
/// of money are not counted, but do not end it either: nobody parts an account by a date to hide it. Days and times
/// are so many digits again if they do not go forward.
pub(super) fn long_numbers(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(from) = text.get(rest..).and_then(|after| after.find(char::is_numeric)) {
        let start = rest + from;
        let run = text.get(start..).unwrap_or_default();
        // A Roman numeral is both.
        let length = run.find(|c: char| c.is_alphabetic() && !c.is_numeric()).unwrap_or(run.len());
        let run = run.get(..length).unwrap_or_default();
        rest = start + length;
        if Run::of(text, start, run).digits() >= LONG_NUMBER {
            let end = start + run.trim_end_matches(|c: char| !c.is_numeric()).len();
            found.extend(with_letters(text, start, end));
        }
    }
    found
}

/// The number at `start..end`, with the letters that touch it, but no more than a number has.
fn with_letters(text: &str, start: usize, end: usize) -> Option<&str> {
    let before = touching(text.get(..start)?.chars().rev());
    let after = touching(text.get(end..)?.chars());
    text.get(start - before..end + after)
}

/// How many bytes the first letters and digits have that belong to a number.
fn touching(characters: impl Iterator<Item = char>) -> usize {
    characters.take_while(|c| c.is_alphanumeric()).take(MAX_LETTERS).map(char::len_utf8).sum()
}

/// A run of digits and signs without letters.
struct Run<'a> {
    /// What stands before it.
    before: &'a str,
    text: &'a str,
    amounts: usize,
    last_day: Option<u32>,
    last_time: Option<u32>,
    counted: usize,
}

impl<'a> Run<'a> {
    fn of(text: &'a str, start: usize, run: &'a str) -> Self {
        let before = text.get(..start).unwrap_or_default();
        Self { before, text: run, amounts: 0, last_day: None, last_time: None, counted: 0 }
    }

    /// How many digits count.
    fn digits(mut self) -> usize {
        let mut at = 0;
        while let Some(next) = self.text.get(at..).and_then(|rest| rest.find(char::is_numeric)) {
            at += next;
            at += self.take(at).max(1);
        }
        self.counted
    }

    /// Takes in what begins at `at`, and returns its length in bytes.
    fn take(&mut self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let before = if at == 0 { self.before } else { self.text.get(..at).unwrap_or_default() };
        let touches =
            before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '/' | '_'));
        if let Some((length, day)) = day(rest) {
            self.moment(day, length, rest, |run| &mut run.last_day);
            return length;
        }
        if let Some((length, time)) = time(rest) {
            self.moment(time, length, rest, |run| &mut run.last_time);
            return length;
        }
        if at == 0
            && !touches
            && let Some(length) = year(rest)
        {
            return length;
        }
        let length = number_length(rest);
        let number = rest.get(..length).unwrap_or_default();
        let after = rest.get(length..).unwrap_or_default();
        if !touches && self.amounts < MAX_AMOUNTS && is_amount(before, number, after) {
            self.amounts += 1;
        } else {
            self.counted += digits_in(number);
        }
        length
    }

    /// Takes in a day or a time: nothing if it goes forward, else its digits.
    fn moment(
        &mut self,
        value: u32,
        length: usize,
        rest: &str,
        last: fn(&mut Self) -> &mut Option<u32>,
    ) {
        let before = last(self).replace(value);
        if before.is_some_and(|before| value <= before) {
            self.counted += digits_in(rest.get(..length).unwrap_or_default());
        }
    }
}

fn digits_in(text: &str) -> usize {
    text.chars().filter(|c| c.is_numeric()).count()
}

/// Plain digits at the beginning of `text`: how many, and their value.
fn plain(text: &str) -> (usize, u32) {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    (length, text.get(..length).and_then(|digits| digits.parse().ok()).unwrap_or(u32::MAX))
}

/// Three numbers with the same sign between them, and nothing that goes on: their lengths and values, and the whole
/// length.
fn three(text: &str, sign: char) -> Option<([(usize, u32); 3], usize)> {
    let mut parts = [(0, 0); 3];
    let mut at = 0;
    for (index, part) in parts.iter_mut().enumerate() {
        if index > 0 {
            text.get(at..)?.strip_prefix(sign)?;
            at += sign.len_utf8();
        }
        *part = plain(text.get(at..)?);
        at += part.0;
        if part.0 == 0 {
            return None;
        }
    }
    let after = text.get(at..)?;
    let goes_on = after.starts_with(|c: char| c.is_numeric())
        || after.strip_prefix(sign).is_some_and(|next| next.starts_with(|c: char| c.is_numeric()));
    (!goes_on).then_some((parts, at))
}

/// The day that `text` begins with, and its length: `2024-05-15`, `15.05.2024`, `5/15/2024`, `15.5.24`, `2024-05`.
fn day(text: &str) -> Option<(usize, u32)> {
    for sign in ['-', '.', '/'] {
        let Some(([first, second, third], length)) = three(text, sign) else { continue };
        let is_short_year = third.0 == 2 && sign != '-';
        let year = if is_short_year { third.1.saturating_add(2_000) } else { third.1 };
        let found = match (first.0, third.0) {
            (4, 1 | 2) => in_calendar(first.1, second.1, third.1),
            (1 | 2, 4) | (1 | 2, 2) if third.0 == 4 || is_short_year => {
                in_calendar(year, second.1, first.1)
                    .or_else(|| in_calendar(year, first.1, second.1))
            }
            _ => None,
        };
        if let Some(day) = found.filter(|_| second.0 <= 2) {
            return Some((length, day));
        }
    }
    let (length, year) = plain(text);
    let month = text.get(length..)?.strip_prefix('-')?;
    let (digits, month) = (plain(month).0, plain(month).1);
    let end = length + 1 + digits;
    let goes_on = text.get(end..)?.starts_with(|c: char| c.is_numeric() || c == '-');
    (length == 4 && digits == 2 && !goes_on)
        .then(|| in_calendar(year, month, 1))
        .flatten()
        .map(|day| (end, day))
}

fn in_calendar(year: u32, month: u32, day: u32) -> Option<u32> {
    let is_day = is_year(year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    is_day.then(|| (year * 100 + month) * 100 + day)
}

/// The time of day that `text` begins with, and its length: `9:30`, `10:00:15`.
fn time(text: &str) -> Option<(usize, u32)> {
    let (hours, hour) = plain(text);
    let (minutes, minute) = plain(text.get(hours..)?.strip_prefix(':')?);
    let mut end = hours + 1 + minutes;
    let mut second = (2, 0);
    if let Some(rest) = text.get(end..)?.strip_prefix(':') {
        second = plain(rest);
        end += 1 + second.0;
    }
    let goes_on = text.get(end..)?.starts_with(|c: char| c.is_numeric() || c == ':');
    let is_time = (1..=2).contains(&hours)
        && minutes == 2
        && second.0 == 2
        && hour < 25
        && minute < 60
        && second.1 < 60
        && !goes_on;
    is_time.then(|| (end, (hour * 60 + minute) * 60 + second.1))
}

/// The length of a year, or a span of two, that stands alone at the beginning of `text`.
fn year(text: &str) -> Option<usize> {
    let (length, year) = plain(text);
    let next = text.get(length..)?.strip_prefix(['-', '–']);
    if let Some((digits, _)) = next.map(plain).filter(|(_, last)| year < *last && is_year(*last)) {
        let end = text.len() - next?.len() + digits;
        let goes_on = text.get(end..)?.starts_with(|c: char| c.is_numeric() || c == '-');
        return (length == 4 && is_year(year) && !goes_on).then_some(end);
    }
    let after = text.get(length..)?;
    let stands_alone = after.is_empty()
        || after.starts_with(char::is_whitespace)
        || after.starts_with([',', '.', ';', ':', ')'])
            && after.chars().nth(1).is_none_or(char::is_whitespace);
    (length == 4 && is_year(year) && stands_alone).then_some(length)
}

/// How long the digits at the beginning of `text` go on, with points and commas between them.
fn number_length(text: &str) -> usize {
    let end = text
        .find(|c: char| !c.is_numeric() && !matches!(c, '.' | ',' | '\'' | '’'))
        .unwrap_or(text.len());
    let number = text.get(..end).unwrap_or_default();
    number.trim_end_matches(|c: char| !c.is_numeric()).len()
}

/// Whether `number` is an amount of money and nothing else: in groups of three, with two decimals, or plain beside a
/// currency's sign.
fn is_amount(before: &str, number: &str, after: &str) -> bool {
    let (whole, decimals) = match number.rsplit_once(['.', ',']) {
        Some((whole, last)) if (1..=2).contains(&last.len()) => (whole, last),
        _ => (number, ""),
    };
    let groups: Vec<&str> = whole.split(['.', ',', '\'', '’']).collect();
    let Some((first, others)) = groups.split_first() else { return false };
    let are_digits = groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_digit()));
    let is_grouped =
        others.is_empty() || first.len() <= 3 && others.iter().all(|group| group.len() == 3);
    let units: usize = groups.iter().map(|group| group.len()).sum();
    let is_plain = *first == "0" || !first.starts_with('0');
    let has_sign = before.trim_end_matches(' ').ends_with(CURRENCIES)
        || after.trim_start_matches(' ').starts_with(CURRENCIES);
    let is_written_out = !others.is_empty() || !decimals.is_empty();
    are_digits && is_grouped && is_plain && units <= MAX_UNITS && (is_written_out || has_sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_found_however_they_are_parted() {
        let text =
            "Call 555-0100-22 on 2024-05-15 10:00, pay DE89 3704 0044 or 12 pieces, code 123456.";
        assert_eq!(long_numbers(text), ["555-0100-22", "DE89 3704 0044", "123456"]);
        assert_eq!(long_numbers("\u{2164}\u{2164}\u{2164} \u{2164}\u{2164}\u{2164}").len(), 1);
        for parted in [
            "37\u{202F}04\u{2009}00",
            "37_04_00",
            "3.7.0.4.0.0",
            "37, 04, 00",
            "37\n04\n00",
            "3*7*0*4*0*0",
        ] {
            assert_eq!(long_numbers(parted), [parted]);
        }
    }

    #[test]
    fn days_times_years_and_amounts_do_not_count_and_hide_nothing() {
        let innocent = [
            "on 2024-05-15 10:00 - 2024-05-16 12:00",
            "15.05.2024, 9:30-11:00, 14:00-15:30",
            "5/15/2024 at 10:00:15",
            "In 2023, 450 people",
            "$12,500.00 – $13,000.00",
            "1.250,50 €",
            "on 2024-05",
        ];
        for text in innocent {
            assert_eq!(long_numbers(text), [""; 0], "{text}");
        }
        let hidden = [
            "2024-05-15 37 04 00 44 05",
            "37 2024-05-15 04 2024-05-16 00",
            "04:40 05:32 01:30 00:44",
            "2024-05-15 2023-04-04 2022-01-01",
            "1,234.50 2,345.60 3,456.70",
            "370,400,440",
        ];
        for text in hidden {
            assert_eq!(long_numbers(text).len(), 1, "{text}");
        }
    }
}
