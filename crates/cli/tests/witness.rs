//! `custody witness`, `custody ledger cosign` and `custody ledger verify --witness` (G3), with real witnesses, on
//! stores that were rolled back, cut and forked by somebody who has the log key.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
#[allow(dead_code, unreachable_pub, reason = "the laboratory forges in more ways")]
#[path = "../../../lab/src/memory/forgery/forger.rs"]
mod forger;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::witness::Witness;
use common::{Home, OWNER_PASSPHRASE, Ran};
use serde_json::Value;

fn run(home: &Home, command: &str) -> Ran {
    home.alone(&command.split(' ').collect::<Vec<_>>())
}

/// A store with a pinned witness that cosigned it. `custody witness add` was typed by the owner.
fn witnessed() -> (Home, Witness) {
    let home = Home::founded();
    let witness = home.witness("w1");
    pin(&home, "notary", &witness);
    run(&home, "ledger cosign").expect(0);
    (home, witness)
}

fn pin(home: &Home, name: &str, witness: &Witness) {
    let add = ["witness", "add", name, "--url", &witness.url, "--key", &witness.key];
    home.typing(&add, &[OWNER_PASSPHRASE]).expect(0);
}

/// Adds some records.
fn live_on(home: &Home, text: &str) {
    let put = ["memory", "put", "notes/plan", text, "--as", "owner"];
    home.typing(&put, &[OWNER_PASSPHRASE]).expect(0);
}

/// Every file of the store and of its keys.
fn copy(home: &Home) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    collect(&home.path().join("data"), &mut files);
    collect(&home.path().join("state"), &mut files);
    files
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
}

/// Puts back what was copied, and removes what came later, but for the files for which `keep` holds.
fn restore(home: &Home, copied: &BTreeMap<PathBuf, Vec<u8>>, keep: impl Fn(&Path) -> bool) {
    for path in copy(home).into_keys().filter(|path| !keep(path) && !copied.contains_key(path)) {
        std::fs::remove_file(path).unwrap();
    }
    for (path, bytes) in copied.iter().filter(|(path, _)| !keep(path)) {
        std::fs::write(path, bytes).unwrap();
    }
}

/// What `ledger verify --witness` finds: the status of the only witness, and the sentence.
fn finds(home: &Home) -> (String, String) {
    let told = run(home, "ledger verify --witness --json").expect(1).json()[0].clone();
    assert_eq!(told["verified"], false, "{told:#}");
    let status = told["witnesses"][0]["status"].as_str().unwrap().to_owned();
    (status, told["finding"].as_str().unwrap().to_owned())
}

fn size(home: &Home) -> u64 {
    run(home, "keys show --json").json()[0]["founded"]["records"].as_u64().unwrap()
}

