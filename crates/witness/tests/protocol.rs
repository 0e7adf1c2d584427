//! What a witness answers to every kind of request, and what it remembers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;

use common::{ChangeError, Log, WITNESS, add, cosigner, name, witness_of};
use custody_log::{CosignerKey, vkey};
use custody_witness::{
    AddLogError, CosignError, CosignStep, LatestAnswerError, Submission, WitnessAnswer,
    WitnessFolder, WitnessFolderError, WitnessNonce, WitnessReply, WitnessVerdict, verify_latest,
};
use ed25519_dalek::SigningKey;

const NOW_S: u64 = 1_790_000_000;

fn submit(witness: &mut WitnessFolder, submission: &Submission) -> WitnessAnswer {
    witness.answer("POST", "/add-checkpoint", submission.to_string().as_bytes(), NOW_S)
}

/// Status and body, the body of a cosignature left out.
fn said(answer: &WitnessAnswer) -> String {
    let body = if answer.status == 200 { "cosigned" } else { answer.body.trim_end() };
    format!("{} {body}", answer.status)
}

/// Asks for the latest checkpoint, and returns the answer as it is on the wire.
fn ask(witness: &mut WitnessFolder, origin: &str, nonce: WitnessNonce) -> WitnessAnswer {
    let id = custody_log::Digest::of(origin.as_bytes());
    witness.answer("GET", &format!("/custody/v1/latest/{id}/{nonce}"), b"", NOW_S)
}

#[test]
fn g3_a_witness_answers_each_case_with_the_status_of_the_protocol() {
    let log = Log::of("custody.log/a", 20);
    let (_folder, mut witness) = witness_of(&[&log]);
    let stranger = Log::of("custody.log/stranger", 5);
    let other_key = Log { key: SigningKey::from_bytes(&[8; 32]), ..log.clone() };
    let fork = log.forked_at(3);
    let wrong_proof = Submission { proof: vec![[0; 32]; 3], ..log.submission(7, 12) };
    let no_proof = Submission { proof: Vec::new(), ..log.submission(7, 12) };
    let proof_from_nothing = Submission { proof: vec![[0; 32]], ..log.submission(0, 7) };
    let conflict = "409 7";
    let forked = "422 the checkpoint does not extend the one that was cosigned last";
    let cases = [
        ("an unknown origin", stranger.submission(0, 5), "404 no log of this origin is known here"),
        (
            "the key of another",
            other_key.submission(0, 5),
            "403 the checkpoint is not signed by the key that is known for its origin",
        ),
        ("a proof where none may be", proof_from_nothing, forked),
        ("a size that was never cosigned", log.submission(5, 7), "409 0"),
        ("the first checkpoint", log.submission(0, 7), "200 cosigned"),
        ("the same again, from nothing", log.submission(0, 7), conflict),
        ("the same again", log.submission(7, 7), "200 cosigned"),
        ("a smaller one from a smaller one", log.submission(3, 5), conflict),
        (
            "a smaller one from the latest",
            Submission { old: 7, ..log.submission(3, 5) },
            "400 the old size `7` is above the size of the checkpoint, `5`",
        ),
        (
            "another root of the same size",
            fork.submission(7, 7),
            "409 another root was cosigned at size `7`",
        ),
        ("a larger fork", fork.submission(7, 12), forked),
        ("a wrong proof", wrong_proof, forked),
        ("no proof", no_proof, forked),
        ("the next checkpoint", log.submission(7, 12), "200 cosigned"),
        ("a jump", log.submission(12, 20), "200 cosigned"),
    ];
    for (case, submission, expected) in cases {
        assert_eq!(said(&submit(&mut witness, &submission)), expected, "{case}");
    }
    let conflict = submit(&mut witness, &log.submission(0, 20));
    assert_eq!((conflict.content_type, conflict.body.as_str()), ("text/x.tlog.size", "20\n"));
    let forked = submit(&mut witness, &fork.submission(20, 20));
    assert_ne!(forked.content_type, "text/x.tlog.size", "a size would invite to try again");
}

