//! The `custody` command.

fn main() {}
