//! `custody keys` and `custody principal`, typed on a terminal.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::os::unix::fs::PermissionsExt;

use common::{Home, OWNER_PASSPHRASE};

#[test]
fn creating_a_store_makes_its_keys_and_says_what_comes_next() {
    let home = Home::new();
    let ran = home.typing(&["keys", "init"], &[OWNER_PASSPHRASE, OWNER_PASSPHRASE]).expect(0);
    insta::assert_snapshot!(ran.text(&home), @r"
    The store is created.
      store     HOME/data/custody/custody.db
      keys      HOME/state/custody/KEYS
      head      HOME/state/custody/KEYS/head
                over 1 of 1 record
      id        store-ID
      log key   SHA-256 DIGEST
                VKEY
      owner     owner
                public key DIGEST
                SHA-256 DIGEST

    Next:
      custody principal add NAME --role user     the people agents work for
      custody principal add NAME --role agent    a token for an agent
      custody doctor                             check that everything is in order

    Back the two folders up separately. Nobody can recover the passphrase.
    ");
    assert!(ran.terminal.contains("New passphrase for owner: "), "{ran:?}");
    assert!(!ran.terminal.contains(OWNER_PASSPHRASE), "a passphrase is not echoed: {ran:?}");
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(home.keys()) & 0o777, 0o700);
    for key in ["log.key", "humans/owner.pem"] {
        assert_eq!(mode(home.keys().join(key)) & 0o777, 0o600, "{key}");
    }
}

#[test]
fn creating_a_store_needs_a_terminal_and_a_passphrase_typed_the_same_twice() {
    let home = Home::new();
    let ran = home.alone_with(
        &["keys", "init"],
        &[("CUSTODY_PASSPHRASE", OWNER_PASSPHRASE)],
        "correct horse battery\ncorrect horse battery\n",
    );
    insta::assert_snapshot!(ran.expect(2).text(&home), @"error: only a human may create a store; run `custody keys init` on a terminal, where the owner's passphrase is typed");
    for (lines, expected) in [
        (["password1", "password1"], "could be found in about"),
        ([OWNER_PASSPHRASE, "correct horse batter"], "the two passphrases differ"),
    ] {
        let ran = home.typing(&["keys", "init"], &lines).expect(2);
        assert!(ran.stderr.contains(expected), "{ran:?}");
    }
    assert!(!home.database().exists(), "nothing was created");
}

/// G22: wherever a passphrase is chosen, one that could be guessed is refused in one line, before it is asked
/// for again, and nothing is made or changed.
#[test]
fn g22_a_weak_passphrase_is_refused_wherever_one_is_chosen() {
    let home = Home::founded();
    let owner = home.keys().join("humans/owner.pem");
    let before = std::fs::read(&owner).unwrap();
    let add = ["principal", "add", "robin", "--role", "reviewer"];
    let rotate = ["keys", "rotate", "--passphrase", "owner"];
    for weak in
        ["password1", "owner-owner-owner", "robin robin robin", "qwertyuiopasdf", "2026-11-24"]
    {
        for args in [&add[..], &rotate] {
            let ran = home.typing(args, &[OWNER_PASSPHRASE, weak, weak]);
            ran.refused("choose four unrelated words, or 12 random characters");
            assert!(!ran.stderr.contains(weak), "{ran:?}");
            assert!(!ran.terminal.contains("The same again"), "{ran:?}");
        }
        let other = Home::new();
        let ran = other.typing(&["keys", "init", "--owner", "robin"], &[weak, weak]);
        ran.refused("could be found in about");
        assert!(!other.database().exists() && !other.path().join("state").exists(), "{weak}");
    }
    assert_eq!(std::fs::read(&owner).unwrap(), before);
    assert!(!home.keys().join("humans/robin.pem").exists());
    assert!(!home.alone(&["principal", "list"]).expect(0).stdout.contains("robin"));
}

/// G22: a key that was stored when a guess cost little opens as before, and the doctor says how to mend it.
#[test]
fn g22_a_key_that_is_cheap_to_guess_opens_is_named_and_is_mended_by_a_new_passphrase() {
    let home = Home::founded();
    let passphrases = |home: &Home| {
        let checks = home.alone(&["doctor", "--json"]).expect(0).json();
        checks.into_iter().find(|check| check["check"] == "passphrases").unwrap()
    };
    let found = passphrases(&home);
    assert_eq!(found["level"], "warn", "{found}");
    assert!(found["todo"].as_str().unwrap().contains("keys rotate --passphrase owner"), "{found}");
    let new = "zebra lamp cedar moon";
    let rotate = ["keys", "rotate", "--passphrase", "owner"];
    home.typing(&rotate, &[OWNER_PASSPHRASE, new, new]).expect(0);
    assert_eq!(passphrases(&home)["level"], "ok");
    home.typing(&["keys", "rotate", "--apply"], &[new]).expect(0);
}

