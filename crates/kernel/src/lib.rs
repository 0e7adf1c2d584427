//! What is allowed, what is contaminated, what is certified.
//!
//! Pure decisions: no I/O, clock, randomness, concurrency or model. Everything here is a function of
//! its arguments, so an auditor can read it in an afternoon and repeat every decision of a store from
//! its log.
//!
//! A request is decided against the [`State`](state::State), which changes nothing; committing the decision changes the
//! state and gives the record. What is refused is recorded too.
//!
//! ```
//! use custody_kernel::label::Channel;
//! use custody_kernel::memory::rate::Limits;
//! use custody_kernel::namespace::{Scope, Tenant};
//! use custody_kernel::principal::{Authority, Principal, Role};
//! use custody_kernel::record::{AdminRequest, Answer, Genesis, ObservationKind, SessionRequest, Value};
//! use custody_kernel::state::{State, SubmittedRequest};
//! use custody_log::{Digest, EntryId, LogKey, PrincipalId, SessionId, StoreId, Timestamp};
//! use ed25519_dalek::SigningKey;
//!
//! // The owner creates the store, and signs that with their key.
//! let key = SigningKey::from_bytes(&[7; 32]);
//! let owner = Principal {
//!     id: PrincipalId::from_random([1; 16]),
//!     name: "ann".into(),
//!     role: Role::Owner,
//!     tenant: Tenant::main(),
//!     public_key: Some(Digest(key.verifying_key().to_bytes())),
//!     token_hash: None,
//! };
//! let ann = Authority::by_key(&owner, &key)?;
//! let log_key = LogKey { certificate: String::new(), public_key: Digest([0; 32]) };
//! let store = StoreId::from_random([2; 16]);
//! let genesis = Genesis { store, owner, log_key, limits: Limits::default() };
//!
//! // The process that opens a session makes a key for it, which signs all that is asked in it.
//! let session = SessionId::from_random([4; 16]);
//! let session_key = SigningKey::from_bytes(&[5; 32]);
//! let public = Digest(session_key.verifying_key().to_bytes());
//! let observe = |channel| SessionRequest::Observe {
//!     kind: ObservationKind::Message,
//!     channel,
//!     lowered: false,
//!     content: None,
//!     origin: None,
//!     parents: vec![],
//!     part: None,
//!     discounted: vec![],
//! };
//! let write = SessionRequest::Write {
//!     scope: Scope::Shared,
//!     key: "notes".parse()?,
//!     value: Value::New(Digest::of(b"buy milk")),
//!     depends_on: vec![],
//!     queue: false,
//! };
//! let open = AdminRequest::OpenSession { session, alias: None, host: None, key: Some(public) };
//! let requests = [
//!     SubmittedRequest::Admin(ann.clone(), AdminRequest::CreateStore(Box::new(genesis))),
//!     SubmittedRequest::Admin(ann, open),
//!     SubmittedRequest::Session(session, observe(Channel::User)),
//!     SubmittedRequest::Session(session, write.clone()),
//!     SubmittedRequest::Session(session, observe(Channel::Web)),
//!     SubmittedRequest::Session(session, write),
//! ];
//!
//! let mut state = State::default();
//! let mut answers = Vec::new();
//! for (number, request) in (0_u8..).zip(requests) {
//!     let decided = state.decide(request, Timestamp(u64::from(number)))?;
//!     let committed = state.commit(decided, EntryId::from_random([number; 16]), vec![], Some(&session_key))?;
//!     answers.push(committed.record().answer.clone());
//! }
//! assert_eq!(answers[3], Answer::Done, "the user alone was heard");
//! let refusal = answers[5].refusal().ok_or("written after reading a page")?;
//! assert_eq!(refusal.rule().to_string(), "rule 4");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is recorded is the vocabulary of [`custody_record`], re-exported here. In reading order:
//!
//! - [`label`], [`namespace`], [`key`], [`principal`]: the words.
//! - [`memory`], [`tool`], [`adapter`], [`step`], [`route`]: what is asked about.
//! - [`context`]: what a proposal depends on.
//! - [`record`] and [`state`]: what is written down, and the fold that gives it meaning.
//! - [`actions`]: one module per action, each with its decision, its witness and what that changes.
//! - [`monitor`]: decide, commit, fold, recount.

pub mod actions;
pub mod carried;
pub mod context;
pub mod monitor;
pub mod principal;
pub mod route;
mod signed;
pub mod state;

pub use signed::UncheckedSignature;

pub use custody_record::{
    adapter, advice, evidence, key, kind, label, lists, memory, migration, namespace, record,
    score, signature, step, tool,
};
