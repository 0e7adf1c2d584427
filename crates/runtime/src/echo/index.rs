//! Keeping fingerprints: of a short text with its record, of a long one in slices, each in a turn of its own.

use custody_kernel::namespace::Tenant;
use custody_kernel::state::AskError;
use custody_log::{Seq, SessionId};
use custody_store::{
    FINGERPRINTS_PER_TURN, Fingerprint, Store, StoreError, Transaction, View, WaitingFingerprints,
};

use super::compare::OwnText;
use super::prints::StoreHasher;
use super::voice::{Voice, arrived_text, forms, is_of};

/// The fingerprints of a text that is about to be recorded, made before the writer's turn.
#[derive(Debug, Clone)]
pub struct Fingerprints {
    rows: Vec<Fingerprint>,
}

impl Fingerprints {
    /// The fingerprints of what `voice` said in `tenant`.
    pub fn of(hasher: &StoreHasher, tenant: &Tenant, voice: Voice, text: &str) -> Self {
        let salt = hasher.salt(tenant, voice);
        let mut rows: Vec<Fingerprint> = Vec::new();
        for (number, form) in forms(text, voice) {
            let prints = hasher.prints(form.chars());
            rows.extend(prints.iter().map(|print| print.fingerprint(salt, number)));
        }
        Self { rows }
    }

    /// The same of a text that was read already.
    pub(crate) fn of_own(own: &OwnText, tenant: &Tenant, voice: Voice) -> Option<Self> {
        Some(Self { rows: own.fingerprints(tenant, voice)? })
    }

    /// The fingerprints of an untrusted text that `session` is about to record.
    ///
    /// # Errors
    /// [`StoreError::Ask`] when there is no such session.
    pub fn of_untrusted(store: &Store, session: SessionId, text: &str) -> Result<Self, StoreError> {
        let (hasher, tenant) = store.look(|view| {
            let open = view.state().session(session).ok_or(AskError::UnknownSession(session))?;
            let hasher = StoreHasher::new(view.fingerprint_key()?);
            Ok::<_, StoreError>((hasher, open.who.tenant.clone()))
        })?;
        Ok(Self::of(&hasher, &tenant, Voice::Untrusted, text))
    }

    /// Keeps them for the text that arrived with `arrival`.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn keep(&self, step: &mut Transaction<'_>, arrival: Seq) -> Result<(), StoreError> {
        step.keep_fingerprints(arrival, &self.rows)
    }

    /// The fingerprints.
    pub fn into_rows(self) -> Vec<Fingerprint> {
        self.rows
    }

    /// Whether they are more than one turn of the writer inserts.
    pub(crate) fn are_many(&self) -> bool {
        self.rows.len() > FINGERPRINTS_PER_TURN
    }
}

/// How many texts are looked at in one turn of a reader.
const WAITING_AT_ONCE: usize = 64;

/// Whether every text is in the index.
fn no_more_waiting(store: &Store) -> Result<bool, StoreError> {
    store.look(|view| Ok::<_, StoreError>(!view.has_waiting_fingerprints()?))
}

/// Inserts all that waits, each slice in a turn of its own, so that others get theirs in between. Whoever brings a long
/// text pays for it.
///
/// # Errors
/// [`StoreError::Tampered`] when a text that waits is not the one that was recorded.
pub(crate) fn insert_waiting(store: &Store) -> Result<(), StoreError> {
    while !no_more_waiting(store)? {
        let made = store.look(fingerprint_waiting)?;
        let inserting = store.run::<_, StoreError, _>(move |step| {
            for (arrival, rows) in &made {
                step.keep_waiting_text(*arrival, rows)?;
            }
            step.insert_waiting_fingerprints()
        });
        inserting.wait()?;
    }
    Ok(())
}

/// The fingerprints of the next texts that nobody has fingerprinted, about as many as one turn inserts.
///
/// Of texts that an earlier version recorded only untrusted ones have any: how a message was cut then is not known any
/// more, and a part of one may not show that it stood in a quotation.
pub(crate) fn fingerprint_waiting(
    view: View<'_>,
) -> Result<Vec<(Seq, Vec<Fingerprint>)>, StoreError> {
    let hasher = StoreHasher::new(view.fingerprint_key()?);
    let (mut made, mut count) = (Vec::new(), 0);
    for waiting in view.waiting_fingerprints(WAITING_AT_ONCE)? {
        let WaitingFingerprints::Text(arrival) = waiting else { continue };
        let record = view.record(arrival)?;
        let tenant = view.state().tenant_of(arrival);
        let tenant = tenant.filter(|tenant| is_of(view.state(), &record, tenant, Voice::Untrusted));
        let rows = match (tenant, arrived_text(view, &record)?) {
            (Some(tenant), Some(text)) => {
                Fingerprints::of(&hasher, tenant, Voice::Untrusted, &text).rows
            }
            _ => Vec::new(),
        };
        count += rows.len();
        made.push((arrival, rows));
        if count > FINGERPRINTS_PER_TURN {
            break;
        }
    }
    Ok(made)
}
