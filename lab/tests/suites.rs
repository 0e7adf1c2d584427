//! The suites of over-blocking, buried attacks and the prefilter, with a small real detector on the real sets.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::words::Words;
use custody_lab::detection::detector::{ByKind, Detector, Failure, Recipe, Task, Varies};
use custody_lab::detection::overdefence::{self, Shipped};
use custody_lab::detection::{buried, prefilter};
use custody_lab::recipe::corpus::Held;
use custody_lab::report::EvalReport;
use custody_lab::sets::rows::split;
use custody_lab::size::Size;

/// Flags everything, or nothing: what a rate must then be is known.
struct Constant(f64);

impl Detector for Constant {
    fn scores(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        Ok(texts.iter().map(|_| self.0).collect())
    }

    fn threshold(&self) -> f64 {
        0.5
    }
}

#[test]
fn over_blocking_is_counted_by_set_language_and_category() {
    let Some(data) = common::data() else { return };
    let words = Words::new("words", Varies::WithData);
    let train = split(&data, "deepset").unwrap().train;
    let trained = words
        .train(Task { data_set: "deepset", train: &train, held: &Held::default(), seed: 1 })
        .unwrap();
    let detectors = [
        Shipped { id: "all", title: "all", detector: Ok(ByKind::same(&Constant(1.0))) },
        Shipped { id: "none", title: "none", detector: Ok(ByKind::same(&Constant(0.0))) },
        Shipped { id: "words", title: "words", detector: Ok(ByKind::same(trained.as_ref())) },
        Shipped { id: "full", title: "full", detector: Err("no weights here".to_owned()) },
    ];
    let outcome = overdefence::run(&data, &detectors, 5, &mut |_, _, _| {}).unwrap();
    let report = outcome.report;
    for set in ["notinject", "mitre_frr", "llmail", "bipia_contexts"] {
        assert_eq!(report.value(&format!("{set}.all.flagged_rate")), Some(1.0));
        assert_eq!(report.value(&format!("{set}.none.flagged_rate")), Some(0.0));
        let rate = report.value(&format!("{set}.words.flagged_rate")).unwrap();
        assert!((0.0..1.0).contains(&rate), "{set} {rate}");
        let absent = report.figure(&format!("{set}.full.flagged_rate")).unwrap();
        assert_eq!(absent.why.as_deref(), Some("no weights here"));
        assert!(report.figure(&format!("{set}.de.words.flagged_rate")).is_some());
    }
    assert_eq!(report.value("notinject.documents"), Some(227.0));
    assert_eq!(report.value("deepset.documents"), Some(60.0));
    assert_eq!(report.value("deepset.all.recall"), Some(1.0));
    assert!(report.value("deepset.words.recall").unwrap() > 0.5, "it learned");
    assert!(report.value("notinject.multilingual.none.flagged_rate").is_some());
    // The test part of the e-mails is about 30 of 100 of 237 distinct ones.
    let emails = report.value("llmail.documents").unwrap();
    assert!((50.0..95.0).contains(&emails), "{emails}");
    assert!(report.to_markdown().contains("| language de | "));
    assert_eq!(EvalReport::from_json(report.to_json().as_bytes()), Ok(report));
    assert!(outcome.pictures[0].svg.contains("NotInject"));
}

