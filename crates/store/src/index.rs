//! Indexes of texts, for recovery: the forms in which phrases are looked for, by trigrams, and plain hashes.
//!
//! Made after the fact from what is stored, so that writing costs nothing more; a search brings them up to date first.
//! They only say where to look: whatever they name is read and compared before anybody believes it.

use custody_kernel::state::State;
use custody_log::{Digest, Seq};
use custody_text::{Phrase, search_forms};
use rusqlite::Connection;

use crate::error::{StoreError, Tampering};
use crate::schema::sql;

/// How much is indexed in one step, in bytes: a step holds up the writers.
const STEP_BYTES: usize = 1 << 20;

/// The longest text that is indexed, in bytes: its forms may be many times as long. Longer ones are always read.
const MAX_INDEXED_BYTES: usize = 1 << 20;

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
        match row(bytes) {
            // Taking out a row that somebody removed would damage the index.
            Some(row) if has_row(connection, at)? => connection
                .prepare_cached("INSERT INTO texts (texts, rowid, text) VALUES ('delete', ?1, ?2)")?
                .execute((at, row))?,
            Some(_) => 0,
            None => connection
                .prepare_cached("DELETE FROM long_texts WHERE arrival = ?1")?
                .execute([at])?,
        };
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

fn has_row(connection: &Connection, arrival: i64) -> Result<bool, StoreError> {
    let mut select = connection.prepare_cached("SELECT 1 FROM texts_docsize WHERE id = ?1")?;
    Ok(select.exists([arrival])?)
}

/// Rewrites the full-text index without what was forgotten. Linear in the index.
pub(crate) fn compact(connection: &Connection) -> Result<(), StoreError> {
    connection.execute("INSERT INTO texts (texts) VALUES ('optimize')", [])?;
    Ok(())
}

