//! Memory and disk per entry, at 10⁶ entries.
//!
//! `cargo bench -p custody-runtime --bench footprint`. Fills a store with a million entries, opens it
//! again in a process of its own, and prints what that process holds and what the files take.

#![allow(clippy::print_stdout, reason = "printing is what it does")]

use std::path::Path;

use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Scope;
use custody_kernel::record::{ObservationKind, SessionRequest, Value};
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::scratch::Scratch;
use custody_runtime::store::{Content, Ticket};
use custody_runtime::{Paths, Session, Store};

const ENTRIES: u64 = 1_000_000;
const BATCH: u64 = 20_000;
/// One in ten entries writes an item of its own; the others are messages of the session.
const ITEMS: u64 = ENTRIES / 10;
const TEXT: &str = "Ada takes her tea without sugar, in the blue cup, at four in the afternoon.";

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    match (arguments.next(), arguments.next()) {
        (Some(store), Some(keys)) => measure(&Paths { store: store.into(), keys: keys.into() }),
        _ => fill(),
    }
}

fn fill() {
    let scratch = Scratch::new(Limits::UNLIMITED, Clock::System).expect("a scratch store");
    let session = Session::open(&scratch.store, &scratch.owner, None).expect("a session");
    session.observe(Observation::message(Channel::User, TEXT)).wait().expect("an entry");
    for batch in 0..ENTRIES / BATCH {
        fill_batch(&scratch.store, &session, batch);
    }
    let paths = &scratch.paths;
    let this = std::env::current_exe().expect("this program");
    let status = std::process::Command::new(this)
        .args([&paths.store, &paths.keys])
        .status()
        .expect("the measuring process");
    assert!(status.success(), "the measuring process failed");
}

fn fill_batch(store: &Store, session: &Session, batch: u64) {
    let id = session.id();
    let work = move |step: &mut custody_runtime::store::Transaction<'_>| {
        for number in batch * BATCH..(batch + 1) * BATCH {
            let content = Content::new(TEXT)?;
            let value = Value::New(content.commitment());
            let request = if number % (ENTRIES / ITEMS) == 0 {
                let key = format!("item/{number}").parse().expect("a key");
                SessionRequest::Write {
                    scope: Scope::Shared,
                    key,
                    value,
                    depends_on: vec![],
                    queue: false,
                }
            } else {
                let (kind, channel) = if number % 10 == 5 {
                    (ObservationKind::Completion, Channel::Model)
                } else {
                    (ObservationKind::Message, Channel::User)
                };
                let (origin, parents) = (None, vec![]);
                let content = Some(value);
                SessionRequest::Observe {
                    kind,
                    channel,
                    lowered: false,
                    content,
                    origin,
                    parents,
                    part: None,
                    discounted: Vec::new(),
                }
            };
            step.ask(id, request, Some(&content), vec![])?;
        }
        Ok(())
    };
    let ticket: Ticket<()> = store.run(work);
    ticket.wait().expect("a batch");
}

fn measure(paths: &Paths) {
    let before = resident_kib();
    let store = Store::open(paths, Clock::System).expect("opens");
    let entries = store.root().expect("a root").0;
    let held = resident_kib().saturating_sub(before) * 1024;
    let disk = size(&paths.store) + size(Path::new(&format!("{}-wal", paths.store.display())));
    println!("entries          {entries}");
    println!("items            {ITEMS}");
    println!("memory per entry {} bytes", held / entries);
    println!("disk per entry   {} bytes, of which {} are the text", disk / entries, TEXT.len());
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Resident memory of this process, from the kernel's own account.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or_default()
}
