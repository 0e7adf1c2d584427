//! What can be asked of a store, one module per action.
//!
//! Each module holds the decision of its action, the witness that only this decision makes, and what the witness
//! changes when it is committed. Its `fold` changes the same for a record that was decided earlier, and checks only
//! that such an answer can be given. [`State::decide`](crate::state::State::decide) and its siblings in
//! [`monitor`](crate::monitor) are the dispatch.

pub(crate) mod adapter;
pub(crate) mod adopt;
pub(crate) mod basis;
pub mod call;
pub(crate) mod draft;
pub mod extract;
pub(crate) mod genesis;
pub(crate) mod incident;
pub mod intent;
pub(crate) mod join_context;
pub mod list;
pub mod migrate;
pub mod mode;
pub(crate) mod observe;
pub(crate) mod principals;
pub mod promote;
pub mod read;
pub mod review;
pub(crate) mod route;
pub(crate) mod session;
pub(crate) mod settings;
pub mod write;