#[test]
fn g3_what_is_no_request_changes_nothing() {
    let log = Log::of("custody.log/a", 9);
    let (_folder, mut witness) = witness_of(&[&log]);
    assert_eq!(submit(&mut witness, &log.submission(0, 4)).status, 200);
    let before = witness.state().clone();
    let good = log.submission(4, 9).to_string();
    let signature = good.split("— ").nth(1).unwrap().to_owned();
    let cases = [
        (String::new(), 400),
        ("old 4\n".to_owned(), 400),
        (good.replace("old 4", "old 04"), 400),
        (good.replace("\n9\n", "\n09\n"), 403),
        (good.replace("\n9\n", "\n8\n"), 403),
        (good.replace("custody.log/a", "two words"), 400),
        (format!("{good}— {signature}"), 403),
        (good.trim_end().to_owned(), 400),
        (good.replace("— ", "- "), 400),
        (format!("{good}{}", "x".repeat(70_000)), 400),
    ];
    for (body, status) in cases {
        let answer = witness.answer("POST", "/add-checkpoint", body.as_bytes(), NOW_S);
        assert_eq!(answer.status, status, "{body:.200}: {answer:?}");
    }
    for (method, path, status) in [
        ("GET", "/add-checkpoint", 405),
        ("POST", "/custody/v1/latest/x/y", 405),
        ("GET", "/custody/v1/latest/x/y", 400),
        ("GET", "/custody/v1/latest/", 400),
        ("GET", "/", 404),
        ("POST", "/add-checkpoint/", 404),
    ] {
        assert_eq!(witness.answer(method, path, b"", NOW_S).status, status, "{method} {path}");
    }
    for no_time in [0, u64::MAX] {
        let answer = witness.answer("POST", "/add-checkpoint", good.as_bytes(), no_time);
        assert_eq!(answer.status, 500, "{no_time}");
    }
    assert_eq!(*witness.state(), before);
    assert_eq!(witness.answer("POST", "/add-checkpoint", good.as_bytes(), NOW_S).status, 200);
}

#[test]
fn g3_a_witness_that_starts_again_remembers_and_two_cannot_share_a_memory() {
    let log = Log::of("custody.log/a", 9);
    let (folder, mut witness) = witness_of(&[&log]);
    assert_eq!(submit(&mut witness, &log.submission(0, 9)).status, 200);
    let path = folder.path().join("w");
    assert!(matches!(WitnessFolder::open(&path), Err(WitnessFolderError::InUse(_))));
    let before = witness.state().clone();
    drop(witness);

    let mut witness = WitnessFolder::open(&path).unwrap();
    assert_eq!(*witness.state(), before);
    assert_eq!(said(&submit(&mut witness, &log.submission(0, 5))), "409 9");
    assert_eq!(submit(&mut witness, &log.forked_at(2).submission(9, 9)).status, 409);
    drop(witness);

    let key = SigningKey::from_bytes(&[1; 32]);
    let again = WitnessFolder::create(&path, name(WITNESS), key);
    assert!(matches!(again, Err(WitnessFolderError::Exists(_))), "a key is never replaced");
}

#[test]
fn g3_a_witness_without_its_memory_or_with_another_does_not_sign() {
    let log = Log::of("custody.log/a", 9);
    let (folder, mut witness) = witness_of(&[&log]);
    assert_eq!(submit(&mut witness, &log.submission(0, 9)).status, 200);
    drop(witness);
    let (path, file) = (folder.path().join("w"), folder.path().join("w/state.json"));
    let written = std::fs::read_to_string(&file).unwrap();
    let changes = [
        written.replace("\\n9\\n", "\\n8\\n"),
        written.replace("custody.log/a", "custody.log/b"),
        written.replace(WITNESS, "witness.example/w2"),
        written.replace("\"version\": 1", "\"version\": 2"),
        written.replace("\"cosigned\"", "\"forgotten\""),
        written.replacen('[', "[[", 1),
        String::new(),
    ];
    for changed in changes {
        assert_ne!(changed, written);
        std::fs::write(&file, &changed).unwrap();
        let opened = WitnessFolder::open(&path);
        assert!(matches!(opened, Err(WitnessFolderError::State { .. })), "{changed}");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(WitnessFolder::open(&path), Err(WitnessFolderError::NoState(_))));
    std::fs::write(&file, &written).unwrap();
    assert!(WitnessFolder::open(&path).is_ok());
}

