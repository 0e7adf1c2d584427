//! What one session costs as it grows to 10⁵ entries: observing, proposing, the disk, another tenant's wait, and the
//! verification of the whole store.
//!
//! `cargo bench -p custody-runtime --bench growth`. `CUSTODY_BENCH_ENTRIES=10000` ends at fewer entries. The texts:
//! random words, answers of one API, pages of one character (G8), and random words of which every second text is the
//! model's, made from all before it. Each step is durable before the next.

#![allow(clippy::print_stdout, reason = "printing is what it does")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use custody_arguments::Arguments;
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::{Authority, Role};
use custody_policy::Manifests;
use custody_runtime::Session;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::principals::NewPrincipal;
use custody_runtime::scratch::Scratch;
use custody_runtime::tools::{Decision, Gate};
use custody_verify::verify_ledger;

const SIZES: [u64; 4] = [100, 1_000, 10_000, 100_000];
/// Steps that are timed at each size.
const TIMED: u64 = 200;
/// Observations that are on their way while a session is filled.
const AHEAD: usize = 64;
const TOOLS: &str =
    r#"tools.read_page = { effect = "reads", arguments = { url = { sink = "url" } } }"#;
const REQUEST: &str = "Read https://prices.example/tea and tell me what it costs.";
const CALL: &str = r#"{"url": "https://prices.example/tea"}"#;

/// A kind of session: its name, and the step with each number.
struct Kind {
    name: &'static str,
    step: fn(u64) -> Observation,
}

const KINDS: [Kind; 4] = [
    Kind { name: "random", step: |number| page(words(number)) },
    Kind { name: "json", step: |number| page(answer(number)) },
    Kind { name: "hostile", step: |number| page(repeated(number)) },
    Kind {
        name: "completions",
        step: |number| match number % 2 {
            0 => page(words(number)),
            _ => Observation::completion(words(number)),
        },
    },
];

fn page(text: String) -> Observation {
    Observation::message(Channel::Web, text)
}

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

fn main() {
    let most = std::env::var("CUSTODY_BENCH_ENTRIES").ok();
    let most = most.map_or(SIZES[3], |most| most.parse().expect("a number of entries"));
    println!(
        "| texts | entries | observe: median, 99 % | propose: median, 99 % | disk a proposal |"
    );
    println!("| --- | ---: | ---: | ---: | ---: |");
    let mut verified = Vec::new();
    for kind in &KINDS {
        let grown = Grown::new(kind);
        verified.push(grown.grow(most));
    }
    println!("\n| texts | records | verified in | another tenant's write: median, 99 % |");
    println!("| --- | ---: | ---: | ---: |");
    verified.iter().for_each(|row| println!("{row}"));
    println!(
        "\nlongest wait of another session while 3 MB are observed: {:.1?}",
        three_megabytes()
    );
}

/// A session that grows, beside another tenant.
struct Grown<'a> {
    kind: &'a Kind,
    scratch: Scratch,
    session: Session,
    other: Authority,
    gate: Gate,
}

impl<'a> Grown<'a> {
    fn new(kind: &'a Kind) -> Self {
        let scratch = Scratch::new(Limits::UNLIMITED, Clock::System).expect("a scratch store");
        let session = Session::open(&scratch.store, &scratch.owner, None).expect("a session");
        session.observe(Observation::message(Channel::User, REQUEST)).wait().expect("an entry");
        let gate = Gate::new(Manifests::parse(TOOLS).expect("a manifest"), None);
        let other = tenant(&scratch);
        Self { kind, scratch, session, other, gate }
    }

    /// Fills the session size by size, prints a line for each, and returns the line about the whole store.
    fn grow(&self, most: u64) -> String {
        let mut number = 0;
        for size in SIZES.into_iter().filter(|size| *size <= most) {
            self.fill(number, size);
            number = size.max(number);
            let observe = timed(|| {
                number += 1;
                self.session.observe((self.kind.step)(number)).wait().expect("an entry");
            });
            // The first call names all that was read since the last one, as one context.
            self.propose();
            let before = self.disk();
            let propose = timed(|| self.propose());
            let disk = self.disk().saturating_sub(before) / TIMED;
            println!("| {} | {size} | {observe} | {propose} | {disk} bytes |", self.kind.name);
        }
        let waits = self.others_waits(&mut number);
        let records = self.scratch.store.root().expect("a root").0;
        let start = Instant::now();
        verify_ledger(&self.scratch.store).expect("a sound store");
        let seconds = start.elapsed().as_secs_f64();
        format!("| {} | {records} | {seconds:.1} s | {waits} |", self.kind.name)
    }

