//! A history on a real store: every entry goes through a session and is decided like any other.

use custody_incident::Indicator;
use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Scope;
use custody_log::{EntryId, Seq};
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::scratch::Scratch;
use custody_runtime::session::Write;
use custody_runtime::store::{Receipt, Ticket};
use custody_runtime::{Session, StoreError};

use super::history::{Entry, History, Kind};
use crate::error::EvalError;

/// A history, and where each of its entries stands on the record.
pub(super) struct Played {
    pub(super) scratch: Scratch,
    /// By the entry's number.
    pub(super) seqs: Vec<Seq>,
    ids: Vec<EntryId>,
}

impl Played {
    /// Plays `history` on a fresh store.
    pub(super) fn play(history: &History) -> Result<Self, EvalError> {
        let scratch = Scratch::new(Limits::UNLIMITED, Clock::manual(1_000))?;
        let ada = scratch.add_user("ada")?;
        let mut receipts = Vec::with_capacity(history.entries.len());
        let mut rest = history.entries.as_slice();
        let mut number = 0;
        while let Some(first) = rest.first() {
            let length = rest.iter().take_while(|entry| entry.session == first.session).count();
            let (session, after) = rest.split_at(length);
            receipts.extend(play_session(&scratch, &ada, session, number)?);
            (rest, number) = (after, number + length);
        }
        let seqs = receipts.iter().map(|receipt| receipt.seq).collect();
        let ids = receipts.iter().map(|receipt| receipt.id).collect();
        Ok(Self { scratch, seqs, ids })
    }

    /// What the operator types: half of the seeds by id, half by phrase.
    pub(super) fn indicators(&self, history: &History) -> Vec<Indicator> {
        let typed = history.seeds.iter().filter_map(|seed| {
            if seed.by_phrase {
                return Some(Indicator::Text(seed.phrase.clone()));
            }
            self.ids.get(seed.entry).map(|id| Indicator::Entry(*id))
        });
        typed.collect()
    }
}

enum Waiting {
    Observed(Ticket<Vec<Receipt>>),
    Read(Ticket<custody_runtime::session::Reading>),
    Wrote(Ticket<Receipt>),
}

fn play_session(
    scratch: &Scratch,
    ada: &custody_kernel::principal::Authority,
    entries: &[Entry],
    first: usize,
) -> Result<Vec<Receipt>, EvalError> {
    let session = Session::open(&scratch.store, ada, None)?;
    let mut waiting = Vec::with_capacity(entries.len());
    for (number, entry) in (first..).zip(entries) {
        waiting.push(match &entry.kind {
            Kind::Message => {
                let said = Observation::message(Channel::User, entry.text.clone());
                Waiting::Observed(session.observe(said))
            }
            Kind::Completion => {
                Waiting::Observed(session.observe(Observation::completion(entry.text.clone())))
            }
            Kind::Read(written) => Waiting::Read(session.read(Scope::Shared, key(*written)?)),
            Kind::Write => {
                let write = Write::new(Scope::Shared, key(number)?, entry.text.clone());
                Waiting::Wrote(session.write(write))
            }
        });
    }
    let mut receipts = Vec::with_capacity(waiting.len());
    for one in waiting {
        receipts.push(match one {
            Waiting::Observed(ticket) => {
                ticket.wait()?.into_iter().next().ok_or(StoreError::HalfWay)?
            }
            Waiting::Read(ticket) => ticket.wait()?.receipt,
            Waiting::Wrote(ticket) => ticket.wait()?,
        });
    }
    session.close()?;
    Ok(receipts)
}

/// The key of what the entry of this number wrote.
fn key(number: usize) -> Result<Key, EvalError> {
    let key = format!("note/{number}").parse();
    key.map_err(|_| EvalError::Setup(format!("`note/{number}` is no key")))
}
