//! `custody eval recovery`: the figures, their tables and their picture.

use custody_incident::Incidents;

use super::agmi::{self, Agmi};
use super::history::{History, Shape};
use super::methods::{self, Counts, Judged};
use super::overhead::{self, Measured, Models};
use super::played::Played;
use super::{certificate, held, obeyed, probes, published, spellings};
use crate::detection::pictures::Picture;
use crate::detection::suite::IllustratedReport;
use crate::error::EvalError;
use crate::plot::points::{Axes, PointMark, ScatterPoint, picture};
use crate::report::{EvalReport, Figure, FigureIds, Run, Shows, Table, TableColumn, TableRow};
use crate::size::Size;
use crate::stopwatch::Stopwatch;

/// What every draw of the standard run comes from.
pub const SEED: u64 = 20_261_122;

/// The methods, in the order of the tables.
pub const METHODS: [&str; 4] = ["custody", "rvu_v2", "rvu_v1", "rollback_by_time"];

/// The name of the history that the others vary.
const STANDARD: &str = "histories";

/// A shape with one thing of it scaled by so many halves.
type Vary = fn(Shape, u64) -> Shape;

/// How the standard history is varied, one thing at a time.
const VARIED: [(&str, Vary); 6] = [
    ("seeds", |shape, halves| Shape { seeds: scaled(shape.seeds, halves), ..shape }),
    ("seeded_sessions", |shape, halves| Shape {
        seeded: scaled(shape.seeded, halves),
        // A session has no more messages than this many.
        seeds: shape.seeds.min(scaled(shape.seeded, halves) * 8),
        ..shape
    }),
    ("reads", |shape, halves| Shape { reads: (shape.reads * halves).div_ceil(2), ..shape }),
    ("copies", |shape, halves| Shape { copies: shape.copies * halves / 2, ..shape }),
    ("paraphrases", |shape, halves| Shape { paraphrases: shape.paraphrases * halves / 2, ..shape }),
    ("decoys", |shape, halves| Shape { decoys: shape.decoys * halves / 2, ..shape }),
];

fn scaled(count: usize, halves: u64) -> usize {
    count * usize::try_from(halves).unwrap_or(2) / 2
}

/// Measures; `agmi` says how agmi's edits can be tried, if they can, and `models` how the models are opened that are
/// asked for destroyed texts. Smoke is one history of a tenth of the size;
/// full is the standard history and its twelve variations.
/// `progress` is called before each part with its name, how many parts are done, and how many there are.
///
/// # Errors
/// When the store under test fails.
pub fn run(
    size: Size,
    agmi: Option<&Agmi>,
    models: Models<'_>,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<IllustratedReport, EvalError> {
    let watch = Stopwatch::start();
    let mut histories = vec![(STANDARD.to_owned(), base(size))];
    if size == Size::Full {
        for (name, vary) in VARIED {
            histories.push((format!("halved.{name}"), vary(Shape::STANDARD, 1)));
            histories.push((format!("doubled.{name}"), vary(Shape::STANDARD, 4)));
        }
    }
    let parts = histories.len() + 3;
    progress("published examples", 0, parts);
    let mut figures = published::figures()?;
    for (done, (name, shape)) in histories.iter().enumerate() {
        progress(name, done + 1, parts);
        figures.extend(of_history(name, shape)?);
    }
    figures.extend(obeyed::figures()?);
    figures.extend(certificate::figures()?);
    figures.extend(spellings::figures()?);
    progress("asking a language model", parts - 2, parts);
    let Measured { figures: asked, model } = overhead::figures(models)?;
    figures.extend(asked);
    progress("agmi's nine edits", parts - 1, parts);
    figures.push(agmi::figure(agmi));
    figures.push(overhead::figure("total", Some(watch.seconds()), ""));
    progress("done", parts, parts);
    let mut report = EvalReport::of("recovery", SEED, figures);
    report.command = Some(format!("custody eval recovery --size {}", size.id()));
    report.notes = NOTES.map(str::to_owned).to_vec();
    report.tables = histories.iter().map(|(name, shape)| table(name, shape)).collect();
    report.tables.extend([held::table(STANDARD), probes::table(), overhead::table()]);
    report.runs = model.map(|model| asked_by(&report, model)).into_iter().collect();
    let pictures = vec![drawn(&report)];
    Ok(IllustratedReport { report, pictures })
}

/// Which model was asked, and for which figures.
fn asked_by(report: &EvalReport, model: String) -> Run {
    Run {
        parts: vec!["probes".to_owned(), "overhead".to_owned()],
        command: report.command.clone(),
        machine: report.machine.clone(),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        model: Some(model),
    }
}

/// What each method takes out, against what it leaves of the rest.
fn drawn(report: &EvalReport) -> Picture {
    let mut points = Vec::new();
    for method in METHODS {
        let ids = FigureIds::new(format!("histories.{method}"));
        let mark = if method == "custody" { PointMark::Subject } else { PointMark::Measured };
        let (Some(x), Some(purged), Some(held)) = (
            ids.value(report, "recall"),
            ids.value(report, "benign_purged_rate"),
            ids.value(report, "benign_quarantined_rate"),
        ) else {
            continue;
        };
        points.push(ScatterPoint { name: method.to_owned(), mark, x, y: Some(1.0 - purged) });
        if held > 0.0 {
            let name = format!("{method}, quarantine counted");
            points.push(ScatterPoint { name, mark, x, y: Some(1.0 - purged - held) });
        }
    }
    let note =
        "one history with a known truth; best: upper right; points at one place share a label";
    let svg = picture("Recovery: what is taken out, and what is left", note, AXES, &points);
    Picture { file: "recovery.svg".to_owned(), svg }
}

