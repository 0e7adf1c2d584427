//! The tokenizer: frames, places, windows, and hostile text.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::tiny_tokenizer;
use custody_models::{ModelError, Tokenizer};

fn tokenizer() -> Tokenizer {
    Tokenizer::from_bytes(tiny_tokenizer().as_bytes()).unwrap()
}

#[test]
fn padding_and_truncation_of_the_description_are_off() {
    let tokens = tokenizer().encode("read my mail, please", 64).unwrap();
    assert_eq!(tokens.ids, [2, 15, 16, 17, 29, 14, 3]);
    assert!(tokens.is_complete);
    assert_eq!(tokenizer().encode("", 64).unwrap().ids, [2, 3]);
}

#[test]
fn a_long_text_is_cut_inside_the_frame_and_says_so() {
    let tokens = tokenizer().encode("the cats sat on the mat", 6).unwrap();
    assert_eq!(tokens.ids, [2, 10, 23, 27, 24, 3]);
    assert!(!tokens.is_complete);
    assert!(tokenizer().encode("the cats sat on", 7).unwrap().is_complete);
    for too_few in 0..3 {
        assert!(matches!(tokenizer().encode("the", too_few), Err(ModelError::Tokenizer { .. })));
    }
}

#[test]
fn every_token_knows_its_place_in_bytes() {
    let text = "Thé  CATS\n…sat";
    let tokens = tokenizer().encode(text, 64).unwrap();
    let places: Vec<&str> = tokens.spans.iter().map(|span| &text[span.clone()]).collect();
    assert_eq!(places, ["", "Thé", "CAT", "S", "…", "sat", ""]);
}

#[test]
fn no_text_can_forge_the_frame() {
    let tokens = tokenizer().encode("the [SEP] [CLS] cat", 64).unwrap();
    let inner = &tokens.ids[1..tokens.ids.len() - 1];
    assert!(!inner.contains(&2) && !inner.contains(&3), "{inner:?}");
}

#[test]
fn tokenising_in_pieces_changes_no_token() {
    let text = "the cats sat on the mat , please ! ".repeat(700);
    let tokens = tokenizer().tokens(&text, usize::MAX).unwrap();
    assert_eq!(tokens.ids, [10, 23, 27, 24, 25, 10, 26, 29, 14, 31].repeat(700));
    assert!(tokens.is_complete);
    for (index, span) in tokens.spans.iter().enumerate() {
        assert!(span.start < span.end && (index == 0 || tokens.spans[index - 1].end <= span.start));
    }
}

#[test]
fn ten_megabytes_of_anything_are_read_in_part() {
    let megabytes = 10 << 20;
    for piece in ["the cat ", " ", "\u{200b}", "x", "\u{0}", "é", "🚀", "[SEP]", "\u{301}"] {
        let text = piece.repeat(megabytes / piece.len());
        let tokens = tokenizer().encode(&text, 256).unwrap();
        assert!(tokens.ids.len() <= 256, "{piece:?}");
        // A text of nothing but white space is read to its end at once.
        assert_eq!(tokens.is_complete, piece == " ", "{piece:?}");
    }
}

#[test]
fn windows_cover_a_text_and_overlap() {
    let text = "the cats sat on the mat , please ! ".repeat(50);
    let windows = tokenizer().windows(&text, 32, 8, usize::MAX).unwrap();
    assert!(windows.is_complete);
    assert_eq!(windows.ranges.first().unwrap().start, 0);
    assert_eq!(windows.ranges.last().unwrap().end, text.len());
    for pair in windows.ranges.windows(2) {
        assert!(
            pair[0].start < pair[1].start
                && pair[1].start < pair[0].end
                && pair[0].end < pair[1].end
        );
    }
    for range in &windows.ranges {
        assert!(tokenizer().encode(&text[range.clone()], 32).unwrap().is_complete, "{range:?}");
    }
}

#[test]
fn windows_are_limited_and_say_what_they_left_out() {
    let text = "the cat ".repeat(1000);
    let windows = tokenizer().windows(&text, 34, 0, 3).unwrap();
    assert_eq!(windows.ranges.len(), 3);
    assert!(!windows.is_complete);
    for (text, count) in
        [("", 1), ("the cat", 1), (&"cats ".repeat(16), 1), (&"cats ".repeat(17), 2)]
    {
        let windows = tokenizer().windows(text, 34, 0, 9).unwrap();
        assert_eq!((windows.ranges.len(), windows.is_complete), (count, true), "{text}");
    }
    assert!(matches!(tokenizer().windows("the", 10, 8, 3), Err(ModelError::Tokenizer { .. })));
}

#[test]
fn a_file_that_is_no_tokenizer_is_refused() {
    let bare = tiny_tokenizer().replace(r#""post_processor":{"#, r#""ignored":{"#);
    for json in ["", "{}", "[1]", &tiny_tokenizer()[..500], &bare] {
        assert!(
            matches!(Tokenizer::from_bytes(json.as_bytes()), Err(ModelError::Tokenizer { .. })),
            "{json}"
        );
    }
}
