//! The guards of the MCP servers that run.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use custody_gateway::mcp::McpGuard;
use custody_gateway::proxy::Connection;
use lru::LruCache;

/// The most running servers that are guarded at once.
const MAX_SERVERS: usize = 1_024;

/// The guards of the servers that run.
pub(crate) struct McpGuards(Mutex<LruCache<Running, Kept>>);

/// A running server: of which connection, under which name, in which process.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Running {
    pub(crate) connection: String,
    pub(crate) server: String,
    pub(crate) process: String,
}

/// A guard, with the connection that it is of.
struct Kept {
    connection: Arc<Connection>,
    guard: Arc<Mutex<McpGuard>>,
}

impl Default for McpGuards {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(NonZeroUsize::new(MAX_SERVERS).unwrap_or(NonZeroUsize::MIN))))
    }
}

impl McpGuards {
    /// The guard of a running server. `make` makes it if there is none, or its connection was made anew since.
    pub(crate) fn of<E>(
        &self,
        running: Running,
        connection: &Arc<Connection>,
        make: impl FnOnce() -> Result<McpGuard, E>,
    ) -> Result<Arc<Mutex<McpGuard>>, E> {
        let mut guards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = guards.get(&running)
            && Arc::ptr_eq(&kept.connection, connection)
        {
            return Ok(Arc::clone(&kept.guard));
        }
        let guard = Arc::new(Mutex::new(make()?));
        let kept = Kept { connection: Arc::clone(connection), guard: Arc::clone(&guard) };
        guards.put(running, kept);
        Ok(guard)
    }
}
