//! A write that the monitor did not accept.

use custody_kernel::actions::write::{AcceptedWrite, WriteProposal};

fn skip_the_check(proposal: WriteProposal) -> AcceptedWrite {
    AcceptedWrite { proposal, needs_review: false }
}

fn main() {}
