//! Any bytes as a trace: every message or one error, and every call recognised or not, without a panic.
#![no_main]

use custody_gateway::memory_tools::MemoryTools;
use custody_gateway::trace::{TraceLimits, read_trace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let tools = MemoryTools::default();
    for step in read_trace(bytes, &TraceLimits::default()) {
        match step {
            Ok(step) => step.message.tool_calls.iter().for_each(|call| {
                let _ = tools.recognise(call);
            }),
            Err(error) => assert!(!error.to_string().contains('\n'), "an error is one line"),
        }
    }
});
