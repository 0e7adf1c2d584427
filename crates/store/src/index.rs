//! Indexes of texts, for recovery: full text by trigrams, and plain hashes.
//!
//! Made after the fact from what is stored, so that writing costs nothing more; a search brings them up to date first.
//! They only say where to look: whatever they name is read and compared before anybody believes it.

use custody_kernel::state::State;
use custody_log::{Digest, Seq};
use rusqlite::Connection;

use crate::error::{StoreError, Tampering};
use crate::schema::sql;

/// How much is indexed in one step, in bytes: a step holds up the writers.
const STEP_BYTES: usize = 4 << 20;

/// How many trigrams of a text are looked up. More find hardly fewer candidates.
const MAX_TRIGRAMS: usize = 16;

/// Indexes the texts that arrived since, as many as fit in one step. Returns whether more are left.
pub(crate) fn go_on(connection: &Connection, state: &State) -> Result<bool, StoreError> {
    let from = upto(connection)?;
    let mut select = connection.prepare_cached(
        "SELECT arrival, bytes FROM contents WHERE arrival >= ?1 ORDER BY arrival",
    )?;
    let mut rows = select.query([from])?;
    let (mut next, mut bytes_done) = (from, 0);
    while let Some(row) = rows.next()? {
        let arrival: i64 = row.get(0)?;
        let bytes = row.get_ref(1)?.as_blob().map_err(|_| bad_row(arrival))?;
        if bytes_done >= STEP_BYTES {
            set_upto(connection, next)?;
            return Ok(true);
        }
        let seq = Seq(u64::try_from(arrival).map_err(|_| bad_row(arrival))?);
        if !state.is_of_recovery(seq) {
            insert(connection, seq, bytes)?;
        }
        bytes_done += bytes.len();
        next = arrival + 1;
    }
    set_upto(connection, sql(Seq(state.len())))?;
    Ok(false)
}

/// Whether texts arrived that are not indexed yet.
pub(crate) fn is_behind(connection: &Connection, state: &State) -> Result<bool, StoreError> {
    Ok(upto(connection)? < sql(Seq(state.len())))
}

/// Forgets a text that is about to be destroyed, here and in every other index of texts.
pub(crate) fn forget(
    connection: &Connection,
    arrival: Seq,
    bytes: &[u8],
) -> Result<(), StoreError> {
    let at = sql(arrival);
    if at < upto(connection)? {
        let text = String::from_utf8_lossy(bytes);
        connection
            .prepare_cached("INSERT INTO texts (texts, rowid, text) VALUES ('delete', ?1, ?2)")?
            .execute((at, text))?;
        connection
            .prepare_cached("DELETE FROM hashes WHERE hash = ?1 AND arrival = ?2")?
            .execute((Digest::of(bytes).0, at))?;
    }
    connection.prepare_cached("DELETE FROM vectors WHERE arrival = ?1")?.execute([at])?;
    for statement in [
        "DELETE FROM fingerprints WHERE arrival = ?1",
        "DELETE FROM fingerprints_waiting WHERE arrival = ?1",
    ] {
        connection.prepare_cached(statement)?.execute([at])?;
    }
    Ok(())
}

/// Rewrites the full-text index without what was forgotten. Linear in the index.
pub(crate) fn compact(connection: &Connection) -> Result<(), StoreError> {
    connection.execute("INSERT INTO texts (texts) VALUES ('optimize')", [])?;
    Ok(())
}

/// The arrivals whose text may contain `text`, ascending: all that do, and few others.
///
/// `None` when it is too short to be looked up, which takes three characters.
pub(crate) fn may_contain(
    connection: &Connection,
    text: &str,
) -> Result<Option<Vec<Seq>>, StoreError> {
    let Some(query) = query(text) else { return Ok(None) };
    Ok(Some(matching(connection, &query, i64::MAX)?))
}

/// The first of the same, at most so many; none for what is too short.
pub(crate) fn may_contain_some(
    connection: &Connection,
    text: &str,
    most: usize,
) -> Result<Vec<Seq>, StoreError> {
    let Some(query) = query(text) else { return Ok(Vec::new()) };
    matching(connection, &query, i64::try_from(most).unwrap_or(i64::MAX))
}

