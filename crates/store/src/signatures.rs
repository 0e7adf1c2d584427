//! The signatures of many records, checked on all cores.
//!
//! Ed25519 takes longer than all else that is done with a record, and no check depends on another.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use custody_kernel::UncheckedSignature;
use custody_kernel::state::ApplyError;
use custody_log::Seq;

use crate::error::{StoreError, Tampering};

/// How many signatures are gathered before they are checked: enough for the threads to be worth starting.
const GATHERED: usize = 4_096;
/// Fewer than this are checked where they are.
const FEW: usize = 64;

/// Signatures that are still to be checked. What they stand under counts for nothing before [`Signatures::check`].
#[derive(Debug, Default)]
#[must_use = "until they are checked, nothing of what was read may be believed"]
pub struct Signatures(Vec<UncheckedSignature>);

impl Signatures {
    /// Adds one. Checks all of them when they are many.
    ///
    /// # Errors
    /// As [`Signatures::check`].
    pub fn push(&mut self, signature: UncheckedSignature) -> Result<(), StoreError> {
        self.0.push(signature);
        if self.0.len() < GATHERED { Ok(()) } else { self.check_gathered() }
    }

    /// Checks those that are left.
    ///
    /// # Errors
    /// [`Tampering::Inconsistent`] with the first record of those gathered that is not signed by whom it names.
    pub fn check(mut self) -> Result<(), StoreError> {
        self.check_gathered()
    }

    fn check_gathered(&mut self) -> Result<(), StoreError> {
        let gathered = std::mem::take(&mut self.0);
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let mut shares = gathered.chunks(gathered.len().div_ceil(cores).max(FEW));
        let own = shares.next().unwrap_or_default();
        let wrong = thread::scope(|scope| {
            let others: Vec<_> = shares.map(|share| scope.spawn(|| first_wrong(share))).collect();
            let own = first_wrong(own);
            let others = others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            // All are waited for, whichever failed.
            others.collect::<Vec<_>>().into_iter().fold(own, Option::or)
        });
        match wrong {
            Some(seq) => {
                let cause = Arc::new(ApplyError::Signature(seq));
                Err(Tampering::Inconsistent(seq.0, cause).into())
            }
            None => Ok(()),
        }
    }
}

fn first_wrong(signatures: &[UncheckedSignature]) -> Option<Seq> {
    signatures.iter().find(|signature| signature.check().is_err()).map(UncheckedSignature::seq)
}
