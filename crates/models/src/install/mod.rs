//! Installing models: fetch, import, remove.
//!
//! - `operations`: [`ModelStore::fetch`](crate::registry::ModelStore::fetch), `import` and `remove`.
//! - `source`: the hub, a package index and local files; `local`: folders, files and archives.
//! - `change`: atomic changes of the model folder, one at a time.
//!
//! All files of a model arrive unnamed and are hashed on the way
//! ([`ReceivedFile`](crate::incoming::ReceivedFile)). When every
//! one is verified, they are named in a folder beside the final one, which is then renamed. The next change deletes
//! what a crash between the two leaves.

mod change;
mod error;
mod local;
mod operations;
mod source;

pub use error::InstallError;
pub use local::LocalSourceError;
pub use source::{InstallOutcome, InstallProgress, ProgressCallback, Sources, TrustPolicy};
