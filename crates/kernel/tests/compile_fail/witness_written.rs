//! Witnesses written down.

use custody_kernel::actions::call::{AcceptedCall, AllowedCall};
use custody_kernel::actions::promote::AcceptedPromotion;
use custody_kernel::actions::review::Released;
use custody_kernel::actions::write::AcceptedWrite;
use custody_kernel::monitor::{Committed, Decided};

trait Written {}

impl<T: serde::Serialize> Written for T {}

fn write<T: Written>(_: T) {}

fn main() {
    let write_it: fn(AcceptedWrite) = write;
    let promote_it: fn(AcceptedPromotion) = write;
    let release_it: fn(Released) = write;
    let accept_it: fn(AcceptedCall) = write;
    let run_it: fn(AllowedCall) = write;
    let decide_it: fn(Decided) = write;
    let commit_it: fn(Committed) = write;
}
