//! Any text as a key: what is accepted is the text itself, within the grammar, and resembles itself not.
#![no_main]

use custody_kernel::key::{Key, MAX_KEY_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Key>() {
        Ok(key) => {
            assert_eq!(key.as_str(), text);
            assert!(!text.is_empty() && text.len() <= MAX_KEY_BYTES);
            assert!(text.split('/').all(|segment| !matches!(segment, "" | "." | "..")));
            assert!(!key.resembles(&key));
            if let Ok(soul) = "SOUL.md".parse::<Key>() {
                assert_eq!(key.resembles(&soul), soul.resembles(&key));
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "an error is one line"),
    }
});
