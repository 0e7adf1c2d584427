//! Any bytes as a request to a witness, as its answer, as pins and as HTTP: refused, or read in one way only.
#![no_main]

use custody_log::{Checkpoint, CosignerKey, LogName, LogVerifier, root_of};
use custody_witness::{
    Submission, WitnessNonce, WitnessPins, WitnessSigner, WitnessState, read_request, verify_latest,
};
use ed25519_dalek::SigningKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = read_request(&mut &*bytes) {
        assert!(request.body.len() <= bytes.len());
    }
    if let Ok(submission) = Submission::parse(bytes) {
        assert_eq!(submission.to_string().as_bytes(), bytes);
    }
    let key = SigningKey::from_bytes(&[7; 32]);
    let name = LogName::new("log").expect("a name");
    let verifier = LogVerifier { name: name.clone(), key: key.verifying_key() };
    let mut state = WitnessState::default();
    state.add_log(name.clone(), verifier.clone()).expect("the first log");
    let signer = WitnessSigner::new(name.clone(), SigningKey::from_bytes(&[9; 32]));
    // Nobody but the key's holder can have a checkpoint cosigned, whatever is sent; behind a good signature, what
    // stands before it is still any bytes.
    if state.decide_submission(bytes, &signer, 1).is_ok() {
        let text = String::from_utf8_lossy(bytes);
        assert!(verifier.verify(text.split_once("\n\n").expect("an empty line").1).is_ok());
    }
    let root = root_of(&[[1; 32]]);
    let signed = Checkpoint { origin: name.clone(), size: 1, root }.sign(&key, &name);
    let _ = state.decide_submission(&[bytes, signed.as_bytes()].concat(), &signer, 1);

    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let witness: CosignerKey = signer.cosigner_key();
    assert!(witness.verify(text).is_err());
    assert!(verify_latest(text, &witness, &name, WitnessNonce::from_random([1; 32])).is_err());
    // What the owner signed may still be anything.
    let owner = LogName::new("custody-owner").expect("a name");
    let note = custody_log::sign_note(text, &key, &owner);
    if let Ok(pins) = WitnessPins::verify(&note, &name, &key.verifying_key()) {
        assert_eq!(pins.sign(&key), note);
    }
});