#[cfg(unix)]
#[test]
fn g3_no_cosignature_leaves_that_could_not_be_stored() {
    use std::os::unix::fs::PermissionsExt;
    let log = Log::of("custody.log/a", 9);
    let (folder, mut witness) = witness_of(&[&log]);
    assert_eq!(submit(&mut witness, &log.submission(0, 4)).status, 200);
    let path = folder.path().join("w");
    let stored = std::fs::read_to_string(path.join("state.json")).unwrap();
    // A folder in place of the file: it cannot be replaced, whoever runs this test.
    std::fs::remove_file(path.join("state.json")).unwrap();
    std::fs::create_dir_all(path.join("state.json/full")).unwrap();
    let answer = submit(&mut witness, &log.submission(4, 9));
    assert_eq!(said(&answer), "500 the state could not be stored");
    std::fs::remove_dir_all(path.join("state.json")).unwrap();
    std::fs::write(path.join("state.json"), stored).unwrap();
    assert_eq!(said(&submit(&mut witness, &log.submission(9, 9))), "409 4", "nothing was taken in");
    assert_eq!(submit(&mut witness, &log.submission(4, 9)).status, 200);
    let mode =
        |file: &str| std::fs::metadata(path.join(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("witness.key"), mode("state.json"), mode("")), (0o600, 0o600, 0o700));
}

#[test]
fn g3_the_logs_of_one_witness_do_not_touch_each_other() {
    let (one, two) = (Log::of("custody.log/a", 9), Log::of("custody.log/b", 12));
    let (_folder, mut witness) = witness_of(&[&one, &two]);
    assert_eq!(submit(&mut witness, &one.submission(0, 9)).status, 200);
    assert_eq!(said(&submit(&mut witness, &two.submission(9, 12))), "409 0");
    assert_eq!(submit(&mut witness, &two.submission(0, 12)).status, 200);
    assert_eq!(witness.state().log(&one.origin).unwrap().size(), 9);
    // The head of one log under the origin of the other is signed by nobody.
    let note = one.head(9).note.replace("custody.log/a", "custody.log/b");
    let mixed = Submission { old: 12, proof: Vec::new(), checkpoint: note };
    assert_eq!(submit(&mut witness, &mixed).status, 403);

    assert!(add(&mut witness, &one).is_ok(), "adding it again changes nothing");
    let other_key = Log { key: SigningKey::from_bytes(&[8; 32]), ..one.clone() };
    let refused = add(&mut witness, &other_key);
    assert!(matches!(refused, Err(ChangeError::Log(AddLogError::OtherKey { .. }))));
    witness
        .change(|state| {
            let replaced = state.replace_key(&other_key.origin, other_key.verifier());
            assert!(replaced.is_some());
            Ok::<(), ChangeError>(())
        })
        .unwrap();
    assert_eq!(submit(&mut witness, &one.submission(9, 9)).status, 403, "the old key is out");
    assert_eq!(
        said(&submit(&mut witness, &other_key.submission(0, 9))),
        "409 9",
        "and the size stays"
    );
    assert_eq!(submit(&mut witness, &other_key.submission(9, 9)).status, 200);
}

