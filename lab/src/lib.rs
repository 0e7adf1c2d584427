//! Whether our claims hold: measurements a stranger can repeat.
//!
//! A suite runs against the real store in a scratch folder and gives a [`EvalReport`]: figures with stable
//! ids, the data they were measured on, the machine and the seed. [`compare`](compare::compare) finds
//! what became worse between two reports.
//!
//! - [`report`], [`machine`], [`compare`], [`run_folder`], [`size`]: what every suite shares.
//! - [`sets`]: the texts that detectors are measured on, and how they are parted. [`metrics`]: figures over scores.
//! - [`detection`]: detectors measured. [`plot`]: their pictures. [`recipe`]: how the shipped ones are made.
//! - [`vectors`]: sentence vectors that outlive a run.
//! - [`agent`]: defences of tool calls measured with the agent that does whatever it reads.
//! - [`mod@route`]: the pipeline measured, and the model without it.
//! - [`gateway`]: what the gateway costs, beside other proxies.
//! - [`recovery`]: histories with a known truth, and the recovery paper's examples.
//! - [`memory`]: MON's evaluation, and the rules driven beside naive models of themselves.

pub mod agent;
pub mod compare;
pub mod data;
pub mod detection;
pub mod error;
pub mod gateway;
pub mod machine;
pub mod memory;
pub mod metrics;
pub mod plot;
pub mod random;
pub mod recipe;
pub mod recovery;
pub mod report;
pub mod route;
pub mod run_folder;
pub mod sets;
pub mod size;
pub mod stopwatch;
pub mod vectors;

pub use error::EvalError;
pub use report::{EvalReport, Figure};
