//! Durable writes with audit, refused writes, opening a store.
//!
//! `cargo bench -p custody-runtime --bench store`. Every write is committed, synced, its signed head
//! written and synced, and only then acknowledged. For scale: the original's check + write + log takes
//! 20.7 µs in Python, in memory and not durable (docs/papers.md §2.5).
//!
//! `syncs` measures what this disk takes for the two syncs of a commit, and `one_write_cpu` what one
//! write costs when it shares a commit with a thousand others; the aim for 16 blocking writers is set
//! against those, in the same run.

use std::fs::File;
use std::hint::black_box;
use std::io::{Seek, SeekFrom, Write as _};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Scope;
use custody_kernel::record::{SessionRequest, Value};
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::scratch::Scratch;
use custody_runtime::session::Write;
use custody_runtime::store::{Content, Ticket};
use custody_runtime::{Session, Store};

const VALUE: &str = "Ada takes her tea without sugar, in the blue cup, at four in the afternoon.";

fn scratch() -> (Scratch, Session) {
    let scratch = Scratch::new(Limits::UNLIMITED, Clock::System).expect("a scratch store");
    let session = session(&scratch, Channel::User);
    (scratch, session)
}

fn session(scratch: &Scratch, channel: Channel) -> Session {
    let session = Session::open(&scratch.store, &scratch.owner, None).expect("a session");
    session.observe(Observation::message(channel, "hello")).wait().expect("an entry");
    session
}

fn put(number: u64) -> Write {
    let key = format!("item/{}", number % 1_000).parse().expect("a key");
    Write::new(Scope::Shared, key, VALUE)
}

/// `count` writes by `writers` threads that each wait for their own before the next.
fn blocking(session: &Session, writers: u64, count: u64) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let session = session.clone();
            scope.spawn(move || {
                for number in (writer..count).step_by(usize::try_from(writers).unwrap_or(1)) {
                    session.write(put(number)).wait().expect("a durable write");
                }
            });
        }
    });
    start.elapsed()
}

/// `count` writes, at most 512 of them under way at once.
fn in_flight(session: &Session, count: u64) -> Duration {
    let start = Instant::now();
    let mut waiting = std::collections::VecDeque::with_capacity(512);
    for number in 0..count {
        if waiting.len() == 512 {
            let oldest: Ticket<_> = waiting.pop_front().expect("512");
            black_box(oldest.wait().expect("a durable write"));
        }
        waiting.push_back(session.write(put(number)));
    }
    for ticket in waiting {
        black_box(ticket.wait().expect("a durable write"));
    }
    start.elapsed()
}

/// `count` writes in one commit: what a write costs without any sync of its own.
fn one_commit(store: &Store, session: &Session, count: u64) -> Duration {
    let id = session.id();
    let start = Instant::now();
    let work = move |step: &mut custody_runtime::store::Transaction<'_>| {
        for number in 0..count {
            let content = Content::new(VALUE)?;
            let request = SessionRequest::Write {
                scope: Scope::Shared,
                key: format!("item/{}", number % 1_000).parse().expect("a key"),
                value: Value::New(content.commitment()),
                depends_on: vec![],
                queue: false,
            };
            step.ask(id, request, Some(&content), vec![])?;
        }
        Ok(())
    };
    let ticket: Ticket<()> = store.run(work);
    ticket.wait().expect("one commit");
    start.elapsed()
}

fn writes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("durable_write");
    group.throughput(Throughput::Elements(1)).sample_size(20);
    group.measurement_time(Duration::from_secs(4));
    let (scratch, session) = scratch();
    group.bench_function("single_writer", |b| b.iter_custom(|n| blocking(&session, 1, n)));
    group.bench_function("16_blocking_writers", |b| {
        b.iter_custom(|n| blocking(&session, 16, n.max(16)).mul_f64(n as f64 / n.max(16) as f64));
    });
    group.bench_function("512_in_flight", |b| b.iter_custom(|n| in_flight(&session, n)));
    group.bench_function("one_write_cpu", |b| {
        b.iter_custom(|n| one_commit(&scratch.store, &session, n));
    });
    let tainted = self::session(&scratch, Channel::Web);
    group.bench_function("refused_single_writer", |b| {
        b.iter_custom(|n| blocking(&tainted, 1, n));
    });
    group.bench_function("refused_512_in_flight", |b| b.iter_custom(|n| in_flight(&tainted, n)));
    group.finish();
}

