//! One moment of a store, to be looked at: nothing that is written meanwhile is seen.

use custody_kernel::memory::item::ContentRef;
use custody_kernel::record::Record;
use custody_kernel::state::State;
use custody_log::{Digest, EntryId, Hash, Seq};
use custody_text::Phrase;
use rusqlite::Connection;

use crate::edges::Edges;
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::read::RowCounts;
use crate::{index, read, vectors};

/// A moment of a store. Every row is checked against the signed log before anybody sees it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    connection: &'a Connection,
    ledger: &'a Ledger,
}

impl<'a> View<'a> {
    pub(crate) const fn new(connection: &'a Connection, ledger: &'a Ledger) -> Self {
        Self { connection, ledger }
    }

    pub(crate) const fn connection(self) -> &'a Connection {
        self.connection
    }

    pub(crate) const fn ledger(self) -> &'a Ledger {
        self.ledger
    }

    /// The state that the records fold to.
    pub const fn state(self) -> &'a State {
        self.ledger.state()
    }

    /// The number of records.
    pub const fn len(self) -> u64 {
        self.ledger.len()
    }

    /// Whether there is no record.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The root over all records.
    pub fn root(self) -> Hash {
        self.ledger.root()
    }

    /// The root over the first `size` records; `None` where there are fewer.
    pub fn root_at(self, size: u64) -> Option<Hash> {
        self.ledger.root_at(size)
    }

    /// The leaf hash of every record.
    pub fn leaves(self) -> &'a [Hash] {
        self.ledger.leaves()
    }

    /// What was made from what.
    pub const fn edges(self) -> &'a Edges {
        self.ledger.edges()
    }

    /// One record.
    pub fn record(self, seq: Seq) -> Result<Record, StoreError> {
        read::record(self.connection, self.ledger, seq)
    }

    /// The position of an entry.
    pub fn position(self, id: EntryId) -> Result<Seq, StoreError> {
        read::position(self.connection, self.ledger, id)
    }

    /// The entries made directly from `parent`, ascending.
    pub fn children(self, parent: Seq) -> Result<Vec<Seq>, StoreError> {
        read::children(self.connection, self.ledger, parent)
    }

    /// How many rows each table has.
    pub fn row_counts(self) -> Result<RowCounts, StoreError> {
        read::row_counts(self.connection)
    }

    /// A content that can be retrieved.
    pub fn content(self, content: ContentRef) -> Result<Vec<u8>, StoreError> {
        read::content(self.connection, self.ledger.state(), content)
    }

    /// A content, in quarantine or not; `None` if it was destroyed.
    pub fn any_content(self, content: ContentRef) -> Result<Option<Vec<u8>>, StoreError> {
        match read::any_content(self.connection, self.ledger.state(), content) {
            Err(StoreError::Purged(_)) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Whether texts arrived that are not indexed yet.
    pub fn is_index_behind(self) -> Result<bool, StoreError> {
        index::is_behind(self.connection, self.state())
    }

    /// The arrivals whose text has this SHA-256, ascending, as the index has them.
    pub fn indexed_with_hash(self, hash: Digest) -> Result<Vec<Seq>, StoreError> {
        index::with_hash(self.connection, hash)
    }

    /// The arrivals whose text may hold `phrase`, ascending: all that do, and some others.
    pub fn may_contain(self, phrase: &Phrase) -> Result<Vec<Seq>, StoreError> {
        index::may_contain(self.connection, phrase)
    }

    /// The arrivals whose text may hold a third of `phrase` or more in one run, ascending, and some others.
    pub fn may_contain_part(self, phrase: &Phrase) -> Result<Vec<Seq>, StoreError> {
        index::may_contain_part(self.connection, phrase)
    }

    /// The first arrivals whose text may hold `phrase`, at most `most`; without texts that are too long to be indexed.
    pub fn may_contain_some(self, phrase: &Phrase, most: usize) -> Result<Vec<Seq>, StoreError> {
        index::may_contain_some(self.connection, phrase, most)
    }

    /// The arrivals that have no vector of `model`, ascending.
    pub fn without_vector(self, model: Digest) -> Result<Vec<Seq>, StoreError> {
        vectors::missing(self.connection, self.ledger, model)
    }

    /// The vector that `model` made of the text which arrived with `arrival`, as it is stored.
    pub fn vector_of(self, model: Digest, arrival: Seq) -> Result<Option<Vec<u8>>, StoreError> {
        vectors::of(self.connection, model, arrival)
    }

    /// Shows every vector of `model` to `look`, with its arrival.
    pub fn each_vector(
        self,
        model: Digest,
        look: impl FnMut(Seq, &[u8]),
    ) -> Result<(), StoreError> {
        vectors::each(self.connection, self.ledger, model, look)
    }

    /// Shows the bytes of every row that is kept to `look`: contents and records.
    pub fn each_kept(self, look: impl FnMut(&[u8])) -> Result<(), StoreError> {
        read::each_kept(self.connection, look)
    }
}
