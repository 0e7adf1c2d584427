//! A context that forgets what it read.

use custody_kernel::context::SessionContext;
use custody_log::Seq;

fn forget(context: &mut SessionContext) {
    context.produced(Seq(0));
}

fn main() {}