/// The query for `text` in the full-text index; `None` if the text is too short to have a trigram.
fn query(text: &str) -> Option<String> {
    let trigrams = rarest_trigrams(text).into_iter();
    let quoted: Vec<String> =
        trigrams.map(|trigram| format!("\"{}\"", trigram.replace('"', "\"\""))).collect();
    (!quoted.is_empty()).then(|| quoted.join(" AND "))
}

fn matching(connection: &Connection, query: &str, most: i64) -> Result<Vec<Seq>, StoreError> {
    let mut select = connection
        .prepare_cached("SELECT rowid FROM texts WHERE texts MATCH ?1 ORDER BY rowid LIMIT ?2")?;
    let rows = select.query_map((query, most), |row| row.get::<_, i64>(0))?;
    let mut found = Vec::new();
    for row in rows {
        let arrival = row?;
        found.push(Seq(u64::try_from(arrival).map_err(|_| bad_row(arrival))?));
    }
    Ok(found)
}

/// The arrivals whose text has this SHA-256, ascending.
pub(crate) fn with_hash(connection: &Connection, hash: Digest) -> Result<Vec<Seq>, StoreError> {
    let mut select =
        connection.prepare_cached("SELECT arrival FROM hashes WHERE hash = ?1 ORDER BY arrival")?;
    let rows = select.query_map([hash.0], |row| row.get::<_, i64>(0))?;
    let mut found = Vec::new();
    for row in rows {
        let arrival = row?;
        found.push(Seq(u64::try_from(arrival).map_err(|_| bad_row(arrival))?));
    }
    Ok(found)
}

fn insert(connection: &Connection, arrival: Seq, bytes: &[u8]) -> Result<(), StoreError> {
    let at = sql(arrival);
    connection
        .prepare_cached("INSERT INTO texts (rowid, text) VALUES (?1, ?2)")?
        .execute((at, String::from_utf8_lossy(bytes)))?;
    connection
        .prepare_cached("INSERT OR IGNORE INTO hashes (hash, arrival) VALUES (?1, ?2)")?
        .execute((Digest::of(bytes).0, at))?;
    Ok(())
}

fn upto(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.prepare_cached("SELECT texts FROM indexed")?.query_row([], |row| row.get(0))?)
}

fn set_upto(connection: &Connection, upto: i64) -> Result<(), StoreError> {
    connection.prepare_cached("UPDATE indexed SET texts = ?1")?.execute([upto])?;
    Ok(())
}

fn bad_row(arrival: i64) -> StoreError {
    Tampering::Index { index: "text", seq: arrival.unsigned_abs() }.into()
}

/// The trigrams by which a text is looked up: those that common words have least.
fn rarest_trigrams(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().filter(|c| *c != '\0').collect();
    let mut trigrams: Vec<(u32, String)> = chars
        .windows(3)
        .map(|three| (three.iter().map(|c| commonness(*c)).sum(), three.iter().collect()))
        .collect();
    trigrams.sort();
    trigrams.dedup();
    trigrams.truncate(MAX_TRIGRAMS);
    trigrams.into_iter().map(|(_, trigram)| trigram).collect()
}

/// How common a character is in running text, roughly; the order is all that matters.
fn commonness(c: char) -> u32 {
    const BY_FREQUENCY: &str = "zqxjkvbpygfwmucldrhsnioate ";
    let place = BY_FREQUENCY.chars().position(|known| known == c.to_ascii_lowercase());
    place.and_then(|place| u32::try_from(place + 1).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_looked_up_by_what_is_rare_in_it() {
        let chosen = rarest_trigrams("the account DE89 3704");
        assert!(chosen.len() <= MAX_TRIGRAMS && chosen.contains(&"370".to_owned()), "{chosen:?}");
        assert!(rarest_trigrams("ab").is_empty() && rarest_trigrams("").is_empty());
        assert_eq!(rarest_trigrams("äöü"), ["äöü"]);
    }
}
