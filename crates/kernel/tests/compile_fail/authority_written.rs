//! An authority without a proof, written down.

use custody_kernel::principal::{Authority, PrincipalClaim};

fn written(who: PrincipalClaim) -> Authority {
    Authority(who)
}

fn main() {}
