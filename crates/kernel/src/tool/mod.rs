//! Tool calls: what may run, decided before it runs (docs/design.md §5).
//!
//! In reading order: `manifest` (what a tool does), `arguments` (one canonical form), `heard` (what the
//! session's texts say), `leaves` (where each value came from), `call` (the decision), `asked` (calls that
//! wait for a human), `shape` and `extract` (single values of closed kinds out of an output). `spelling` and `words`
//! say when two values are one.

pub mod arguments;
pub mod asked;
pub mod call;
pub mod extract;
pub mod heard;
pub mod leaves;
pub mod manifest;
pub mod shape;
mod spelling;
mod words;
