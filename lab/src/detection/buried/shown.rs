//! The figures, tables and pictures of what was measured.

use std::collections::BTreeSet;

use super::{Benchmark, Method, Scores};
use crate::detection::bootstrap::{RESAMPLES, intervals};
use crate::detection::overdefence::id_part;
use crate::detection::pictures::{self, Picture};
use crate::metrics::Scored;
use crate::plot::{bars, roc};
use crate::report::{Figure, FigureIds, Shows, Table, TableColumn, TableRow};
use crate::sets::SetPart;
use crate::sets::buried::{BuriedCase, BuriedPosition, clean_documents};

/// Benchmark by benchmark, in the order of the methods.
pub(super) fn figures(benchmarks: &[Benchmark], methods: &[Method], seed: u64) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (at, benchmark) in benchmarks.iter().enumerate() {
        figures.extend(benchmark_counts(benchmark));
        for method in methods {
            let found = method.scores.as_ref().map(|scores| &scores[at]);
            figures.extend(benchmark_figures(benchmark, &method.id, found, seed));
        }
    }
    figures
}

fn benchmark_counts(benchmark: &Benchmark) -> Vec<Figure> {
    let ids = FigureIds::new(benchmark.id);
    let attacks = benchmark
        .cases
        .iter()
        .filter(|case: &&BuriedCase| {
            case.label && case.part.is_none_or(|part| part == SetPart::Test)
        })
        .count();
    let [calibration, test] = [SetPart::Calibration, SetPart::Test]
        .map(|part| clean_documents(&benchmark.cases, part) as u64);
    vec![
        ids.count("cases", attacks as u64, "cases"),
        ids.count("groups", benchmark.fold_of.len() as u64, "groups"),
        ids.count("calibration.documents", calibration, "documents"),
        ids.count("test.documents", test, "documents"),
    ]
}

/// Attacks that are counted by themselves.
struct Subset {
    /// In ids of figures.
    part: String,
    /// For people.
    name: String,
    counts: Box<dyn Fn(&BuriedCase) -> bool>,
}

/// The positions of the attacks, where there are several, and their categories.
fn subsets(benchmark: &Benchmark) -> Vec<Subset> {
    let attacks = benchmark.cases.iter().filter(|case| case.label);
    let (positions, categories): (BTreeSet<BuriedPosition>, BTreeSet<&String>) =
        attacks.map(|case| (case.position, &case.category)).unzip();
    let mut found: Vec<Subset> = Vec::new();
    if positions.len() > 1 {
        found.extend(positions.into_iter().map(|position| Subset {
            part: position.id().to_owned(),
            name: format!("at {}", position.id()),
            counts: Box::new(move |case| case.position == position),
        }));
    }
    for category in categories {
        let wanted = category.clone();
        found.push(Subset {
            part: id_part(category),
            name: category.clone(),
            counts: Box::new(move |case| case.category == wanted),
        });
    }
    found
}

fn benchmark_figures(
    benchmark: &Benchmark,
    method: &str,
    found: Result<&Scores, &String>,
    seed: u64,
) -> Vec<Figure> {
    let ids = FigureIds::new(format!("{}.{method}", benchmark.id));
    let mut figures = Vec::new();
    let scores = match found {
        Ok(scores) => scores,
        Err(why) => {
            for (figure, unit) in
                [("recall_at_1pct_fpr", "rate"), ("fpr", "rate"), ("auroc", "rate")]
            {
                figures.push(Figure::unmeasured(&ids.id(figure), unit, why));
            }
            return figures;
        }
    };
    figures.push(scores.recall(benchmark, &ids.id("recall_at_1pct_fpr"), |_| true));
    let (rate, ci95) = scores.false_positives();
    figures.push(Figure { ci95: Some(ci95), ..Figure::real(&ids.id("fpr"), rate, "rate") });
    figures.push(area(&ids.id("auroc"), scores, seed));
    for Subset { part, counts, .. } in subsets(benchmark) {
        let id = format!("{}.{part}.{method}.recall_at_1pct_fpr", benchmark.id);
        figures.push(scores.recall(benchmark, &id, counts));
    }
    figures
}

/// All folds in one order, by the distance to their own thresholds.
fn in_one_order(scores: &Scores) -> (Vec<f64>, Vec<bool>) {
    let attacks =
        scores.attacks.iter().map(|(_, score, fold)| (scores.margin(*score, *fold), true));
    let clean = scores.clean.iter().map(|(score, fold)| (scores.margin(*score, *fold), false));
    attacks.chain(clean).unzip()
}

fn area(id: &str, scores: &Scores, seed: u64) -> Figure {
    let (margins, labels) = in_one_order(scores);
    let Ok(scored) = Scored::new(&margins, &labels, 0.0) else {
        return Figure::unmeasured(id, "rate", "there is nothing to measure");
    };
    let Some(auroc) = scored.measures().auroc else {
        return Figure::unmeasured(id, "rate", "the cases are of one class");
    };
    let between = intervals(&[scored], RESAMPLES / 4, seed);
    Figure { ci95: between.and_then(|between| between.auroc), ..Figure::real(id, auroc, "rate") }
}

