//! Signed notes: a text, and under it a line for each key that signed it.
//!
//! Source: C2SP signed-note, with Ed25519 signatures (type `0x01`) and cosignatures (type `0x04`).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};

use crate::Hash;

/// The longest signed note that is read. The format asks for at least sixteen signatures, whose
/// post-quantum kind may have 5 KB.
pub(crate) const MAX_NOTE_BYTES: usize = 64 * 1024;

/// What every signature line starts with: an em dash and a space.
const SIGNATURE_LINE: &str = "\u{2014} ";

/// The name of a log or of the key that signs for it: not empty, and free of spaces, `+` and
/// control characters, so that it is one word of one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogName(String);

impl LogName {
    /// Takes a name, such as `example.com/custody`.
    ///
    /// # Errors
    /// [`CheckpointError::Name`] when the format does not allow it.
    pub fn new(name: impl Into<String>) -> Result<LogName, CheckpointError> {
        let name = name.into();
        if is_name(&name) { Ok(LogName(name)) } else { Err(CheckpointError::Name { name }) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a checkpoint, or another note, was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The text is no verifier key of the expected kind.
    #[error("`{}` is no verifier key for {of}", text.escape_debug())]
    VerifierKey {
        /// The text.
        text: String,
        /// Whose key was expected.
        of: &'static str,
    },
    /// The text cannot name a log or its key.
    #[error("`{}` is no log name; use one visible word without `+`", name.escape_debug())]
    Name {
        /// The text.
        name: String,
    },
    /// The note is longer than any real one.
    #[error("the checkpoint has `{bytes}` bytes, over `{MAX_NOTE_BYTES}`; fetch it again")]
    TooLong {
        /// The length of the note.
        bytes: usize,
    },
    /// The note is not written exactly as the format says.
    #[error("the {part} of the checkpoint is not as C2SP writes it; fetch it again")]
    Malformed {
        /// Which part of the note, in the format's words.
        part: &'static str,
    },
    /// No signature line is by the expected key.
    #[error("no signature by `{vkey}`; check which log key this checkpoint belongs to")]
    Unsigned {
        /// The expected key, as [`vkey`] writes it.
        vkey: String,
    },
    /// The expected key signed more than once.
    #[error("two signatures by `{vkey}`; fetch the checkpoint again")]
    SignedTwice {
        /// The expected key, as [`vkey`] writes it.
        vkey: String,
    },
    /// The signature is not of this text by the expected key.
    #[error("the signature by `{vkey}` is not of this text; do not trust the checkpoint")]
    Signature {
        /// The expected key, as [`vkey`] writes it.
        vkey: String,
    },
}

/// What a key signs, in key ids and verifier keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignatureKind {
    /// The text of the note.
    Ed25519 = 0x01,
    /// A time and the text of the note.
    Cosignature = 0x04,
}

/// The public key as a verifier key, `name+hex(id)+base64(0x01 ‖ key)`, to configure verifiers with.
///
/// Source: the encoding of Go's `golang.org/x/mod/sumdb/note`, which C2SP tools read.
pub fn vkey(key_name: &LogName, key: &VerifyingKey) -> String {
    verifier_key(SignatureKind::Ed25519, key_name, key)
}

pub(crate) fn verifier_key(kind: SignatureKind, key_name: &LogName, key: &VerifyingKey) -> String {
    let id = hex::encode(key_id(kind, key_name, key));
    let typed_key = [&[kind as u8], key.as_bytes().as_slice()].concat();
    format!("{key_name}+{id}+{}", STANDARD.encode(&typed_key))
}

/// Reads what [`verifier_key`] writes, and nothing else. `None` too for a key under which anybody can sign.
pub(crate) fn parse_verifier_key(
    text: &str,
    kind: SignatureKind,
) -> Option<(LogName, VerifyingKey)> {
    let (name, rest) = text.split_once('+')?;
    let (_, typed_key) = rest.split_once('+')?;
    let name = LogName::new(name).ok()?;
    let typed_key: [u8; 33] = STANDARD.decode(typed_key).ok()?.try_into().ok()?;
    let (_, key) = typed_key.split_first_chunk::<1>()?;
    let key = VerifyingKey::from_bytes(key.try_into().ok()?).ok().filter(|key| !key.is_weak())?;
    (verifier_key(kind, &name, &key) == text).then_some((name, key))
}

/// Signs a text that ends in a newline, as a note with one signature.
///
/// A key that signs notes of several kinds needs texts that no two kinds share: begin with a line that names
/// the kind.
pub fn sign_note(text: &str, signer: &SigningKey, key_name: &LogName) -> String {
    let signature = signer.sign(text.as_bytes()).to_bytes();
    let key = signer.verifying_key();
    let line = signature_line(SignatureKind::Ed25519, key_name, &key, &signature);
    format!("{text}\n{line}")
}

/// The text of a note that this key signed, still unread: it may hold any characters.
///
/// # Errors
/// [`CheckpointError`] when the note is malformed, or not signed by this key exactly once.
pub fn open_note<'note>(
    note: &'note str,
    key_name: &LogName,
    key: &VerifyingKey,
) -> Result<&'note str, CheckpointError> {
    let kind = SignatureKind::Ed25519;
    let (text, signature) = find_signature(note, kind, key_name, key)?;
    Signature::from_slice(&signature)
        .and_then(|signature| key.verify_strict(text.as_bytes(), &signature))
        .map_err(|_| CheckpointError::Signature { vkey: verifier_key(kind, key_name, key) })?;
    Ok(text)
}

