//! What depends on what: the graph of the record, and what a contaminated entry reached.
//!
//! In reading order: [`carried`] (which weights a model carries at a moment), [`graph`] (the record's edges,
//! both ways), [`closure`] (everything that an entry reached, and where it may have come from). `rows` and
//! `bits` hold edges and sets in flat arrays.

pub(crate) mod bits;
pub mod carried;
pub mod closure;
pub mod graph;
pub(crate) mod rows;
