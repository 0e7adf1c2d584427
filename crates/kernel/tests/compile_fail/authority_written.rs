//! An authority without a proof, written down.

use custody_kernel::principal::{Authority, Who};

fn written(who: Who) -> Authority {
    Authority(who)
}

fn main() {}
