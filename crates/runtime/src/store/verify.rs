//! Verifying everything: what `custody ledger verify` does.
//!
//! Opening a store compares the log with its signed head. This goes further: every decision is made
//! again, every content is compared with its commitment, and every index with the records.

use custody_kernel::id::Seq;
use custody_kernel::memory::item::ContentRef;
use custody_kernel::record::{Answer, Record, Request};
use custody_kernel::state::State;
use rusqlite::Connection;

use super::ledger::Ledger;
use super::{StoreError, Tampering, read};

/// What was found in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct VerifyReport {
    /// Records whose bytes are those that were signed, and whose answer is the one the rules give.
    pub records: u64,
    /// Contents that match their commitment.
    pub contents: u64,
    /// Edges of the provenance graph that the index agrees with.
    pub edges: u64,
    /// Places where an owner adopted a store whose head was lost.
    pub breaks: u64,
}

pub(super) fn verify(connection: &Connection, ledger: &Ledger) -> Result<VerifyReport, StoreError> {
    let mut report = VerifyReport::default();
    let mut again = State::default();
    for seq in (0..ledger.len()).map(Seq) {
        let record = read::record(connection, ledger, seq)?;
        again.recount(&record).map_err(|cause| Tampering::Inconsistent(seq.0, cause))?;
        if let Some(content) = arrived_with(&record) {
            read::content(connection, content)?;
            report.contents += 1;
        }
        report.edges += read::children(connection, ledger, seq)?.len() as u64;
        report.records += 1;
    }
    report.breaks = again.breaks().len() as u64;
    count_agrees(connection, "SELECT count(*) FROM log", report.records, "log")?;
    count_agrees(connection, "SELECT count(*) FROM contents", report.contents, "content")?;
    count_agrees(connection, "SELECT count(*) FROM edges", report.edges, "edge")?;
    Ok(report)
}

fn count_agrees(
    connection: &Connection,
    query: &str,
    expected: u64,
    index: &'static str,
) -> Result<(), StoreError> {
    let found: i64 = connection.query_row(query, [], |row| row.get(0))?;
    if u64::try_from(found) != Ok(expected) {
        return Err(Tampering::Index { index, seq: expected }.into());
    }
    Ok(())
}

/// The content that is stored with this very record.
fn arrived_with(record: &Record) -> Option<ContentRef> {
    if matches!(record.answer, Answer::Refused(_)) {
        return None;
    }
    let content = content_of(record)?;
    (content.arrival == record.seq).then_some(content)
}

/// The content that a record names, wherever it is stored.
pub fn content_of(record: &Record) -> Option<ContentRef> {
    if let Some(content) = record.content {
        return Some(content);
    }
    match (&record.request, &record.answer) {
        (_, Answer::Found { content, .. }) => Some(*content),
        (Request::Observe { content, .. }, _) => content.map(|value| value.content(record.seq)),
        (Request::Write { value, .. } | Request::AdoptFile { value, .. }, _) => {
            Some(value.content(record.seq))
        }
        _ => None,
    }
}
