//! A context that forgets what it read.

use custody_kernel::context::Context;
use custody_log::Seq;

fn forget(context: &mut Context) {
    context.produced(Seq(0));
}

fn main() {}
