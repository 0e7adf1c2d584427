//! Several processes on one store: this very test program, started again.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail it")]

mod common;

use common::{Scratch, Talk, answer, child_command, hears, key, listen, shared, tell, writes};
use custody_kernel::label::Channel;
use custody_kernel::memory::item::Mode;
use custody_kernel::memory::refusal::Refusal;
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::Role;
use custody_kernel::record::{AdminRequest, Answer};
use custody_keys::Existing;
use custody_runtime::session::Write;
use custody_runtime::{Session, Store};
use custody_verify::verify_ledger;

const PASSPHRASE: &str = "correct horse";

#[test]
#[ignore = "run by other tests, in a process of its own"]
fn child() {
    let Some((role, store, session)) = common::child() else { return };
    hears(&session, Channel::User, "hello");
    answer("ready");
    match role.as_str() {
        "counter" => count(&session),
        "approver" => approve(&store),
        "writer" => write(&session),
        "rotator" => rotate(&store),
        other => panic!("`{other}` is no role"),
    }
}

fn start(scratch: &Scratch, name: &str, role: &str) -> Talk {
    let (_, token) = scratch.add(name, Role::User);
    let program = std::env::current_exe().unwrap();
    let mut command = child_command(program.to_str().unwrap(), role);
    tell(&mut command, &scratch.paths, &token);
    let mut talk = Talk::start(command);
    assert_eq!(talk.hear(), "ready");
    talk
}

const COUNTS: usize = 100;

fn count(session: &Session) {
    let own = listen().unwrap();
    for number in 0..COUNTS {
        writes(session, "counter", &format!("{own} {number}"));
        writes(session, &own, &number.to_string());
    }
    answer("done");
}

/// (R22) Nor do threads: whatever writes passes through one, and every reader has a connection of its own or waits.
#[test]
fn two_processes_that_write_the_same_key_lose_no_version() {
    let scratch = Scratch::new();
    let mut children = ["ada", "bob"].map(|name| (name, start(&scratch, name, "counter")));
    for (name, child) in &mut children {
        child.say(name);
    }
    for (_, child) in &mut children {
        assert_eq!(child.hear(), "done");
    }
    for (name, child) in children {
        child.finish();
        assert_eq!(scratch.store.history(&shared(), &key(name)).unwrap().len(), COUNTS);
        let values = scratch.store.values(&shared()).unwrap();
        assert_eq!(values[&key(name)], (COUNTS - 1).to_string().as_bytes());
    }
    assert_eq!(scratch.store.history(&shared(), &key("counter")).unwrap().len(), 2 * COUNTS);
    let report = verify_ledger(&scratch.store).unwrap();
    assert_eq!(verify_ledger(&scratch.reopen().unwrap()).unwrap(), report);
}

/// Approves what it is told to, under the owner's key, and says how it went.
fn approve(store: &Store) {
    let owner_key = store.keys().unlock("owner", PASSPHRASE).unwrap();
    let owner = store.authenticate("owner", &owner_key).unwrap();
    answer("unlocked");
    while let Some(id) = listen() {
        let proposal = id.parse().unwrap();
        let value = store.state(|state| state.pending_by_id(proposal).map(|pending| pending.value));
        // Gone already, if the other was quicker.
        let shown = value.unwrap().flatten().map(|value| value.commitment);
        let receipt = store.approve(&owner, proposal, shown).unwrap();
        answer(match receipt.answer.refusal() {
            None => receipt.answer.word(),
            Some(Refusal::NotPending { .. }) => "not pending",
            Some(_) => "something else",
        });
    }
}

