//! A holder of the log key: appends what they like to a store, signs the log to its end, and signs records with
//! whatever keys they have.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file uses its part")]

use custody_kernel::record::{Author, Record, act_bytes, session_bytes};
use custody_kernel::signature::{LogPosition, RecordSignature};
use custody_log::{Checkpoint, Digest, EntryId, Hash, Seq, key_name, leaf_hash, origin, root_of};
use ed25519_dalek::SigningKey;
use rusqlite::Connection;

use custody_runtime::Store;
use custody_runtime::store::Paths;

use crate::common;

/// How a forged record is signed.
#[derive(Clone, Copy)]
pub enum Signed<'a> {
    /// As the record is.
    AsItIs,
    /// By this key, for the place where it is put.
    By(&'a SigningKey),
}

/// A store that is forged.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub store: &'a Store,
    pub paths: &'a Paths,
}

impl<'a> From<&'a common::Scratch> for Target<'a> {
    fn from(scratch: &'a common::Scratch) -> Self {
        Self { store: &scratch.store, paths: &scratch.paths }
    }
}

impl<'a> From<&'a custody_runtime::scratch::Scratch> for Target<'a> {
    fn from(scratch: &'a custody_runtime::scratch::Scratch) -> Self {
        Self { store: &scratch.store, paths: &scratch.paths }
    }
}

/// Gives the record at `to` the content that arrived at `from`, if one did: a commitment does not bind its place.
pub fn copy_content<'a>(target: impl Into<Target<'a>>, from: Seq, to: Seq) {
    let connection = Connection::open(&target.into().paths.store).unwrap();
    let copy = "INSERT INTO contents (arrival, salt, bytes)
                SELECT ?2, salt, bytes FROM contents WHERE arrival = ?1";
    connection.execute(copy, (from.0.cast_signed(), to.0.cast_signed())).unwrap();
}

/// Adds the edges of the record at `seq` to the index.
fn index_edges(connection: &Connection, record: &Record) {
    for parent in &record.parents {
        let row = (parent.0.cast_signed(), record.seq.0.cast_signed());
        connection.execute("INSERT INTO edges (parent, child) VALUES (?1, ?2)", row).unwrap();
    }
}

/// Appends `record` to the log and signs the log with the store's own log key. The head stays as it is: what is signed
/// behind it is a tail that nobody acknowledged.
pub fn append<'a>(target: impl Into<Target<'a>>, mut record: Record, signed: Signed<'_>) -> Seq {
    let Target { store, paths } = target.into();
    let signer = store.keys().log_key().unwrap();
    let store = store.state(|state| state.store()).unwrap().unwrap();
    let connection = Connection::open(&paths.store).unwrap();
    let mut select = connection.prepare("SELECT record FROM log ORDER BY seq").unwrap();
    let rows = select.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    let mut leaves: Vec<Hash> = rows.map(|row| leaf_hash(&row.unwrap())).collect();
    record.seq = Seq(leaves.len() as u64);
    let mut id = [0xF0; 16];
    id[..8].copy_from_slice(&record.seq.0.to_be_bytes());
    record.id = EntryId::from_random(id);
    if let Signed::By(key) = signed {
        let at = LogPosition { store, root: Digest(root_of(&leaves)), seq: record.seq };
        let bytes = match &record.by {
            Author::Session(_) => session_bytes(at, &record).unwrap(),
            Author::Principal(who) => act_bytes(at, who, &record.request).unwrap(),
        };
        record.signature = Some(RecordSignature::sign(key, &bytes));
    }
    let bytes = record.to_bytes().unwrap();
    leaves.push(leaf_hash(&bytes));
    let size = leaves.len() as u64;
    let signed = Checkpoint { origin: origin(store), size, root: root_of(&leaves) };
    let note = signed.sign(&signer, &key_name());
    let row = (record.seq.0.cast_signed(), record.id.as_bytes(), &bytes);
    connection.execute("INSERT INTO log (seq, id, record) VALUES (?1, ?2, ?3)", row).unwrap();
    index_edges(&connection, &record);
    let row = (size.cast_signed(), note);
    connection.execute("INSERT INTO checkpoints (size, note) VALUES (?1, ?2)", row).unwrap();
    record.seq
}
