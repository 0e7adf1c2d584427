//! A write that was accepted once and stored twice.

use custody_kernel::actions::write::AcceptedWrite;

fn twice(accepted: &AcceptedWrite) -> AcceptedWrite {
    AcceptedWrite::clone(accepted)
}

fn main() {}
