//! How suspicious a text looks: advice, never a decision.

pub mod exact_math;
pub mod labels;
pub mod logistic;
pub mod measure;
pub mod ngram;