pub(super) fn tables(benchmarks: &[Benchmark], methods: &[Method]) -> Vec<Table> {
    benchmarks.iter().map(|benchmark: &Benchmark| {
        let mut rows = vec![TableRow::new("all attacks", benchmark.id.to_owned())];
        for Subset { part, name, .. } in subsets(benchmark) {
            rows.push(TableRow::new(&name, format!("{}.{part}", benchmark.id)));
        }
        let mut columns: Vec<TableColumn> = methods
            .iter()
            .map(|method| {
                let suffix = format!("{}.recall_at_1pct_fpr", method.id);
                TableColumn::new(&method.title, suffix, Shows::Measured)
            })
            .collect();
        for Method { id, title, .. } in methods {
            let title = format!("{title}: false positives");
            columns.push(TableColumn::new(title, format!("{id}.fpr"), Shows::Measured));
        }
        Table {
            title: benchmark.title.to_owned(),
            note: "Recall at a threshold that flags at most 1 % of the clean calibration documents; the \
                   false positives are those on clean test documents."
                .to_owned(),
            rows_are: "attacks".to_owned(),
            rows,
            columns,
        }
    }).collect()
}

/// A curve and the recall by attacks, of each benchmark.
pub(super) fn pictures(benchmarks: &[Benchmark], methods: &[Method]) -> Vec<Picture> {
    benchmarks
        .iter()
        .enumerate()
        .flat_map(|(at, benchmark)| {
            [curves(benchmark, at, methods), recalls(benchmark, at, methods)]
        })
        .collect()
}

/// The picture of the curves; `at` is the place of the benchmark.
fn curves(benchmark: &Benchmark, at: usize, methods: &[Method]) -> Picture {
    let drawn = methods
        .iter()
        .filter_map(|Method { title, scores, .. }| curve(title, scores.as_ref().ok()?.get(at)?));
    let title = format!("{}: attacks in tool output", benchmark.title);
    Picture {
        file: format!("buried-{}-roc.svg", benchmark.id),
        svg: roc::picture(&title, &drawn.collect::<Vec<_>>()),
    }
}

fn curve(name: &str, scores: &Scores) -> Option<roc::Curve> {
    let (margins, labels) = in_one_order(scores);
    let scored = Scored::new(&margins, &labels, 0.0).ok()?;
    let mut curve = pictures::curve(name, &scored)?;
    if let Some(point) = &mut curve.operating_point {
        point.false_positive_rate_ci95 = scores.false_positives().1;
    }
    Some(curve)
}

/// What a method finds of a subset of the benchmark at the place `at`.
fn recall_bar(
    benchmark: &Benchmark,
    at: usize,
    subset: &Subset,
    method: &Method,
) -> Option<bars::Bar> {
    let scores = method.scores.as_ref().ok()?.get(at)?;
    let figure = scores.recall(benchmark, "bar", &subset.counts);
    Some(bars::Bar { rate: figure.value?, ci95: figure.ci95? })
}

/// The picture of what is found of each kind of attack; `at` is the place of the benchmark.
fn recalls(benchmark: &Benchmark, at: usize, methods: &[Method]) -> Picture {
    let groups: Vec<bars::Group> = subsets(benchmark)
        .iter()
        .map(|subset: &Subset| bars::Group {
            label: subset.name.clone(),
            bars: methods.iter().map(|method| recall_bar(benchmark, at, subset, method)).collect(),
            limit: None,
        })
        .collect();
    let series: Vec<String> = methods.iter().map(|method| method.title.clone()).collect();
    let title = format!("{}: found at 1 % false positives", benchmark.title);
    Picture {
        file: format!("buried-{}-recall.svg", benchmark.id),
        svg: bars::picture(&title, "recall, % of attacks", &series, &groups),
    }
}

pub(super) fn notes() -> Vec<String> {
    vec![
        "No detector is measured on an attack of a kind it was trained on: three folds by InjecAgent's \
         attacker instruction and by BIPIA's category, both left out together. Rows marked *seen* are the \
         shipped weights, which learned from all of them; they stand beside for comparison only."
            .to_owned(),
        "Clean documents are parted by the hash of their text: 40 of 100 for training, 30 for thresholds, 30 \
         to measure false positives. InjecAgent's clean twins are its own tool answers with texts written for \
         this project in the field where the attack stands, requests and imperatives among them. They share \
         the answer around the field with the attacks, so only the field can tell them apart."
            .to_owned(),
        "A false-positive rate is the mean over the folds and the clean test cases; its interval counts each distinct \
         document once, for one innocuous text stands in the answers of several of InjecAgent's tools. Of an attack that \
         stands in several documents the intervals of recall count each case by as much as it tells beside the others \
         (the design effect; the correlation within attacks is taken from all cases of the detector). The intervals of \
         the areas count every case. Areas and curves put all folds in one order by the distance to their own threshold."
            .to_owned(),
    ]
}
