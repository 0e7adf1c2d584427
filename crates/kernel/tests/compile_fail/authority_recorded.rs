//! An authority without a proof, read back from what a record keeps.

use custody_kernel::principal::{Authority, Who};

fn read_back(who: Who) -> Authority {
    Authority::recorded(who)
}

fn main() {}
