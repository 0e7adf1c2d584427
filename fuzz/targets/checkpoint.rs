//! Any text as a signed head: refused unless the log key signed exactly it.
#![no_main]

use custody_log::{Checkpoint, LogName};
use ed25519_dalek::SigningKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(note) = std::str::from_utf8(bytes) else { return };
    let key = SigningKey::from_bytes(&[7; 32]);
    let name = LogName::new("custody-log").expect("a name");
    if let Ok(checkpoint) = Checkpoint::verify(note, &name, &key.verifying_key()) {
        let again = checkpoint.sign(&key, &name);
        assert!(note.starts_with(again.split("\n\n").next().expect("a text")));
    }
});
