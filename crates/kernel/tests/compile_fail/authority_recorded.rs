//! An authority without a proof, read back from what a record keeps.

use custody_kernel::principal::{Authority, PrincipalClaim};

fn read_back(who: PrincipalClaim) -> Authority {
    Authority::recorded(who)
}

fn main() {}
