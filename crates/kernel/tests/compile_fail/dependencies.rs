//! Dependencies that no context computed.

use custody_kernel::context::Dependencies;

fn depend_on_nothing() -> Dependencies {
    Dependencies { parents: Vec::new(), source: None }
}

fn main() {}
