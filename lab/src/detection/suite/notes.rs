//! What a reader of the detection report is told beside its figures.

use std::collections::BTreeMap;

use super::DetectionOptions;
use super::plan::Series;
use crate::detection::detector::Method;
use crate::detection::figures::DataSet;
use crate::detection::mixture::Mixture;

pub(super) fn notes(
    options: &DetectionOptions,
    sets: &[DataSet],
    methods: &[Method<'_>],
    left_out: &BTreeMap<Series, (usize, usize)>,
) -> Vec<String> {
    let leaked = sets.iter().map(|set| {
        let (name, found) = (&set.name, &set.leaks);
        format!("{name} {} of {}", found.rows.len(), set.labels.len())
    });
    let leaked: Vec<String> = leaked.collect();
    let runs = sets.iter().flat_map(|set| set.runs.values());
    let mut notes = vec![
        format!(
            "Leaks: test rows that also stand in training, compared without case and punctuation: {}. \
             Columns that say so leave them out.",
            leaked.join(", ")
        ),
        format!(
            "The operating points are the detectors' own; none was chosen by a look at the test rows. The \
             rows `default` and `full` are the shipped detectors, trained on the training parts of deepset \
             and jackhhao among others. The combined corpus parts the same rows anew, so they have seen many \
             of its test rows ({}); their F1 without leaks leaves those out, and says more than the other.",
            seen_rows(sets)
        ),
        format!(
            "{} seed(s) from {}: methods that depend on a seed show the mean of their seeds. Intervals are \
             bootstrap 95 % intervals of {} resamples within each class, on the test rows of the fixed split. \
             Cross-validation has {} folds over training and test rows together, stratified, with repeated \
             texts in one fold; the shipped detectors have none, for they have learned from rows of each.",
            runs.map(|runs| runs.fixed.len()).max().unwrap_or_default(),
            options.seed,
            options.size.resamples(),
            options.size.folds()
        ),
        "Latency is the median of single calls, one text each, after three that warm up. That of a mixture \
         is the sum of its parts'."
            .to_owned(),
    ];
    notes.extend(methods.iter().filter_map(pools));
    notes.extend(unfinished(left_out));
    notes
}

/// How many test rows of each set the shipped detectors have seen.
fn seen_rows(sets: &[DataSet]) -> String {
    let found: Vec<String> = sets
        .iter()
        .filter_map(|set: &DataSet| {
            let most = set.seen.values().map(|leaks| leaks.rows.len()).max();
            most.map(|rows| format!("{} {rows} of {}", set.name, set.labels.len()))
        })
        .collect();
    if found.is_empty() { "not measured here".to_owned() } else { found.join(", ") }
}

/// What the runs of a mixture have in common that pools several trainings of a part.
fn pools(method: &Method<'_>) -> Option<String> {
    let Method::Mixture(Mixture { id, parts, .. }) = method else { return None };
    let part = parts.iter().find(|part| part.trainings > 1)?;
    Some(format!(
        "`{id}` pools {} trainings of `{}`, of neighbouring seeds. Each training is in as many pools, so that \
         their spread is smaller than that of pools which share none.",
        part.trainings, part.id
    ))
}

/// Which figures are left out, because not all units they are means of are finished.
fn unfinished(left_out: &BTreeMap<Series, (usize, usize)>) -> Option<String> {
    let all: Vec<String> = left_out
        .iter()
        .map(|((set, method, is_fixed), (finished, all)): (&Series, &(usize, usize))| {
            let over = if *is_fixed { "on the fixed split" } else { "across folds" };
            format!("{set} {method} {over} ({finished} of {all} trainings finished)")
        })
        .collect();
    (!all.is_empty()).then(|| {
        format!("Not finished and therefore left out, with what is made of it: {}.", all.join(", "))
    })
}
