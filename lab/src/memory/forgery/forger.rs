//! A holder of the log key with a database editor: appends what they like to a store, signs the log to its end, signs
//! records with whatever keys they have, and cuts the log.
//!
//! Tests of other crates use this file too; it names nothing of this one.

use custody_arguments::ArgumentOrigin;
use custody_kernel::record::{
    AdminRequest, Author, Record, Request, SessionRequest, act_bytes, session_bytes,
};
use custody_kernel::signature::{LogPosition, RecordSignature};
use custody_kernel::tool::basis::BasisKind;
use custody_log::{
    Checkpoint, Digest, EntryId, Hash, LogName, Seq, SessionId, key_name, leaf_hash, origin,
    root_of,
};
use custody_runtime::Store;
use custody_runtime::store::Paths;
use ed25519_dalek::SigningKey;
use rusqlite::Connection;

/// The length of the file of the head.
const HEAD_BYTES: usize = 2048;

/// The result of forging: it fails where the store is not as expected.
pub type Forged<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How a forged record is signed.
#[derive(Debug, Clone, Copy)]
pub enum Signed<'a> {
    /// As the record is.
    AsItIs,
    /// By this key, for the place where it is put.
    By(&'a SigningKey),
}

/// A store that is forged.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The store, as a running process has it.
    pub store: &'a Store,
    /// Where it is.
    pub paths: &'a Paths,
}

impl Target<'_> {
    /// Appends `record` to the log and signs the log with the store's own log key. The head stays as it is: what is
    /// signed behind it is a tail that nobody acknowledged.
    ///
    /// # Errors
    /// When the database cannot be edited.
    pub fn append(self, mut record: Record, signed: Signed<'_>) -> Forged<Seq> {
        let signer = self.store.keys().log_key()?;
        let store = self.store.state(|state| state.store())?.ok_or("the store has no id")?;
        let connection = Connection::open(&self.paths.store)?;
        let mut leaves = leaves(&connection)?;
        record.seq = Seq(leaves.len() as u64);
        record.id =
            EntryId::from_random(u128::MAX.wrapping_sub(leaves.len() as u128).to_be_bytes());
        if let Signed::By(key) = signed {
            let at = LogPosition { store, root: Digest(root_of(&leaves)), seq: record.seq };
            let bytes = match &record.by {
                Author::Session(_) => session_bytes(at, &record)?,
                Author::Principal(who) => act_bytes(at, who, &record.request)?,
            };
            record.signature = Some(RecordSignature::sign(key, &bytes));
        }
        let bytes = record.to_bytes()?;
        leaves.push(leaf_hash(&bytes));
        let size = leaves.len() as u64;
        let checkpoint = Checkpoint { origin: origin(store), size, root: root_of(&leaves) };
        let note = checkpoint.sign(&signer, &key_name());
        let row = (record.seq.0.cast_signed(), record.id.as_bytes(), &bytes);
        connection.execute("INSERT INTO log (seq, id, record) VALUES (?1, ?2, ?3)", row)?;
        for parent in &record.parents {
            let row = (parent.0.cast_signed(), record.seq.0.cast_signed());
            connection.execute("INSERT INTO edges (parent, child) VALUES (?1, ?2)", row)?;
        }
        let row = (size.cast_signed(), note);
        connection.execute("INSERT INTO checkpoints (size, note) VALUES (?1, ?2)", row)?;
        Ok(record.seq)
    }

    /// Gives the record at `to` the content that arrived at `from`, if one did: a commitment does not bind its place.
    ///
    /// # Errors
    /// When the database cannot be edited.
    pub fn copy_content(self, from: Seq, to: Seq) -> Forged<()> {
        let copy = "INSERT INTO contents (arrival, salt, bytes)
                    SELECT ?2, salt, bytes FROM contents WHERE arrival = ?1";
        let connection = Connection::open(&self.paths.store)?;
        connection.execute(copy, (from.0.cast_signed(), to.0.cast_signed()))?;
        Ok(())
    }

    /// Copies the session `id`, record by record, into one of the forger's own, each record changed by `edit`, and
    /// signed from its opening on. Returns where the last one stands.
    ///
    /// # Errors
    /// When the database cannot be edited.
    pub fn copy_session(self, id: SessionId, edit: impl Fn(&mut Record)) -> Forged<Seq> {
        let (own, key) = (SessionId::from_random([9; 16]), SigningKey::from_bytes(&[9; 32]));
        let mut places: Vec<(Seq, Seq)> = Vec::new();
        let now = self.store.state(|state| state.now())?;
        for original in records_of(self.store, id)? {
            let mut record = moved(&original, &places);
            record.at = record.at.max(now);
            if let Request::Admin(AdminRequest::OpenSession { session, key: public, .. }) =
                &mut record.request
            {
                *session = own;
                *public = Some(Digest(key.verifying_key().to_bytes()));
            } else {
                record.by = Author::Session(own);
            }
            edit(&mut record);
            let signed = match &record.by {
                Author::Session(_) => Signed::By(&key),
                Author::Principal(_) => Signed::AsItIs,
            };
            let at = self.append(record, signed)?;
            self.copy_content(original.seq, at)?;
            places.push((original.seq, at));
        }
        places.last().map(|(_, last)| *last).ok_or_else(|| "the session has no record".into())
    }
}