#[test]
fn ctrl_c_at_a_prompt_gives_up_and_changes_nothing() {
    let home = Home::new();
    let ran = home.typing(&["keys", "init"], &["\u{3}"]).expect(2);
    assert!(ran.stderr.contains("nothing was typed"), "{ran:?}");
    assert!(!home.database().exists());
}

#[test]
fn a_second_creation_changes_nothing() {
    let home = Home::founded();
    let before = contents(&home);
    let ran = home.typing(&["keys", "init"], &["another passphrase", "another passphrase"]);
    insta::assert_snapshot!(ran.expect(2).text(&home), @"error: `HOME/state/custody/KEYS` holds keys already; use `custody keys rotate`, or another folder");
    assert_eq!(ran_prompts(&home), 0, "nobody is asked for what cannot be used");
    assert_eq!(contents(&home), before);
}

#[test]
fn creating_a_store_never_replaces_the_owners_key_of_an_existing_one() {
    let home = Home::founded();
    let owner = home.keys().join("humans/owner.pem");
    let before = std::fs::read(&owner).unwrap();
    std::fs::remove_file(home.keys().join("log.key")).unwrap();
    for args in [&["keys", "init"][..], &["principal", "list"]] {
        let ran = home.typing(args, &["yes", "another passphrase", "another passphrase"]).expect(2);
        assert!(ran.stderr.contains("its log key is missing"), "{ran:?}");
    }
    assert_eq!(std::fs::read(&owner).unwrap(), before);
}

#[test]
fn the_first_use_of_a_store_offers_to_found_it() {
    let home = Home::new();
    let ran = home.typing(&["principal", "list"], &["no"]).expect(2);
    assert!(ran.terminal.contains("Make one now? [y/N] "), "{ran:?}");
    assert!(!home.database().exists());
    let lines = ["yes", OWNER_PASSPHRASE, OWNER_PASSPHRASE];
    let ran = home.typing(&["principal", "list"], &lines).expect(0);
    assert!(ran.stdout.contains("owner") && !ran.stdout.contains("Made"), "{ran:?}");
    let ran = Home::new().alone(&["principal", "list"]).expect(2);
    assert!(ran.stderr.contains("run `custody keys init` on a terminal"), "{ran:?}");
}

