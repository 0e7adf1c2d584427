//! A connection: a credential, what is believed of it, and its conversations.

use std::sync::{Arc, PoisonError, RwLock};

use custody_arguments::Arguments;
use custody_kernel::principal::Authority;
use custody_runtime::advice::Advisor;
use custody_runtime::session::search::VectorModel;
use custody_runtime::tools::Gate;
use custody_runtime::{Session, Store, StoreError};

use super::conversation::{Conversation, Surface};
use super::conversations::{Continued, Conversations};
use super::settings::ConnectionSettings;
use crate::wire::Block;

/// A host's connection. Its conversations run for the principal that its credential proves.
pub struct Connection {
    name: String,
    store: Store,
    authority: Authority,
    gate: Gate,
    advisor: Option<Arc<dyn Advisor>>,
    vectors: Option<Arc<dyn VectorModel>>,
    settings: RwLock<Arc<ConnectionSettings>>,
    conversations: Conversations,
}

/// A call that two surfaces see.
#[derive(Debug)]
pub(crate) struct JoinedCall {
    pub(crate) conversation: Arc<Conversation>,
    /// Its id there.
    pub(crate) id: String,
}

impl Connection {
    /// The connection called `name`, whose sessions run for the principal that `authority` proves.
    pub fn new(
        name: impl Into<String>,
        store: Store,
        authority: Authority,
        gate: Gate,
        settings: ConnectionSettings,
    ) -> Self {
        let settings = RwLock::new(Arc::new(settings));
        let (advisor, vectors, conversations) = (None, None, Conversations::default());
        let name = name.into();
        Self { name, store, authority, gate, advisor, vectors, settings, conversations }
    }

    /// The same, in whose sessions `advisor` looks at what enters.
    #[must_use]
    pub fn with_advisor(self, advisor: Arc<dyn Advisor>) -> Self {
        Self { advisor: Some(advisor), ..self }
    }

    /// The same, in whose sessions memory is searched by meaning, with the vectors of `model`.
    #[must_use]
    pub fn with_vectors(self, model: Arc<dyn VectorModel>) -> Self {
        Self { vectors: Some(model), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is believed of it now.
    pub fn settings(&self) -> Arc<ConnectionSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Believes something else of it from here on.
    pub fn set(&self, settings: ConnectionSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Closes its sessions. Their items stay.
    pub fn close(&self) {
        self.conversations.close_all();
    }

    pub(crate) const fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(super) const fn store(&self) -> &Store {
        &self.store
    }

    /// The conversation that the host calls `name`.
    pub(crate) fn named(&self, name: &str) -> Result<Arc<Conversation>, StoreError> {
        self.conversations.named(name, || {
            let alias = format!("{}/{name}", self.name);
            let session = Session::open(&self.store, &self.authority, Some(alias))?;
            Ok(self.conversation(session))
        })
    }

    /// Joins a call with the same one that another surface decided, in whichever conversation. Each is joined once.
    pub(crate) fn join(
        &self,
        surface: Surface,
        tool: &str,
        arguments: &Arguments,
        id: Option<&str>,
    ) -> Option<JoinedCall> {
        let (mode, open) = (self.settings().mode, self.conversations.all());
        open.into_iter().find_map(|conversation| {
            let id = conversation.join(mode, surface, tool, arguments, id)?;
            Some(JoinedCall { conversation, id })
        })
    }

    /// The conversation that goes on with `blocks`.
    pub(super) fn continued(&self, blocks: &[Block]) -> Continued {
        self.conversations.continued(blocks, || {
            let alias = Some(self.name.clone());
            self.conversation(Session::open_soon(&self.store, &self.authority, alias))
        })
    }

    pub(super) fn put(&self, conversation: Arc<Conversation>, blocks: &[Block], new: &[Block]) {
        self.conversations.put(conversation, blocks, new);
    }

    /// Keeps a conversation until it is closed, and lets no request go on with it.
    pub(super) fn set_aside(&self, conversation: Arc<Conversation>) {
        self.conversations.set_aside(conversation);
    }

    /// A session of the same principal that has read nothing, in which intents for `covered` are declared.
    pub(super) fn open_beside(&self, covered: &Session) -> Result<Session, StoreError> {
        let alias = format!("{}/intents of {}", self.name, covered.id());
        Session::open(&self.store, &self.authority, Some(alias))
    }

    fn conversation(&self, mut session: Session) -> Conversation {
        if let Some(advisor) = &self.advisor {
            session = session.with_advisor(Arc::clone(advisor));
        }
        if let Some(vectors) = &self.vectors {
            session = session.with_vectors(Arc::clone(vectors));
        }
        Conversation::new(session)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("name", &self.name).finish_non_exhaustive()
    }
}