    fn propose(&self) {
        let arguments = Arguments::parse(CALL).expect("arguments");
        let decision = self.session.propose(&self.gate, "read_page", arguments);
        let decision = decision.expect("a decision");
        assert!(matches!(decision, Decision::Allow(_)), "the user named the address");
    }

    fn fill(&self, from: u64, to: u64) {
        let mut ahead = std::collections::VecDeque::with_capacity(AHEAD);
        for number in from..to {
            ahead.push_back(self.session.observe((self.kind.step)(number)));
            if ahead.len() == AHEAD {
                drop(ahead.pop_front().map(|ticket| ticket.wait().expect("an entry")));
            }
        }
        for ticket in ahead {
            ticket.wait().expect("an entry");
        }
    }

    /// What another tenant waits for one write, while this session observes one text after the other.
    fn others_waits(&self, number: &mut u64) -> Times {
        let theirs = Session::open(&self.scratch.store, &self.other, None).expect("a session");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let mut waits = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let note = Observation::message(Channel::User, words(waits.len() as u64));
                    let start = Instant::now();
                    theirs.observe(note).wait().expect("an entry");
                    waits.push(start.elapsed());
                    std::thread::sleep(Duration::from_millis(2));
                }
                Times::of(waits)
            });
            for _ in 0..10 * TIMED {
                *number += 1;
                self.session.observe((self.kind.step)(*number)).wait().expect("an entry");
            }
            is_over.store(true, Ordering::Relaxed);
            writing.join().expect("the other tenant")
        })
    }

    /// The bytes of the store that are in use: what the full-text index frees when it merges its parts is not.
    fn disk(&self) -> u64 {
        let connection = rusqlite::Connection::open(&self.scratch.paths.store).expect("a database");
        let count = |name: &str| -> u64 {
            let pages = connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            pages.expect("a count").unsigned_abs()
        };
        (count("page_count") - count("freelist_count")) * count("page_size")
    }
}

/// A user of another tenant.
fn tenant(scratch: &Scratch) -> Authority {
    let new = NewPrincipal {
        name: "other",
        role: Role::User,
        tenant: "other".parse::<Tenant>().expect("a tenant"),
        public_key: None,
        with_token: true,
    };
    let (_, token) = scratch.store.add_principal(&scratch.owner, new).expect("a principal");
    scratch.store.authenticate_token(&token.expect("a token")).expect("an authority")
}

/// How long a step took, over many.
struct Times {
    median: Duration,
    slowest_hundredth: Duration,
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let last = times.len() - 1;
        Self { median: times[last / 2], slowest_hundredth: times[last * 99 / 100] }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2?}, {:.2?}", self.median, self.slowest_hundredth)
    }
}

fn timed(mut step: impl FnMut()) -> Times {
    let times = (0..TIMED).map(|_| {
        let start = Instant::now();
        step();
        start.elapsed()
    });
    Times::of(times.collect())
}

/// How long another session's turn waits at most while a text of 3 MB is observed.
fn three_megabytes() -> Duration {
    let scratch = Scratch::new(Limits::UNLIMITED, Clock::System).expect("a scratch store");
    let long = Session::open(&scratch.store, &scratch.owner, None).expect("a session");
    let text: String = (0..7_000).map(words).collect();
    std::thread::scope(|scope| {
        let observing = scope.spawn(move || long.observe(page(text)).wait().expect("an entry"));
        let mut longest = Duration::ZERO;
        while !observing.is_finished() {
            let start = Instant::now();
            let turn = scratch.store.run::<_, custody_runtime::StoreError, _>(|_| Ok(()));
            turn.wait().expect("a turn");
            longest = longest.max(start.elapsed());
        }
        longest
    })
}
