//! A proxy between an agent and its model, without any network.
//!
//! A [`ModelExchange`] is one request and its answer. What a request brings is labelled and recorded once,
//! before it goes on; the tool calls of the answer are decided before they do. A [`Connection`] is a credential
//! with what is believed of it ([`ConnectionSettings`]); its conversations are sessions of the store.
//!
//! `ingress`: what a block is worth (part of the trusted base). `conversations`: which conversation a request belongs
//! to. `conversation`: what of it is recorded. `judge`: one call. `instruction_files`: which calls change what an
//! agent is told to do. `intents`: the calls that a model states before it reads anything but the user. `foreseen`:
//! what an answer holds, before it is decided. `exchange`: the whole. `compaction`: a history in place of an answer.
//! `hook`: what hosts' hooks report and ask. `wrapping`: what hosts put around results.

mod compaction;
mod connection;
mod conversation;
mod conversations;
mod exchange;
mod foreseen;
pub mod hook;
mod ingress;
pub mod instruction_files;
mod intents;
mod judge;
mod settings;
mod wrapping;

pub use connection::Connection;
pub(crate) use conversation::{Conversation, Surface};
pub use exchange::{ModelExchange, Outcome, ProxyError, Streaming};
pub(crate) use ingress::of_unseen_call;
pub(crate) use judge::{Judgement, judge};
pub use settings::{ConnectionSettings, GuardMode, UserText};
