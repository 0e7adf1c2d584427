//! Opening: the whole log is read, folded and compared with its signed head before anything is done.

use rusqlite::{Connection, OptionalExtension};

use super::head::{Head, Slots};
use super::ledger::Ledger;
use super::transaction::sql;
use super::{StoreError, Tampering};
use custody_kernel::id::Seq;

/// Reads and folds the whole log. The result is verified only once [`verify_head`] says so.
pub(super) fn load(connection: &Connection) -> Result<Ledger, StoreError> {
    let mut ledger = Ledger::default();
    extend(connection, &mut ledger)?;
    Ok(ledger)
}

/// Folds in what other processes appended since, and checks that they signed it.
///
/// # Errors
/// [`Tampering::BehindHead`] when the log is shorter than what we have seen of it.
pub(super) fn catch_up(connection: &Connection, ledger: &mut Ledger) -> Result<(), StoreError> {
    let found = length(connection)?;
    let known = ledger.len();
    if found < known {
        return Err(Tampering::BehindHead { found, head: known }.into());
    }
    if found > known {
        extend(connection, ledger)?;
        verify_tail(connection, ledger, known)?;
    }
    Ok(())
}

/// Whether `ledger` is all there is: nothing was appended since, nothing was taken away.
///
/// # Errors
/// [`Tampering::BehindHead`] when the database holds less than we have seen, or than was signed.
pub(super) fn is_current(
    connection: &Connection,
    head: &mut Head,
    ledger: &Ledger,
) -> Result<bool, StoreError> {
    let slots = head.slots()?;
    let found = length(connection)?;
    if found < ledger.len() {
        return Err(Tampering::BehindHead { found, head: ledger.len() }.into());
    }
    if found > ledger.len() {
        return Ok(false);
    }
    not_behind(&slots, ledger)?;
    Ok(true)
}

/// Refuses a log that is shorter than its head says.
pub(super) fn not_behind(slots: &Slots, ledger: &Ledger) -> Result<(), StoreError> {
    let found = ledger.len();
    if slots.claimed_size().is_none_or(|size| size <= found) {
        return Ok(());
    }
    match slots.newest(ledger)?.map(|head| head.size) {
        Some(head) if head > found => Err(Tampering::BehindHead { found, head }.into()),
        Some(_) | None => Ok(()),
    }
}

fn length(connection: &Connection) -> Result<u64, StoreError> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT seq FROM log ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(last.map_or(0, |seq| u64::try_from(seq).unwrap_or_default() + 1))
}

/// Compares the log with its signed head. Returns how many records stand behind the head: groups that
/// were committed and signed, but not acknowledged before the program ended.
///
/// # Errors
/// [`Tampering`] in every other case in which the two disagree.
pub(super) fn verify_head(
    connection: &Connection,
    ledger: &Ledger,
    slots: &Slots,
) -> Result<u64, StoreError> {
    let found = ledger.len();
    // Before any record there is no key to verify a head with, and a head that claims more is enough.
    if let Some(head) = slots.claimed_size().filter(|_| found == 0) {
        return Err(Tampering::BehindHead { found, head }.into());
    }
    let head = slots.newest(ledger)?;
    let size = head.as_ref().map_or(0, |head| head.size);
    if size > found {
        return Err(Tampering::BehindHead { found, head: size }.into());
    }
    if let Some(head) = head.filter(|head| ledger.root_at(head.size) != Some(head.root)) {
        return Err(Tampering::OtherRecords(head.size.saturating_sub(1)).into());
    }
    if size < found {
        verify_tail(connection, ledger, size)?;
    }
    Ok(found - size)
}

/// Checks that the log key signed the log as it now ends.
pub(super) fn verify_tail(
    connection: &Connection,
    ledger: &Ledger,
    from: u64,
) -> Result<(), StoreError> {
    let unsigned = || Tampering::UnsignedTail { from };
    let note: Option<String> = connection
        .prepare_cached("SELECT note FROM checkpoints WHERE size = ?1")?
        .query_row([sql(Seq(ledger.len()))], |row| row.get(0))
        .optional()?;
    let checkpoint = ledger.verify(&note.ok_or_else(unsigned)?).map_err(|_| unsigned())?;
    if checkpoint.size != ledger.len() || checkpoint.root != ledger.root() {
        return Err(unsigned().into());
    }
    Ok(())
}

fn extend(connection: &Connection, ledger: &mut Ledger) -> Result<(), StoreError> {
    let mut select =
        connection.prepare_cached("SELECT seq, record FROM log WHERE seq >= ?1 ORDER BY seq")?;
    let mut rows = select.query([sql(Seq(ledger.len()))])?;
    while let Some(row) = rows.next()? {
        let expected = ledger.len();
        let seq: i64 = row.get(0)?;
        if u64::try_from(seq) != Ok(expected) {
            return Err(Tampering::MissingRecord(expected).into());
        }
        let bytes = row.get_ref(1)?.as_blob().map_err(|_| Tampering::OtherRecord(expected))?;
        ledger.replay(bytes)?;
    }
    Ok(())
}
