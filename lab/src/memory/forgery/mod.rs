//! Forgeries by a holder of the log key (G1, G2, G3): what somebody with the key of the log and a database editor
//! writes into a store, and whether verifying the ledger names it.
//!
//! - [`forger`], [`records`]: how it is done; tests of other crates forge in the same way.
//! - [`acts`]: acts of humans and records in live sessions, invented, signed by a stranger, repeated or moved.
//! - [`calls`]: tool calls in a session that was copied whole.
//! - [`recovery`]: containments, repeated texts, claims of a certificate.
//! - [`history`]: records that were changed in place, and a log that was cut, rolled back or forked.
//!
//! Each forgery is made in a store of its own. It is found if opening or verifying the store refuses it and names the
//! forged record, and if a process that has the store open refuses to go on, where there is one.

pub mod forger;

pub mod records;

pub mod acts;

pub mod calls;

pub mod recovery;

pub mod history;

use custody_log::Seq;
use custody_runtime::clock::Clock;
use custody_runtime::store::{Paths, Tampering};
use custody_runtime::{OpenError, Store, StoreError};
use custody_verify::{VerifyError, verify_ledger};

use crate::error::EvalError;

/// What came of one forgery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeryAttempt {
    /// What was forged.
    pub what: String,
    /// Whether it was found.
    pub is_found: bool,
    /// Why it cannot be found, where that is known.
    pub limit: &'static str,
}

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgeries {
    /// Stores without a forgery.
    pub controls: u64,
    /// Of those, how many do not verify.
    pub controls_refused: Vec<String>,
    /// The forgeries.
    pub attempts: Vec<ForgeryAttempt>,
}

impl Forgeries {
    fn control(&mut self, what: &str, verifies: bool) {
        self.controls += 1;
        if !verifies {
            self.controls_refused.push(what.to_owned());
        }
    }

    fn add(&mut self, what: impl Into<String>, is_found: bool) {
        self.add_known(what, is_found, "");
    }

    fn add_known(&mut self, what: impl Into<String>, is_found: bool, limit: &'static str) {
        self.attempts.push(ForgeryAttempt { what: what.into(), is_found, limit });
    }

    /// How many were found.
    pub fn found(&self) -> u64 {
        self.attempts.iter().filter(|attempt| attempt.is_found).count() as u64
    }

    /// The others, each with the reason.
    pub fn missed(&self) -> Vec<String> {
        let missed = self.attempts.iter().filter(|attempt| !attempt.is_found);
        missed
            .map(|attempt| match attempt.limit {
                "" => attempt.what.clone(),
                limit => format!("{}: {limit}", attempt.what),
            })
            .collect()
    }
}

/// Makes the forgeries of one kind.
type Part = fn(&mut Forgeries) -> Result<(), EvalError>;

/// Makes every forgery.
///
/// # Errors
/// When a store cannot be made, forged or read.
pub fn run(progress: &mut dyn FnMut(&str, u64, u64)) -> Result<Forgeries, EvalError> {
    let parts: [Part; 4] = [acts::forge, calls::forge, recovery::forge, history::forge];
    let mut found = Forgeries::default();
    for (done, part) in (0..).zip(parts) {
        progress("forgeries", done, parts.len() as u64);
        part(&mut found)?;
    }
    Ok(found)
}

/// For `map_err` on what only prepares a forgery.
fn setup(error: impl std::fmt::Display) -> EvalError {
    EvalError::Setup(format!("a forgery: {error}"))
}

/// What opening and verifying the store finds; nothing if it verifies.
fn finding(paths: &Paths, clock: &Clock) -> Result<Option<Tampering>, EvalError> {
    let store = match Store::open(paths, clock.clone()) {
        Ok(store) => store,
        Err(OpenError::Store(StoreError::Tampered(found))) => return Ok(Some(found)),
        Err(error) => return Err(error.into()),
    };
    match verify_ledger(&store) {
        Ok(_) => Ok(None),
        Err(VerifyError::Store(StoreError::Tampered(found))) => Ok(Some(found)),
        Err(error) => Err(error.into()),
    }
}

/// Whether a finding is about the record at `forged`.
const fn names(found: &Tampering, forged: Seq) -> bool {
    match found {
        Tampering::OtherRecord(seq)
        | Tampering::MissingRecord(seq)
        | Tampering::Unreadable(seq, _)
        | Tampering::Inconsistent(seq, _)
        | Tampering::Members(seq)
        | Tampering::OtherContent(seq)
        | Tampering::MissingContent(seq)
        | Tampering::Echo(seq)
        | Tampering::Part(seq)
        | Tampering::Index { seq, .. }
        | Tampering::Call { seq, .. } => *seq == forged.0,
        Tampering::IndexRows(gap) => gap.first.0 == forged.0,
        Tampering::BehindHead { .. }
        | Tampering::OtherRecords(_)
        | Tampering::UnsignedTail { .. }
        | Tampering::Row(_)
        | Tampering::Tables(_)
        | Tampering::Replaced
        | Tampering::EntryIndex(_)
        | Tampering::Head(_)
        | Tampering::BlankHead
        | Tampering::ForeignHead
        | Tampering::LogKey => false,
        _ => false,
    }
}

/// Whether opening or verifying the store names the record at `forged`.
fn is_named(paths: &Paths, clock: &Clock, forged: Seq) -> Result<bool, EvalError> {
    Ok(finding(paths, clock)?.is_some_and(|found| names(&found, forged)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What SECURITY.md says that nothing shows, and nothing else.
    #[test]
    fn g1_g2_g3_every_forgery_is_found_but_those_that_nothing_can_show() {
        let found = run(&mut |_, _, _| {}).unwrap();
        assert_eq!(found.controls_refused, [""; 0]);
        assert!(found.controls >= 8 && found.attempts.len() >= 60, "{found:#?}");
        let unknown: Vec<&ForgeryAttempt> = found
            .attempts
            .iter()
            .filter(|attempt| attempt.is_found != attempt.limit.is_empty())
            .collect();
        assert!(unknown.is_empty(), "{unknown:#?}");
    }
}
