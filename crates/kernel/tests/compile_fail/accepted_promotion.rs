//! A promotion made of a write that was accepted somewhere else.

use custody_kernel::actions::promote::AcceptedPromotion;
use custody_kernel::actions::write::AcceptedWrite;

fn promote(accepted: AcceptedWrite) -> AcceptedPromotion {
    AcceptedPromotion(accepted)
}

fn main() {}