/// Cuts the log to `size` records, and signs a checkpoint and the head over what is left. Nothing may have the store
/// open.
///
/// # Errors
/// When the database or the head cannot be edited.
pub fn cut_and_sign_again(paths: &Paths, size: u64) -> Forged<()> {
    let connection = Connection::open(&paths.store)?;
    let cut = size.cast_signed();
    for statement in [
        "DELETE FROM log WHERE seq >= ?1",
        "DELETE FROM checkpoints WHERE size >= ?1",
        "DELETE FROM edges WHERE child >= ?1",
        "DELETE FROM contents WHERE arrival >= ?1",
        "DELETE FROM fingerprints WHERE arrival >= ?1",
        "DELETE FROM fingerprints_waiting WHERE arrival >= ?1",
        "DELETE FROM hashes WHERE arrival >= ?1",
        "UPDATE indexed SET texts = min(texts, ?1)",
    ] {
        connection.execute(statement, [cut])?;
    }
    sign_again(&connection, paths, size)
}

/// Changes the record at `seq` where it stands, and signs the log and the head again. Nothing may have the store open.
///
/// # Errors
/// When the database or the head cannot be edited.
pub fn rewrite_and_sign_again(
    paths: &Paths,
    seq: Seq,
    edit: impl FnOnce(&mut Record),
) -> Forged<()> {
    let connection = Connection::open(&paths.store)?;
    let at = seq.0.cast_signed();
    let read = "SELECT CAST(record AS BLOB) FROM log WHERE seq = ?1";
    let bytes: Vec<u8> = connection.query_row(read, [at], |row| row.get(0))?;
    let mut record = Record::from_bytes(&bytes)?;
    edit(&mut record);
    let row = (at, record.to_bytes()?);
    connection.execute("UPDATE log SET record = ?2 WHERE seq = ?1", row)?;
    connection.execute("DELETE FROM checkpoints WHERE size > ?1", [at])?;
    let size = leaves(&connection)?.len() as u64;
    sign_again(&connection, paths, size)
}

/// Signs a checkpoint and the head over the `size` records that there are.
fn sign_again(connection: &Connection, paths: &Paths, size: u64) -> Forged<()> {
    let key = custody_keys::KeyFolder::new(&paths.keys).log_key()?;
    let path = paths.keys.join("head");
    let head = std::fs::read_to_string(&path)?;
    let origin = LogName::new(head.lines().next().unwrap_or_default())?;
    let root = root_of(&leaves(connection)?);
    let note = Checkpoint { origin, size, root }.sign(&key, &key_name());
    connection.execute("INSERT INTO checkpoints VALUES (?1, ?2)", (size.cast_signed(), &note))?;
    let mut file = note.into_bytes();
    file.resize(HEAD_BYTES.max(file.len()), b'\n');
    std::fs::write(path, file)?;
    Ok(())
}

fn leaves(connection: &Connection) -> Forged<Vec<Hash>> {
    let mut select = connection.prepare("SELECT CAST(record AS BLOB) FROM log ORDER BY seq")?;
    let rows = select.query_map([], |row| row.get::<_, Vec<u8>>(0))?;
    Ok(rows.map(|row| Ok(leaf_hash(&row?))).collect::<rusqlite::Result<_>>()?)
}

/// The records of a session from its opening on.
///
/// # Errors
/// When the store cannot be read.
pub fn records_of(store: &Store, id: SessionId) -> Forged<Vec<Record>> {
    let all = store.records(0..u64::MAX)?.into_iter();
    Ok(all.filter(|record| is_of(record, id)).collect())
}

fn is_of(record: &Record, id: SessionId) -> bool {
    if let Request::Admin(AdminRequest::OpenSession { session, .. }) = &record.request {
        return *session == id;
    }
    record.by == Author::Session(id)
}

/// `record` with the positions that it names moved to their copies.
fn moved(record: &Record, places: &[(Seq, Seq)]) -> Record {
    let mut record = record.clone();
    move_all(&mut record.parents, places);
    if let Request::Call(call) = &mut record.request {
        for leaf in &mut call.leaves {
            if let ArgumentOrigin::Tool { from } | ArgumentOrigin::Party { from } = &mut leaf.origin
            {
                move_all(from, places);
            }
        }
    }
    let Request::Session(request) = &mut record.request else { return record };
    if let SessionRequest::Observe { parents, discounted, .. } = request {
        move_all(parents, places);
        move_all(discounted, places);
    } else if let SessionRequest::RecordBasis(basis) = request {
        if let BasisKind::Output { call, texts } = &mut basis.of {
            move_to(call, places);
            move_all(texts, places);
        }
    } else if let SessionRequest::Withhold { call, .. } = request {
        move_to(call, places);
    } else if let SessionRequest::Extract(extract) = request {
        move_to(&mut extract.call, places);
        move_to(&mut extract.output, places);
    }
    record
}

fn move_all<'a>(seqs: impl IntoIterator<Item = &'a mut Seq>, places: &[(Seq, Seq)]) {
    seqs.into_iter().for_each(|seq| move_to(seq, places));
}

fn move_to(seq: &mut Seq, places: &[(Seq, Seq)]) {
    if let Some((_, to)) = places.iter().find(|(from, _)| from == seq) {
        *seq = *to;
    }
}