#[test]
fn g3_a_witness_confirms_a_store_as_far_as_it_saw_it() {
    let (home, witness) = witnessed();
    insta::assert_snapshot!(run(&home, "ledger verify").expect(0).text(&home), @r"
    verified: the record is the one that was signed.
      records   1, each decided again with the same answer, signatures included
      contents  0, each matching its commitment
      edges     0, as the records name them
      root      DIGEST
      head      over 1 of 1 record
                VKEY
      witness   `notary` not asked; add --witness
    ");
    live_on(&home, "Meet on Tuesday");
    let said = run(&home, "ledger verify --witness").expect(0).text(&home);
    insta::assert_snapshot!(said.lines().last().unwrap().trim(), @"witness   `notary` cosigned 1 of 5 records at TIME");
    insta::assert_snapshot!(run(&home, "ledger cosign").expect(0).text(&home), @"cosigned: `notary` over 5 records");
    let told = run(&home, "ledger verify --witness --json").expect(0).json()[0].clone();
    let [Value::Object(checked)] = &told["witnesses"].as_array().unwrap()[..] else {
        panic!("{told:#}")
    };
    assert_eq!((&checked["status"], &checked["name"]), (&"checked".into(), &"notary".into()));
    assert_eq!(
        (checked["witnessed"].clone(), checked["size"].clone()),
        (told["size"].clone(), told["size"].clone())
    );

    // The cosigned head is a C2SP checkpoint with two signatures, beside the head.
    let note = std::fs::read_to_string(home.keys().join("cosigned/notary")).unwrap();
    let cosigner: custody_log::CosignerKey = witness.key.parse().unwrap();
    assert_eq!(cosigner.verify(&note).unwrap().checkpoint.size, size(&home));
    let log_key: custody_log::LogVerifier = told["vkey"].as_str().unwrap().parse().unwrap();
    assert_eq!(log_key.verify(&note).unwrap().note, told["checkpoint"].as_str().unwrap());
}

#[test]
fn g3_a_store_and_head_rolled_back_together_with_their_cosignatures_are_found() {
    let (home, _witness) = witnessed();
    live_on(&home, "Meet on Tuesday");
    run(&home, "ledger cosign").expect(0);
    let (old, old_size) = (copy(&home), size(&home));
    // A token is revoked after the copy was made.
    home.typing(&["principal", "add", "helper", "--role", "agent"], &[OWNER_PASSPHRASE]).expect(0);
    home.typing(&["principal", "revoke", "helper", "--apply"], &[OWNER_PASSPHRASE]).expect(0);
    run(&home, "ledger cosign").expect(0);
    let new_size = size(&home);

    restore(&home, &old, |_| false);
    assert_eq!(size(&home), old_size);
    run(&home, "ledger verify").expect(0);
    run(&home, "doctor").expect(0);
    let (status, finding) = finds(&home);
    assert_eq!(status, "rolled_back");
    let sizes =
        [format!("cosigned {new_size} records"), format!("the store has {old_size} records")];
    assert!(sizes.iter().all(|size| finding.contains(size)), "{finding}");
    let said = run(&home, "ledger verify --witness").expect(1).stdout;
    assert!(said.starts_with("not verified: the store was rolled back: "), "{said}");
    // Growing again past the witness does not help: the records are others.
    while size(&home) <= new_size {
        live_on(&home, "As if nothing had happened");
    }
    let (status, finding) = finds(&home);
    assert_eq!((status.as_str(), finding.contains("forked")), ("forked", true), "{finding}");
    let cosigned = run(&home, "ledger cosign").expect(1);
    assert!(cosigned.stdout.contains("cosigned other records"), "{cosigned:?}");
}

#[test]
fn g3_what_is_kept_beside_the_store_tells_against_it_even_when_no_witness_is_asked() {
    let (home, witness) = witnessed();
    let old = copy(&home);
    live_on(&home, "Meet on Tuesday");
    run(&home, "ledger cosign").expect(0);
    let is_kept = |path: &Path| path.parent().is_some_and(|folder| folder.ends_with("cosigned"));
    restore(&home, &old, is_kept);
    drop(witness);
    for command in ["ledger verify", "ledger verify --witness"] {
        let said = run(&home, command).expect(1).stdout;
        assert!(said.starts_with("not verified: the store was rolled back: "), "{said}");
    }

    // So do the pins themselves, which remember the size at which the owner signed them.
    let home = Home::founded();
    let old = copy(&home);
    let witness = home.witness("w1");
    live_on(&home, "Meet on Tuesday");
    pin(&home, "notary", &witness);
    restore(&home, &old, |path| path.ends_with("witnesses"));
    let said = run(&home, "ledger verify").expect(1).stdout;
    assert!(said.contains("the owner signed the pinned witnesses over"), "{said}");
}

#[test]
fn g3_a_log_that_was_cut_and_signed_again_is_found() {
    let (home, _witness) = witnessed();
    live_on(&home, "Meet on Tuesday");
    run(&home, "ledger cosign").expect(0);
    let cosigned = size(&home);
    cut_and_sign_again(&home, cosigned - 2);
    assert_eq!(size(&home), cosigned - 2);
    run(&home, "ledger verify").expect(1);
    // The holder of the log key removes what is kept beside the head as well.
    std::fs::remove_dir_all(home.keys().join("cosigned")).unwrap();
    run(&home, "ledger verify").expect(0);
    let (status, finding) = finds(&home);
    assert_eq!(status, "rolled_back", "{finding}");
    let refused = run(&home, "ledger cosign").expect(1);
    assert!(refused.stdout.contains("says that it cosigned"), "{refused:?}");
}

/// What somebody with the log key and a database editor does: cuts the log, and signs a head over what is left.
fn cut_and_sign_again(home: &Home, size: u64) {
    let paths = custody_runtime::Paths { store: home.database(), keys: home.keys() };
    forger::cut_and_sign_again(&paths, size).unwrap();
}

#[test]
fn g3_without_an_answer_that_counts_the_store_is_not_checked() {
    let home = Home::founded();
    assert_eq!(finds(&home).0, "not_checked", "no witness is pinned");
    let witness = home.witness("w1");
    pin(&home, "notary", &witness);
    let (status, finding) = finds(&home);
    assert_eq!(status, "not_checked");
    assert!(finding.contains("has cosigned nothing"), "{finding}");
    run(&home, "ledger cosign").expect(0);
    run(&home, "ledger verify --witness").expect(0);

    // Nobody answers.
    let url = witness.url.clone();
    drop(witness);
    let (status, finding) = finds(&home);
    assert_eq!(status, "not_checked");
    assert!(finding.contains("was not reached"), "{finding}");
    run(&home, "ledger cosign").expect(1);

    // Somebody answers at its address, with another key.
    let address = url.strip_prefix("http://").unwrap();
    run(&home, "witness init --state w2 --name witness.example/w1").expect(0);
    home.add_log("w2");
    let impostor = home.serve_at("w2", address);
    let (status, finding) = finds(&home);
    assert_eq!(status, "not_checked");
    assert!(finding.contains("not signed by the pinned key"), "{finding}");
    let refused = run(&home, "ledger cosign").expect(1);
    assert!(refused.stdout.contains("no cosignature by the pinned key"), "{refused:?}");
    drop(impostor);

    // The witness comes back, as it was or from an older copy.
    let witness = home.serve_at("w1", address);
    run(&home, "ledger verify --witness").expect(0);
    drop(witness);
    let state = std::fs::read(home.path().join("w1/state.json")).unwrap();
    live_on(&home, "Meet on Tuesday");
    let witness = home.serve_at("w1", address);
    run(&home, "ledger cosign").expect(0);
    drop(witness);
    std::fs::write(home.path().join("w1/state.json"), state).unwrap();
    let _witness = home.serve_at("w1", address);
    let (status, finding) = finds(&home);
    assert_eq!(status, "not_checked");
    assert!(finding.contains("once cosigned"), "{finding}");
}

#[test]
fn g3_pins_that_were_changed_or_taken_away_are_refused() {
    let (home, witness) = witnessed();
    let file = home.keys().join("witnesses");
    let signed = std::fs::read_to_string(&file).unwrap();
    let elsewhere = signed.replace("127.0.0.1", "127.0.0.2");
    for changed in [elsewhere.as_str(), "", "\n\n"] {
        std::fs::write(&file, changed).unwrap();
        for command in ["ledger verify", "ledger verify --witness"] {
            let said = run(&home, command).expect(1).stdout;
            assert!(said.contains("not as the owner signed them"), "{command}: {said}");
        }
        let refused = run(&home, "ledger cosign").expect(2);
        assert!(refused.stderr.contains("not as the owner signed them"), "{refused:?}");
    }
    let own = ["ledger", "verify", "--witness-url", &witness.url, "--witness-key", &witness.key];
    let told = home.alone(&[&own[..], &["--json"]].concat()).expect(1).json()[0].clone();
    let status = [0, 1].map(|at| told["witnesses"][at]["status"].clone());
    assert_eq!(
        status,
        ["checked", "not_checked"],
        "an auditor's own witness is asked all the same"
    );
    std::fs::remove_file(&file).unwrap();
    let said = run(&home, "ledger verify").expect(1).stdout;
    assert!(said.contains("is gone; there were some"), "{said}");
    // Without a trace of it, only --witness fails, and an auditor who brings the key needs no pins.
    std::fs::remove_dir_all(home.keys().join("cosigned")).unwrap();
    run(&home, "ledger verify").expect(0);
    assert!(finds(&home).1.contains("no witness is pinned"));
    let said = home.alone(&own).expect(0).stdout;
    assert!(said.contains("`witness.example/w1` cosigned"), "{said}");
    home.alone(&own[..4]).expect(2);

    std::fs::write(&file, &signed).unwrap();
    let twice = ["witness", "add", "notary", "--url", &witness.url, "--key", &witness.key];
    assert!(home.typing(&twice, &[OWNER_PASSPHRASE]).expect(2).stderr.contains("pinned already"));
    let nobody = ["witness", "add", "other", "--url", &witness.url, "--key", &witness.key];
    assert!(home.alone(&nobody).expect(2).stderr.contains("pinned already"));
    run(&home, "witness remove notary").expect(0);
    assert!(
        home.alone(&["witness", "remove", "notary", "--apply"])
            .expect(2)
            .stderr
            .contains("on a terminal")
    );
    home.typing(&["witness", "remove", "notary", "--apply"], &[OWNER_PASSPHRASE]).expect(0);
    assert!(finds(&home).1.contains("no witness is pinned"));
}

#[test]
fn g3_every_pinned_witness_has_to_answer() {
    let (home, _first) = witnessed();
    let second = home.witness("w2");
    pin(&home, "other", &second);
    run(&home, "ledger cosign").expect(0);
    run(&home, "ledger verify --witness").expect(0);
    drop(second);
    let told = run(&home, "ledger verify --witness --json").expect(1).json()[0].clone();
    let status: Vec<&str> = told["witnesses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["status"].as_str().unwrap())
        .collect();
    assert_eq!(status, ["checked", "not_checked"]);
    let rows = run(&home, "witness list --json").expect(0).json();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1]["cosigned_size"], size(&home));
}

