//! Which conversation a request belongs to.
//!
//! A host that names its conversations is taken at that name, under its own credential. Without a name, a
//! request that begins with all of a conversation, and with nothing else, goes on with it; every other one
//! begins a new one, whatever it has in common with others. So no two conversations are ever joined.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use custody_log::Digest;
use custody_runtime::StoreError;
use lru::LruCache;

use super::conversation::Conversation;
use crate::wire::Block;

/// The most conversations of one connection that are held open.
const MAX_CONVERSATIONS: usize = 1_024;
/// The most answers of one connection that are recognised in a conversation that was begun anew.
const MAX_ANSWERS: usize = 65_536;

/// The conversations of one connection.
#[derive(Debug)]
pub(super) struct Conversations(Mutex<Open>);

#[derive(Debug)]
struct Open {
    named: LruCache<String, Arc<Named>>,
    /// By the digest of everything in them, in order.
    unnamed: LruCache<Digest, Arc<Conversation>>,
    /// Everything up to the end of each answer that was returned.
    answered: LruCache<Digest, ()>,
}

/// The place of a conversation with a name. Opening one waits for the disk, and only those who want it wait with it.
#[derive(Debug, Default)]
struct Named(Mutex<Option<Arc<Conversation>>>);

/// The conversation of a request.
#[derive(Debug)]
pub(super) struct Continued {
    pub(super) conversation: Arc<Conversation>,
    /// How many blocks of the request are recorded in it.
    pub(super) recorded: usize,
    /// The blocks that this gateway returned in answer to just what stands before them.
    pub(super) ours: Vec<bool>,
}

impl Default for Conversations {
    fn default() -> Self {
        let conversations = NonZeroUsize::new(MAX_CONVERSATIONS).unwrap_or(NonZeroUsize::MIN);
        let answers = NonZeroUsize::new(MAX_ANSWERS).unwrap_or(NonZeroUsize::MIN);
        Self(Mutex::new(Open {
            named: LruCache::new(conversations),
            unnamed: LruCache::new(conversations),
            answered: LruCache::new(answers),
        }))
    }
}

impl Conversations {
    /// The conversation with the host's name `name`. `open` makes it if there is none.
    pub(super) fn named(
        &self,
        name: &str,
        open: impl FnOnce() -> Result<Conversation, StoreError>,
    ) -> Result<Arc<Conversation>, StoreError> {
        let mut conversations = self.lock();
        let found = conversations.named.get(name).map(Arc::clone);
        let (place, closed) = match found {
            Some(place) => (place, None),
            None => {
                let place = Arc::new(Named::default());
                (Arc::clone(&place), conversations.named.push(name.to_owned(), place))
            }
        };
        drop(conversations);
        if let Some((_, closed)) = closed {
            close_soon(closed.take());
        }
        place.get_or_open(open)
    }

    /// The conversation that `blocks` continue. `open` makes it if there is none. No other request gets it until it is
    /// [put back](Self::put).
    pub(super) fn continued(
        &self,
        blocks: &[Block],
        open: impl FnOnce() -> Conversation,
    ) -> Continued {
        let chain = chain(blocks.iter());
        let mut conversations = self.lock();
        let ours = chain.iter().map(|digest| conversations.answered.contains(digest)).collect();
        let found = chain.iter().enumerate().rev().find_map(|(at, digest)| {
            conversations.unnamed.pop(digest).map(|conversation| (at + 1, conversation))
        });
        drop(conversations);
        let (recorded, conversation) = match found {
            Some(found) => found,
            None => (0, Arc::new(open())),
        };
        Continued { conversation, recorded, ours }
    }

    /// Puts a conversation back that now holds `blocks` and what was `returned` in answer to them.
    pub(super) fn put(
        &self,
        conversation: Arc<Conversation>,
        blocks: &[Block],
        returned: &[Block],
    ) {
        let chain = chain(blocks.iter().chain(returned));
        let Some(end) = chain.last() else { return };
        for digest in chain.iter().skip(blocks.len()) {
            self.lock().answered.put(*digest, ());
        }
        self.keep(*end, conversation);
    }

    /// Keeps a conversation under a digest that no request has.
    pub(super) fn set_aside(&self, conversation: Arc<Conversation>) {
        self.keep(Digest::of(conversation.session.id().as_bytes()), conversation);
    }

    fn keep(&self, digest: Digest, conversation: Arc<Conversation>) {
        let closed = self.lock().unnamed.push(digest, conversation);
        close_soon(closed.map(|(_, conversation)| conversation));
    }

    /// All that are open, those with names first.
    pub(super) fn all(&self) -> Vec<Arc<Conversation>> {
        let conversations = self.lock();
        let named: Vec<Arc<Named>> =
            conversations.named.iter().map(|(_, place)| Arc::clone(place)).collect();
        let unnamed: Vec<Arc<Conversation>> =
            conversations.unnamed.iter().map(|(_, open)| Arc::clone(open)).collect();
        drop(conversations);
        named.iter().filter_map(|place| place.get()).chain(unnamed).collect()
    }

    /// Closes all of them.
    pub(super) fn close_all(&self) {
        let mut conversations = self.lock();
        while let Some((_, place)) = conversations.named.pop_lru() {
            if let Some(conversation) = place.take() {
                close(&conversation);
            }
        }
        while let Some((_, conversation)) = conversations.unnamed.pop_lru() {
            close(&conversation);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Named {
    fn get_or_open(
        &self,
        open: impl FnOnce() -> Result<Conversation, StoreError>,
    ) -> Result<Arc<Conversation>, StoreError> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(conversation) = &*place {
            return Ok(Arc::clone(conversation));
        }
        let opened = Arc::new(open()?);
        *place = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// The conversation, unless it is just being opened.
    fn get(&self) -> Option<Arc<Conversation>> {
        self.0.try_lock().ok()?.clone()
    }

    fn take(&self) -> Option<Arc<Conversation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Closes the session of a conversation that was dropped. Requests that still use it are refused from then on. The
/// request that took its place does not wait for that.
fn close_soon(conversation: Option<Arc<Conversation>>) {
    if let Some(conversation) = conversation {
        conversation.session.clone().close_soon();
    }
}

/// Closes the session of a conversation for good.
fn close(conversation: &Conversation) {
    // One that is closed already stays so.
    drop(conversation.session.clone().close());
}

/// For each block, the digest of everything up to its end.
fn chain<'a>(blocks: impl Iterator<Item = &'a Block>) -> Vec<Digest> {
    let start = Digest::of(b"custody conversation 1");
    let chained = blocks.scan(start, |before, block| {
        *before = Digest::of(&[before.0, block.digest.0].concat());
        Some(*before)
    });
    chained.collect()
}
