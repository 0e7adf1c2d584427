//! What a contaminated entry reached, and how much: nothing is read from disk.
//!
//! `cargo bench -p custody-planner`. For scale: the original needs 89 ms for eleven rows of a chain of
//! 100,000, about 15 minutes for all of them, and time cubic in the linked rows to score them (docs/papers.md §3.7).

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use custody_kernel::evidence::{Evidence, Finding};
use custody_kernel::label::{Channel, Label, Trust};
use custody_log::{Digest, Seq};
use custody_planner::{
    AdapterEvent, Closure, EntryEffect, Graph, GraphBuilder, GraphNode, IncidentClosure, PlanBasis,
    PlanFacts, RiskConfig, Sparing, WalkMode, count_reached, plan_recovery,
};

/// How entries hang together.
#[derive(Clone, Copy)]
enum Shape {
    /// Each on the one before it.
    Chain,
    /// All on the first.
    Wide,
    /// All under the adapter that the first loads.
    Adapter,
    /// Three parents each, anywhere among all entries before.
    Scattered,
    /// Three parents each, among the thousand entries before.
    Near,
}

const SHAPES: [(&str, Shape); 5] = [
    ("chain", Shape::Chain),
    ("wide", Shape::Wide),
    ("adapter", Shape::Adapter),
    ("scattered", Shape::Scattered),
    ("near", Shape::Near),
];

const ADAPTER: [Digest; 1] = [Digest([1; 32])];

/// Numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn parents(shape: Shape, entry: u64, numbers: &mut Numbers) -> Vec<Seq> {
    match shape {
        _ if entry == 0 => vec![],
        Shape::Chain => vec![Seq(entry - 1)],
        Shape::Wide => vec![Seq(0)],
        Shape::Adapter => vec![],
        Shape::Scattered => (0..3).map(|_| Seq(numbers.below(entry))).collect(),
        Shape::Near => {
            let count_reached = entry.min(1_000);
            (0..3).map(|_| Seq(entry - 1 - numbers.below(count_reached))).collect()
        }
    }
}

fn graph(shape: Shape, entries: u64) -> Graph {
    let mut numbers = Numbers(1);
    let mut builder = GraphBuilder::default();
    for entry in 0..entries {
        let is_under = matches!(shape, Shape::Adapter) && entry > 0;
        let node = GraphNode {
            parents: &parents(shape, entry, &mut numbers),
            weights: if is_under { &ADAPTER } else { &[] },
            event: (entry == 0).then_some(AdapterEvent::Load(ADAPTER[0])),
            is_purged: false,
            is_join: false,
        };
        builder.push(node).expect("fits");
    }
    builder.finish().expect("names entries only")
}

fn build(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("graph");
    group.bench_function("near/1000000", |bencher| {
        bencher.iter(|| black_box(graph(Shape::Near, 1_000_000)));
    });
    group.finish();
}

fn closures(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("closure");
    for (name, shape) in SHAPES {
        let graph = graph(shape, 1_000_000);
        group.bench_with_input(BenchmarkId::new(name, 1_000_000), &graph, |bencher, graph| {
            bencher.iter(|| black_box(Closure::new(graph, WalkMode::Causal, &[Seq(0)])));
        });
    }
    group.finish();
}

fn shares(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("share");
    for (name, shape) in SHAPES {
        for entries in [4_096, 100_000] {
            let graph = graph(shape, entries);
            let closure =
                Closure::new(&graph, WalkMode::Causal, &[Seq(0)]).expect("the first entry");
            group.bench_with_input(
                BenchmarkId::new(name, entries),
                &closure,
                |bencher, closure| {
                    bencher.iter(|| black_box(count_reached(closure)));
                },
            );
        }
    }
    group.finish();
}

/// From the evidence to the plan: closure, shares, scores, floors.
fn plans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    let finding = Finding { entry: Seq(0), indicator: 0, by: Evidence::Text };
    for (name, shape) in SHAPES {
        let graph = graph(shape, 100_000);
        let basis = PlanBasis { size: graph.len(), root: Digest([0; 32]) };
        let facts = PlanFacts {
            basis,
            contained: None,
            effects: &[],
            histories: &[],
            waiting: &[],
            found: &[],
            repeated: &[],
            purge_trusted: false,
        };
        group.bench_with_input(BenchmarkId::new(name, 100_000), &graph, |bencher, graph| {
            bencher.iter(|| {
                let incident = IncidentClosure::trace(graph, &[finding]).expect("the first entry");
                let spared = Sparing::new(&incident).finish();
                let risk = RiskConfig::default();
                black_box(plan_recovery(&incident, &spared, &BTreeMap::new(), &facts, &risk))
            });
        });
    }
    group.finish();
}

/// Showing a text and judging the same one, by its length, for ordinary and for hostile texts.
fn sparing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("spare");
    let made_from = [Seq(1)];
    let made = GraphNode { parents: &made_from, ..GraphNode::default() };
    let graph =
        Graph::new([GraphNode::default(), GraphNode::default(), made]).expect("names entries only");
    let finding = Finding { entry: Seq(1), indicator: 0, by: Evidence::Text };
    let incident = IncidentClosure::trace(&graph, &[finding]).expect("an entry");
    let label = Label::at_ingress(Channel::User, Trust::Trusted);
    let texts = [
        ("sentences", "The meeting is on Tuesday at ten. "),
        ("stops", ". "),
        ("one_word", "a"),
        ("lines", "a\n"),
    ];
    for (name, piece) in texts {
        for length in [10_000_usize, 1_000_000] {
            let text = piece.repeat(length / piece.len());
            group.bench_with_input(BenchmarkId::new(name, length), &text, |bencher, text| {
                bencher.iter(|| {
                    let mut sparing = Sparing::new(&incident);
                    sparing.show(Seq(0), label, text);
                    black_box(sparing.judge(Seq(2), EntryEffect::TextOnly, Some(text)))
                });
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = build, closures, shares, plans, sparing
}
criterion_main!(benches);
