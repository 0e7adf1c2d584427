//! Kills at every point: what was acknowledged is there afterwards, and what is not there was never
//! acknowledged. The files are put together as a kill would have left them.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail it")]

mod common;

use std::fs;
use std::path::PathBuf;

use common::wreck::Wreck;
use common::{FREE, Scratch, hears, key, shared, wal_of, writes};
use custody_kernel::label::Channel;
use custody_keys::HumanKey;
use custody_runtime::clock::Clock;
use custody_runtime::store::{Tampering, Ticket};
use custody_runtime::{OpenError, Paths, PrincipalError, Session, Store, StoreError};
use custody_verify::verify_ledger;

const PAGE: usize = 4096;
const FRAME: usize = PAGE + 24;
const WAL_HEADER: usize = 32;

/// What stood on disk when something was acknowledged.
struct Acknowledged {
    wal_bytes: usize,
    head: Vec<u8>,
    records: u64,
    value: String,
}

/// A store in which each of a few writes was acknowledged, with its files as they are at the end.
struct Run {
    scratch: Scratch,
    acknowledged: Vec<Acknowledged>,
    database: Vec<u8>,
    wal: Vec<u8>,
}

impl Run {
    fn new(writes_count: usize) -> Self {
        let scratch = Scratch::new();
        let session = scratch.session_for_user("ada");
        hears(&session, Channel::User, "count");
        let database = fs::read(&scratch.paths.store).unwrap();
        let mut acknowledged = Vec::new();
        for number in 0..writes_count {
            let value = number.to_string();
            writes(&session, "count", &value);
            acknowledged.push(Acknowledged {
                wal_bytes: fs::read(wal_of(&scratch.paths.store)).unwrap().len(),
                head: fs::read(scratch.head_path()).unwrap(),
                records: scratch.store.root().unwrap().0,
                value,
            });
        }
        let wal = fs::read(wal_of(&scratch.paths.store)).unwrap();
        assert_eq!(fs::read(&scratch.paths.store).unwrap(), database, "nothing was checkpointed");
        Self { scratch, acknowledged, database, wal }
    }
}

