//! A call that may run, out of a decision that was not committed.

use custody_kernel::actions::call::{AcceptedCall, AllowedCall};

fn skip_the_record(accepted: AcceptedCall) -> AllowedCall {
    accepted.into()
}

fn main() {}