#[test]
fn g3_only_the_answer_to_this_very_question_counts() {
    let (log, other) = (Log::of("custody.log/a", 20), Log::of("custody.log/b", 20));
    let (_folder, mut witness) = witness_of(&[&log, &other]);
    let nonce = |seed| WitnessNonce::from_random([seed; 32]);
    let nothing = ask(&mut witness, "custody.log/a", nonce(1));
    assert_eq!(verify_latest(&nothing.body, &cosigner(), &log.origin, nonce(1)), Ok(None));

    assert_eq!(submit(&mut witness, &log.submission(0, 7)).status, 200);
    let old = ask(&mut witness, "custody.log/a", nonce(2)).body;
    assert_eq!(submit(&mut witness, &log.submission(7, 20)).status, 200);
    assert_eq!(submit(&mut witness, &other.submission(0, 3)).status, 200);
    let new = ask(&mut witness, "custody.log/a", nonce(3)).body;
    let latest = verify_latest(&new, &cosigner(), &log.origin, nonce(3)).unwrap().unwrap();
    assert_eq!(latest.cosigned.checkpoint, log.head(20).checkpoint);
    assert_eq!(
        log.verifier().verify(&latest.note),
        Ok(log.head(20)),
        "the log's own signature is in it"
    );

    let elsewhere = ask(&mut witness, "custody.log/b", nonce(3)).body;
    let liar = CosignerKey { key: SigningKey::from_bytes(&[5; 32]).verifying_key(), ..cosigner() };
    let cosigned = latest.note;
    let cases = [
        (
            "replayed",
            verify_latest(&old, &cosigner(), &log.origin, nonce(3)),
            LatestAnswerError::OtherQuestion,
        ),
        (
            "of another log",
            verify_latest(&elsewhere, &cosigner(), &log.origin, nonce(3)),
            LatestAnswerError::OtherQuestion,
        ),
        (
            "by another key",
            verify_latest(&new, &liar, &log.origin, nonce(3)),
            LatestAnswerError::NotSigned,
        ),
        (
            "a cosigned head, and no answer",
            verify_latest(&cosigned, &cosigner(), &log.origin, nonce(3)),
            LatestAnswerError::NotSigned,
        ),
        (
            "empty",
            verify_latest("", &cosigner(), &log.origin, nonce(3)),
            LatestAnswerError::NotSigned,
        ),
    ];
    for (case, read, expected) in cases {
        assert_eq!(read, Err(expected), "{case}");
    }
    for bit in 0..new.len() * 8 {
        let mut changed = new.clone().into_bytes();
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Ok(changed) = str::from_utf8(&changed) {
            let read = verify_latest(changed, &cosigner(), &log.origin, nonce(3));
            assert!(read.is_err(), "bit {bit}: {changed}");
        }
    }
}

#[test]
fn g3_a_log_that_is_smaller_or_another_than_the_witness_saw_is_named() {
    let log = Log::of("custody.log/a", 20);
    let seen = log.head(12).checkpoint;
    let fork = log.forked_at(11);
    let verdict = |log: &Log, size| WitnessVerdict::of(&seen, size, |at| log.root(at));
    assert_eq!(verdict(&log, 12), WitnessVerdict::Extends { witnessed: 12, size: 12 });
    assert_eq!(verdict(&log, 20), WitnessVerdict::Extends { witnessed: 12, size: 20 });
    assert_eq!(verdict(&log, 11), WitnessVerdict::RolledBack { witnessed: 12, size: 11 });
    assert_eq!(verdict(&log, 0), WitnessVerdict::RolledBack { witnessed: 12, size: 0 });
    assert_eq!(verdict(&fork, 12), WitnessVerdict::Forked { witnessed: 12, size: 12 });
    assert_eq!(verdict(&fork, 20), WitnessVerdict::Forked { witnessed: 12, size: 20 });
    assert_eq!(
        WitnessVerdict::of(&seen, 20, |_| None),
        WitnessVerdict::Forked { witnessed: 12, size: 20 },
        "a root that is not known is not the same"
    );
}

