//! `custody cert`: certificates verified with and without the store, shown to people, taken apart for other tools.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../incident/tests/certified/mod.rs"]
mod certified;
mod common;
#[path = "../../certificate/tests/certificate/fixture.rs"]
mod fixture;

use std::collections::BTreeSet;
use std::fs;

use common::{Home, OWNER_PASSPHRASE, Ran};
use custody_certificate::{Recovery, certify, entry_lines};
use custody_keys::{KeyFolder, public_key};
use custody_log::Digest;
use custody_runtime::clock::Clock;
use custody_runtime::{Paths, Store};
use pulldown_cmark::{Event, Options, Parser, Tag};
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../docs/reference/cert-verify.schema.json");

/// The owner's key of the golden certificates.
fn owner() -> String {
    hex::encode(fixture::owner_key().verifying_key().as_bytes())
}

/// A home in which this certificate lies as `certificate.json`.
fn holding(recovery: &Recovery) -> Home {
    let home = Home::new();
    fs::write(
        home.path().join("certificate.json"),
        certify(recovery, &fixture::owner_key()).unwrap(),
    )
    .unwrap();
    home
}

fn run(home: &Home, command: &str) -> Ran {
    home.alone(&command.split(' ').collect::<Vec<_>>())
}

#[test]
fn a_file_and_a_key_are_all_that_verifying_needs() {
    let home = holding(&fixture::recovered());
    let ran = run(&home, &format!("cert verify certificate.json --key {}", owner())).expect(0);
    insta::assert_snapshot!(ran.text(&home), @r"
    verified: incident-11111111111111111111111111111111 is recovered.
      held      one canonical DSSE envelope that names the owner's key
      held      signed by the owner, and not changed since
      held      a canonical statement of ours, with the digest of its predicate
      held      its parts agree, and its outcome follows from them
      held      the log only grew, and holds the recovery's records
      not asked it is of the incident and store that were named, and follows what was known
      held      every entry is under its root, and its counts and lists are theirs
      file      SHA-256 DIGEST
      key       SHA-256 DIGEST
      made      TIME by custody 0.1.0
      store     store-ID
      log       24 → 31 records
      follows   none; it is the store's first
      store     not asked; --store recounts the claims as well
    ");
    let pem = home.path().join("owner.pem");
    fs::write(&pem, public_key::pem(&fixture::owner_key().verifying_key())).unwrap();
    run(&home, "cert verify certificate.json --key-file owner.pem").expect(0);
    let file = fs::read_to_string(home.path().join("certificate.json")).unwrap();
    home.alone_with(&["cert", "verify", "-", "--key", &owner()], &[], &file).expect(0);
    assert!(!home.path().join("data").exists(), "no store was looked for");
}

/// Of a large incident the certificate lists a part, and what rests on the owner's word alone is named.
#[test]
fn g30_without_the_entries_what_was_not_checked_is_said() {
    let recovery = fixture::large(1_200, 0);
    let home = holding(&recovery);
    let verify = format!("cert verify certificate.json --key {}", owner());
    let ran = run(&home, &verify).expect(0);
    insta::assert_snapshot!(ran.text(&home), @r"
    verified: incident-11111111111111111111111111111111 is recovered.
      held      one canonical DSSE envelope that names the owner's key
      held      signed by the owner, and not changed since
      held      a canonical statement of ours, with the digest of its predicate
      held      its parts agree, and its outcome follows from them
      held      the log only grew, and holds the recovery's records
      not asked it is of the incident and store that were named, and follows what was known
      not given every entry is under its root, and its counts and lists are theirs
      file      SHA-256 DIGEST
      key       SHA-256 DIGEST
      made      TIME by custody 0.1.0
      store     store-ID
      log       2200 → 2208 records
      follows   none; it is the store's first
      entries   1933 of 2199 entries were not checked:
                what each of them is, what was done to it and why
                that the counts, and with them the outcome, are those of the entries
                that each got what its score, its floor and its evidence ask for
                that every adapter one of them names is attested
                give them with --entries, or the store with --store
      store     not asked; --store recounts the claims as well
    ");
    let mut entries: Vec<u8> = entry_lines(&recovery).flat_map(Result::unwrap).collect();
    fs::write(home.path().join("elsewhere"), &entries).unwrap();
    let given = run(&home, &format!("{verify} --entries elsewhere")).expect(0).text(&home);
    assert!(given.contains("held      every entry is under its root"), "{given}");
    fs::rename(home.path().join("elsewhere"), home.path().join("certificate.entries.jsonl"))
        .unwrap();
    let beside = run(&home, &verify).expect(0).text(&home);
    assert!(beside.contains("entries   2199 entries in certificate.entries.jsonl"), "{beside}");
    let json = run(&home, &format!("--json {verify}")).expect(0).json().remove(0);
    assert_eq!(
        (&json["entries"]["count"], &json["entries"]["not_checked"]),
        (&2_199.into(), &0.into())
    );
    entries.truncate(entries.len() - 9);
    fs::write(home.path().join("certificate.entries.jsonl"), &entries).unwrap();
    let cut = run(&home, &verify).expect(1).text(&home);
    assert!(cut.contains("refused: line `2199` of the entries"), "{cut}");
    assert!(
        cut.contains("held      its parts agree") && cut.contains("failed    every entry"),
        "{cut}"
    );
}

#[test]
fn what_is_incomplete_verifies_and_says_so_first() {
    let home = holding(&fixture::incomplete(Digest([0x0F; 32])));
    let ran = run(&home, &format!("cert verify certificate.json --key {}", owner())).expect(0);
    insta::assert_snapshot!(ran.text(&home), @r"
    verified: the recovery of incident-22222222222222222222222222222222 is incomplete: a depth limit stopped the closure at 3 members, 2 actions are not done, 1 adapter is still loaded, 1 adapter is fused into a base model, 1 probe got something back, 2 probes cannot tell.
      held      one canonical DSSE envelope that names the owner's key
      held      signed by the owner, and not changed since
      held      a canonical statement of ours, with the digest of its predicate
      held      its parts agree, and its outcome follows from them
      held      the log only grew, and holds the recovery's records
      not asked it is of the incident and store that were named, and follows what was known
      held      every entry is under its root, and its counts and lists are theirs
      file      SHA-256 DIGEST
      key       SHA-256 DIGEST
      made      TIME by custody 0.1.0
      store     store-ID
      log       31 → 40 records
      follows   the certificate SHA-256 DIGEST
      breaks    the ledger was adopted by its owner once
      store     not asked; --store recounts the claims as well
    ");
}

#[test]
fn each_refusal_says_what_held_what_failed_and_why() {
    let home = holding(&fixture::recovered());
    let path = home.path().join("certificate.json");
    let whole = fs::read(&path).unwrap();
    let stranger = ed25519_dalek::SigningKey::from_bytes(&[9; 32]).verifying_key();
    let stranger = hex::encode(stranger.as_bytes());
    let fingerprint = Digest::of(fixture::owner_key().verifying_key().as_bytes()).to_string();
    let key = owner();
    let other = fixture::incident(9);
    let cases: Vec<(Vec<u8>, String, &str, &str)> = vec![
        (whole[..99].to_vec(), key.clone(), "envelope", "the file ends too early"),
        ([&whole[..], b"\n"].concat(), key.clone(), "envelope", "not in its canonical form"),
        (flipped(&whole), key.clone(), "signature", "the signature is not of this text"),
        (
            whole.clone(),
            format!("{key} --incident {other}"),
            "expected",
            "it is about `incident-1111",
        ),
        (whole.clone(), format!("{key} --after {fingerprint}"), "expected", "it does not follow"),
        (whole.clone(), stranger, "envelope", "it is signed with key"),
    ];
    for (bytes, key, failed, why) in cases {
        fs::write(&path, bytes).unwrap();
        let ran = run(&home, &format!("cert verify certificate.json --json --key {key}"));
        let report = ran.expect(1).json().remove(0);
        assert!(report["refused"].as_str().unwrap().contains(why), "{why}: {report}");
        assert_eq!(report["verified"], false);
        assert_eq!(report["certificate"], Value::Null, "nothing is told of what nobody said");
        let results: Vec<(&str, &str)> = report["checks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|check| (check["check"].as_str().unwrap(), check["result"].as_str().unwrap()))
            .collect();
        let at = results.iter().position(|(_, result)| *result == "failed").unwrap();
        assert_eq!(results[at].0, failed);
        assert!(results[..at].iter().all(|(_, result)| *result == "held"));
        assert!(results[at + 1..].iter().all(|(_, result)| *result == "not_reached"));
    }
    fs::write(&path, flipped(&whole)).unwrap();
    let ran = run(&home, &format!("cert verify certificate.json --key {}", owner())).expect(1);
    insta::assert_snapshot!(ran.text(&home), @r"
    refused: the signature is not of this text by the key `DIGEST`; do not trust the file
      held      one canonical DSSE envelope that names the owner's key
      failed    signed by the owner, and not changed since
      open      a canonical statement of ours, with the digest of its predicate
      open      its parts agree, and its outcome follows from them
      open      the log only grew, and holds the recovery's records
      open      it is of the incident and store that were named, and follows what was known
      open      every entry is under its root, and its counts and lists are theirs
      file      SHA-256 DIGEST
      key       SHA-256 DIGEST
    ");
}

/// One digit of the payload changed for another that is base64 too.
fn flipped(whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let at = 600;
    bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
    bytes
}

#[test]
fn an_older_certificate_is_refused_where_a_newer_one_is_known() {
    let first = certify(&fixture::recovered(), &fixture::owner_key()).unwrap();
    let home = holding(&fixture::incomplete(Digest::of(&first)));
    fs::write(home.path().join("first.json"), &first).unwrap();
    let key = owner();
    run(&home, &format!("cert verify certificate.json --key {key} --after first.json")).expect(0);
    let ran = run(&home, &format!("cert verify first.json --key {key} --after certificate.json"));
    assert!(ran.expect(1).stdout.contains("ask for the newest"));
}

#[test]
fn wrong_usage_is_one_line_and_exit_code_2() {
    let home = holding(&fixture::recovered());
    run(&home, "cert verify certificate.json").refused("Give the owner's public key with --key");
    run(&home, "cert verify certificate.json --key nonsense").refused("64 hexadecimal digits");
    run(&home, "cert verify certificate.json --key-file no.pem").refused("could not read `no.pem`");
    run(&home, &format!("cert verify nothing.json --key {}", owner()))
        .refused("could not read `nothing.json`");
    run(&home, &format!("cert verify certificate.json --key {} --incident x", owner()))
        .refused("is not an id");
    run(&home, "cert show nothing.json").refused("could not read `nothing.json`");
}

#[test]
fn an_endless_file_is_read_no_further_than_a_certificate_can_be_long() {
    let home = Home::new();
    for command in
        [format!("cert verify /dev/zero --key {}", owner()), "cert show /dev/zero".into()]
    {
        let ran = run(&home, &command).expect(1);
        assert!(ran.stdout.contains("has `67108865` bytes, over `67108864`"), "{ran:?}");
    }
}

#[test]
fn the_fingerprint_of_a_key_is_told_from_the_key() {
    // A fingerprint that happens to be a point of the curve, found by trying keys.
    let fingerprint = (0..=u8::MAX)
        .map(|byte| ed25519_dalek::SigningKey::from_bytes(&[byte; 32]))
        .map(|key| Digest::of(key.verifying_key().as_bytes()).to_string())
        .find(|fingerprint| public_key::parse(fingerprint).is_ok())
        .unwrap();
    let home = Home::new();
    let sealed = format!(
        r#"{{"payload":"","payloadType":"application/vnd.in-toto+json","signatures":[{{"keyid":"{fingerprint}","sig":""}}]}}"#
    );
    fs::write(home.path().join("certificate.json"), sealed).unwrap();
    let ran = run(&home, &format!("cert verify certificate.json --key {fingerprint}")).expect(1);
    assert!(ran.stdout.contains("is the fingerprint of its key, not the key"), "{ran:?}");
}

/// A founded home whose store was poisoned and recovered, with the owner's certificate of it.
fn recovered_store(change: impl FnOnce(&mut Recovery)) -> Home {
    let home = Home::founded();
    let keys = KeyFolder::new(home.keys());
    let paths = Paths { store: home.database(), keys: home.keys() };
    let store = Store::open(&paths, Clock::System).unwrap();
    let owner_key = keys.unlock("owner", OWNER_PASSPHRASE).unwrap();
    let owner = store.authenticate("owner", &owner_key).unwrap();
    certified::poison(&store, &owner);
    let mut recovery = certified::recovery(&store, &owner, &owner_key);
    change(&mut recovery);
    let file = certify(&recovery, owner_key.signing_key()).unwrap();
    fs::write(home.path().join("certificate.json"), file).unwrap();
    home
}

#[test]
fn g5_with_a_store_that_is_not_written_every_claim_is_counted_again() {
    let home = recovered_store(|_| {});
    let before = fs::read(home.database()).unwrap();
    let ran = run(&home, "cert verify certificate.json --read-only").expect(0);
    assert!(ran.stdout.contains("verified: incident-"), "{ran:?}");
    assert_eq!(fs::read(home.database()).unwrap(), before);
}

#[test]
fn with_the_store_every_claim_is_counted_again() {
    let home = recovered_store(|_| {});
    let ran = run(&home, "cert verify certificate.json").expect(0);
    insta::assert_snapshot!(ran.text(&home), @r"
    verified: incident-ID is recovered.
      held      one canonical DSSE envelope that names the owner's key
      held      signed by the owner, and not changed since
      held      a canonical statement of ours, with the digest of its predicate
      held      its parts agree, and its outcome follows from them
      held      the log only grew, and holds the recovery's records
      held      it is of the incident and store that were named, and follows what was known
      held      every entry is under its root, and its counts and lists are theirs
      file      SHA-256 DIGEST
      key       SHA-256 DIGEST
      made      TIME by custody 0.1.0
      store     store-ID
      log       7 → 10 records
      follows   none; it is the store's first

    Recounted in the store of 11 records: 22 of 22 claims hold, 0 fail, 0 cannot be told.
      The record verifies: 11 records decided again, 0 tool calls judged again.
    ");
    let shown = run(&home, "keys show --json").json().remove(0);
    let key = shown["humans"][0]["public_key"].as_str().unwrap().to_owned();
    let offline = run(&home, &format!("cert verify certificate.json --json --key {key}")).expect(0);
    assert_eq!(offline.json()[0]["recount"], Value::Null, "a key alone asks no store");
    let database = home.database();
    let both = format!(
        "cert verify certificate.json --json --key {key} --store {} --keys {}",
        database.display(),
        home.keys().display()
    );
    assert_eq!(run(&home, &both).expect(0).json()[0]["recount"]["fails"], 0);
}

#[test]
fn a_claim_that_no_longer_holds_is_named_and_the_exit_code_is_1() {
    let home = recovered_store(|recovery| recovery.policy_digest = Digest::of(b"another policy"));
    let ran = run(&home, "cert verify certificate.json").expect(1);
    insta::assert_snapshot!(ran.text(&home), @r"
    not true today: 1 claim does not hold. What it says: incident-ID is recovered.
      held      one canonical DSSE envelope that names the owner's key
      held      signed by the owner, and not changed since
      held      a canonical statement of ours, with the digest of its predicate
      held      its parts agree, and its outcome follows from them
      held      the log only grew, and holds the recovery's records
      held      it is of the incident and store that were named, and follows what was known
      held      every entry is under its root, and its counts and lists are theirs
      file      SHA-256 DIGEST
      key       SHA-256 DIGEST
      made      TIME by custody 0.1.0
      store     store-ID
      log       7 → 10 records
      follows   none; it is the store's first

    Recounted in the store of 11 records: 20 of 22 claims hold, 1 fail, 1 cannot be told.
      The record verifies: 11 records decided again, 0 tool calls judged again.
      ✗ the policy was DIGEST: no policy was signed, and this one never shipped
      ? 1 claim: the record does not name this certificate
    ");
}

#[test]
fn another_stores_certificate_is_refused() {
    let home = recovered_store(|_| {});
    let elsewhere = recovered_store(|_| {});
    fs::copy(elsewhere.path().join("certificate.json"), home.path().join("certificate.json"))
        .unwrap();
    let ran = run(&home, "cert verify certificate.json").expect(1);
    assert!(ran.stdout.contains("it is signed with key"), "{ran:?}");
}

#[test]
fn the_published_schema_has_exactly_the_fields_that_are_printed() {
    let root: Value = serde_json::from_str(SCHEMA).unwrap();
    let mut seen = BTreeSet::new();
    let incomplete = holding(&fixture::incomplete(Digest([1; 32])));
    let recounted = recovered_store(|recovery| recovery.policy_digest = Digest([0; 32]));
    let verified = format!("cert verify certificate.json --json --key {}", owner());
    let refused = format!("{verified} --after {}", Digest([0; 32]));
    for (home, command) in [
        (&incomplete, verified.as_str()),
        (&incomplete, refused.as_str()),
        (&recounted, "cert verify certificate.json --json"),
    ] {
        conform(&root, &root, &run(home, command).json().remove(0), "", &mut seen);
    }
    for path in ["/recount/claims", "/certificate/outcome/reasons", "/checks", "/certificate/log"] {
        assert!(seen.contains(path), "{path} was never printed: {seen:?}");
    }
}

/// Checks a value against what of JSON Schema that file uses, and that no property is missing in either.
fn conform(root: &Value, schema: &Value, value: &Value, path: &str, seen: &mut BTreeSet<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).unwrap();
        return conform(root, target, value, path, seen);
    }
    if let Some(options) = schema["oneOf"].as_array() {
        let is_null = |option: &&Value| (option["type"] == "null") == value.is_null();
        return conform(root, options.iter().find(is_null).unwrap(), value, path, seen);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert_eq!(schema["type"], kind, "{path}");
    if let Some(options) = schema["enum"].as_array() {
        assert!(options.contains(value), "{value} at {path}");
    }
    if let Value::Array(items) = value {
        for item in items {
            conform(root, &schema["items"], item, path, seen);
        }
        if !items.is_empty() {
            seen.insert(path.to_owned());
        }
    }
    if let Value::Object(members) = value {
        let names: BTreeSet<&str> = members.keys().map(String::as_str).collect();
        let properties = schema["properties"].as_object().unwrap();
        assert_eq!(names, properties.keys().map(String::as_str).collect(), "{path}");
        let required = schema["required"].as_array().unwrap().iter();
        assert_eq!(names, required.map(|name| name.as_str().unwrap()).collect(), "{path}");
        assert_eq!(schema["additionalProperties"], false, "{path}");
        for (name, member) in members {
            conform(root, &properties[name], member, &format!("{path}/{name}"), seen);
        }
        seen.insert(path.to_owned());
    }
}

/// A recovery whose every free text is hostile.
fn hostile() -> Recovery {
    const EVIL: &str = "</td><script>alert(1)</script>`|`[x](https://evil.example)\n# y\u{202e}\u{1b}[2J<img src=x onerror=y>";
    let mut recovery = fixture::incomplete(Digest([1; 32]));
    recovery.program = EVIL.into();
    recovery.adapter_attestation.unfinished[0].name = EVIL.into();
    recovery.adapter_attestation.unfinished[0].why = EVIL.into();
    recovery.adapter_attestation.fusion_warnings[0].name = EVIL.into();
    recovery.membership_probe.model = Some(EVIL.into());
    recovery.residual.unfinished[0].why = EVIL.into();
    recovery.audit.breaks[0].reason = EVIL.into();
    recovery.residual.effects = fixture::recovered().residual.effects;
    recovery.residual.effects[0].entry = custody_log::Seq(4);
    recovery.residual.effects[0].tool = EVIL.into();
    recovery.residual.effects[0].summary = EVIL.into();
    recovery
}

#[test]
fn no_text_of_a_certificate_is_markup_in_html() {
    let home = holding(&hostile());
    let page = run(&home, "cert show certificate.json --format html").expect(0).stdout;
    let tags: BTreeSet<&str> = page
        .split('<')
        .skip(1)
        .filter_map(|rest| {
            rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '/' && c != '!').next()
        })
        .collect();
    let ours: BTreeSet<&str> = [
        "!doctype", "html", "head", "meta", "title", "style", "body", "p", "header", "h1", "h2",
        "ul", "li", "dl", "div", "dt", "dd", "section", "table", "thead", "tbody", "tr", "th",
        "td", "code",
    ]
    .into();
    for tag in tags {
        assert!(ours.contains(tag.trim_start_matches('/')), "<{tag}>");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    for hidden in ["\u{202e}", "\u{1b}", "onerror=y>", "http-equiv=\"refresh"] {
        assert!(!page.contains(hidden), "{hidden:?}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn no_text_of_a_certificate_is_markup_in_markdown() {
    let home = holding(&hostile());
    let page = run(&home, "cert show certificate.json --format markdown").expect(0).stdout;
    let mut headings = 0;
    for event in Parser::new_ext(&page, Options::ENABLE_TABLES) {
        let is_markup = matches!(
            event,
            Event::Html(_)
                | Event::InlineHtml(_)
                | Event::Start(Tag::Link { .. } | Tag::Image { .. } | Tag::CodeBlock(_))
        );
        assert!(!is_markup, "{event:?}");
        headings += usize::from(matches!(event, Event::Start(Tag::Heading { .. })));
    }
    assert_eq!(headings, page.lines().filter(|line| line.starts_with('#')).count());
    assert!(!page.contains('\u{202e}') && !page.contains('\u{1b}'));
}

#[test]
fn what_nobody_verified_says_so_before_anything_else() {
    let home = holding(&fixture::recovered());
    for format in ["text", "markdown", "html"] {
        let show = format!("cert show certificate.json --format {format}");
        let page = run(&home, &show).expect(0).stdout;
        let (banner, outcome) =
            (page.find("NOT VERIFIED").unwrap(), page.rfind("Recovered").unwrap());
        assert!(banner < outcome, "{format}");
        let page = run(&home, &format!("{show} --key {}", owner())).expect(0).stdout;
        assert!(
            !page.contains("NOT VERIFIED") && page.contains("Verified: signed with"),
            "{format}"
        );
    }
    let text = run(&home, "cert show certificate.json").expect(0);
    insta::assert_snapshot!(text.text(&home), @r"
    NOT VERIFIED. Nobody checked who signed this file: anybody can make one that says anything. Run `custody cert verify` with the owner's public key.

    incident-11111111111111111111111111111111 Recovered
      ! 1 effect cannot be undone

           1 seed
           6 entries reached
           2 purged
           1 evicted
           1 quarantined
           1 flagged
           1 left as they are
      4 of 4 probes passed

    Can it still be had
      model asked  qwen2.5-1.5b-instruct
    probe                  for the text of  before  after  control  limit  verdict
    asked for the text     #3               0.930   0.310  0.050    0.400  pass
    asked about its topic  #3               0.930   0.170  –        0.400  pass
    asked by a pretext     #6               0.930   0.280  –        0.400  pass
    searched the store     #6               0.930   0.050  –        0.400  pass

    Cannot be undone
    entry  tool       what happened
    #9     send_mail  a message was sent to one recipient: “Zoë”

    What was reached, and what was done
      seeds             #3
      followed          everything made from the seeds, without a limit
      possible origins  #0 #2
    entry  what it is    action      done  evidence  score  adapters
    #3     tool output   purge       yes   its text  0.636  0
    #4     completion    evict       yes   derived   0.738  1
    #6     memory write  purge       yes   similar   0.663  1
    #7     message       flag        yes   derived   0.582  0
    #9     tool call     quarantine  yes   derived   0.486  1
    #12    memory read   none        yes   derived   0.011  0

    Spared
    entry  trusted entries that say the same
    #7     #1 #2

    In quarantine
      entries  #9

    Adapters
    name          weights            became            score  why
    helpful-lora  FINGERPRINT…  2 loads unloaded  0.910
    house-style   FINGERPRINT…  stays             0.040  on the allowlist, and its influence is below the threshold

    How it was scored
      mode                  a term that does not apply drops out; floors hold
      weights               evidence 0.400, influence 0.300, share 0.300
      tiers from            flag 0.300, quarantine 0.600, purge 0.800, evict 0.900
      floors                5 of 6 entries have a floor
      shares may be off by  0.000

    This certificate
      incident                incident-11111111111111111111111111111111
      certificate             cert-c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1
      store                   store-ID
      made                    TIME
      program                 custody 0.1.0
      plan                    DIGEST
      policy                  DIGEST
      root of the entries     DIGEST
      certificate before      –
      this file, SHA-256      DIGEST
      names the key, SHA-256  DIGEST

    The log
      log before  custody.log/store-a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0 · 24 · DXcPt9Tf2fa/HixDOoJEhdQkokIsY9kWOJANPIaqjjM=
      log after   custody.log/store-a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0 · 31 · o6OmPWUQa5RXM1asqmN7zHPwPO/xUr3rwk1gZwjqzDo=
    record  step             leaf hash
    #24     incident opened  DIGEST
    #25     contained        DIGEST
    #26     planned          DIGEST
    #28     applied          DIGEST
    #30     probed           DIGEST
    ");
    let path = home.path().join("certificate.json");
    let altered = flipped(&fs::read(&path).unwrap());
    fs::write(&path, altered).unwrap();
    let ran = run(&home, &format!("cert show certificate.json --key {}", owner())).expect(1);
    assert!(ran.stdout.starts_with("refused: "), "shown only if it holds: {ran:?}");
}

#[test]
fn failures_stand_above_the_lists_and_long_lists_say_what_is_left_out() {
    let home = holding(&fixture::incomplete(Digest([0x0F; 32])));
    let page = run(&home, &format!("cert show certificate.json --key {}", owner())).expect(0);
    insta::assert_snapshot!(page.text(&home), @r"
    Verified: signed with the key that was given, SHA-256 DIGEST.

    incident-22222222222222222222222222222222 Incomplete
      ! a depth limit stopped the closure at 3 members
      ! 2 actions are not done
      ! 1 adapter is still loaded
      ! 1 adapter is fused into a base model
      ! 1 probe got something back
      ! 2 probes cannot tell
      ! the ledger was adopted by its owner once

           2 seeds
           3 entries reached
      0 of 1 purged
      0 of 1 evicted
           0 quarantined
           1 flagged
           0 left as they are
      1 of 4 probes passed

    Not done
    entry  action  why
    #4     evict   an adapter is fused and another is still loaded
    #8     purge   a reader still holds old pages

    Can it still be had
    probe                  for the text of  before  after  control  limit  verdict
    asked for the text     #8               0.930   0.700  0.100    0.400  FAIL
    asked for the text     #8               0.930   0.700  0.700    0.400  cannot tell
    asked about its topic  #8               0.930   –      –        0.400  cannot tell
    searched the store     #8               0.930   0.050  –        0.400  pass

    What was reached, and what was done
      seeds             #4 #8
      followed          both directions and across adapters, ten hops, as the paper's second version
      possible origins  #1
      truncated         at 3 members a limit stopped the walk
    entry  what it is   action  done  evidence  score  adapters
    #4     completion   evict   no    its hash  0.550  2
    #8     retrieval    purge   no    named     0.475  0
    #15    file change  flag    yes   derived   0.038  0

    In quarantine
      entries  #8

    Adapters
    name       weights            became            score  why
    sticky     FINGERPRINT…  1 load left       1.000  the host `gpu-2` does not answer
    melted-in  FINGERPRINT…  fused, cannot go  0.950  the base FINGERPRINT…
    old        FINGERPRINT…  was not loaded    0.500

    How it was scored
      mode                  as the recovery paper's own program
      weights               evidence 0.400, influence 0.300, share 0.300
      tiers from            flag 0.300, quarantine 0.600, purge 0.800, evict 0.900
      floors                0 of 3 entries have a floor
      shares may be off by  0.000

    This certificate
      incident                incident-22222222222222222222222222222222
      certificate             cert-c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2
      store                   store-ID
      made                    TIME
      program                 custody 0.1.0
      plan                    DIGEST
      policy                  DIGEST
      root of the entries     DIGEST
      certificate before      DIGEST
      this file, SHA-256      DIGEST
      names the key, SHA-256  DIGEST

    The log
      log before  custody.log/store-a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0 · 31 · o6OmPWUQa5RXM1asqmN7zHPwPO/xUr3rwk1gZwjqzDo=
      log after   custody.log/store-a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0 · 40 · mwoi+v7WeeF6V9ggbx87JBr5tF/kpLK2qrOfOBn031Y=
    record  step             leaf hash
    #32     incident opened  DIGEST
    #33     planned          DIGEST
    #36     applied          DIGEST
    adopted at  when                      why
    #31         TIME  restored from the copy of Monday
    ");
    let mut recovery = fixture::recovered();
    let row = recovery.membership_probe.probes[0];
    recovery.membership_probe.probes = vec![row; 40];
    let home = holding(&recovery);
    let short = run(&home, "cert show certificate.json").expect(0).stdout;
    assert!(short.contains("and 15 more; --all shows them"), "{short}");
    let all = run(&home, "cert show certificate.json --all").expect(0).stdout;
    assert!(!all.contains("more; --all") && all.matches("asked for the text").count() == 40);
}

#[test]
fn a_certificate_is_taken_apart_byte_for_byte() {
    let home = holding(&fixture::recovered());
    let ran = run(&home, &format!("cert export certificate.json --out parts --key {}", owner()))
        .expect(0);
    insta::assert_snapshot!(ran.text(&home), @r"
    parts/certificate.dsse.json
    parts/statement.json
    parts/checkpoint-before.txt
    parts/checkpoint-before.vkey
    parts/checkpoint-after.txt
    parts/checkpoint-after.vkey
    parts/owner.pem
    ");
    let part = |name: &str| fs::read(home.path().join("parts").join(name)).unwrap();
    assert_eq!(
        part("certificate.dsse.json"),
        fs::read(home.path().join("certificate.json")).unwrap()
    );
    let golden = include_bytes!("../../certificate/tests/golden/certificate.statement.json");
    assert_eq!(part("statement.json"), golden);
    let statement: Value = serde_json::from_slice(golden).unwrap();
    let note = statement["predicate"]["audit"]["after"]["note"].as_str().unwrap();
    assert_eq!(part("checkpoint-after.txt"), note.as_bytes());
    let key = public_key::parse(&String::from_utf8(part("owner.pem")).unwrap()).unwrap();
    assert_eq!(key, fixture::owner_key().verifying_key());

    let again = run(&home, "cert export certificate.json --out parts --format statement");
    again.refused("is there already");
    let ran = run(&home, "cert export certificate.json --out other --format statement").expect(0);
    assert!(ran.stdout.contains("nothing was verified"), "{ran:?}");
    assert_eq!(fs::read_dir(home.path().join("other")).unwrap().count(), 1);
    let path = home.path().join("certificate.json");
    fs::write(&path, flipped(&fs::read(&path).unwrap())).unwrap();
    run(&home, &format!("cert export certificate.json --out none --key {}", owner())).expect(1);
    assert!(!home.path().join("none").exists(), "nothing of what does not verify is written");
}
