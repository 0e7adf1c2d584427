//! The recovery suite, on a small history.

use custody_lab::recovery::{overhead::Models, suite};
use custody_lab::size::Size;

/// (R4, R5) Nobody names a parent here, and a third of the copies are in other words than any indicator.
#[test]
fn all_that_is_contaminated_is_taken_out_and_little_that_is_not() {
    let models = Models {
        language: &|| Err("it was not asked for".to_owned()),
        embedder: &|| Err("it was not asked for".to_owned()),
    };
    let measured = suite::run(Size::Smoke, None, models, &mut |_, _, _| ()).unwrap();
    assert!(measured.pictures[0].svg.contains(">custody<"));
    let report = measured.report;
    assert!(report.figure("agmi.refused_on_read").unwrap().why.is_some(), "it was not asked for");
    let value = |id: &str| report.value(id).unwrap();
    assert_eq!(value("histories.custody.recall"), 1.0);
    assert_eq!(value("histories.custody.residual"), 0.0);
    assert!(value("histories.custody.benign_purged_rate") <= 0.02);
    assert_eq!(value("histories.custody.windows_left_at_rest"), 0.0);
    let of_kind = |kind: &str| {
        let reasons = ["acted", "own_words", "part_of_a_sentence", "said_later"];
        reasons
            .map(|reason| value(&format!("histories.custody.held.{kind}.{reason}")))
            .iter()
            .sum::<f64>()
    };
    let held = ["completion", "write", "read"].map(of_kind).iter().sum::<f64>();
    let entries = held / value("histories.custody.benign_quarantined_rate");
    assert!(
        (entries - entries.round()).abs() < 1e-6 && entries > 800.0,
        "G27: every one has a reason"
    );
    assert!(value("histories.custody.held.only_through_a_quotation") < held);
    assert!(value("histories.rollback_by_time.benign_purged_rate") > 0.5);
    assert!(value("histories.rvu_v2.residual") > 0.0, "R2");
    for id in
        ["closure.rvu_v1.size", "closure.rvu_v2.size", "risk.rvu_v2.clean", "risk.rvu_v2.high"]
    {
        let figure = report.figure(id).unwrap();
        assert_eq!(figure.value, figure.published, "{id}");
    }
    assert_eq!(
        value("certificate.corruptions_refused"),
        value("certificate.corruptions_tried"),
        "every change of a certificate is refused"
    );
    assert_eq!(value("probes.found_after"), 0.0);
    assert_eq!(value("at_rest.windows_found"), 0.0);
    assert!(value("probes.custody.echo.questions") >= 8.0);
    assert_eq!(value("probes.custody.echo.got_after"), 0.0, "R35");
    assert!(report.figure("probes.custody.model.got_after").unwrap().why.is_some());
    for part in ["embedder_load", "model_load", "inference", "record_write", "certificate", "total"]
    {
        let figure = report.figure(&format!("overhead.{part}.ms")).unwrap();
        assert!(figure.published.is_some() && (figure.value.is_some() || figure.why.is_some()));
    }
}
