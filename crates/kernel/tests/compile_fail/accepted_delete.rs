//! A delete that changes the store without a committed decision.

use custody_kernel::actions::write::AcceptedWrite;
use custody_kernel::record::Record;
use custody_kernel::state::State;
use custody_log::SessionId;

fn skip_the_decision(accepted: AcceptedWrite, state: &mut State, id: SessionId, record: &Record) {
    accepted.apply(state, id, record);
}

fn main() {}
