//! What holds of every text.

use custody_text::{CanonicalText, MAX_EXPANSION, Rendering, own_words};
use proptest::prelude::*;

proptest! {
    #[test]
    fn the_form_of_a_part_is_a_part_of_the_form(a in "\\PC{0,80}", b in "\\PC{0,80}") {
        let whole = CanonicalText::of(&format!("{a}{b}")).to_string();
        prop_assert_eq!(whole, format!("{}{}", CanonicalText::of(&a), CanonicalText::of(&b)));
    }

    #[test]
    fn folding_the_form_changes_nothing(text in "\\PC{0,200}") {
        let form = CanonicalText::of(&text).to_string();
        prop_assert_eq!(CanonicalText::of(&form).to_string(), form);
    }

    #[test]
    fn g29_every_view_is_bounded_by_the_text_and_maps_back_into_it(text in "(?s).{0,300}") {
        for form in Rendering::ALL.into_iter().filter_map(|view| view.of(&text)) {
            prop_assert!(form.len() <= MAX_EXPANSION * text.len());
            let mut from = 0;
            for at in 0..form.len() {
                let range = form.byte_range(&(at..at + 1));
                prop_assert!(range.start >= from && text.get(range.clone()).is_some());
                from = range.start;
            }
        }
    }

    #[test]
    fn case_quoting_and_line_ends_make_no_difference(text in "[a-zA-Z0-9 ,.\\n]{0,200}") {
        let form = CanonicalText::of(&text).to_string();
        prop_assert_eq!(CanonicalText::of(&text.to_uppercase()).to_string(), form.clone());
        let quoted = text.replace('\n', "\r\n> ");
        prop_assert_eq!(CanonicalText::of(&quoted).to_string(), form);
    }

    #[test]
    fn what_is_found_has_the_form_that_was_looked_for(
        before in "\\PC{0,40}",
        phrase in "[a-z0-9 ]{1,20}[a-z]",
        after in "\\PC{0,40}",
    ) {
        let text = format!("{before}{phrase}{after}");
        let wanted = CanonicalText::of(&phrase);
        let found = CanonicalText::of(&text).find(&wanted).and_then(|range| text.get(range));
        let found = CanonicalText::of(found.unwrap_or_default()).to_string();
        prop_assert!(found.starts_with(&wanted.to_string()) || found.contains(&wanted.to_string()));
    }

    #[test]
    fn own_words_are_lines_in_order(text in "(?s)(> |```|From: |[a-z]{1,8}|\\n){0,40}") {
        let mut from = 0;
        for range in own_words(&text) {
            prop_assert!(range.start >= from && text.get(range.clone()).is_some());
            from = range.end;
        }
    }
}
