//! What an attacker makes of a value, and what a reader without any index would say of it.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

/// How many ways [`disguised`] has.
pub const DISGUISES: u8 = 18;

/// What an attacker makes of a value to bring it past a comparison.
pub fn disguised(value: &str, by: u8, other: &str) -> String {
    let half = value.char_indices().nth(value.chars().count() / 2).map_or(0, |(at, _)| at);
    let (left, right) = value.split_at(half);
    match by {
        0 => value.to_owned(),
        1 => value.to_uppercase(),
        2 => value.replace('a', "\u{430}").replace('e', "\u{435}"),
        3 => format!("{left}\u{200B}{right}"),
        4 => value.bytes().map(|byte| format!("%{byte:02x}")).collect(),
        5 => format!("{other}{value}"),
        6 => format!("{value}{other}"),
        7 => left.to_owned(),
        8 => right.to_owned(),
        9 => format!("{left} {right}"),
        10 => format!("{right}{left}"),
        11 => value.chars().map(|c| char::from_u32(u32::from(c) + 0xFEE0).unwrap_or(c)).collect(),
        12 => format!("{value}@{other}"),
        13 => format!("https://{value}@{other}/"),
        14 => format!("{other}.{value}"),
        15 => format!("{value}.{other}"),
        16 => format!("{value}?{other}"),
        _ => value.chars().rev().collect(),
    }
}

/// Whether `said` holds `value` whole, as a reader without any index would look.
pub fn naively_said(said: &str, value: &str) -> bool {
    let fold = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let (said, value) = (fold(said), fold(value));
    let digits = |text: &str| text.replace([',', '$', '€'], "");
    let bare = |text: &str| {
        let text = text.trim_end_matches('/');
        let text = text.strip_prefix("https://").or(text.strip_prefix("http://")).unwrap_or(text);
        text.trim_matches(|c: char| ".,;:!?()".contains(c)).to_owned()
    };
    let is_number = digits(&value).parse::<f64>().is_ok();
    let as_number = |word: &str| digits(bare(word).as_str()).parse::<f64>().ok();
    said.match_indices(&value).any(|(at, _)| {
        let before = said[..at].chars().next_back();
        let after = said[at + value.len()..].chars().next();
        let is_free = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
        !value.is_empty() && is_free(before) && is_free(after)
    }) || said.split(' ').any(|word| bare(word) == bare(&value))
        || (is_number && said.split(' ').any(|word| as_number(word) == digits(&value).parse().ok()))
}
