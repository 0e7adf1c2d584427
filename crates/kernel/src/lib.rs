//! What is allowed, what is contaminated, what is certified: pure decisions, no effects.

pub mod audit;
