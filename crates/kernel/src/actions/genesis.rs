//! Creating the store: the first record, and only the first.

use custody_log::Seq;

use super::draft::Draft;
use crate::principal::{Authority, Role};
use crate::record::{Answer, Genesis, Record};
use crate::state::{AskError, State};

/// A store that its own owner creates.
#[derive(Debug)]
pub(crate) struct AcceptedGenesis(Genesis);

pub(crate) fn decide(
    state: &State,
    authority: &Authority,
    genesis: &Genesis,
) -> Result<Draft<AcceptedGenesis>, AskError> {
    if !state.is_empty() {
        return Err(AskError::StoreExists(state.len()));
    }
    let who = authority.who();
    let is_founder = authority.is_owner()
        && genesis.owner.role == Role::Owner
        && who.principal == Some(genesis.owner.id)
        && who.tenant == genesis.owner.tenant;
    // No refusal: recorded, it would stand where the first record belongs, for ever.
    if !is_founder {
        return Err(AskError::NoStore);
    }
    Ok(Draft::administrative(Ok(AcceptedGenesis(genesis.clone()))))
}

impl AcceptedGenesis {
    pub(crate) fn apply(self, state: &mut State) {
        create(state, &self.0);
    }
}

/// Creates a store that was created earlier.
pub(crate) fn fold(state: &mut State, record: &Record, genesis: &Genesis) -> Option<()> {
    let is_first = record.answer == Answer::Done && record.seq == Seq(0) && state.is_empty();
    is_first.then(|| create(state, genesis))
}

fn create(state: &mut State, genesis: &Genesis) {
    state.seed_items(genesis.store);
    state.store = Some(genesis.store);
    state.owner = Some(genesis.owner.id);
    state.log_key = Some(genesis.log_key.clone());
    state.limits = genesis.limits;
    state.principals.insert(genesis.owner.id, genesis.owner.clone());
}
