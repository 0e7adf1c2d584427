//! A record that claims to be committed.

use custody_kernel::monitor::Committed;
use custody_kernel::record::Record;

fn claim(record: Record) -> Committed {
    Committed { record, allowed: None }
}

fn main() {}
