//! Witnesses read from a text. The trait is our own so that the message lists no others.

use custody_kernel::actions::call::{AcceptedCall, AllowedCall};
use custody_kernel::actions::promote::AcceptedPromotion;
use custody_kernel::actions::review::Released;
use custody_kernel::actions::write::AcceptedWrite;
use custody_kernel::monitor::{Committed, Decided};

trait Parsed {}

impl<T: serde::de::DeserializeOwned> Parsed for T {}

fn parse<T: Parsed>(_: &str) -> Option<T> {
    None
}

fn main() {
    let _: Option<AcceptedWrite> = parse("");
    let _: Option<AcceptedPromotion> = parse("");
    let _: Option<Released> = parse("");
    let _: Option<AcceptedCall> = parse("");
    let _: Option<AllowedCall> = parse("");
    let _: Option<Decided> = parse("");
    let _: Option<Committed> = parse("");
}
