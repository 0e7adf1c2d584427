//! Records that are read ahead, each with its text and what can be made of that on all cores: its readings and their
//! fingerprints, which depend on nothing that came before.

use std::collections::VecDeque;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

use custody_kernel::memory::item::ContentRef;
use custody_kernel::record::{Record, Request, SessionRequest};
use custody_log::{Hash, Seq};
use custody_runtime::echo::{OwnText, StoreHasher};
use custody_runtime::store::{Tampering, View, content_of, is_kept};

use crate::VerifyError;

/// How many records are read ahead at most, and how many bytes their texts have until no more are.
const RECORDS: usize = 2_048;
const BYTES: usize = 4 << 20;

/// A record with what arrived with it.
pub(crate) struct Arrived {
    pub(crate) seq: Seq,
    pub(crate) record: Record,
    pub(crate) leaf: Hash,
    /// The content that is stored with this very record, unless it was destroyed.
    pub(crate) text: Option<Vec<u8>>,
    /// Whether there was one, destroyed or not.
    pub(crate) had_text: bool,
    /// The readings of a text that a session observed.
    pub(crate) own: Option<OwnText>,
}

/// All records of a view, in order.
pub(crate) struct RecordsAhead<'a> {
    view: View<'a>,
    hasher: StoreHasher,
    next: u64,
    read: VecDeque<Arrived>,
    /// What was found wrong behind those that are read.
    error: Option<VerifyError>,
}

impl<'a> RecordsAhead<'a> {
    pub(crate) fn new(view: View<'a>) -> Result<Self, VerifyError> {
        let hasher = StoreHasher::new(view.fingerprint_key()?);
        Ok(Self { view, hasher, next: 0, read: VecDeque::new(), error: None })
    }

    fn read_ahead(&mut self) {
        let mut bytes = 0;
        while self.read.len() < RECORDS && bytes < BYTES && self.next < self.view.len() {
            match arrived(self.view, Seq(self.next)) {
                Ok(arrived) => {
                    bytes += arrived.text.as_ref().map_or(0, Vec::len);
                    self.read.push_back(arrived);
                    self.next += 1;
                }
                Err(error) => {
                    self.error = Some(error);
                    self.next = self.view.len();
                }
            }
        }
        let hasher = self.hasher;
        let read = self.read.make_contiguous();
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let share = read.len().div_ceil(cores).max(1);
        thread::scope(|scope| {
            let making = read.chunks_mut(share).map(|share| {
                scope.spawn(move || share.iter_mut().for_each(|arrived| arrived.make_own(hasher)))
            });
            for made in making.collect::<Vec<_>>() {
                made.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        });
    }
}

impl Iterator for RecordsAhead<'_> {
    type Item = Result<Arrived, VerifyError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read.is_empty() {
            self.read_ahead();
        }
        match self.read.pop_front() {
            Some(arrived) => Some(Ok(arrived)),
            None => self.error.take().map(Err),
        }
    }
}

impl Arrived {
    fn make_own(&mut self, hasher: StoreHasher) {
        let is_read = matches!(
            self.record.request,
            Request::Session(SessionRequest::Observe { .. } | SessionRequest::Withhold { .. })
        );
        let text = self.text.as_ref().filter(|_| is_read);
        self.own = text.map(|text| OwnText::of(hasher, &String::from_utf8_lossy(text)));
    }
}

fn arrived(view: View<'_>, seq: Seq) -> Result<Arrived, VerifyError> {
    let record = view.record(seq)?;
    let content = arrived_with(&record);
    let text = match content.filter(|_| !view.state().is_purged(seq)) {
        Some(content) => {
            let text = view.any_content(content)?;
            Some(text.ok_or(Tampering::MissingContent(seq.0))?)
        }
        None => None,
    };
    let at = usize::try_from(seq.0).unwrap_or(usize::MAX);
    let leaf = *view.leaves().get(at).ok_or(Tampering::MissingRecord(seq.0))?;
    Ok(Arrived { seq, record, leaf, text, had_text: content.is_some(), own: None })
}

/// The content that is stored with this very record.
fn arrived_with(record: &Record) -> Option<ContentRef> {
    let content = content_of(record).filter(|_| is_kept(record))?;
    (content.arrival == record.seq).then_some(content)
}