#[test]
fn buried_attacks_are_measured_by_detectors_that_never_saw_their_kind() {
    let Some(data) = common::data() else { return };
    let words = Words::new("default", Varies::WithData);
    let shipped = [
        Shipped { id: "default", title: "default", detector: Ok(ByKind::same(&Constant(1.0))) },
        Shipped { id: "full", title: "full", detector: Err("no weights here".to_owned()) },
    ];
    let folder = tempfile::tempdir().unwrap();
    let options = buried::BuriedOptions {
        data,
        seed: 1,
        size: Size::Smoke,
        run: Some(folder.path().to_owned()),
    };
    let go = || buried::run(&options, &[&words], &shipped, &mut |_, _, _| {}).unwrap();
    let outcome = go();
    let report = &outcome.report;
    assert_eq!(words.trained.get(), 3, "one training a fold for both benchmarks");
    assert_eq!(report.value("injecagent.cases"), Some(697.0));
    assert_eq!(report.value("injecagent.groups"), Some(41.0));
    assert_eq!(report.value("bipia.cases"), Some((100.0 * 2.0 + 65.0) * 3.0));
    for set in ["injecagent", "bipia"] {
        let found = report.value(&format!("{set}.default.recall_at_1pct_fpr")).unwrap();
        assert!((0.0..1.0).contains(&found), "{set} {found}");
        let wrong = report.value(&format!("{set}.default.fpr")).unwrap();
        assert!(wrong < 0.06, "{set} {wrong}");
        assert!(report.value(&format!("{set}.calibration.documents")).unwrap() > 60.0);
        // A detector that cannot tell anything apart finds nothing at 1 %, however sure it is.
        let seen = report.value(&format!("{set}.default.seen.recall_at_1pct_fpr"));
        assert_eq!(seen, Some(0.0), "{set}");
        let area = report.value(&format!("{set}.default.seen.auroc"));
        assert_eq!(area, Some(0.5), "{set}");
        let absent = report.figure(&format!("{set}.full.seen.recall_at_1pct_fpr")).unwrap();
        assert_eq!(absent.why.as_deref(), Some("no weights here"));
    }
    let by_position = ["start", "middle", "end"]
        .map(|at| report.value(&format!("bipia.{at}.default.recall_at_1pct_fpr")));
    assert!(by_position.iter().all(Option::is_some), "{by_position:?}");
    assert!(report.value("injecagent.financial_harm.default.recall_at_1pct_fpr").is_some());
    assert_eq!(go(), outcome, "taken up from the folder");
    assert_eq!(words.trained.get(), 3);
    assert_eq!(outcome.pictures.len(), 4);
}

#[test]
fn the_prefilter_is_measured_on_rows_and_sources_held_back() {
    let Some(data) = common::data() else { return };
    let words = Words::new("prefilter", Varies::WithData);
    let options = prefilter::PrefilterEvalOptions { data, seed: 1, size: Size::Smoke, run: None };
    let report =
        prefilter::run(&options, &words, Some(&Constant(0.7)), &mut |_, _, _| {}).unwrap().report;
    assert_eq!(words.trained.get(), 4, "once by row and once for each of three groups");
    assert!(report.value("prefilter.auroc").unwrap() > 0.8);
    assert_eq!(report.value("prefilter.threshold"), Some(0.5));
    for name in ["fpr", "recall", "rows", "latency_us_p50"] {
        assert!(report.value(&format!("prefilter.{name}")).is_some(), "{name}");
    }
    assert_eq!(report.value("prefilter.qualifire.rows"), Some(5_000.0));
    assert_eq!(report.value("prefilter.qualifire.positive_rows"), Some(1_999.0));
    assert_eq!(report.value("prefilter.shipped.auroc"), Some(0.5));
    assert_eq!(report.value("prefilter.shipped.fpr"), Some(1.0));
    let (all, unseen) =
        ["prefilter.rows", "prefilter.shipped.rows"].map(|id| report.value(id).unwrap()).into();
    assert!(unseen < all && unseen > all / 2.0, "{unseen} of {all}");
    assert_eq!(report.value("prefilter.qualifire.shipped.rows"), Some(5_000.0));
    let groups = ["safe_guard", "neuralchemy", "in_the_wild"]
        .map(|name| report.value(&format!("prefilter.by_source.{name}.auroc")).unwrap());
    let worst = groups.into_iter().fold(1.0, f64::min);
    assert_eq!(report.value("prefilter.by_source.worst_auroc"), Some(worst));
    assert_eq!(EvalReport::from_json(report.to_json().as_bytes()), Ok(report));
}
