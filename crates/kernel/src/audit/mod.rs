//! The audit log: every decision is a leaf of an append-only Merkle tree, and a signed checkpoint
//! states the tree's size and root.
//!
//! A checkpoint kept away from the store makes an edited, reordered, truncated or restored log
//! show: the roots no longer agree. Records are opaque bytes here, and storing them, keeping the
//! head and ordering the two are the runtime's work.
//!
//! - [`Frontier`] appends leaves and gives the root, holding only the tree's right edge.
//! - [`inclusion_proof`] and [`consistency_proof`] answer an auditor; [`verify_inclusion`] and
//!   [`verify_consistency`] check such answers against signed roots.
//! - [`Checkpoint`] is the signed statement, as text that other verifiers read too.
//!
//! Source: RFC 9162 §2.1; C2SP tlog-checkpoint and signed-note.

mod merkle;

mod checkpoint;

pub use merkle::{
    Frontier, Hash, ProofError, consistency_proof, empty_root, inclusion_proof, leaf_hash,
    node_hash, root_of, verify_consistency, verify_inclusion,
};

pub use checkpoint::{Checkpoint, CheckpointError, LogName, vkey};