#[test]
fn g3_a_kept_cosignature_tells_against_the_log_and_never_for_it() {
    let log = Log::of("custody.log/a", 20);
    let (_folder, mut witness) = witness_of(&[&log]);
    let mut latest = BTreeMap::new();
    for (old, new) in [(0, 7), (7, 12), (12, 18)] {
        assert_eq!(submit(&mut witness, &log.submission(old, new)).status, 200);
        let seen = witness.state().log(&log.origin).and_then(|log| log.latest.clone());
        latest.insert(new, seen.unwrap());
    }
    let judge = |log: &Log, size, now: Option<u64>, kept: Option<u64>| {
        let (now, kept) = (now.map(|at| &latest[&at]), kept.map(|at| &latest[&at]));
        match WitnessVerdict::of_answer(now, kept, size, |at| log.root(at)) {
            Ok(verdict) => format!("{verdict:?}"),
            Err(doubt) => doubt.to_string(),
        }
    };
    let fork = log.forked_at(9);
    let cases = [
        (judge(&log, 20, Some(18), None), "Extends { witnessed: 18, size: 20 }"),
        (judge(&log, 20, Some(18), Some(7)), "Extends { witnessed: 18, size: 20 }"),
        (judge(&log, 8, Some(18), Some(7)), "RolledBack { witnessed: 18, size: 8 }"),
        (judge(&log, 8, Some(7), Some(12)), "RolledBack { witnessed: 12, size: 8 }"),
        (judge(&fork, 20, Some(7), Some(12)), "Forked { witnessed: 12, size: 20 }"),
        (judge(&fork, 20, Some(18), Some(7)), "Forked { witnessed: 18, size: 20 }"),
        (
            judge(&log, 20, Some(7), Some(12)),
            "the witness once cosigned `12` records, and now knows of `7`",
        ),
        (
            judge(&log, 20, None, Some(12)),
            "the witness once cosigned `12` records, and now knows of `0`",
        ),
        (judge(&log, 20, None, None), "the witness has cosigned nothing of this log"),
    ];
    for (said, expected) in cases {
        assert_eq!(said, expected);
    }
}

#[test]
fn g3_a_reply_is_a_cosignature_of_this_head_or_none() {
    let log = Log::of("custody.log/a", 20);
    let (_folder, mut witness) = witness_of(&[&log]);
    let head = log.head(12);
    let line = submit(&mut witness, &log.submission(0, 12)).body;
    let other_head = submit(&mut witness, &log.submission(12, 20)).body;
    let read = |status: u16, content_type: &str, body: &str| {
        let reply = WitnessReply { status, content_type: content_type.into(), body: body.into() };
        match CosignStep::from_reply(&reply, &head, 5, &cosigner()) {
            Ok(CosignStep::Done(latest)) => format!("cosigned {}", latest.cosigned.checkpoint.size),
            Ok(CosignStep::Retry { old }) => format!("again from {old}"),
            Err(CosignError::Status { status }) => format!("status {status}"),
            Err(error) => error.to_string(),
        }
    };
    let size = "text/x.tlog.size";
    let not_cosigned = "the witness's reply is no cosignature by the pinned key";
    let cases = [
        (read(200, "", &line), "cosigned 12"),
        (read(200, "", &format!("{other_head}{line}")), "cosigned 12"),
        (read(200, "", &other_head), not_cosigned),
        (read(200, "", ""), not_cosigned),
        (read(200, "", &format!("{line}{line}")), "cosigned 12"),
        (read(200, "", "custody.log/a\n"), not_cosigned),
        (read(403, "", ""), "the witness knows another key of this log"),
        (read(404, "", ""), "the witness does not know this log"),
        (read(409, size, "7\n"), "again from 7"),
        (read(409, size, "0\n"), "again from 0"),
        (read(409, size, "5\n"), "status 409"),
        (read(409, size, "07\n"), "status 409"),
        (read(409, size, "7"), "status 409"),
        (
            read(409, size, "13\n"),
            "the witness says that it cosigned `13` records, and the log has `12`",
        ),
        (read(409, "text/plain", "7\n"), "the witness cosigned other records of this log"),
        (read(422, "", ""), "the witness cosigned other records of this log"),
        (read(301, "", ""), "status 301"),
        (read(500, "", ""), "status 500"),
    ];
    for (read, expected) in cases {
        assert_eq!(read, expected);
    }
    // What a witness would sign for the log's own key is no cosignature.
    assert!(vkey(&name(WITNESS), &cosigner().key).parse::<CosignerKey>().is_err());
}
