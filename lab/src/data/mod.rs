//! The benchmark data that suites are measured on: where it comes from, whether it is right, its rows.
//!
//! - [`DataPin`]: the files and their hashes, compiled in from `data.toml`.
//! - [`Row`], [`read_rows`]: any JSON Lines file of texts, plain or gzipped.
//! - [`DataFolder`]: the folder, its rows and splits.
//! - [`FetchedData`]: the originals over the network, the normalised files from a copy.

mod error;
mod fetch;
mod folder;
mod pins;
mod row;

pub use error::DataError;
pub use fetch::{FetchedData, ImportedData, ORIGINALS};
pub use folder::{DataFileState, DataFolder, DataSplit};
pub use pins::{DataPin, Original, known};
pub use row::{DataSet, Row, read_rows};