/// One line under a note: `— name base64(id ‖ signature)`.
pub(crate) fn signature_line(
    kind: SignatureKind,
    key_name: &LogName,
    key: &VerifyingKey,
    signature: &[u8],
) -> String {
    let id = key_id(kind, key_name, key);
    let blob = STANDARD.encode([id.as_slice(), signature].concat());
    format!("{SIGNATURE_LINE}{key_name} {blob}\n")
}

/// The text of a note, and the one signature under it that claims to be by this key. Neither is verified.
pub(crate) fn find_signature<'note>(
    note: &'note str,
    kind: SignatureKind,
    key_name: &LogName,
    key: &VerifyingKey,
) -> Result<(&'note str, Vec<u8>), CheckpointError> {
    if note.len() > MAX_NOTE_BYTES {
        return Err(CheckpointError::TooLong { bytes: note.len() });
    }
    let malformed = || CheckpointError::Malformed { part: "signature block" };
    let blank_line = note.rfind("\n\n").ok_or_else(malformed)?;
    let (text, signatures) = (&note[..=blank_line], &note[blank_line + 2..]);
    let signatures = signatures.strip_suffix('\n').ok_or_else(malformed)?;

    let id = key_id(kind, key_name, key);
    let mut ours = None;
    for line in signatures.split('\n') {
        let (name, line_id, signature) = parse_signature(line).ok_or_else(malformed)?;
        // A line is ours when both agree; either alone may collide.
        if name == key_name.as_str() && line_id == id && ours.replace(signature).is_some() {
            let vkey = verifier_key(kind, key_name, key);
            return Err(CheckpointError::SignedTwice { vkey });
        }
    }
    match ours {
        Some(signature) => Ok((text, signature)),
        None => Err(CheckpointError::Unsigned { vkey: verifier_key(kind, key_name, key) }),
    }
}

/// The key name, key id and signature on one line: `— name base64(id ‖ signature)`.
fn parse_signature(line: &str) -> Option<(&str, [u8; 4], Vec<u8>)> {
    let (name, blob) = line.strip_prefix(SIGNATURE_LINE)?.split_once(' ')?;
    let blob = STANDARD.decode(blob).ok()?;
    let (id, signature) = blob.split_first_chunk()?;
    (is_name(name) && !signature.is_empty()).then(|| (name, *id, signature.to_vec()))
}

/// The first four bytes of `SHA-256(name ‖ 0x0A ‖ kind ‖ key)`. It finds a key and proves nothing.
fn key_id(kind: SignatureKind, key_name: &LogName, key: &VerifyingKey) -> [u8; 4] {
    let hash = Sha256::new()
        .chain_update(key_name.as_str())
        .chain_update([b'\n', kind as u8])
        .chain_update(key.as_bytes());
    let [a, b, c, d, ..]: Hash = hash.finalize().into();
    [a, b, c, d]
}

fn is_name(name: &str) -> bool {
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || c == '+';
    !name.is_empty() && !name.contains(forbidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published example of Go's signed notes, the format's first implementation.
    #[test]
    fn the_go_reference_note_opens_under_its_published_key() {
        let text = "If you think cryptography is the answer to your problem,\n\
                    then you don't know what your problem is.\n";
        let note = format!(
            "{text}\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZ\
             SNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
        );
        let published = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
        let (name, key) = parse_verifier_key(published, SignatureKind::Ed25519).unwrap();
        assert_eq!(vkey(&name, &key), published);
        assert_eq!(open_note(&note, &name, &key), Ok(text));
    }
}