/// The two syncs of a commit, done bare: the size of a small group appended, and the head replaced.
fn syncs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sync");
    group.measurement_time(Duration::from_secs(2));
    let folder = tempfile::tempdir().expect("a folder");
    let mut data = File::create(folder.path().join("data")).expect("a file");
    group.bench_function("data", |b| {
        b.iter(|| {
            data.write_all(&[7; 5 * 4096]).and_then(|()| data.sync_data()).expect("a sync");
        });
    });
    let mut head = File::create(folder.path().join("head")).expect("a file");
    head.write_all(&[7; 2048]).and_then(|()| head.sync_all()).expect("a sync");
    group.bench_function("head", |b| {
        b.iter(|| {
            head.seek(SeekFrom::Start(0)).expect("a seek");
            head.write_all(&[7; 1024]).and_then(|()| head.sync_data()).expect("a sync");
        });
    });
    group.finish();
}

/// Opening verifies everything against the signed head; it is the one thing that grows with the store.
fn opening(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("open_and_verify");
    group.sample_size(10);
    for items in [1_000_u64, 100_000] {
        let (scratch, session) = scratch();
        let id = session.id();
        let filled: Ticket<()> = scratch.store.run(move |step| {
            for number in 0..items {
                let content = Content::new(VALUE)?;
                let request = SessionRequest::Write {
                    scope: Scope::Shared,
                    key: format!("item/{number}").parse().expect("a key"),
                    value: Value::New(content.commitment()),
                    depends_on: vec![],
                    queue: false,
                };
                step.ask(id, request, Some(&content), vec![])?;
            }
            Ok(())
        });
        filled.wait().expect("a filled store");
        group.bench_function(format!("{items}_items"), |b| {
            b.iter(|| black_box(Store::open(&scratch.paths, Clock::System).expect("opens")));
        });
        let key = "item/500".parse().expect("a key");
        group.bench_function(format!("read_in_{items}_items"), |b| {
            b.iter(|| {
                let item = scratch.store.state(|state| {
                    let shared = custody_kernel::namespace::Namespace::shared(
                        custody_kernel::namespace::Tenant::main(),
                    );
                    state.item(&shared, &key).and_then(|item| item.current)
                });
                let version = item.expect("a state").expect("a version");
                black_box(scratch.store.record(version.entry).expect("a checked record"));
                black_box(scratch.store.content(version.content).expect("a checked value"));
            });
        });
    }
    group.finish();
}

/// User and system time of this process, from the kernel's own account, in steps of 10 ms.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let fields = after_name.split_whitespace().skip(11).take(2);
    Duration::from_millis(fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
}

fn median_of(runs: u32, mut run: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..runs).map(|_| run()).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// How near 16 blocking writers come to 16 ÷ (data sync + head sync + 16 × CPU time of one write), all
/// measured here, one after the other. The CPU time is given in two ways: what a write adds to a commit,
/// and what the process spends on it in all, wake-ups of the writers included.
fn aim(_: &mut Criterion) {
    const WRITES: u64 = 20_000;
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = File::create(folder.path().join("data")).expect("a file");
    let mut timed = |bytes: &[u8], whole: bool| {
        median_of(400, || {
            if whole {
                file.seek(SeekFrom::Start(0)).expect("a seek");
            }
            let start = Instant::now();
            file.write_all(bytes).and_then(|()| file.sync_data()).expect("a sync");
            start.elapsed()
        })
    };
    let data = timed(&[7; 5 * 4096], false);
    let head = timed(&[7; 1024], true);
    let (scratch, session) = scratch();
    let adds = one_commit(&scratch.store, &session, WRITES) / 20_000;
    let before = cpu_time();
    let wall = blocking(&session, 16, WRITES);
    let spends = (cpu_time() - before) / 20_000;
    let rate = WRITES as f64 / wall.as_secs_f64();
    println!("16 blocking writers: {rate:.0}/s; data sync {data:?}, head sync {head:?}");
    for (name, cpu) in [("adds to a commit", adds), ("costs the process", spends)] {
        let ideal = 16.0 / (data + head + cpu * 16).as_secs_f64();
        let share = 100.0 * rate / ideal;
        println!("  a write {name} {cpu:?}: {share:.0} % of {ideal:.0}/s");
    }
}

criterion_group!(benches, syncs, writes, opening, aim);
criterion_main!(benches);
