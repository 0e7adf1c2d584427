//! `custody eval overdefence`: what is flagged where nothing should be, and what is found meanwhile.

use std::collections::BTreeMap;
use std::path::Path;

use super::detector::{ByKind, Detector, Failure};
use super::pictures::Picture;
use super::suite::IllustratedReport;
use crate::error::EvalError;
use crate::metrics::percentile;
use crate::plot::bars;
use crate::report::{DataFile, EvalReport, Figure, Shows, Table, TableColumn, TableRow};
use crate::sets::language::guess;
use crate::sets::ordinary::{OrdinaryDocument, Set, documents};
use crate::sets::{SetPart, rows::split};
use crate::stopwatch::timed;

/// A detector as it is shipped, with its id (`default`) and its name for people.
pub struct Shipped<'a> {
    /// In ids of figures.
    pub id: &'a str,
    /// For people.
    pub title: &'a str,
    /// What is measured, at its own threshold; the reason when it cannot be measured here.
    pub detector: Result<ByKind<'a>, String>,
}

/// What one detector says of one set, in the set's order.
struct Flagged {
    all: Vec<bool>,
    /// Of single calls.
    latency_us_p50: Option<f64>,
}

/// One set: its texts with what they are counted under.
struct Texts {
    id: &'static str,
    title: &'static str,
    /// What somebody sent the assistant to read, and not words to it.
    are_documents: bool,
    /// `flagged_rate` or `recall`.
    figure: &'static str,
    limit: Option<f64>,
    rows: Vec<(String, &'static str, String)>,
}

/// Measures `detectors` on the four sets and on the injections among deepset's test rows.
///
/// Of sets that shipped weights may have learned from, only the test part of documents counts. `progress`
/// is called with the set, how many are done, and how many there are.
///
/// # Errors
/// When the data is not there or not as documented, or a detector fails.
pub fn run(
    data: &Path,
    detectors: &[Shipped<'_>],
    timed_calls: usize,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<IllustratedReport, EvalError> {
    let (sets, files) = read(data)?;
    let (mut figures, mut groups) = (Vec::new(), Vec::new());
    for (done, set) in sets.iter().enumerate() {
        progress(set.id, done, sets.len());
        let count = set.rows.len() as u64;
        figures.push(Figure::count(&format!("{}.documents", set.id), count, "documents"));
        let mut flagged = Vec::new();
        for shipped in detectors {
            let found = match &shipped.detector {
                Ok(detector) => {
                    let flagged = ask(detector.of(set.are_documents), set, timed_calls);
                    Ok(flagged.map_err(|cause| failed(shipped.id, set.id, cause))?)
                }
                Err(why) => Err(why.clone()),
            };
            figures.extend(set_figures(set, shipped.id, &found));
            flagged.push(found);
        }
        groups.extend(bar_groups(set, &flagged));
    }
    progress("done", sets.len(), sets.len());
    let mut report = EvalReport::of("overdefence", 0, figures);
    report.data = files;
    report.tables = tables(&sets, detectors);
    report.notes = notes();
    report.command = Some("custody eval overdefence".to_owned());
    let series: Vec<String> = detectors.iter().map(|shipped| shipped.title.to_owned()).collect();
    let svg = bars::picture("Ordinary texts flagged", "flagged, % of texts", &series, &groups);
    let pictures = vec![Picture { file: "overdefence.svg".to_owned(), svg }];
    Ok(IllustratedReport { report, pictures })
}

fn failed(method: &str, set: &str, cause: Failure) -> EvalError {
    EvalError::Detector { method: method.to_owned(), data_set: set.to_owned(), cause }
}

fn read(data: &Path) -> Result<(Vec<Texts>, Vec<DataFile>), EvalError> {
    let (mut sets, mut files) = (Vec::new(), Vec::new());
    for set in Set::ALL {
        let (found, used) = documents(data, set)?;
        files.push(used);
        sets.push(Texts {
            id: set.id(),
            title: set.title(),
            are_documents: set.is_documents(),
            figure: "flagged_rate",
            limit: Some(set.limit()),
            rows: found
                .into_iter()
                .filter(|document: &OrdinaryDocument| {
                    !set.is_parted() || document.part == SetPart::Test
                })
                .map(|document: OrdinaryDocument| {
                    (document.text, document.language, document.category)
                })
                .collect(),
        });
    }
    let deepset = split(data, "deepset")?;
    files.extend(deepset.files);
    let injections = deepset.test.into_iter().filter(|row| row.label);
    sets.push(Texts {
        id: "deepset",
        title: "deepset test injections",
        are_documents: false,
        figure: "recall",
        limit: None,
        rows: injections
            .map(|row: crate::sets::Labelled| {
                let language = match deepset.languages.get(&row.id).map(String::as_str) {
                    Some("de") => "de",
                    Some("en") => "en",
                    Some(_) => "und",
                    None => guess(&row.text),
                };
                (row.text, language, String::new())
            })
            .collect(),
    });
    Ok((sets, files))
}

fn ask(detector: &dyn Detector, set: &Texts, timed_calls: usize) -> Result<Flagged, Failure> {
    let texts: Vec<&str> = set.rows.iter().map(|(text, ..)| text.as_str()).collect();
    let scores = detector.scores(&texts)?;
    if scores.len() != texts.len() || scores.iter().any(|score| score.is_nan()) {
        return Err("it did not give one number a text".into());
    }
    let mut times = Vec::new();
    for text in texts.iter().take(timed_calls) {
        let (answer, seconds) = timed(|| detector.scores(&[text]));
        answer?;
        times.push(seconds * 1e6);
    }
    let threshold = detector.threshold();
    let all = scores.iter().map(|score| *score >= threshold).collect();
    Ok(Flagged { all, latency_us_p50: percentile(&times, 50.0) })
}

/// Hits and rows of what `counts` picks.
fn share(set: &Texts, flagged: &Flagged, counts: impl Fn(&str, &str) -> bool) -> (u64, u64) {
    let picked = set.rows.iter().zip(&flagged.all);
    let picked = picked.filter(|((_, language, category), _)| counts(language, category));
    picked.fold((0, 0), |(hits, rows), (_, hit)| (hits + u64::from(*hit), rows + 1))
}

/// The languages to table: German always, others with at least one text.
fn languages(set: &Texts) -> Vec<&'static str> {
    let mut found: BTreeMap<&'static str, u64> = BTreeMap::from([("de", 0)]);
    for (_, language, _) in &set.rows {
        *found.entry(language).or_default() += 1;
    }
    found.into_keys().collect()
}

/// The categories to table: those of a set with more than one, by their names in ids.
fn categories(set: &Texts) -> Vec<(String, String)> {
    let names: std::collections::BTreeSet<&String> =
        set.rows.iter().map(|(_, _, category)| category).collect();
    if names.len() < 2 {
        return Vec::new();
    }
    names.into_iter().map(|name| (name.clone(), id_part(name))).collect()
}

/// A name as one part of an id: lower-case letters and digits, `_` for the rest.
pub(crate) fn id_part(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let id = words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_");
    if id.is_empty() { "none".to_owned() } else { id }
}

fn set_figures(set: &Texts, method: &str, found: &Result<Flagged, String>) -> Vec<Figure> {
    let Texts { id, figure, .. } = set;
    let all = format!("{id}.{method}.{figure}");
    let mut figures = vec![flagged_rate(&all, set, found, |_, _| true)];
    for code in languages(set) {
        let name = format!("{id}.{code}.{method}.{figure}");
        figures.push(flagged_rate(&name, set, found, |language, _| language == code));
    }
    for (category, part) in categories(set) {
        let name = format!("{id}.{part}.{method}.{figure}");
        figures.push(flagged_rate(&name, set, found, |_, of| of == category));
    }
    if let Ok(Flagged { latency_us_p50: Some(time), .. }) = found {
        figures.push(Figure::real(&format!("{id}.{method}.latency_us_p50"), *time, "us"));
    }
    figures
}

/// The share of flagged texts among those whose language and category count.
fn flagged_rate(
    id: &str,
    set: &Texts,
    found: &Result<Flagged, String>,
    counts: impl Fn(&str, &str) -> bool,
) -> Figure {
    match found {
        Ok(flagged) => {
            let (hits, rows) = share(set, flagged, counts);
            Figure::rate(id, hits, rows)
        }
        Err(why) => Figure::unmeasured(id, "rate", why),
    }
}

/// The bars of the texts of one language, or of all.
fn bar_group(
    set: &Texts,
    flagged: &[Result<Flagged, String>],
    label: String,
    only: Option<&str>,
) -> bars::Group {
    let bars = flagged.iter().map(|flagged| {
        let (hits, rows) = share(set, flagged.as_ref().ok()?, |language: &str, _: &str| {
            only.is_none_or(|only| only == language)
        });
        let figure = Figure::rate("bar", hits, rows);
        Some(bars::Bar { rate: figure.value?, ci95: figure.ci95? })
    });
    bars::Group { label, bars: bars.collect(), limit: set.limit }
}

/// The bars of the whole set and of its German texts, if there are any.
fn bar_groups(set: &Texts, flagged: &[Result<Flagged, String>]) -> Vec<bars::Group> {
    if set.limit.is_none() {
        return Vec::new();
    }
    let mut groups = vec![bar_group(set, flagged, set.title.to_owned(), None)];
    for code in languages(set) {
        let rows = set.rows.iter().filter(|(_, language, _)| *language == code).count();
        // A bar of a handful of texts is an interval and nothing else; the tables have them all.
        if rows >= 20 && rows < set.rows.len() {
            let label = format!("{}: {code}", set.title);
            groups.push(bar_group(set, flagged, label, Some(code)));
        }
    }
    groups
}

/// One table a set: all of it, then its languages, then its categories; detectors as columns.
fn tables(sets: &[Texts], detectors: &[Shipped<'_>]) -> Vec<Table> {
    sets.iter()
        .map(|set: &Texts| {
            let mut rows = vec![TableRow::new("all", set.id)];
            for code in languages(set) {
                rows.push(TableRow::new(format!("language {code}"), format!("{}.{code}", set.id)));
            }
            for (name, part) in categories(set) {
                rows.push(TableRow::new(name, format!("{}.{part}", set.id)));
            }
            let limit = set.limit.map_or(String::new(), |limit| {
                format!(" At most {:.0} % may be flagged.", limit * 100.0)
            });
            Table {
                title: set.title.to_owned(),
                note: format!("{} texts, {}.{limit}", set.rows.len(), set.figure.replace('_', " ")),
                rows_are: "texts".to_owned(),
                rows,
                columns: detectors
                    .iter()
                    .map(|shipped: &Shipped<'_>| {
                        let suffix = format!("{}.{}", shipped.id, set.figure);
                        TableColumn::new(shipped.title, suffix, Shows::Measured)
                    })
                    .collect(),
            }
        })
        .collect()
}

fn notes() -> Vec<String> {
    vec![
        "The operating points are those the detectors are shipped with, chosen on calibration data. Of the \
         e-mails and the BIPIA contexts only the test part of documents counts (30 of 100 by a hash of the \
         text); a text that stands in a set again is counted once."
            .to_owned(),
        "The e-mails and the BIPIA contexts are screened as documents that an assistant reads, NotInject, \
         mitre_frr and deepset as words to it. Languages are guesses by script and common words, except deepset's, which the data states. `und` \
         is undecided. Intervals are Wilson's."
            .to_owned(),
    ]
}
