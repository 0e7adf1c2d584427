//! Traced arguments read from a text, or written down. The traits are our own so that the message lists no others.

use custody_arguments::TracedArguments;

trait Parsed {}

impl<T: serde::de::DeserializeOwned> Parsed for T {}

trait Written {}

impl<T: serde::Serialize> Written for T {}

fn parse<T: Parsed>(_: &str) -> Option<T> {
    None
}

fn write<T: Written>(_: T) {}

fn main() {
    let _: Option<TracedArguments> = parse("");
    let write_it: fn(TracedArguments) = write;
}
