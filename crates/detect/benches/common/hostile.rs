//! Shapes of texts that make backtracking or repeated passes slow.

#![allow(unreachable_pub, reason = "included by the benchmarks of two crates")]

/// A name, the beginning of the text, and the unit that is repeated after it.
pub type Shape = (&'static str, &'static str, &'static str);

/// The shapes that every stage must read in linear time.
pub const SHAPES: [Shape; 10] = [
    ("trigger_then_blanks", "ignore", " "),
    ("urgency_words", "", "urgent "),
    ("game_then_blanks", "let's play a game", " "),
    ("acronyms", "", "DAN "),
    ("schedule_then_blanks", "schedule", " "),
    ("send_then_blanks", "send", " "),
    ("comment_openers", "", "<!-- "),
    ("verb_then_blanks", "write", " "),
    ("half_attacks", "", "ignore all the of your the previous and "),
    ("zero_width", "", "\u{200b}"),
];

/// A text of a shape, about `len` bytes long.
pub fn text((_, start, unit): Shape, len: usize) -> String {
    format!("{start}{}", unit.repeat(len / unit.len()))
}
