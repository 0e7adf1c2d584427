//! Any bytes as a log: each line a record that follows or does not, and a state that never half-moves.
#![no_main]

use custody_kernel::record::Record;
use custody_kernel::state::State;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (mut folded, mut recounted) = (State::default(), State::default());
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(record) = Record::from_bytes(line) else { continue };
        let before = folded.len();
        let applied = folded.fold(&record).is_ok();
        assert_eq!(folded.len(), before + u64::from(applied));
        // Whatever the rules would have decided is also something that can be folded in.
        if recounted.len() == before && recounted.recount(&record).is_ok() {
            assert!(applied);
        }
    }
});
