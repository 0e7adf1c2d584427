//! The embedding model with which sessions search memory by meaning: the one that is installed, opened by the first
//! search.

use std::sync::{Mutex, PoisonError};

use custody_log::Digest;
use custody_models::registry::{ModelStore, ModelStoreError};
use custody_models::{Embedder as _, SentenceEmbedder};
use custody_runtime::session::search::{ModelFailure, TextVectors, VectorModel};

use crate::command::detector::{self, BASE_MODEL};
use crate::context::GlobalContext;

/// The installed embedding model.
pub(in crate::command) struct InstalledModel {
    models: ModelStore,
    opened: Mutex<Option<(SentenceEmbedder, Digest)>>,
}

impl InstalledModel {
    /// The embedding model, if it is installed. It is not opened yet; one that is damaged fails the first search, and
    /// is not replaced by a search of another kind.
    pub(in crate::command) fn find(context: &GlobalContext) -> Option<Self> {
        let models = context.models();
        let is_absent = matches!(models.find(BASE_MODEL), Err(ModelStoreError::Absent { .. }));
        (!is_absent).then(|| Self { models, opened: Mutex::new(None) })
    }
}

impl VectorModel for InstalledModel {
    fn vectors(&self, texts: &[&str]) -> Result<TextVectors, ModelFailure> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let (embedder, model) = match opened.as_ref() {
            Some(opened) => opened,
            None => opened.insert(detector::embedder_of(&self.models)?),
        };
        Ok(TextVectors { model: *model, rows: embedder.embed(texts)? })
    }
}