const AXES: Axes = Axes {
    x: ["contaminated entries that nothing retrieves any more, %", "taken out"],
    y: ["other entries that are not destroyed, %", "kept"],
};

const fn base(size: Size) -> Shape {
    match size {
        Size::Smoke => Shape::SMALL,
        Size::Full => Shape::STANDARD,
    }
}

/// Every method on one history.
fn of_history(name: &str, shape: &Shape) -> Result<Vec<Figure>, EvalError> {
    let history = History::draw(shape, SEED);
    // Marks stay in a store, so what changes one comes last.
    let played = Played::play(&history)?;
    let found = Incidents::of(&played.scratch.store).find(&played.indicators(&history))?.findings;
    let judged = [
        ("rvu_v2", methods::rvu_v2(&played, &found)?),
        ("rvu_v1", methods::rvu_v1(&played, &found)?),
        ("rollback_by_time", methods::rollback_by_time(&played, &found)),
        ("custody", methods::custody(&played, &history)?),
    ];
    let mut figures = Vec::new();
    for method in METHODS {
        for (_, judged) in judged.iter().filter(|(name, _)| *name == method) {
            figures.extend(of_method(&format!("{name}.{method}"), judged, &history));
        }
    }
    if name == STANDARD {
        let [.., (id, custody)] = &judged;
        figures.extend(held::figures(&format!("{name}.{id}"), &played, &history, &found, custody)?);
    }
    Ok(figures)
}

fn of_method(id: &str, judged: &Judged, history: &History) -> Vec<Figure> {
    let counts = judged.counts(history);
    let Counts { contaminated, benign, taken_out, reached, reached_contaminated, .. } = counts;
    let ids = FigureIds::new(id);
    let mut figures = vec![
        ids.rate("recall", taken_out, contaminated),
        ids.rate("precision", reached_contaminated, reached),
        ids.rate("benign_purged_rate", counts.benign_purged, benign),
        ids.rate("benign_quarantined_rate", counts.benign_quarantined, benign),
        ids.count("residual", contaminated - taken_out, "entries"),
    ];
    if let Some(windows) = judged.at_rest {
        figures.push(ids.count("windows_left_at_rest", windows, "runs"));
        figures.push(ids.count("spared", judged.spared, "entries"));
        figures.push(Figure::real(&ids.id("seconds"), judged.seconds, "s"));
    }
    figures
}

const NOTES: [&str; 8] = [
    "Histories are generated: messages bring facts, the model copies facts out of its whole context, some in other words, \
     and memory carries them to other sessions. An entry is contaminated if it holds a fact that only a seed brought. \
     Methods see texts and edges and never the facts. Every history is played on a real store, and what became of an entry \
     is looked up there: recall counts contaminated entries whose text nothing retrieves any more.",
    "Half of the seeds are named by id, half by phrase. Decoys are messages that quote a seed's very words, as a warning \
     would; one whose seed is named by phrase is direct evidence, and is purged.",
    "`histories.custody.held` are the benign entries in quarantine, by what they are and why they are not spared. A write acted. The \
     others have a sentence that nobody but the model said (`own_words`), that a text outside the closure has only as a part of \
     another sentence (`part_of_a_sentence`), or that such a text has whole, but newer than a seed which reaches the entry or short and \
     elsewhere (`said_later`). `only_through_a_quotation` are those that nothing reaches but decoys named by phrase.",
    "`rvu_v1` purges whatever is within ten hops in either direction. `rvu_v2` scores the same and acts by tiers; without a \
     measured adapter no score reaches quarantine (R2), so nothing is taken out. `rollback_by_time` takes back \
     everything since the first seed.",
    "`e1` is the paper's first evaluation after the incident: its ten scenarios, played to the letter by an agent that nobody stops, \
     then one recovery named by the ten outputs. The paper records one entry a scenario; here the question, the call, the output, \
     the answer and what the attack called stand apart, and each scenario has a benign session beside it.",
    "`search` is one search for each of four phrases, over 24 spellings of each that a model reads alike and the same spellings \
     of six texts that differ from them in a word, a digit or the order.",
    "The best of the literature recovers 85.3 % of what was poisoned and keeps all that is benign (arXiv:2608.10502), on other \
     histories than these.",
    "Two texts of the paper's kinds are planted and a language model is asked for them. `probes.rvu_v2` are eight questions a \
     text of the paper's kinds, in words of our own and without its list of stop words, and its score, cosine from 0.7 on: with \
     the text in the model's context, as in the paper, and with it taken out, which the paper did not measure; `echo` says \
     whatever it is asked. `probes.custody` are Custody's questions after a whole recovery, on what retrieval gives then.",
];

fn table(name: &str, shape: &Shape) -> Table {
    let Shape { sessions, entries, reads, copies, paraphrases, decoys, seeds, seeded } = shape;
    Table {
        title: name.to_owned(),
        note: format!(
            "{sessions} sessions of {entries} entries, up to {reads} memory reads each, facts copied along {copies} of 1,000 \
             edges, {paraphrases} of 1,000 copies in other words, {decoys} of 1,000 entries decoys, {seeds} seeds in {seeded} \
             sessions."
        ),
        rows_are: "method".to_owned(),
        rows: METHODS
            .map(|method: &str| TableRow {
                name: method.to_owned(),
                prefix: format!("{name}.{method}"),
            })
            .to_vec(),
        columns: [
            ("contaminated taken out", "recall"),
            ("left", "residual"),
            ("precision of the closure", "precision"),
            ("benign purged", "benign_purged_rate"),
            ("benign in quarantine", "benign_quarantined_rate"),
        ]
        .map(|(title, suffix)| TableColumn::new(title, suffix, Shows::Measured))
        .to_vec(),
    }
}
