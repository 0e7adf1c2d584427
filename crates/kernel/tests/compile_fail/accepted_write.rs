//! A write that the monitor did not accept.

use custody_kernel::memory::monitor::{AcceptedWrite, WriteProposal};

fn skip_the_check(proposal: WriteProposal) -> AcceptedWrite {
    AcceptedWrite { proposal, needs_review: false }
}

fn main() {}
