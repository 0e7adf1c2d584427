//! A store and a certificate of record format 1, as the program wrote them before its crates were cut apart.
//!
//! The files under `stores/format1` are never made again: what they hold must stay readable. `stores/format1/README.md`
//! says what is in them.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::{Home, OWNER_PASSPHRASE, Ran};
use serde_json::Value;

/// The public key of the fixture's owner.
const OWNER: &str = "a6056d781a20ec68dea6fd19e2514a2b43c59422cd8d34bd8d4e896a5d4d00ee";
/// What `payments` held before it was poisoned.
const GOOD: &str = "Suppliers are paid on the last Friday of the month.";

/// A home with a copy of the old store, its keys and its certificate.
fn old_store() -> Home {
    let home = Home::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/format1"), &home.path());
    home
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target: PathBuf = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
            // Version control keeps no such modes, and keys that others may read are refused.
            fs::set_permissions(&target, Permissions::from_mode(0o700)).unwrap();
        } else {
            fs::copy(entry.path(), &target).unwrap();
            fs::set_permissions(&target, Permissions::from_mode(0o600)).unwrap();
        }
    }
}

/// The arguments that name the old store.
fn arguments<'a>(command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let store = ["--store", "custody.db", "--keys", "keys"];
    command.split(' ').chain(more.iter().copied()).chain(store).collect()
}

fn run(home: &Home, command: &str) -> Ran {
    home.alone(&arguments(command, &[]))
}

fn json(home: &Home, command: &str) -> Value {
    run(home, command).expect(0).json().remove(0)
}

#[test]
fn integrity_and_signatures_of_an_old_store_are_verified_and_its_unsigned_records_counted() {
    let home = old_store();
    let verified = json(&home, "ledger verify --json");
    assert_eq!(verified["verified"], true, "{verified}");
    for (what, count) in [
        ("records", 38),
        ("unsigned", 38),
        ("contents", 10),
        ("purged", 3),
        ("containments", 1),
        ("size", 38),
        ("head_size", 38),
    ] {
        assert_eq!(verified[what], count, "{what} in {verified}");
    }
    run(&home, "doctor").expect(0);
}

#[test]
fn an_old_store_that_was_changed_is_refused() {
    let home = old_store();
    let database = rusqlite::Connection::open(home.path().join("custody.db")).unwrap();
    let changed = database
        .execute(
            "UPDATE contents SET bytes = x'00' WHERE arrival = (SELECT min(arrival) FROM contents)",
            [],
        )
        .unwrap();
    assert_eq!(changed, 1);
    run(&home, "ledger verify").expect(1);
}

#[test]
fn an_old_certificate_verifies_alone_and_in_its_store() {
    let home = old_store();
    home.alone(&["cert", "verify", "certificate.json", "--key", OWNER]).expect(0);
    let verified = run(&home, "cert verify certificate.json").expect(0).stdout;
    assert!(verified.contains("42 of 42 claims hold, 0 fail, 0 cannot be told"), "{verified}");
}

#[test]
fn an_old_store_is_read_and_goes_on_once_its_owner_signs_what_stays() {
    let home = old_store();
    // Reading memory is an act of a session, and recorded; the record itself can be read.
    run(&home, "memory get payments").expect(2);
    run(&home, "ledger show").expect(0);
    let put = arguments("memory put", &["payments", "Suppliers are paid weekly.", "--as", "owner"]);
    let refused = home.typing(&put, &[OWNER_PASSPHRASE]).expect(2);
    assert!(refused.stderr.contains("custody ledger migrate"), "{refused:?}");

    let listed = json(&home, "ledger migrate --json");
    assert_eq!(listed["applied"], false);
    let claims: Vec<&str> = listed["claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| claim["claim"].as_str().unwrap())
        .collect();
    assert!(!claims.is_empty(), "{listed}");
    run(&home, "ledger migrate --apply --keep principal:nobody").expect(2);
    let migrate = arguments("ledger migrate", &["--apply", "--keep-all"]);
    home.typing(&migrate, &[OWNER_PASSPHRASE]).expect(0);
    run(&home, "ledger migrate").expect(2);
    assert_eq!(run(&home, "memory get payments").expect(0).stdout.trim_end(), GOOD);

    home.typing(&put, &[OWNER_PASSPHRASE]).expect(0);
    assert_eq!(
        run(&home, "memory get payments").expect(0).stdout.trim_end(),
        "Suppliers are paid weekly."
    );
    let verified = json(&home, "ledger verify --json");
    assert_eq!(verified["unsigned"], 38, "{verified}");
    assert_ne!(verified["records"], 38);
    run(&home, "cert verify certificate.json").expect(0);
}

#[test]
fn nobody_but_the_owner_ends_the_old_format() {
    let home = old_store();
    let before = json(&home, "ledger migrate --json");
    // Without a terminal nobody is proven; a refusal that was recorded would be a record of the new format.
    run(&home, "ledger migrate --apply").expect(2);
    run(&home, "ledger migrate --apply --keep-all").expect(2);
    assert_eq!(json(&home, "ledger migrate --json"), before);
    assert_eq!(json(&home, "ledger verify --json")["records"], 38);
}

#[test]
fn what_its_owner_does_not_sign_lapses() {
    let home = old_store();
    let claims = json(&home, "ledger migrate --json")["claims"].clone();
    let names = |kind: &str| {
        let all = claims.as_array().unwrap().iter();
        let names = all.map(|claim| claim["claim"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with(kind)).collect::<Vec<String>>()
    };
    home.typing(&arguments("ledger migrate", &["--apply"]), &[OWNER_PASSPHRASE]).expect(0);
    let left = run(&home, "principal list --json").expect(0).json();
    for principal in names("principal:") {
        let name = principal.trim_start_matches("principal:");
        assert!(left.iter().all(|row| row["name"] != name), "{name} in {left:?}");
    }
    for mode in names("mode:") {
        let key = mode.rsplit('/').next().unwrap();
        let put = arguments("memory put", &[key, "another", "--as", "owner"]);
        home.typing(&put, &[OWNER_PASSPHRASE]).expect(1);
    }
    run(&home, "ledger verify").expect(0);
}
