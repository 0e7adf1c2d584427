//! Text to vectors, tokens and weights: the embedder, the sequence classifiers, and where their files come from.
//!
//! - [`registry`], [`pins`], [`install`]: which models there are, which are here, how they come.
//! - [`fetch`], [`incoming`], [`folders`], [`sha256`]: how any file comes in, hashed on the way.

pub mod fetch;
pub mod folders;
pub mod incoming;
pub mod install;
pub mod pins;
pub mod registry;
pub mod sha256;

mod archive;
mod change;
mod source;

pub use archive::PlaceError;
