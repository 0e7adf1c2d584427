//! Cosignatures: a witness's statement that a checkpoint extends every checkpoint of that log it saw before.
//!
//! A cosignature is a line under the checkpoint's note, over a time and the text of the checkpoint:
//!
//! ```text
//! cosignature/v1
//! time 1679315147
//! example.com/custody
//! 20852163
//! CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=
//! ```
//!
//! Source: C2SP tlog-cosignature, the Ed25519 kind (type `0x04`).

use std::fmt;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use crate::checkpoint::Checkpoint;
use crate::note::{
    CheckpointError, LogName, SignatureKind, find_signature, parse_verifier_key, signature_line,
    verifier_key,
};

/// The key of a witness, with the name under which it cosigns. As text it is a C2SP verifier key of type `0x04`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CosignerKey {
    /// The name in the witness's signature lines.
    pub name: LogName,
    /// Ed25519 public key.
    pub key: VerifyingKey,
}

/// A checkpoint that a witness cosigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cosigned {
    /// What was cosigned.
    pub checkpoint: Checkpoint,
    /// When, in seconds since 1970-01-01 UTC by the witness's clock; never 0.
    pub time_s: u64,
}

impl CosignerKey {
    /// Reads a signed note that must have exactly one cosignature by this key. Signatures of other keys, the
    /// log's own among them, are passed over.
    ///
    /// # Errors
    /// [`CheckpointError`] naming the first thing that is wrong.
    pub fn verify(&self, note: &str) -> Result<Cosigned, CheckpointError> {
        let kind = SignatureKind::Cosignature;
        let (text, blob) = find_signature(note, kind, &self.name, &self.key)?;
        let time_s = self
            .signed_time(text, &blob)
            .ok_or_else(|| CheckpointError::Signature { vkey: self.to_string() })?;
        Ok(Cosigned { checkpoint: Checkpoint::parse(text)?, time_s })
    }

    /// The time in a cosignature of this text by this key; `None` when it is none.
    fn signed_time(&self, text: &str, blob: &[u8]) -> Option<u64> {
        let (time, signature) = blob.split_first_chunk()?;
        let time_s = u64::from_be_bytes(*time);
        if time_s == 0 || i64::try_from(time_s).is_err() {
            return None;
        }
        let signature = Signature::from_slice(signature).ok()?;
        self.key.verify_strict(&message(time_s, text), &signature).ok()?;
        Some(time_s)
    }
}

impl fmt::Display for CosignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&verifier_key(SignatureKind::Cosignature, &self.name, &self.key))
    }
}

impl std::str::FromStr for CosignerKey {
    type Err = CheckpointError;

    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        parse_verifier_key(text, SignatureKind::Cosignature)
            .map(|(name, key)| Self { name, key })
            .ok_or_else(|| CheckpointError::VerifierKey { text: text.to_owned(), of: "a witness" })
    }
}

/// The line that a witness adds under the note of a checkpoint, with its line end.
///
/// `time_s` is in seconds since 1970-01-01 UTC, neither 0 nor above `i64::MAX`; verifiers refuse others.
pub fn cosign(checkpoint: &Checkpoint, signer: &SigningKey, name: &LogName, time_s: u64) -> String {
    let signature = signer.sign(&message(time_s, &checkpoint.text())).to_bytes();
    let timestamped = [time_s.to_be_bytes().as_slice(), &signature].concat();
    signature_line(SignatureKind::Cosignature, name, &signer.verifying_key(), &timestamped)
}

/// What is signed.
fn message(time_s: u64, text: &str) -> Vec<u8> {
    format!("cosignature/v1\ntime {time_s}\n{text}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME_S: u64 = 1_679_315_147;

    /// The cosignature of the checkpoint below, by OpenSSL.
    const GOLDEN: &str = "— witness.example/w1 JLXZ/gAAAABkGFDLLiQ62/iE9bGCjJvy2+yor1E9/tB+9+IwqXbPTjjJfUDcA9wUs+oTk7ic31+6s7c+N5H3AM/DrcFxWCRdAy0NDA==\n";

    /// The witness's verifier key, put together by another program.
    const VERIFIER_KEY: &str =
        "witness.example/w1+24b5d9fe+BP0XJDhaoMdbZPt4zWAvodmR/ev3axPFjtcC6sg16fYY";

    fn name(text: &str) -> LogName {
        LogName::new(text).unwrap()
    }

    fn checkpoint() -> Checkpoint {
        Checkpoint { origin: name("example.com/custody"), size: 20_852_163, root: [0xC5; 32] }
    }

    fn witness() -> (SigningKey, CosignerKey) {
        let signer = SigningKey::from_bytes(&[9; 32]);
        let key = CosignerKey { name: name("witness.example/w1"), key: signer.verifying_key() };
        (signer, key)
    }

    fn note_at(time_s: u64) -> String {
        let log = checkpoint().sign(&SigningKey::from_bytes(&[7; 32]), &name("log"));
        let (signer, key) = witness();
        log + &cosign(&checkpoint(), &signer, &key.name, time_s)
    }

    #[test]
    fn a_cosignature_is_over_the_time_and_the_text_and_reads_back() {
        let (_, key) = witness();
        let cosigned = Cosigned { checkpoint: checkpoint(), time_s: TIME_S };
        assert_eq!(key.verify(&note_at(TIME_S)), Ok(cosigned));
        let expected = "cosignature/v1\ntime 1679315147\nexample.com/custody\n20852163\n\
                        xcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcU=\n";
        assert_eq!(message(TIME_S, &checkpoint().text()), expected.as_bytes());
        assert!(note_at(TIME_S).ends_with(GOLDEN));
        assert_eq!(key.to_string(), VERIFIER_KEY);
    }

    #[test]
    fn every_flipped_bit_of_text_or_cosignature_is_refused() {
        let (_, key) = witness();
        let note = note_at(TIME_S);
        let log_line = note.find("— log").unwrap()..note.find("— witness").unwrap();
        for bit in 0..note.len() * 8 {
            if log_line.contains(&(bit / 8)) {
                continue;
            }
            let mut changed = note.clone().into_bytes();
            changed[bit / 8] ^= 1 << (bit % 8);
            if let Ok(changed) = str::from_utf8(&changed) {
                assert!(key.verify(changed).is_err(), "bit {bit}: {changed}");
            }
        }
    }

    #[test]
    fn a_time_of_zero_or_beyond_the_format_is_refused() {
        let (_, key) = witness();
        for (time_s, is_read) in
            [(0, false), (1, true), (i64::MAX as u64, true), (i64::MAX as u64 + 1, false)]
        {
            assert_eq!(key.verify(&note_at(time_s)).is_ok(), is_read, "{time_s}");
        }
    }

    #[test]
    fn a_witness_key_is_no_log_key_and_the_other_way_round() {
        let (_, key) = witness();
        let text = key.to_string();
        assert_eq!(text.parse(), Ok(key.clone()));
        assert!(text.parse::<crate::LogVerifier>().is_err());
        assert!(crate::vkey(&key.name, &key.key).parse::<CosignerKey>().is_err());
        // The log's own signature by the same key is no cosignature.
        let (signer, _) = witness();
        let signed = checkpoint().sign(&signer, &key.name);
        assert!(matches!(key.verify(&signed), Err(CheckpointError::Unsigned { .. })));
    }
}
