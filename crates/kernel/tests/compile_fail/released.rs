//! A proposal that no reviewer released.

use custody_kernel::actions::review::Released;
use custody_kernel::memory::review::Pending;

fn skip_the_reviewer(pending: Pending) -> Released {
    Released { pending }
}

fn main() {}
