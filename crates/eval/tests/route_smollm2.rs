//! Real rows through the pipeline with a real language model in this process, twice.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use custody_detect::screen::Screener;
use custody_eval::detection::suite::Size;
use custody_eval::route::cases::{Case, read};
use custody_eval::route::sample::sample;
use custody_kernel::route::{Heard, RoutePolicy, Stage, replay};
use custody_models::chat::{ChatModel, EmbeddedModel};
use custody_runtime::route::sandbox::Options;
use custody_runtime::route::{Routed, Router};

const MODEL: &str = "smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf";
/// How many rows are routed.
const ROWS: usize = 10;
/// Longer rows take a small machine too long, in bytes.
const LONGEST: usize = 400;
/// Short, for the same reason.
const SANDBOX: Options = Options { samples: 2, temperature: 0.7, max_tokens: 24 };

/// The model under `CUSTODY_MODELS`; without it, the calling test is recorded as skipped.
fn model() -> Option<Arc<dyn ChatModel>> {
    let path = std::env::var_os("CUSTODY_MODELS").map(|models| PathBuf::from(models).join(MODEL));
    match path.filter(|path| path.is_file()) {
        Some(path) => Some(Arc::new(EmbeddedModel::open(&path).unwrap())),
        None => {
            common::skipped("smollm2-135m-instruct is not in the folder of CUSTODY_MODELS");
            None
        }
    }
}

/// The first rows of the sample that the prefilter stops.
fn flagged(cases: &[Case]) -> Vec<Case> {
    let is_flagged = |case: &Case| {
        case.text.len() <= LONGEST
            && Screener::built_in().screen(&case.text, case.kind).unwrap().flagged
    };
    sample(cases, Size::Full, 1).into_iter().filter(is_flagged).take(ROWS).collect()
}

/// What the stages said, what repair made, and what it cost; how long it took is another matter.
fn told(routed: &Routed) -> (Vec<Heard>, Option<String>, u64) {
    let repaired = routed.repaired.as_ref().map(|repaired| repaired.text.clone());
    (routed.answers(), repaired, routed.usage().total())
}

#[test]
fn ten_real_rows_take_the_same_way_twice() {
    let (Some(data), Some(model)) = (common::data(), model()) else { return };
    let cases = flagged(&read(&data).unwrap().0);
    assert_eq!(cases.len(), ROWS);
    let run = || -> Vec<Routed> {
        let router = Router::new(Screener::built_in().clone(), Some(Arc::clone(&model)));
        let router = router.with_sandbox(SANDBOX);
        cases.iter().map(|case| router.route(&case.text, case.kind)).collect()
    };
    let (once, again) = (run(), run());
    for ((case, once), again) in cases.iter().zip(&once).zip(&again) {
        assert_eq!(told(once), told(again), "{}", case.id);
        assert_eq!(replay(RoutePolicy::default(), &once.answers()).unwrap(), once.outcome);
        let tried = once.answers().iter().any(|heard| heard.stage() == Stage::Sandbox);
        assert!(tried && once.usage().total() > 0, "{} was not tried", case.id);
    }
}
