//! Adapters of language models, as files: which kind they are, what they hold besides weights, which adapter they are,
//! and how large the change is that they make to each layer.
//!
//! Nothing of a file is believed before it is checked; what only its configuration says is called a claim. Reading runs
//! no code and holds no more than one layer in memory.
//!
//! ```
//! use custody_adapters::{AdapterSeverity, scan};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let header = br#"{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
//! let length = (header.len() as u64).to_le_bytes();
//! let file = [&length[..], header, &1.5_f32.to_le_bytes()].concat();
//! std::fs::write(folder.path().join("adapter_model.safetensors"), file)?;
//! std::fs::write(folder.path().join("adapter_config.json"), r#"{"peft_type": "NEW_KIND"}"#)?;
//!
//! // What nobody here knows is not clean.
//! let report = scan(folder.path(), &mut |_, _| {})?;
//! assert_eq!(report.severity(), Some(AdapterSeverity::Refuse));
//! # Ok(())
//! # }
//! ```
//!
//! In reading order: [`scan()`] (the report), `adapter` (its files and tensors), `folder`, `tensors` (safetensors on
//! disk), `configuration` (claims), `kind`, `change` and `statistics` (the change of a layer), `identity`.
//!
//! Source: PEFT 0.21.2; the layouts are those that its `save_pretrained` writes.

mod adapter;
mod change;
mod configuration;
mod error;
mod finding;
mod folder;
mod identity;
mod kind;
mod scan;
mod statistics;
mod tensors;
mod unique_keys;

pub use error::AdapterError;
pub use finding::{AdapterFinding, AdapterSeverity};
pub use kind::AdapterKind;
pub use scan::{AdapterReport, ModuleReport, scan};
pub use statistics::ChangeStatistics;
