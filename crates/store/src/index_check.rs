//! Whether the indexes have what the record says, and making them anew.
//!
//! Whoever can edit the database can make an index forget. Which rows there have to be follows from the records, so
//! that every row that was removed or added shows. What a row of the full-text index holds is checked for a sample.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};

use custody_log::{Digest, Seq};
use custody_text::search_forms;
use rusqlite::Connection;

use crate::error::StoreError;
use crate::index;
use crate::index_gap::IndexGap;
use crate::ledger::Ledger;
use crate::schema::sql;
use crate::transaction::Transaction;
use crate::view::View;

/// How many look-ups one text is checked by.
const LOOKUPS_PER_TEXT: usize = 32;

/// How many entries have their edges made anew in one turn of the writer.
const ENTRIES_PER_TURN: usize = 4096;

impl View<'_> {
    /// What the indexes of texts and hashes lack or have too much, of the texts that were indexed. Linear in their
    /// number; reads no text.
    pub fn search_index_gaps(self) -> Result<Vec<IndexGap>, StoreError> {
        let (connection, ledger) = (self.connection(), self.ledger());
        let upto = index::upto(connection)?;
        let expected = || expected_texts(ledger, upto).map(|entry| (entry, 0));
        let texts = "SELECT id, 0 FROM texts_docsize UNION ALL SELECT arrival, 0 FROM long_texts ORDER BY 1";
        let hashes = "SELECT arrival, 0 FROM hashes ORDER BY arrival";
        let gaps = [
            gap(connection, "texts", texts, expected())?,
            gap(connection, "hashes", hashes, expected())?,
        ];
        Ok(gaps.into_iter().flatten().collect())
    }

    /// The same of every index whose rows follow from the records: texts, hashes, edges, and vectors, which no entry
    /// has to have.
    pub fn index_gaps(self) -> Result<Vec<IndexGap>, StoreError> {
        let mut gaps = self.search_index_gaps()?;
        let (connection, ledger) = (self.connection(), self.ledger());
        let edges = "SELECT parent, child FROM edges ORDER BY parent, child";
        gaps.extend(gap(connection, "edges", edges, expected_edges(ledger).into_iter())?);
        let vectors = "SELECT DISTINCT arrival, 0 FROM vectors ORDER BY arrival";
        let texts = expected_texts(ledger, i64::MAX).map(|entry| (entry, 0));
        let vectors = gap(connection, "vectors", vectors, texts)?;
        let added = vectors.filter(|gap| gap.unexpected > 0);
        gaps.extend(added.map(|gap| IndexGap { missing: 0, ..gap }));
        Ok(gaps)
    }

    /// Whether the text that arrived with `entry` is up to be found: what arrived since the last search is not.
    pub fn is_indexed(self, entry: Seq) -> Result<bool, StoreError> {
        Ok(sql(entry) < index::upto(self.connection())?)
    }

    /// Whether a search finds the text `bytes` that arrived with `entry` by its hash and, if `by_text`, by letters that
    /// are chosen at random. True for what is not indexed yet.
    pub fn is_found_by_index(
        self,
        entry: Seq,
        bytes: &[u8],
        by_text: bool,
    ) -> Result<bool, StoreError> {
        let connection = self.connection();
        if sql(entry) >= index::upto(connection)? {
            return Ok(true);
        }
        let hash = (Digest::of(bytes).0, sql(entry));
        let mut select =
            connection.prepare_cached("SELECT 1 FROM hashes WHERE hash = ?1 AND arrival = ?2")?;
        if !select.exists(hash)? {
            return Ok(false);
        }
        if !by_text || index::is_long(bytes) {
            return Ok(true);
        }
        let mut select =
            connection.prepare_cached("SELECT 1 FROM texts WHERE texts MATCH ?1 AND rowid = ?2")?;
        for trigram in some_trigrams(&String::from_utf8_lossy(bytes)) {
            if !select.exists((format!("\"{trigram}\""), sql(entry)))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The entries whose texts are indexed, ascending.
fn expected_texts(ledger: &Ledger, upto: i64) -> impl Iterator<Item = i64> + '_ {
    let state = ledger.state();
    let kept = ledger
        .arrivals()
        .iter()
        .filter(|entry| !state.is_purged(**entry) && !state.is_of_recovery(**entry));
    kept.map(|entry| sql(*entry)).filter(move |entry| *entry < upto)
}

/// Every edge as parent and child, ascending.
fn expected_edges(ledger: &Ledger) -> Vec<(i64, i64)> {
    let entries = (0..).map(Seq).zip(ledger.edges().iter());
    let mut edges: Vec<(i64, i64)> = entries
        .flat_map(|(child, edges)| edges.parents.iter().map(move |it| (sql(*it), sql(child))))
        .collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Compares what `query` selects with what is expected, both ascending. `None` when they are the same.
fn gap(
    connection: &Connection,
    index: &'static str,
    query: &str,
    expected: impl Iterator<Item = (i64, i64)>,
) -> Result<Option<IndexGap>, StoreError> {
    let mut select = connection.prepare_cached(query)?;
    let mut rows = select.query([])?;
    let mut expected = expected.peekable();
    let mut gap = IndexGap { index, expected: 0, missing: 0, unexpected: 0, first: Seq(u64::MAX) };
    while let Some(row) = rows.next()? {
        let found: (i64, i64) = (row.get(0)?, row.get(1)?);
        while let Some(missing) = expected.next_if(|next| *next < found) {
            gap.expected += 1;
            gap.missing += 1;
            gap.note(missing.0);
        }
        if expected.next_if_eq(&found).is_some() {
            gap.expected += 1;
        } else {
            gap.unexpected += 1;
            gap.note(found.0);
        }
    }
    for missing in expected {
        gap.expected += 1;
        gap.missing += 1;
        gap.note(missing.0);
    }
    Ok((gap.missing + gap.unexpected > 0).then_some(gap))
}

/// Some of the trigrams that the index has of a text, all of them if it is short.
fn some_trigrams(text: &str) -> Vec<String> {
    let order = RandomState::new();
    let mut chosen: BTreeSet<(u64, String)> = BTreeSet::new();
    for form in search_forms(text) {
        for three in form.chars().windows(3) {
            let trigram: String = three.iter().collect();
            chosen.insert((order.hash_one(&trigram), trigram));
            if chosen.len() > LOOKUPS_PER_TEXT {
                chosen.pop_last();
            }
        }
    }
    chosen.into_iter().map(|(_, trigram)| trigram).collect()
}

impl Transaction<'_> {
    /// Empties the indexes of texts and hashes, and takes out vectors and fingerprints that belong to no entry.
    /// [`Transaction::index_texts`]
    /// fills them again.
    ///
    /// # Errors
    /// When the indexes cannot be written.
    pub fn clear_search_index(&mut self) -> Result<(), StoreError> {
        *self.indexed = true;
        self.connection.execute("INSERT INTO texts (texts) VALUES ('delete-all')", [])?;
        self.connection.execute_batch(
            "DELETE FROM long_texts; DELETE FROM hashes; UPDATE indexed SET texts = 0;",
        )?;
        let length = sql(Seq(self.ledger.len()));
        for statement in [
            "DELETE FROM fingerprints WHERE arrival < 0 OR arrival >= ?1",
            "DELETE FROM fingerprints_waiting WHERE arrival < 0 OR arrival >= ?1",
        ] {
            self.connection.execute(statement, [length])?;
        }
        let kept: BTreeSet<i64> = expected_texts(self.ledger, i64::MAX).collect();
        let mut select = self.connection.prepare("SELECT DISTINCT arrival FROM vectors")?;
        let rows = select.query_map([], |row| row.get::<_, i64>(0))?;
        let found: Vec<i64> = rows.collect::<Result<_, _>>()?;
        let mut delete = self.connection.prepare("DELETE FROM vectors WHERE arrival = ?1")?;
        for arrival in found.into_iter().filter(|arrival| !kept.contains(arrival)) {
            delete.execute([arrival])?;
        }
        Ok(())
    }

    /// Makes the edges anew of the entries from `from` on, as many as one turn takes. Returns where the next turn
    /// begins; `None` at the end.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn rebuild_edges(&mut self, from: Seq) -> Result<Option<Seq>, StoreError> {
        *self.indexed = true;
        let length = self.ledger.len();
        let to = Seq(from.0.saturating_add(ENTRIES_PER_TURN as u64));
        let is_last = to.0 >= length;
        let first = if from == Seq(0) { i64::MIN } else { sql(from) };
        let end = if is_last { i64::MAX } else { sql(to) };
        self.connection
            .execute("DELETE FROM edges WHERE parent >= ?1 AND parent < ?2", (first, end))?;
        let mut insert =
            self.connection.prepare("INSERT INTO edges (parent, child) VALUES (?1, ?2)")?;
        let edges = expected_edges(self.ledger);
        for edge in edges.into_iter().filter(|(parent, _)| *parent >= first && *parent < end) {
            insert.execute(edge)?;
        }
        Ok((!is_last).then_some(to))
    }
}
