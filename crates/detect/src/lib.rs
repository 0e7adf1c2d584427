//! How suspicious a text looks: advice, never a decision.

pub mod calibration;
pub mod exact_math;
pub mod labels;
pub mod language;
pub mod logistic;
pub mod measure;
pub mod ngram;
