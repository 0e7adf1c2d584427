//! What verifies the heads of a log.

use std::fmt;

use ed25519_dalek::VerifyingKey;

use crate::checkpoint::Checkpoint;
use crate::note::{
    CheckpointError, LogName, SignatureKind, find_signature, parse_verifier_key, signature_line,
    vkey,
};

/// The key of a log, with the name under which it signs. As text it is a C2SP verifier key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogVerifier {
    /// The name in the log's signature line.
    pub name: LogName,
    /// Ed25519 public key.
    pub key: VerifyingKey,
}

/// A checkpoint that a log signed, and the note that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedHead {
    /// What the log states.
    pub checkpoint: Checkpoint,
    /// The text with the log's signature, and with no other.
    pub note: String,
}

impl LogVerifier {
    /// Reads a checkpoint that this log must have signed exactly once, and leaves out the signatures of others.
    ///
    /// # Errors
    /// As [`Checkpoint::verify`].
    pub fn verify(&self, note: &str) -> Result<SignedHead, CheckpointError> {
        let checkpoint = Checkpoint::verify(note, &self.name, &self.key)?;
        let kind = SignatureKind::Ed25519;
        let (text, signature) = find_signature(note, kind, &self.name, &self.key)?;
        let line = signature_line(kind, &self.name, &self.key, &signature);
        Ok(SignedHead { checkpoint, note: format!("{text}\n{line}") })
    }
}

impl fmt::Display for LogVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&vkey(&self.name, &self.key))
    }
}

impl std::str::FromStr for LogVerifier {
    type Err = CheckpointError;

    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        parse_verifier_key(text, SignatureKind::Ed25519)
            .map(|(name, key)| Self { name, key })
            .ok_or_else(|| CheckpointError::VerifierKey { text: text.to_owned(), of: "a log" })
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::*;
    use crate::note::verifier_key;

    #[test]
    fn only_the_one_way_to_write_a_verifier_key_is_read() {
        let key = SigningKey::from_bytes(&[7; 32]).verifying_key();
        let name = LogName::new("example.com/log").unwrap();
        let good = vkey(&name, &key);
        assert_eq!(good.parse(), Ok(LogVerifier { name: name.clone(), key }));
        let identity = VerifyingKey::from_bytes(&{
            let mut bytes = [0; 32];
            bytes[0] = 1;
            bytes
        });
        let cases = [
            String::new(),
            "example.com/log".to_owned(),
            good.replace("example.com", "example.org"),
            good.replace("log+", "log+0"),
            good.to_uppercase(),
            format!("{good} "),
            format!("{good}="),
            verifier_key(SignatureKind::Cosignature, &name, &key),
            vkey(&name, &identity.unwrap()),
        ];
        for text in cases {
            let refused = CheckpointError::VerifierKey { text: text.clone(), of: "a log" };
            assert_eq!(text.parse::<LogVerifier>(), Err(refused));
        }
    }
}
