//! The published InjecAgent cases, where they are at hand.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Write};
use std::path::PathBuf;

use custody_gateway::trace::{CallRef, Conversation, MessageRole, TraceLimits, read_trace};

/// The folder of the benchmark data. Without it, notes that `test` was skipped.
fn benchmark_data(test: &str) -> Option<PathBuf> {
    let folder = env::var_os("CUSTODY_DATA").map(PathBuf::from);
    if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
        return Some(folder);
    }
    if let Some(list) = env::var_os("CUSTODY_SKIPPED_TESTS") {
        let mut list = OpenOptions::new().create(true).append(true).open(list).ok()?;
        writeln!(list, "SKIPPED: {test}: no benchmark data; name its folder in `CUSTODY_DATA`")
            .ok()?;
    }
    None
}

#[test]
fn every_published_case_is_a_conversation_of_three_messages() {
    let test = "every_published_case_is_a_conversation_of_three_messages";
    let Some(data) = benchmark_data(test) else { return };
    for name in ["cases_base.jsonl", "cases_enhanced.jsonl"] {
        let file = BufReader::new(File::open(data.join("injecagent").join(name)).unwrap());
        let steps: Vec<_> =
            read_trace(file, &TraceLimits::default()).collect::<Result<_, _>>().unwrap();
        assert_eq!(steps.len(), 3 * 697, "{name}");
        for (case, steps) in (1..).zip(steps.chunks(3)) {
            let roles: Vec<_> = steps.iter().map(|step| &step.message.role).collect();
            assert_eq!(
                roles,
                [&MessageRole::User, &MessageRole::Assistant, &MessageRole::Tool],
                "{name}:{case}"
            );
            assert!(steps.iter().all(|step| step.conversation == Conversation::Fresh(case)));
            assert!(!steps[1].message.tool_calls[0].arguments.is_empty(), "{name}:{case}");
            assert_eq!(steps[2].answers, Some(CallRef { step: steps[1].number, call: 0 }));
            // The rows wrap the tool's answer in one more pair of quotes; it stays.
            assert!(steps[2].message.text.starts_with('"'), "{name}:{case}");
        }
    }
}