/// The arrivals whose text may hold `phrase`, ascending: all that do, and few others.
pub(crate) fn may_contain(
    connection: &Connection,
    phrase: &Phrase,
) -> Result<Vec<Seq>, StoreError> {
    let mut found = matching(connection, &query(phrase), i64::MAX)?;
    let long = "SELECT arrival FROM long_texts ORDER BY arrival LIMIT ?1";
    found.extend(arrivals(connection, long, [i64::MAX])?);
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The arrivals whose text may hold enough of `phrase` that the rest can be in the next part of one observation, which
/// was recorded in two or three parts.
pub(crate) fn may_contain_part(
    connection: &Connection,
    phrase: &Phrase,
) -> Result<Vec<Seq>, StoreError> {
    let windows = phrase.forms().iter().flat_map(|form| windows(form.chars())).map(conjunction);
    let query = windows.collect::<Vec<_>>().join(" OR ");
    let mut found = matching(connection, &query, i64::MAX)?;
    let long = "SELECT arrival FROM long_texts ORDER BY arrival LIMIT ?1";
    found.extend(arrivals(connection, long, [i64::MAX])?);
    found.sort_unstable();
    Ok(found)
}

/// Pieces of a form, one of which is in whatever holds a third of it in one run.
fn windows(chars: &[char]) -> impl Iterator<Item = &[char]> {
    let length = (chars.len() / 6).max(3);
    let step = if chars.len() < 18 { 1 } else { length };
    chars.windows(length).step_by(step)
}

/// The first arrivals whose text may hold `phrase`, at most so many; without those that are too long to be indexed.
pub(crate) fn may_contain_some(
    connection: &Connection,
    phrase: &Phrase,
    most: usize,
) -> Result<Vec<Seq>, StoreError> {
    matching(connection, &query(phrase), i64::try_from(most).unwrap_or(i64::MAX))
}

/// The query for a phrase in the full-text index: the rarest trigrams of one of its forms.
fn query(phrase: &Phrase) -> String {
    let forms = phrase.forms().iter().map(|form| conjunction(form.chars()));
    forms.collect::<Vec<_>>().join(" OR ")
}

/// The query for texts that have the rarest trigrams of `chars`.
fn conjunction(chars: &[char]) -> String {
    let quoted = rarest_trigrams(chars).into_iter().map(|trigram| format!("\"{trigram}\""));
    format!("({})", quoted.collect::<Vec<_>>().join(" AND "))
}

fn matching(connection: &Connection, query: &str, most: i64) -> Result<Vec<Seq>, StoreError> {
    let select = "SELECT rowid FROM texts WHERE texts MATCH ?1 ORDER BY rowid LIMIT ?2";
    arrivals(connection, select, (query, most))
}

/// The arrivals that a query selects.
fn arrivals(
    connection: &Connection,
    select: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<Seq>, StoreError> {
    let mut select = connection.prepare_cached(select)?;
    let rows = select.query_map(parameters, |row| row.get::<_, i64>(0))?;
    let mut found = Vec::new();
    for row in rows {
        let arrival = row?;
        found.push(Seq(u64::try_from(arrival).map_err(|_| bad_row(arrival))?));
    }
    Ok(found)
}

/// The arrivals whose text has this SHA-256, ascending.
pub(crate) fn with_hash(connection: &Connection, hash: Digest) -> Result<Vec<Seq>, StoreError> {
    let select = "SELECT arrival FROM hashes WHERE hash = ?1 ORDER BY arrival";
    arrivals(connection, select, [hash.0])
}

fn insert(connection: &Connection, arrival: Seq, bytes: &[u8]) -> Result<(), StoreError> {
    let at = sql(arrival);
    match row(bytes) {
        Some(row) => connection
            .prepare_cached("INSERT INTO texts (rowid, text) VALUES (?1, ?2)")?
            .execute((at, row))?,
        None => connection
            .prepare_cached("INSERT OR IGNORE INTO long_texts (arrival) VALUES (?1)")?
            .execute([at])?,
    };
    connection
        .prepare_cached("INSERT OR IGNORE INTO hashes (hash, arrival) VALUES (?1, ?2)")?
        .execute((Digest::of(bytes).0, at))?;
    Ok(())
}

/// Whether a text is too long to be indexed.
pub(crate) const fn is_long(bytes: &[u8]) -> bool {
    bytes.len() > MAX_INDEXED_BYTES
}

/// What the full-text index has of a text: its forms, one to a line. `None` if it is too long.
///
/// A row is taken out by what was put in, so this is part of the schema: another form of a text is a new version.
fn row(bytes: &[u8]) -> Option<String> {
    if is_long(bytes) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let mut row = String::with_capacity(text.len());
    for form in search_forms(&text) {
        row.extend(form.chars());
        row.push('\n');
    }
    Some(row)
}

/// Up to which record texts are indexed.
pub(crate) fn upto(connection: &Connection) -> Result<i64, StoreError> {
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
fn rarest_trigrams(chars: &[char]) -> Vec<String> {
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
        let trigrams = |text: &str| rarest_trigrams(&text.chars().collect::<Vec<_>>());
        let chosen = trigrams("theaccountde893704");
        assert!(chosen.len() <= MAX_TRIGRAMS && chosen.contains(&"370".to_owned()), "{chosen:?}");
        assert!(trigrams("ab").is_empty() && trigrams("").is_empty());
        assert_eq!(trigrams("дщю"), ["дщю"]);
    }

    /// Whoever makes this test fail adds a version to the schema, by which every row is made anew.
    #[test]
    fn the_rows_of_this_version_of_the_schema_are_these() {
        let text = "> Pay\u{ad} Ｄ\u{435} <b>caf\\u00e9</b> %41 \u{3a0}\n2. {\"to\": \"Zo\u{eb}\"}";
        assert_eq!(
            row(text.as_bytes()).unwrap().lines().collect::<Vec<_>>(),
            [
                "paydebcafu00e9b41π2tozoe",
                "paydecafe41π2tozoe",
                "paydecafe41π2zoe",
                "paydecafe41πtozoe",
                "paydebcafu00e9baπ2tozoe",
                "paydebcafu00e9b41π2tozoe",
            ]
        );
        assert!(row(&vec![b'a'; MAX_INDEXED_BYTES]).is_some());
        assert_eq!(row(&vec![b'a'; MAX_INDEXED_BYTES + 1]), None);
    }
}
