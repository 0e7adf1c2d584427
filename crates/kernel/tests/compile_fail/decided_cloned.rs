//! A decision that is kept for another time.

use custody_kernel::monitor::Decided;

fn keep(decided: &Decided) -> Decided {
    Decided::clone(decided)
}

fn main() {}
