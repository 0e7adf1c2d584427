//! Real rows through the pipeline with a real language model in this process, twice.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use custody_detect::screen::Screener;
use custody_kernel::route::{RoutePolicy, Stage, StageResult, replay};
use custody_lab::route::cases::{Case, read};
use custody_models::chat::{ChatModel, EmbeddedModel};
use custody_models::{Embedder, SentenceEmbedder};
use custody_pipeline::sandbox::SandboxOptions;
use custody_pipeline::{RouteResult, Router};

/// The id of a spikee row: a jailbreak around an instruction, in the first document.
macro_rules! spikee {
    ($jailbreak:literal, $instruction:literal) => {
        concat!(
            "spikee-seeds-cybersec-2026-01-jailbreaks-",
            $jailbreak,
            "+spikee-seeds-cybersec-2026-01-instructions-",
            $instruction,
            "@spikee-seeds-cybersec-2026-01-base_user_inputs-000"
        )
    };
}

const MODEL: &str = "smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf";
const EMBEDDER: &str = "all-minilm-l6-v2";
/// Rows that this model falls for and then repairs; few models are so weak that they do neither.
///
/// Each does on vectors of 256 bits and of 512. Where a sum of floats is split by the vector's width, the last bits of
/// a probability differ between processors, and with them now and then a sampled word: `spikee` 007/000 goes the
/// whole way on one width only.
const ROWS: [&str; 10] = [
    "deepset-test-0052",
    "deepset-test-0094",
    "jackhhao-test-0074",
    spikee!("002", "000"),
    spikee!("014", "000"),
    spikee!("014", "001"),
    spikee!("018", "000"),
    spikee!("020", "000"),
    spikee!("033", "000"),
    spikee!("013", "001"),
];
/// Short: a test machine may be slow.
const SANDBOX: SandboxOptions = SandboxOptions { samples: 2, temperature: 0.7, max_tokens: 48 };

/// The models under `CUSTODY_MODELS`; without them, the calling test is recorded as skipped.
fn models() -> Option<(Arc<dyn ChatModel>, Arc<dyn Embedder>)> {
    let folder = std::env::var_os("CUSTODY_MODELS").map(PathBuf::from);
    let is_there =
        |folder: &PathBuf| [MODEL, EMBEDDER].iter().all(|name| folder.join(name).exists());
    let Some(folder) = folder.filter(is_there) else {
        common::skipped(
            "smollm2-135m-instruct and all-minilm-l6-v2 are not in the folder of CUSTODY_MODELS",
        );
        return None;
    };
    let model = EmbeddedModel::open(&folder.join(MODEL)).unwrap();
    let embedder = SentenceEmbedder::open(&folder.join(EMBEDDER)).unwrap();
    Some((Arc::new(model), Arc::new(embedder)))
}

/// What the stages said, what repair made, and what it cost; how long it took is another matter.
fn told(routed: &RouteResult) -> (Vec<StageResult>, Option<String>, u64) {
    let repaired = routed.repaired.as_ref().map(|repaired| repaired.text.clone());
    (routed.stage_results(), repaired, routed.usage().total())
}

#[test]
fn ten_real_rows_take_the_whole_way_twice() {
    let (Some(data), Some((model, embedder))) = (common::data(), models()) else { return };
    let all = read(&data).unwrap().0;
    let row = |id: &str| all.iter().find(|case| case.id == id).unwrap();
    let cases: Vec<&Case> = ROWS.into_iter().map(row).collect();
    let run = || -> Vec<RouteResult> {
        let router = Router::new(Screener::built_in().clone(), Some(Arc::clone(&model)));
        let router = router.with_sandbox(SANDBOX).with_embedder(Arc::clone(&embedder)).unwrap();
        cases.iter().map(|case| router.route(&case.text, case.kind)).collect()
    };
    let (once, again) = (run(), run());
    for ((case, once), again) in cases.iter().zip(&once).zip(&again) {
        assert_eq!(told(once), told(again), "{}", case.id);
        assert_eq!(replay(RoutePolicy::default(), &once.stage_results()).unwrap(), once.outcome);
        let stages: Vec<Stage> = once.stage_results().iter().map(|heard| heard.stage()).collect();
        let whole = [Stage::Prefilter, Stage::Sandbox, Stage::Repair, Stage::Compare];
        assert!(stages.starts_with(&whole), "{}: {stages:?}", case.id);
    }
}
