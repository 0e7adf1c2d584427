//! Vectors of texts, one for each model and arrival. They only say where to look.

use custody_log::{Digest, Seq};
use rusqlite::Connection;

use crate::error::StoreError;
use crate::ledger::Ledger;

/// The arrivals of texts that have no vector of this model, ascending.
pub(crate) fn missing(
    connection: &Connection,
    ledger: &Ledger,
    model: Digest,
) -> Result<Vec<Seq>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT arrival FROM contents WHERE arrival NOT IN \
         (SELECT arrival FROM vectors WHERE model = ?1) ORDER BY arrival",
    )?;
    let rows = select.query_map([model.0], |row| row.get::<_, i64>(0))?;
    let mut found = Vec::new();
    for row in rows {
        let seq = Seq(u64::try_from(row?).unwrap_or(u64::MAX));
        if seq.0 < ledger.len() && !ledger.state().is_of_recovery(seq) {
            found.push(seq);
        }
    }
    Ok(found)
}

/// Shows every vector of a model to `look`, with its arrival.
pub(crate) fn each(
    connection: &Connection,
    ledger: &Ledger,
    model: Digest,
    mut look: impl FnMut(Seq, &[u8]),
) -> Result<(), StoreError> {
    let mut select =
        connection.prepare_cached("SELECT arrival, vector FROM vectors WHERE model = ?1")?;
    let mut rows = select.query([model.0])?;
    while let Some(row) = rows.next()? {
        let entry = Seq(u64::try_from(row.get::<_, i64>(0)?).unwrap_or(u64::MAX));
        if entry.0 < ledger.len() {
            look(entry, row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?);
        }
    }
    Ok(())
}
