//! Opening: the whole log is read, folded and compared with its signed head before anything is done.

use custody_log::Seq;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::error::{StoreError, Tampering};
use crate::head::Slots;
use crate::ledger::{Held, Ledger, Seen};
use crate::schema::sql;
use crate::signatures::Signatures;

/// Reads and folds the whole log. The result is verified only once [`verify_head`] says so.
pub(crate) fn load(connection: &Connection) -> Result<Ledger, StoreError> {
    let mut ledger = Ledger::default();
    extend(connection, &mut ledger)?;
    Ok(ledger)
}

/// Brings what is `held` up to what the database holds now. `head` is what stood in the head file
/// before; `None` while an owner adopts a store whose head was lost.
///
/// # Errors
/// [`Tampering`] when the log is not what we have seen of it and a signed continuation.
pub(crate) fn bring_up<'held>(
    connection: &Connection,
    head: Option<&Slots>,
    held: &'held mut Held,
) -> Result<&'held mut Ledger, StoreError> {
    let seen = held.seen();
    let outcome = match held {
        Held::Ledger(ledger) => catch_up(connection, ledger).and_then(|()| match head {
            Some(slots) => not_behind(slots, ledger),
            None => Ok(()),
        }),
        Held::Lost(seen) => {
            load_again(connection, head, *seen).map(|ledger| *held = Held::Ledger(Box::new(ledger)))
        }
    };
    if let Err(error) = outcome {
        held.forget_since(seen);
        return Err(error);
    }
    match held {
        Held::Ledger(ledger) => Ok(ledger),
        Held::Lost(_) => Err(StoreError::HalfWay),
    }
}

/// Reads the log as if the store were opened anew: what was verified before is not in memory any more.
fn load_again(
    connection: &Connection,
    head: Option<&Slots>,
    seen: Seen,
) -> Result<Ledger, StoreError> {
    let ledger = load(connection)?;
    match head {
        Some(slots) => {
            verify_head(connection, &ledger, slots)?;
        }
        None => verify_tail(connection, &ledger, 0)?,
    }
    ledger.continues(seen)?;
    Ok(ledger)
}

/// Folds in what other processes appended since, and checks that they signed it.
fn catch_up(connection: &Connection, ledger: &mut Ledger) -> Result<(), StoreError> {
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
pub(crate) fn is_current(
    connection: &Connection,
    slots: &Slots,
    ledger: &Ledger,
) -> Result<bool, StoreError> {
    let found = length(connection)?;
    if found < ledger.len() {
        return Err(Tampering::BehindHead { found, head: ledger.len() }.into());
    }
    if found > ledger.len() {
        return Ok(false);
    }
    not_behind(slots, ledger)?;
    Ok(true)
}

/// Refuses a log that is shorter than its head says, or that has lost its head.
fn not_behind(slots: &Slots, ledger: &Ledger) -> Result<(), StoreError> {
    let found = ledger.len();
    not_blank(slots, found)?;
    if slots.claimed_size().is_none_or(|size| size <= found) {
        return Ok(());
    }
    match slots.newest(ledger)?.map(|head| head.size) {
        Some(head) if head > found => Err(Tampering::BehindHead { found, head }.into()),
        Some(_) | None => Ok(()),
    }
}

/// One moment of the database: what is read inside does not change under the reader, whatever other
/// processes commit meanwhile. Heads are read before it begins, so that a log can only be ahead of them.
pub(crate) fn snapshot(connection: &Connection) -> Result<Transaction<'_>, StoreError> {
    Ok(Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?)
}

/// Refuses a blank head. Only a founding that was interrupted leaves one: its single record is there,
/// its head is not. Later, a blank head would vouch for any older copy of the store.
fn not_blank(slots: &Slots, found: u64) -> Result<(), StoreError> {
    if slots.is_blank() && found > 1 {
        return Err(Tampering::BlankHead.into());
    }
    Ok(())
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
pub(crate) fn verify_head(
    connection: &Connection,
    ledger: &Ledger,
    slots: &Slots,
) -> Result<u64, StoreError> {
    let found = ledger.len();
    // Before any record there is no key to verify a head with, and a head that claims more is enough.
    if let Some(head) = slots.claimed_size().filter(|_| found == 0) {
        return Err(Tampering::BehindHead { found, head }.into());
    }
    not_blank(slots, found)?;
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
pub(crate) fn verify_tail(
    connection: &Connection,
    ledger: &Ledger,
    from: u64,
) -> Result<(), StoreError> {
    let checkpoint = last_note(connection, ledger)?.and_then(|note| ledger.verify(&note).ok());
    let is_signed = checkpoint.is_some_and(|checkpoint| {
        checkpoint.size == ledger.len() && checkpoint.root == ledger.root()
    });
    if is_signed { Ok(()) } else { Err(Tampering::UnsignedTail { from }.into()) }
}

/// The checkpoint over the whole log, as it was committed together with its last group.
pub(crate) fn last_note(
    connection: &Connection,
    ledger: &Ledger,
) -> Result<Option<String>, StoreError> {
    let mut select = connection.prepare_cached("SELECT note FROM checkpoints WHERE size = ?1")?;
    Ok(select.query_row([sql(Seq(ledger.len()))], |row| row.get(0)).optional()?)
}

/// Folds in what stands behind `ledger`. On an error the ledger holds what is not verified, and has to be forgotten.
fn extend(connection: &Connection, ledger: &mut Ledger) -> Result<(), StoreError> {
    let mut select =
        connection.prepare_cached("SELECT seq, record FROM log WHERE seq >= ?1 ORDER BY seq")?;
    let mut rows = select.query([sql(Seq(ledger.len()))])?;
    let mut signatures = Signatures::default();
    while let Some(row) = rows.next()? {
        let expected = ledger.len();
        let seq: i64 = row.get(0)?;
        if u64::try_from(seq) != Ok(expected) {
            return Err(Tampering::MissingRecord(expected).into());
        }
        let bytes = row.get_ref(1)?.as_blob().map_err(|_| Tampering::OtherRecord(expected))?;
        signatures.push(ledger.replay(bytes)?)?;
    }
    signatures.check()
}