#[test]
fn of_two_processes_that_approve_the_same_proposal_exactly_one_succeeds() {
    let scratch = Scratch::new();
    let keys = scratch.store.keys();
    keys.store_human_cheaply("owner", &scratch.owner_key, PASSPHRASE, Existing::Keep).unwrap();
    let session = scratch.session_for_user("eve");
    hears(&session, Channel::Web, "a page");
    let mut children = ["ada", "bob"].map(|name| start(&scratch, name, "approver"));
    for child in &mut children {
        assert_eq!(child.hear(), "unlocked");
    }
    for round in 0..25 {
        let name = format!("item-{round}");
        let write = Write::new(Scope::Shared, key(&name), "from the page");
        let proposed = session.write(Write { queue: true, ..write }).wait().unwrap();
        assert!(matches!(proposed.answer, Answer::Pending { .. }), "{proposed:?}");
        for child in &mut children {
            child.say(&proposed.id.to_string());
        }
        let mut answers = children.each_mut().map(Talk::hear);
        answers.sort_unstable();
        assert_eq!(answers, ["accepted", "not pending"], "round {round}");
        assert_eq!(scratch.store.history(&shared(), &key(&name)).unwrap().len(), 1);
    }
    children.into_iter().for_each(Talk::finish);
    verify_ledger(&scratch.store).unwrap();
}

/// Writes each key it is told, and says what came of it.
fn write(session: &Session) {
    while let Some(name) = listen() {
        let write = Write::new(Scope::Shared, key(&name), "x");
        answer(session.write(write).wait().unwrap().answer.word());
    }
}

#[test]
fn a_key_that_one_process_locks_is_locked_for_the_next_write_of_another() {
    let scratch = Scratch::new();
    let mut child = start(&scratch, "ada", "writer");
    for round in 0..20 {
        let name = format!("item-{round}");
        child.say(&name);
        assert_eq!(child.hear(), "accepted");
        let (tenant, scope) = (Tenant::main(), Scope::Shared);
        let lock = AdminRequest::SetMode { tenant, scope, key: key(&name), mode: Mode::Immutable };
        assert_eq!(scratch.store.ask(&scratch.owner, lock).unwrap().answer, Answer::Done);
        child.say(&name);
        assert_eq!(child.hear(), "refused", "not decided on what the item was before");
    }
    child.finish();
}

/// Rotates the log key as often as it is told to.
fn rotate(store: &Store) {
    let owner_key = store.keys().unlock("owner", PASSPHRASE).unwrap();
    let owner = store.authenticate("owner", &owner_key).unwrap();
    answer("unlocked");
    while listen().is_some() {
        let receipt = store.rotate_log_key(&owner, &owner_key).unwrap();
        answer(receipt.answer.word());
    }
}

#[test]
fn the_log_key_is_rotated_by_two_processes_while_a_third_writes() {
    let scratch = Scratch::new();
    let keys = scratch.store.keys();
    keys.store_human_cheaply("owner", &scratch.owner_key, PASSPHRASE, Existing::Keep).unwrap();
    let mut rotators = ["ada", "bob"].map(|name| start(&scratch, name, "rotator"));
    for child in &mut rotators {
        assert_eq!(child.hear(), "unlocked");
    }
    let mut writer = start(&scratch, "cy", "writer");
    let session = scratch.session_for_user("dan");
    hears(&session, Channel::User, "hello");
    for round in 0..15 {
        for child in &mut rotators {
            child.say("rotate");
        }
        for part in 0..5 {
            writer.say(&format!("item-{round}-{part}"));
            writes(&session, &format!("mine-{round}-{part}"), "x");
            assert_eq!(writer.hear(), "accepted");
        }
        for child in &mut rotators {
            assert_eq!(child.hear(), "accepted");
        }
    }
    rotators.into_iter().for_each(Talk::finish);
    writer.finish();
    let report = verify_ledger(&scratch.store).unwrap();
    let reopened = scratch.reopen().unwrap();
    assert_eq!(verify_ledger(&reopened).unwrap(), report);
    assert_eq!(reopened.unacknowledged(), 0);
}

/// The cause: a reader that found newer rows asked the writer to catch up and looked again, for as long
/// as others went on writing; and it took what they added meanwhile for tampering.
#[test]
fn a_reader_comes_to_an_end_and_sees_one_moment_while_another_process_writes() {
    let scratch = Scratch::new();
    let mut child = start(&scratch, "ada", "counter");
    child.say("ada");
    let mut seen = 0;
    while seen < 2 * COUNTS as u64 {
        let report = verify_ledger(&scratch.store).unwrap();
        assert!(report.records >= seen);
        seen = report.records;
        scratch.reopen().unwrap().values(&shared()).unwrap();
    }
    assert_eq!(child.hear(), "done");
    child.finish();
}