/// Every byte of the last two frames and around every boundary, and a stride before them.
fn cuts(wal: usize) -> Vec<usize> {
    let boundaries = (WAL_HEADER..=wal).step_by(FRAME);
    let around = boundaries.flat_map(|at| [at - 1, at, at + 1]);
    let last = wal - 2 * FRAME..wal;
    let mut cuts: Vec<usize> = [0, 1, 24, 31]
        .into_iter()
        .chain(around)
        .chain(last)
        .chain((0..wal).step_by(1_777))
        .collect();
    cuts.retain(|cut| *cut <= wal);
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

#[test]
fn wherever_the_log_is_cut_off_no_acknowledged_write_is_lost_and_no_shorter_log_is_accepted() {
    let run = Run::new(5);
    let wreck = Wreck::of(&run.scratch);
    for cut in cuts(run.wal.len()) {
        let wal = &run.wal[..cut];
        let whole = run.acknowledged.iter().rposition(|ack| ack.wal_bytes <= cut);
        for (number, ack) in run.acknowledged.iter().enumerate() {
            // The head of the last whole group, its neighbours, and the very last.
            let near = whole.map_or(number == 0, |whole| number.abs_diff(whole) <= 1);
            if !near && number + 1 != run.acknowledged.len() {
                continue;
            }
            wreck.put(&run.database, wal, &ack.head);
            match (wreck.open(), whole.filter(|whole| *whole >= number)) {
                (Ok(store), Some(whole)) => {
                    let reached = &run.acknowledged[whole];
                    assert_eq!(store.root().unwrap().0, reached.records, "cut at {cut}");
                    let behind = reached.records - ack.records;
                    assert_eq!(store.unacknowledged(), behind, "cut at {cut}, head {number}");
                    let values = store.values(&shared()).unwrap();
                    assert_eq!(values[&key("count")], reached.value.as_bytes());
                }
                (
                    Err(OpenError::Store(StoreError::Tampered(Tampering::BehindHead { .. }))),
                    None,
                ) => {}
                (outcome, expected) => {
                    panic!("cut at {cut}, head {number}, whole {expected:?}: {outcome:?}")
                }
            }
        }
    }
    drop(wreck.folder);
}

#[test]
fn a_head_torn_at_any_byte_leaves_the_one_before_it() {
    let run = Run::new(2);
    let wreck = Wreck::of(&run.scratch);
    let (before, after) = (&run.acknowledged[0], &run.acknowledged[1]);
    let changed: Vec<usize> =
        (0..2).filter(|slot| slot_of(&before.head, *slot) != slot_of(&after.head, *slot)).collect();
    let [slot] = changed[..] else { panic!("one slot is written at a time: {changed:?}") };
    // Behind its text a slot is padding, which is the same in both.
    let text = slot_of(&after.head, slot).iter().rposition(|byte| *byte != b'\n').unwrap() + 2;
    for torn in 0..=text {
        let mut head = before.head.clone();
        head[slot * 1024..slot * 1024 + torn].copy_from_slice(&slot_of(&after.head, slot)[..torn]);
        wreck.put(&run.database, &run.wal, &head);
        let store = wreck.open().unwrap_or_else(|error| panic!("torn at {torn}: {error:?}"));
        assert_eq!(store.root().unwrap().0, after.records, "torn at {torn}");
        assert!(store.unacknowledged() <= 1, "torn at {torn}");
        assert_eq!(store.values(&shared()).unwrap()[&key("count")], b"1");
    }
}

impl Run {
    fn owner(&self, store: &Store) -> custody_kernel::principal::Authority {
        store.authenticate("owner", &self.scratch.owner_key).unwrap()
    }
}

fn slot_of(head: &[u8], slot: usize) -> &[u8] {
    &head[slot * 1024..(slot + 1) * 1024]
}

/// The cause: the slot with the smaller *claimed* size was replaced, which after a torn write is the
/// only one that still verifies.
#[test]
fn the_next_head_replaces_the_torn_one_and_not_the_one_that_still_stands() {
    let run = Run::new(2);
    let wreck = Wreck::of(&run.scratch);
    let (before, after) = (&run.acknowledged[0], &run.acknowledged[1]);
    let torn =
        (0..2).find(|slot| slot_of(&before.head, *slot) != slot_of(&after.head, *slot)).unwrap();
    let mut head = after.head.clone();
    // The size was written, the signature was not.
    let signature = slot_of(&head, torn).windows(2).position(|two| two == b"\n\n").unwrap();
    head[torn * 1024 + signature..(torn + 1) * 1024].fill(b'?');
    wreck.put(&run.database, &run.wal, &head);
    let store = wreck.open().unwrap();
    store.set_limits(&run.owner(&store), FREE).unwrap();
    let now = fs::read(wreck.paths.keys.join("head")).unwrap();
    assert_eq!(slot_of(&now, 1 - torn), slot_of(&head, 1 - torn), "kept until the new one stands");
    assert_ne!(slot_of(&now, torn), slot_of(&head, torn));
}

#[test]
fn a_founding_that_was_interrupted_anywhere_can_be_begun_again_or_opened() {
    type Leaves = fn(&Scratch, &Paths);
    let remains: [(&str, Leaves); 5] = [
        ("nothing but a folder", |_, paths| fs::create_dir_all(&paths.keys).unwrap()),
        ("a log key not yet in force", |from, paths| {
            fs::create_dir_all(&paths.keys).unwrap();
            fs::copy(from.paths.keys.join("log.key"), paths.keys.join("log.key.next")).unwrap();
        }),
        ("a log key", |from, paths| {
            fs::create_dir_all(&paths.keys).unwrap();
            fs::copy(from.paths.keys.join("log.key"), paths.keys.join("log.key")).unwrap();
        }),
        ("a log key and half a blank head", |from, paths| {
            fs::create_dir_all(&paths.keys).unwrap();
            fs::copy(from.paths.keys.join("log.key"), paths.keys.join("log.key")).unwrap();
            fs::write(paths.keys.join("head"), "\n").unwrap();
        }),
        ("tables, a log key and a blank head", |from, paths| {
            fs::create_dir_all(&paths.keys).unwrap();
            fs::copy(from.paths.keys.join("log.key"), paths.keys.join("log.key")).unwrap();
            fs::write(paths.keys.join("head"), [b'\n'; 2048]).unwrap();
            from.copy_database(&paths.store);
            let raw = rusqlite::Connection::open(&paths.store).unwrap();
            raw.execute_batch("DELETE FROM log; DELETE FROM checkpoints; DELETE FROM edges")
                .unwrap();
            raw.execute_batch("DELETE FROM contents").unwrap();
        }),
    ];
    let from = Scratch::new();
    for (name, leave) in remains {
        let folder = tempfile::tempdir().unwrap();
        let paths =
            Paths { store: folder.path().join("custody.db"), keys: folder.path().join("keys") };
        leave(&from, &paths);
        let opened = Store::open(&paths, Clock::manual(1));
        assert!(matches!(opened, Err(OpenError::NoKeys(_))), "{name}: {opened:?}");
        let owner_key = HumanKey::generate();
        let store = Store::create(&paths, "owner", &owner_key, FREE, Clock::manual(1)).unwrap();
        verify_ledger(&store).unwrap();
        drop(store);
        verify_ledger(&Store::open(&paths, Clock::manual(1)).unwrap()).unwrap();
    }
}

#[test]
fn a_founding_killed_before_its_first_head_opens_and_is_not_founded_twice() {
    let folder = tempfile::tempdir().unwrap();
    let paths = Paths { store: folder.path().join("custody.db"), keys: folder.path().join("keys") };
    let owner_key = HumanKey::generate();
    let found = || Store::create(&paths, "owner", &owner_key, FREE, Clock::manual(1));
    drop(found().unwrap());
    let head = paths.keys.join("head");
    fs::write(&head, [b'\n'; 2048]).unwrap();
    assert!(
        matches!(found(), Err(OpenError::Store(StoreError::NoHead(_)))),
        "there is a store already"
    );
    let store = Store::open(&paths, Clock::manual(1)).unwrap();
    assert_eq!(store.unacknowledged(), 1);
    assert_ne!(fs::read(&head).unwrap(), [b'\n'; 2048], "the founding is finished");
    drop(store);
    assert_eq!(Store::open(&paths, Clock::manual(1)).unwrap().unacknowledged(), 0);
    assert!(matches!(found(), Err(OpenError::KeysExist(_))));
}

fn log_keys(scratch: &Scratch) -> [PathBuf; 2] {
    ["log.key", "log.key.next"].map(|name| scratch.paths.keys.join(name))
}

#[test]
fn a_key_rotation_killed_anywhere_is_either_not_begun_or_finished() {
    let scratch = Scratch::new();
    let [in_force, next] = log_keys(&scratch);
    let stray = Scratch::new();
    let [stray_key, _] = log_keys(&stray);

    // Killed before the commit: a next key that nothing asks for.
    fs::copy(&stray_key, &next).unwrap();
    verify_ledger(&scratch.reopen().unwrap()).unwrap();
    let before = fs::read(&in_force).unwrap();
    scratch.store.rotate_log_key(&scratch.owner, &scratch.owner_key).unwrap();
    let after = fs::read(&in_force).unwrap();
    assert!(before != after && !next.exists());

    // Killed after the commit: the key that signs is not in force yet.
    fs::write(&next, &after).unwrap();
    fs::write(&in_force, &before).unwrap();
    let store = scratch.reopen().unwrap();
    assert!(fs::read(&in_force).unwrap() == after && !next.exists(), "finished by opening");
    store.set_limits(&scratch.owner, FREE).unwrap();
    verify_ledger(&store).unwrap();

    // The same, found by a process that was open all the while and wants to rotate again.
    fs::write(&next, &after).unwrap();
    fs::write(&in_force, &before).unwrap();
    scratch.store.rotate_log_key(&scratch.owner, &scratch.owner_key).unwrap();
    verify_ledger(&scratch.reopen().unwrap()).unwrap();
}

#[test]
fn a_rotation_under_another_key_than_the_owner_s_is_refused_before_anything_is_written() {
    let scratch = Scratch::new();
    let before = scratch.store.root().unwrap();
    let other = HumanKey::generate();
    let rotated = scratch.store.rotate_log_key(&scratch.owner, &other);
    assert!(matches!(rotated, Err(PrincipalError::Proof(_))), "{rotated:?}");
    assert_eq!(scratch.store.root().unwrap(), before);
}

#[test]
fn work_that_panics_or_gives_up_half_way_undoes_its_group_and_nothing_else() {
    let scratch = Scratch::new();
    let session: Session = scratch.session_for_user("ada");
    hears(&session, Channel::User, "hello");
    writes(&session, "greeting", "hello");
    let before = scratch.store.root().unwrap();
    let owner = scratch.owner.clone();
    let panics = scratch.store.run(move |step| -> Result<(), StoreError> {
        step.administer(
            owner,
            custody_kernel::record::AdminRequest::SetLimits(FREE),
            None,
            Vec::new(),
        )?;
        panic!("half-way, on purpose");
    });
    assert!(panics.wait().is_err());
    assert_eq!(scratch.store.root().unwrap(), before);
    let owner = scratch.owner.clone();
    let gives_up = scratch.store.run(move |step| -> Result<(), StoreError> {
        step.administer(
            owner,
            custody_kernel::record::AdminRequest::SetLimits(FREE),
            None,
            Vec::new(),
        )?;
        Err(StoreError::HalfWay)
    });
    assert!(gives_up.wait().is_err());
    assert_eq!(scratch.store.root().unwrap(), before);
    writes(&session, "greeting", "hello again");
    verify_ledger(&scratch.store).unwrap();
    verify_ledger(&scratch.reopen().unwrap()).unwrap();
}

#[test]
fn the_last_handle_of_a_store_may_be_dropped_by_its_own_work() {
    let scratch = Scratch::new();
    let Scratch { store, folder, .. } = scratch;
    let last = store.clone();
    let (begun, begins) = std::sync::mpsc::channel::<()>();
    let ticket: Ticket<()> = store.run(move |_| {
        begins.recv().expect("the other handle is dropped first");
        drop(last);
        Ok(())
    });
    drop(store);
    begun.send(()).unwrap();
    ticket.wait().unwrap();
    drop(folder);
}
