//! A certificate over many entries, signed and verified.
//!
//! `cargo bench -p custody-certificate`. To hold: over 10,000 entries, each of signing and verifying
//! takes at most 50 ms; both grow linearly.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use custody_certificate::{
    Certificate, CertifiedClosure, EvidenceKind, Expectations, LoggedStep, MeasuredInfluence,
    MemberAction, MemberKind, Ppm, Recovery, Residual, RuntimeRecovery, certify,
};
use custody_log::Seq;

#[path = "../tests/certificate/fixture.rs"]
mod fixture;

use fixture::{audit, owner_key, recovered, risk, row, scores};

/// One poisoned page and all that came of it, every second entry under an adapter.
fn recovery(entries: u64) -> Recovery {
    let influence = Some(MeasuredInfluence { measured: false, ppm: Ppm::ONE });
    let adapters = |entry: u64| -> &[u8] { if entry.is_multiple_of(2) { &[0xAD] } else { &[] } };
    let manifest = (0..entries)
        .map(|entry| row(entry, MemberKind::ToolOutput, MemberAction::Purge, adapters(entry)))
        .collect();
    let closure = CertifiedClosure {
        members: (0..entries).map(Seq).collect(),
        possible_origins: Vec::new(),
        seeds: vec![Seq(3)],
        ..recovered().runtime_recovery.closure
    };
    let score = |entry: u64| {
        let influence = influence.filter(|_| entry.is_multiple_of(2));
        risk(entry, EvidenceKind::None, 1_000_000, influence, 150_000, MemberAction::Purge)
    };
    Recovery {
        runtime_recovery: RuntimeRecovery::new(closure, manifest),
        risk_scores: scores((0..entries).map(score).collect()),
        spared: Vec::new(),
        residual: Residual::default(),
        audit: audit(entries + 1, entries + 8, &[(entries + 2, LoggedStep::Planned)]),
        ..recovered()
    }
}

fn certificate(c: &mut Criterion) {
    let (key, expected) = (owner_key(), Expectations::default());
    let mut group = c.benchmark_group("certificate");
    group.sample_size(20);
    for entries in [100, 1_000, 10_000] {
        let recovery = recovery(entries);
        let file = certify(&recovery, &key).expect("sound");
        let owner = key.verifying_key();
        group.throughput(Throughput::Bytes(file.len() as u64));
        group.bench_with_input(BenchmarkId::new("sign", entries), &recovery, |b, recovery| {
            b.iter(|| certify(black_box(recovery), &key).expect("sound"));
        });
        group.bench_with_input(BenchmarkId::new("verify", entries), &file, |b, file| {
            b.iter(|| Certificate::verify(black_box(file), &owner, expected).expect("sound"));
        });
    }
    group.finish();
}

criterion_group!(benches, certificate);
criterion_main!(benches);
