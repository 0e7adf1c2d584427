//! The tables, and how an older store becomes a newer one.
//!
//! `log` is the truth. `contents` holds what the log names by commitment. `edges`, `fingerprints`, `texts`,
//! `long_texts`, `hashes` and `vectors` are indexes that can be made again from the two.

use custody_log::Seq;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::error::{StoreError, Tampering};

/// Marks the file as ours, so that another program's database is never taken for an empty store.
const APPLICATION_ID: i32 = 0x4375_7374;

/// The longest row: a content of [`MAX_CONTENT_BYTES`](crate::MAX_CONTENT_BYTES) and room to spare.
const MAX_ROW_BYTES: i32 = 80 << 20;

/// One step per version; a store at version `n` has had the first `n` applied.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE log (
        seq INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        record BLOB NOT NULL
    );
    CREATE TABLE contents (
        arrival INTEGER PRIMARY KEY,
        salt BLOB NOT NULL,
        bytes BLOB NOT NULL
    );
    CREATE TABLE edges (
        parent INTEGER NOT NULL,
        child INTEGER NOT NULL,
        PRIMARY KEY (parent, child)
    ) WITHOUT ROWID;
    CREATE TABLE checkpoints (
        size INTEGER PRIMARY KEY,
        note TEXT NOT NULL
    );
    CREATE TABLE runs (
        tenant TEXT NOT NULL,
        print INTEGER NOT NULL,
        arrival INTEGER NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (tenant, print, arrival, at)
    ) WITHOUT ROWID;
",
    "
    CREATE VIRTUAL TABLE texts USING fts5(
        text, content = '', columnsize = 0, detail = none, tokenize = 'trigram'
    );
    CREATE TABLE hashes (
        hash BLOB NOT NULL,
        arrival INTEGER NOT NULL,
        PRIMARY KEY (hash, arrival)
    ) WITHOUT ROWID;
    CREATE TABLE vectors (
        model BLOB NOT NULL,
        arrival INTEGER NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (model, arrival)
    ) WITHOUT ROWID;
    CREATE TABLE indexed (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        texts INTEGER NOT NULL
    );
    INSERT INTO indexed VALUES (1, 0);
    CREATE INDEX runs_by_arrival ON runs (arrival);
    CREATE INDEX vectors_by_arrival ON vectors (arrival);
",
    // The fingerprints of before were made without a key, of another form of texts. All texts are fingerprinted anew
    // before the next one is compared.
    "
    DROP TABLE runs;
    CREATE TABLE fingerprints (
        print INTEGER NOT NULL,
        arrival INTEGER NOT NULL,
        around INTEGER NOT NULL,
        form INTEGER NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (print, arrival, around)
    ) WITHOUT ROWID;
    CREATE INDEX fingerprints_by_arrival ON fingerprints (arrival);
    CREATE TABLE fingerprints_waiting (
        arrival INTEGER NOT NULL,
        slice INTEGER NOT NULL,
        prints BLOB,
        PRIMARY KEY (arrival, slice)
    ) WITHOUT ROWID;
    CREATE TABLE fingerprint_key (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        key BLOB NOT NULL,
        since INTEGER NOT NULL
    );
    INSERT INTO fingerprint_key
        SELECT 1, randomblob(16), coalesce(max(seq) + 1, 0) FROM log;
    INSERT INTO fingerprints_waiting SELECT arrival, -1, NULL FROM contents;
",
    // Texts were indexed as they are written. All are indexed anew, in the forms in which a phrase is looked for, step
    // by step before the next search. A row's size says that it exists, which an index without contents does not.
    "
    DROP TABLE texts;
    CREATE VIRTUAL TABLE texts USING fts5(
        text, content = '', detail = none, tokenize = 'trigram'
    );
    CREATE TABLE long_texts (
        arrival INTEGER PRIMARY KEY
    );
    DELETE FROM hashes;
    UPDATE indexed SET texts = 0;
",
];

/// How many compiled statements a connection keeps: all that we have.
const STATEMENTS: usize = 64;

/// Opens our tables in a database that may not be ours: nothing of it is changed before that is known.
pub(super) fn prepare(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(std::time::Duration::from_secs(30))?;
    bound(connection)?;
    version_of(connection)?;
    configure(connection)?;
    migrate(connection)?;
    check_tables(connection)
}

/// The same, where nothing can be changed: an older schema cannot be brought up to date.
pub(super) fn prepare_to_read(connection: &Connection) -> Result<(), StoreError> {
    bound(connection)?;
    connection.pragma_update(None, "query_only", "on")?;
    match version_of(connection)? {
        0 => return Err(Tampering::Tables("there are none".into()).into()),
        found if found < MIGRATIONS.len() => {
            return Err(StoreError::Older { found, known: MIGRATIONS.len() });
        }
        _ => {}
    }
    check_tables(connection)
}

/// Refuses triggers and views: we make none, and they would act on what we write.
pub(super) fn check_tables(connection: &Connection) -> Result<(), StoreError> {
    let mut select = connection
        .prepare_cached("SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view')")?;
    match select.query_row([], |row| row.get::<_, String>(0)).optional()? {
        Some(name) => Err(Tampering::Tables(format!("`{name}` was added")).into()),
        None => Ok(()),
    }
}

/// Sets the connection up: write-ahead log, every commit synced, freed pages overwritten.
fn configure(connection: &Connection) -> Result<(), StoreError> {
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "secure_delete", "on")?;
    // One commit in a few copies what was logged since: 4 MB at most, which takes about 10 ms.
    connection.pragma_update(None, "wal_autocheckpoint", 1_000)?;
    Ok(())
}

/// What holds however the database is opened: what is believed of it, and what reading it may take.
fn bound(connection: &Connection) -> Result<(), StoreError> {
    // Longer rows were never stored, and must not be read into memory.
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES)?;
    connection.pragma_update(None, "trusted_schema", "off")?;
    connection.pragma_update(None, "cell_size_check", "on")?;
    connection.pragma_update(None, "cache_size", -16_000)?;
    // Otherwise SQLite compiles a statement again for each value that is bound to it, which took longer than the
    // look-up.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// Creates or migrates the tables, all steps or none.
fn migrate(connection: &Connection) -> Result<(), StoreError> {
    if version_of(connection)? == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    // Asked again under the lock: another process may have done it meanwhile.
    let version = version_of(&transaction)?;
    for step in MIGRATIONS.iter().skip(version) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(
        None,
        "user_version",
        i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX),
    )?;
    transaction.commit()?;
    Ok(())
}

fn version_of(connection: &Connection) -> Result<usize, StoreError> {
    let application: i32 = connection.pragma_query_value(None, "application_id", |r| r.get(0))?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |r| r.get(0))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    let is_new = application == 0 && tables == 0 && version == 0;
    let found = usize::try_from(version).map_err(|_| StoreError::Foreign)?;
    if application != APPLICATION_ID && !is_new {
        return Err(StoreError::Foreign);
    }
    if found > MIGRATIONS.len() {
        return Err(StoreError::Newer { found, known: MIGRATIONS.len() });
    }
    Ok(found)
}

/// A position as SQLite stores it. Positions are counted up from zero and never reach 2⁶³.
pub(crate) fn sql(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}
