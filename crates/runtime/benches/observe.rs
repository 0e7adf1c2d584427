//! Observing texts in stores of 10² to 10⁵ entries, and the writer's turn of a text of 3 MB.
//!
//! `cargo bench -p custody-runtime --bench observe`. The texts: random words, answers of one API, and pages of one
//! character (G8). Each is observed and durable before the next.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_runtime::Session;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::scratch::Scratch;

/// The name of a kind of text, and a text of it for each number.
type Kind = (&'static str, fn(u64) -> String);

const KINDS: [Kind; 3] = [("random", words), ("json", answer), ("hostile", repeated)];
const SIZES: [u64; 4] = [100, 1_000, 10_000, 100_000];

fn word(number: u64) -> String {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^= mixed >> 31;
    (0..3 + mixed % 6)
        .map(|at| char::from(b'a' + u8::try_from(mixed >> (at * 5) & 15).unwrap_or(0)))
        .collect()
}

fn words(number: u64) -> String {
    (0..80).map(|at| word(number * 80 + at) + " ").collect()
}

fn answer(number: u64) -> String {
    format!(
        "{{\"object\":\"message\",\"status\":\"delivered\",\"priority\":\"normal\",\"folder\":\"inbox\",\"id\":{number},\
         \"sender\":\"{}@shop.example\",\"subject\":\"Order {} was sent\",\"flags\":{{\"seen\":false,\"answered\":false,\
         \"flagged\":false,\"draft\":false}},\"labels\":[\"orders\",\"{}\"],\"size\":{}}}",
        word(number),
        number * 13,
        word(number + 7),
        number * 31
    )
}

fn repeated(number: u64) -> String {
    "a".repeat(500 + usize::try_from(number % 97).unwrap_or(0))
}

fn observe(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("observe");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(300));
    for (kind, text) in KINDS {
        let scratch = Scratch::new(Limits::UNLIMITED, Clock::System).expect("a scratch store");
        let session = Session::open(&scratch.store, &scratch.owner, None).expect("a session");
        let mut number = 0;
        for size in SIZES {
            while number < size {
                drop(session.observe(Observation::message(Channel::Web, text(number))));
                number += 1;
            }
            group.bench_function(BenchmarkId::new(kind, size), |bencher| {
                bencher.iter(|| {
                    number += 1;
                    let page = Observation::message(Channel::Web, text(number));
                    session.observe(page).wait().expect("an entry")
                });
            });
        }
    }
    group.finish();
}

/// How long another session's request waits, at most and on average, while a text of 3 MB is observed.
fn turn(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("turn");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(5))
        .warm_up_time(Duration::from_millis(300));
    let scratch = Scratch::new(Limits::UNLIMITED, Clock::System).expect("a scratch store");
    let mut number = 0;
    group.bench_function("longest_wait_during_3_mb", |bencher| {
        bencher.iter_custom(|times| {
            (0..times)
                .map(|_| {
                    number += 1;
                    longest_wait(
                        &scratch,
                        &(0..7_000).map(|at| words(number * 7_000 + at)).collect::<String>(),
                    )
                })
                .sum()
        });
    });
    group.finish();
}

fn longest_wait(scratch: &Scratch, text: &str) -> Duration {
    let long = Session::open(&scratch.store, &scratch.owner, None).expect("a session");
    let page = Observation::message(Channel::Web, text);
    std::thread::scope(|scope| {
        let observing = scope.spawn(move || long.observe(page).wait().expect("an entry"));
        let mut longest = Duration::ZERO;
        while !observing.is_finished() {
            let start = Instant::now();
            scratch
                .store
                .run::<_, custody_runtime::StoreError, _>(|_| Ok(()))
                .wait()
                .expect("a turn");
            longest = longest.max(start.elapsed());
        }
        longest
    })
}

criterion_group!(benches, observe, turn);
criterion_main!(benches);