#[test]
fn showing_the_keys_takes_no_passphrase_and_warns_of_open_files() {
    let home = Home::founded();
    let shown = home.alone(&["keys", "show", "--json"]).expect(0).json();
    assert_eq!(shown[0]["humans"][0]["role"], "owner");
    assert_eq!(shown[0]["founded"]["records"], 1);
    assert!(shown[0]["warnings"].as_array().unwrap().is_empty(), "{shown:?}");
    let log_key = home.keys().join("log.key");
    std::fs::set_permissions(&log_key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = home.alone(&["keys", "show"]).expect(0);
    assert!(ran.stdout.contains("has mode 0644; run `chmod 0600"), "{ran:?}");
}

#[test]
fn the_log_key_is_rotated_by_the_owner_and_old_records_still_verify() {
    let home = Home::founded();
    let log_key = |home: &Home| {
        home.alone(&["keys", "show", "--json"]).json()[0]["founded"]["log_key"].to_string()
    };
    let before = log_key(&home);
    insta::assert_snapshot!(home.alone(&["keys", "rotate"]).expect(0).text(&home), @"Would replace the log key, now SHA-256 DIGEST. Nothing was changed; add --apply to do it.");
    assert_eq!(log_key(&home), before, "a preview changes nothing");
    let ran = home.typing(&["keys", "rotate", "--apply"], &[OWNER_PASSPHRASE]).expect(0);
    insta::assert_snapshot!(ran.text(&home), @"accepted: heads are now signed by `VKEY`. e-ID");
    assert_ne!(log_key(&home), before);
    home.alone(&["ledger", "verify"]).expect(0);
}

#[test]
fn a_changed_passphrase_replaces_the_old_one() {
    let home = Home::founded();
    let new = "a longer passphrase";
    let args = ["keys", "rotate", "--passphrase", "owner"];
    let ran = home.typing(&args, &["wrong passphrase", new, new]).expect(2);
    assert!(ran.stderr.contains("wrong passphrase"), "{ran:?}");
    home.typing(&args, &[OWNER_PASSPHRASE, new, new]).expect(0);
    let revoke = ["principal", "add", "helper", "--role", "agent"];
    home.typing(&revoke, &[OWNER_PASSPHRASE]).expect(2);
    home.typing(&revoke, &[new]).expect(0);
    let ran = home.alone(&["keys", "rotate", "--passphrase", "owner"]).expect(2);
    assert!(ran.stderr.contains("typed on a terminal"), "{ran:?}");
}

#[test]
fn a_token_is_printed_once_and_alone() {
    let home = Home::founded();
    let args = ["principal", "add", "helper", "--role", "agent"];
    let ran = home.typing(&args, &[OWNER_PASSPHRASE]).expect(0);
    let token = ran.stdout.trim_end();
    assert!(token.starts_with("custody_") && token.lines().count() == 1, "{ran:?}");
    insta::assert_snapshot!(ran.text(&home), @r"
    TOKEN
    helper is registered as agent. e-ID
    Their token, which is not shown again and kept only as a hash:
    ");
    let stored = [std::fs::read(home.database()).unwrap(), write_ahead(&home)].concat();
    let token = token.as_bytes();
    assert!(!stored.windows(token.len()).any(|window| window == token), "only its hash is kept");
}

#[test]
fn a_human_types_a_passphrase_of_their_own() {
    let home = Home::founded();
    let bobs = "bob has a passphrase";
    let args = ["principal", "add", "bob", "--role", "reviewer", "--tenant", "main"];
    let ran = home.typing(&args, &[OWNER_PASSPHRASE, bobs, bobs]).expect(0);
    assert!(ran.stdout.is_empty() && ran.terminal.contains("New passphrase for bob: "), "{ran:?}");
    insta::assert_snapshot!(home.alone(&["principal", "list"]).expect(0).text(&home), @r"
    name   role      tenant  proves it by  key
    owner  owner     main    passphrase    FINGERPRINT
    bob    reviewer  main    passphrase    FINGERPRINT
    ");
    assert!(home.keys().join("humans/bob.pem").exists());
    let again = home.typing(&args, &[OWNER_PASSPHRASE]).expect(2);
    assert!(again.stderr.contains("a principal `bob` exists already"), "{again:?}");
    assert!(again.terminal.is_empty(), "nobody is asked for what cannot be used: {again:?}");
}

#[test]
fn a_name_that_is_none_is_refused_before_anything_is_asked() {
    let home = Home::founded();
    for name in ["", "Bob", "../bob", "b b", "\u{1b}[2J"] {
        let ran = home.typing(&["principal", "add", name, "--role", "user"], &[]).expect(2);
        assert!(ran.terminal.is_empty() && !ran.stderr.contains('\u{1b}'), "{ran:?}");
        Home::new().typing(&["keys", "init", "--owner", name], &["no passphrase"]).expect(2);
    }
}

#[test]
fn revoking_is_previewed_and_takes_the_credentials_away() {
    let home = Home::founded();
    home.typing(&["principal", "add", "helper", "--role", "agent"], &[OWNER_PASSPHRASE]).expect(0);
    let preview = home.alone(&["principal", "revoke", "helper"]).expect(0);
    insta::assert_snapshot!(preview.text(&home), @"Would revoke `helper` (agent, by token) and close 0 open sessions. Nothing was changed; add --apply to do it.");
    let apply = ["principal", "revoke", "helper", "--apply"];
    insta::assert_snapshot!(home.typing(&apply, &[OWNER_PASSPHRASE]).expect(0).text(&home), @"accepted: `helper` can prove nothing any more. e-ID");
    home.alone(&["principal", "revoke", "helper"]).expect(2);
    let owner = home.alone(&["principal", "revoke", "owner"]).expect(2);
    assert!(owner.stderr.contains("the owner cannot be revoked"), "{owner:?}");
}

#[test]
fn limits_are_shown_previewed_and_set() {
    let home = Home::founded();
    let limits = |args: &[&str], lines: &[&str]| {
        let args = [&["principal", "limits"], args].concat();
        home.typing(&args, lines).expect(0).text(&home)
    };
    insta::assert_snapshot!(limits(&[], &[]), @"Per principal and namespace: 10 changes in 60 s, 64 calls and 64 changes wait at most and for 24 h, a session takes out 256 bits.");
    let wanted =
        ["--changes", "none", "--window", "90", "--proposal-hours", "48", "--waiting-changes", "8"];
    insta::assert_snapshot!(limits(&wanted, &[]), @"Would set the limits to any number of changes, 64 calls and 8 changes wait at most and for 2 d, a session takes out 256 bits (now 10 changes in 60 s, 64 calls and 64 changes wait at most and for 24 h, a session takes out 256 bits). Nothing was changed; add --apply to do it.");
    let apply = [&wanted[..], &["--apply"]].concat();
    insta::assert_snapshot!(limits(&apply, &[OWNER_PASSPHRASE]), @"accepted: the limits are any number of changes, 64 calls and 8 changes wait at most and for 2 d, a session takes out 256 bits. e-ID");
    insta::assert_snapshot!(limits(&["--json"], &[]), @r#"{"changes":null,"window_ms":90000,"proposal_ttl_ms":172800000,"extracted_bits":256,"waiting_changes":8}"#);
}

#[test]
fn help_tells_a_stranger_what_happens() {
    let home = Home::new();
    let help = |args: &[&str]| {
        let text = home.alone(&[args, &["--help"]].concat()).expect(0).text(&home);
        text.split("\nOptions:").next().unwrap().to_owned()
    };
    insta::assert_snapshot!(help(&["keys"]), @r"
    Create a store, show its keys, replace them.

    The log key signs the head of the record, so that the program can write without anybody present. The
    owner's key, under a passphrase, signs for everything that only a human may do.

    Usage: custody keys [OPTIONS] <COMMAND>

    Commands:
      init    Create a store
      show    Show where the keys are, whose they are, and their fingerprints
      rotate  Sign the head of the record with a fresh log key from here on. Owner only
      help    Print this message or the help of the given subcommand(s)
    ");
    insta::assert_snapshot!(help(&["keys", "init"]), @r"
    Create a store.

    Asks for a passphrase, twice, on the terminal. Then creates the store's database, the owner's key
    (encrypted under that passphrase) and the log key, and signs the first head. The keys and the head
    stand in another folder than the store, so that an old copy of the store put back later is noticed.

    Whoever knows the passphrase can approve, unlock and register. One that could be guessed is refused;
    four unrelated words, or 12 random characters, are accepted. It is asked for on the terminal and
    nowhere else, and nobody can recover it. If the command is interrupted, run it again.

    Usage: custody keys init [OPTIONS]
    ");
    insta::assert_snapshot!(help(&["principal", "add"]), @r"
    Register somebody. Owner only.

    A human gets a key under a passphrase of their own, typed on this terminal after the owner's. An
    agent or service gets a token, and with --token or --token-out a human does too. --token-out writes
    it to a new file that nobody else can read; otherwise it is printed once, alone on standard output.
    Only its hash is kept. Whoever holds a user's token speaks in that user's voice: keep it where
    agents cannot read it.

    Usage: custody principal add [OPTIONS] --role <ROLE> <NAME>

    Arguments:
      <NAME>
              Their name: 1 to 64 of a-z, 0-9 and `-`
    ");
    insta::assert_snapshot!(help(&["ledger"]), @r"
    Look at the record, follow where a text came from and went, verify everything, take it along

    Usage: custody ledger [OPTIONS] <COMMAND>

    Commands:
      show     List what was recorded, the newest last, or show all about one record
      trace    Show what a record was made from, and what was made from it
      verify   Check every record, content and index against the signed head
      cosign   Have the pinned witnesses cosign the head of the record as it is now
      export   Write every record as JSON Lines, with the signed checkpoint over them
      adopt    Go on from a store whose head was lost, or which was deliberately restored from a copy.
               Owner only
      reindex  Make the indexes anew from the record: texts, hashes, edges and fingerprints
      migrate  Go on from a store that was written in record format 1. Owner only
      help     Print this message or the help of the given subcommand(s)
    ");
}

/// Every file of the store and its keys.
fn contents(home: &Home) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let files =
        [home.database(), home.keys().join("log.key"), home.keys().join("humans/owner.pem")];
    files.into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect()
}

fn ran_prompts(home: &Home) -> usize {
    home.typing(&["keys", "init"], &[]).terminal.len()
}

fn write_ahead(home: &Home) -> Vec<u8> {
    std::fs::read(home.database().with_extension("db-wal")).unwrap_or_default()
}
