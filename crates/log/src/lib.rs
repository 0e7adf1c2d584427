//! A tamper-evident log: Merkle trees, signed checkpoints, digests, identifiers and time.
//!
//! Every record of a store is one leaf of an append-only Merkle tree, and a signed checkpoint states the tree's
//! size and root. A checkpoint that is kept away from the log makes an edited, reordered, truncated or restored
//! log show, because the roots no longer agree. Records are opaque bytes here; storing them, keeping the head
//! and ordering the two are the caller's work. Nothing here does I/O, reads a clock or draws random numbers.
//!
//! - [`Frontier`] appends leaves and computes the root, holding only the right edge of the tree.
//! - [`inclusion_proof`] and [`consistency_proof`] answer an auditor; [`verify_inclusion`] and
//!   [`verify_consistency`] check such answers against signed roots.
//! - [`Checkpoint`] is the signed statement, as text that other verifiers read too.
//! - [`cosign`] and [`CosignerKey`] are a witness's signature beside the log's.
//! - [`LogKey`] is the key that signs it, certified by the owner of the store.
//!
//! ```
//! use custody_log::{Checkpoint, Frontier, LogName, inclusion_proof, leaf_hash, verify_inclusion};
//! use ed25519_dalek::SigningKey;
//!
//! let records = ["first", "second", "third"];
//! let leaves: Vec<_> = records.iter().map(|record| leaf_hash(record.as_bytes())).collect();
//! let mut tree = Frontier::new();
//! leaves.iter().for_each(|leaf| tree.push(*leaf));
//!
//! // The log signs its size and root …
//! let key = SigningKey::from_bytes(&[7; 32]);
//! let name = LogName::new("example.com/log")?;
//! let head = Checkpoint { origin: name.clone(), size: tree.size(), root: tree.root() };
//! let note = head.sign(&key, &name);
//!
//! // … and whoever has the public key can check that a record is in it.
//! let head = Checkpoint::verify(&note, &name, &key.verifying_key())?;
//! let proof = inclusion_proof(&leaves, 1, head.size).ok_or("no such record")?;
//! verify_inclusion(&leaf_hash(b"second"), 1, head.size, &proof, &head.root)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source: RFC 9162 §2.1; C2SP tlog-checkpoint, tlog-cosignature and signed-note.

mod checkpoint;
mod cosignature;
mod digest;
mod id;
mod log_key;
mod log_verifier;
mod merkle;
mod note;
mod time;

pub use checkpoint::Checkpoint;
pub use cosignature::{Cosigned, CosignerKey, cosign};
pub use digest::Digest;
pub use id::{CertificateId, EntryId, IdError, IncidentId, PrincipalId, Seq, SessionId, StoreId};
pub use log_key::{LogKey, key_name, origin};
pub use log_verifier::{LogVerifier, SignedHead};
pub use merkle::{
    Frontier, Hash, MerkleTree, ProofError, consistency_proof, empty_root, inclusion_proof,
    leaf_hash, node_hash, root_of, verify_consistency, verify_inclusion,
};
pub use note::{CheckpointError, LogName, open_note, sign_note, vkey};
pub use time::Timestamp;
