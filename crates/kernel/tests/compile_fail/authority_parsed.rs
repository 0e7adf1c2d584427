//! An authority without a proof, parsed. The trait is our own so that the message lists no others.

use custody_kernel::principal::Authority;
use serde::de::DeserializeOwned;

trait Parse: Sized {
    fn parse(text: &str) -> Option<Self>;
}

impl<T: DeserializeOwned> Parse for T {
    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

fn parsed(text: &str) -> Option<Authority> {
    Authority::parse(text)
}

fn main() {}
