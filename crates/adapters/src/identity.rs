//! Which adapter it is: SHA-256 over its weights in canonical order and exactly the configuration that changes their
//! effect. A copy under another name, in another folder or with another dropout is the same adapter.

use std::collections::BTreeMap;

use custody_log::Digest;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::AdapterError;
use crate::tensors::TensorFile;

/// What the hash begins with, so that it is no other one's.
const DOMAIN: &[u8] = b"custody adapter 1\n";

/// The identity of an adapter with the weights in `file` and `effects`.
///
/// # Errors
/// When the weights cannot be read.
pub(crate) fn identity(
    file: &TensorFile,
    effects: &BTreeMap<String, Value>,
) -> Result<Digest, AdapterError> {
    let mut hash = Sha256::new_with_prefix(DOMAIN);
    feed(&mut hash, &json!(effects));
    for (name, entry) in file.tensors() {
        feed(&mut hash, &json!([name, entry.format.name(), entry.shape]));
        file.each_piece(entry, |piece| hash.update(piece))?;
    }
    Ok(Digest(hash.finalize().into()))
}

/// A line of canonical JSON (RFC 8785). A tensor's line gives the length of the bytes after it.
fn feed(hash: &mut Sha256, value: &Value) {
    let line = serde_json_canonicalizer::to_vec(value).unwrap_or_default();
    hash.update(&line);
    hash.update(b"\n");
}
