//! Any text through the default detector, for both kinds: no panic, every finding lies in the text, and the score
//! is a probability. Stripping comes to an end and leaves a text that it leaves alone.
#![no_main]

use custody_detect::rules::strip_to_fixed_point;
use custody_detect::screen::Screener;
use custody_detect::text_kind::TextKind;
use custody_detect::{RuleSet, fields};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for kind in [TextKind::Prompt, TextKind::Content, TextKind::Unknown] {
        let verdict = Screener::built_in().screen(text, kind).expect("the default detector needs nothing");
        assert!((0.0..=1.0).contains(&verdict.score), "{}", verdict.score);
        for finding in &verdict.findings {
            assert!(text.get(finding.span.clone()).is_some(), "{finding:?}");
        }
    }
    for field in fields(text) {
        assert!(text.get(field.span.clone()).is_some(), "{field:?}");
    }
    let once = strip_to_fixed_point(text, RuleSet::built_in()).expect("the text is short");
    if once.is_clean {
        let twice = strip_to_fixed_point(&once.text, RuleSet::built_in()).expect("it did not grow");
        assert_eq!(once.text, twice.text);
    }
});
