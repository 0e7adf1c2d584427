//! One decision committed twice.

use custody_log::EntryId;
use custody_kernel::monitor::Decided;
use custody_kernel::state::State;

fn commit_twice(state: &mut State, decided: Decided, ids: [EntryId; 2]) {
    let _ = state.commit(decided, ids[0], Vec::new(), None);
    let _ = state.commit(decided, ids[1], Vec::new(), None);
}

fn main() {}