#[test]
fn g3_a_rotated_log_key_is_cosigned_once_the_witness_knows_it() {
    let (home, witness) = witnessed();
    home.typing(&["keys", "rotate", "--apply"], &[OWNER_PASSPHRASE]).expect(0);
    let refused = run(&home, "ledger cosign").expect(1).stdout;
    let (_, remedy) = refused.split_once("there: custody ").unwrap();
    let url = witness.url.clone();
    drop(witness);
    run(&home, &remedy.trim().replace("DIR", "w1")).expect(0);
    let _witness = home.serve_at("w1", url.strip_prefix("http://").unwrap());
    run(&home, "ledger cosign").expect(0);
    run(&home, "ledger verify --witness").expect(0);
}

#[test]
fn g3_a_deliberately_restored_store_gets_new_witnesses() {
    let (home, _witness) = witnessed();
    let old = copy(&home);
    live_on(&home, "Meet on Tuesday");
    run(&home, "ledger cosign").expect(0);
    restore(&home, &old, |_| false);
    assert_eq!(finds(&home).0, "rolled_back");
    run(&home, "witness reset").expect(0);
    assert_eq!(finds(&home).0, "rolled_back", "without --apply nothing changes");
    home.typing(&["witness", "reset", "--apply"], &[OWNER_PASSPHRASE]).expect(0);
    let new = home.witness("w2");
    pin(&home, "notary", &new);
    run(&home, "ledger cosign").expect(0);
    run(&home, "ledger verify --witness").expect(0);
}

#[test]
fn a_witness_is_made_once_and_shows_what_it_cosigned() {
    let (home, witness) = witnessed();
    let shown = run(&home, "witness show --state w1 --json").expect(0).json()[0].clone();
    assert_eq!(
        (&shown["key"], &shown["logs"][0]["size"]),
        (&witness.key.clone().into(), &size(&home).into())
    );
    let in_use = "another process uses the witness in `w1`";
    run(&home, "witness serve --state w1").refused(in_use);
    drop(witness);
    let cases = [
        ("witness init --state w1 --name x", "there is a witness in `w1` already"),
        ("witness init --state w3 --name a+b", "`a+b` is no log name"),
        ("witness serve --state nowhere", "make one with `custody witness init`"),
        ("witness show --state nowhere", "there is no witness in `nowhere`"),
        ("witness serve --state w1 --listen 192.0.2.1:0", "could not listen on `192.0.2.1:0`"),
        ("witness add-log --state w1 --origin o --key x", "`x` is no verifier key for a log"),
    ];
    for (command, why) in cases {
        run(&home, command).refused(why);
    }
    assert!(!home.path().join("nowhere").exists());
}
