//! Answers of a vendor, whole and cut into pieces: whatever comes, no call goes on that the rule removes, and
//! however a stream is cut, the same goes on.
#![no_main]

use custody_gateway::wire::{
    CallRule, CallRuling, Dialect, StreamFilter, Undecidable, WireCall, WireError,
};
use libfuzzer_sys::fuzz_target;

struct RemovesAll;

impl CallRule for RemovesAll {
    fn note_text(&mut self, _: &str) {}

    fn rule(&mut self, _: &WireCall) -> CallRuling {
        CallRuling::Replace("removed".to_owned())
    }

    fn undecided(&mut self, _: Undecidable) -> Result<(), WireError> {
        Ok(())
    }
}

fn streamed(dialect: Dialect, pieces: &[&[u8]]) -> Vec<u8> {
    let mut filter = StreamFilter::new(dialect);
    let mut out = Vec::new();
    for piece in pieces {
        out.extend(filter.push(piece, &mut RemovesAll).bytes);
    }
    out.extend(filter.end(&mut RemovesAll).bytes);
    out
}

fuzz_target!(|bytes: &[u8]| {
    for dialect in Dialect::ALL {
        let _ = dialect.parse(bytes);
        let _ = dialect.filter(bytes.to_vec(), &mut RemovesAll);
        let (before, after) = bytes.split_at(bytes.len() / 2);
        assert_eq!(streamed(dialect, &[bytes]), streamed(dialect, &[before, after]));
    }
});
