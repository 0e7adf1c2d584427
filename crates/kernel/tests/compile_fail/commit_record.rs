//! A record committed without a decision.

use custody_log::EntryId;
use custody_kernel::record::Record;
use custody_kernel::state::State;

fn commit(state: &mut State, record: Record, id: EntryId) {
    let _ = state.commit(record, id, Vec::new(), None);
}

fn main() {}
