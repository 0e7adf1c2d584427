//! Which records have to be signed, and whether they are (G1).
//!
//! Checked whenever a record is folded in, so that a running process does not follow what a holder of the log key
//! appends, and whenever a log is verified.

use custody_log::{Digest, SessionId};
use ed25519_dalek::SigningKey;

use crate::principal::{Credential, PrincipalClaim};
use crate::record::{AdminRequest, Author, FORMAT, Record, Request, act_bytes, session_bytes};
use crate::signature::{LogPosition, RecordSignature};
use crate::state::{ApplyError, State};

impl State {
    /// The root over all records that were folded in (RFC 9162 §2.1).
    pub fn root(&self) -> Digest {
        self.log_end.root()
    }

    /// Whether the store was written in format 1, in which nothing is signed. It is read, and cannot go on.
    pub const fn is_unsigned(&self) -> bool {
        self.log_end.is_unsigned()
    }

    /// Where the next record stands. `None` where there is no store, and `request` does not create one.
    pub(crate) fn position(&self, request: &Request) -> Option<LogPosition> {
        let created = match request {
            Request::Admin(AdminRequest::CreateStore(genesis)) => Some(genesis.store),
            Request::Admin(_) | Request::Session(_) | Request::Call(_) => None,
        };
        let store = self.store.or(created)?;
        Some(LogPosition { store, root: self.root(), seq: self.next_seq() })
    }

    /// Checks that whoever `record` names has signed it, where they have to.
    ///
    /// # Errors
    /// [`ApplyError::Signature`]; [`ApplyError::Format`] for a record of an earlier format than the one before it.
    pub(crate) fn check_signature(&self, record: &Record) -> Result<(), ApplyError> {
        if !self.is_empty() && !self.log_end.takes(record) {
            return Err(ApplyError::Format(record.seq));
        }
        if record.v != FORMAT {
            return Ok(());
        }
        let is_signed = match &record.by {
            Author::Session(id) => self
                .session(*id)
                .and_then(|session| session.key)
                .is_some_and(|key| self.is_by_session(record, &key)),
            Author::Principal(who) if who.credential == Credential::Passphrase => {
                let key = self.human_key(who, &record.request);
                key.is_some_and(|key| self.is_by_human(record, who, &key))
            }
            Author::Principal(_) => record.signature.is_none(),
        };
        if is_signed { Ok(()) } else { Err(ApplyError::Signature(record.seq)) }
    }

    /// The signature of `session` under `record`, by `key`.
    ///
    /// # Errors
    /// [`ApplyError::Signature`] when `key` is not that of the session.
    pub(crate) fn sign_as(
        &self,
        session: SessionId,
        record: &Record,
        key: Option<&SigningKey>,
    ) -> Result<RecordSignature, ApplyError> {
        let foreign = ApplyError::Signature(record.seq);
        let expected = self.session(session).and_then(|session| session.key);
        let key = key.filter(|key| expected == Some(Digest(key.verifying_key().to_bytes())));
        let (Some(key), Some(at)) = (key, self.position(&record.request)) else {
            return Err(foreign);
        };
        let bytes = session_bytes(at, record).map_err(|_| foreign)?;
        Ok(RecordSignature::sign(key, &bytes))
    }

    /// The public key of the human that `who` names. Whoever creates a store brings their own.
    fn human_key(&self, who: &PrincipalClaim, request: &Request) -> Option<Digest> {
        match request {
            Request::Admin(AdminRequest::CreateStore(genesis)) if self.is_empty() => {
                genesis.owner.public_key.filter(|_| who.principal == Some(genesis.owner.id))
            }
            Request::Admin(_) | Request::Session(_) | Request::Call(_) => {
                self.principal_by_id(who.principal?)?.public_key
            }
        }
    }

    fn is_by_human(&self, record: &Record, who: &PrincipalClaim, key: &Digest) -> bool {
        let signed = self.position(&record.request).zip(record.signature);
        signed.is_some_and(|(at, signature)| {
            act_bytes(at, who, &record.request).is_ok_and(|bytes| signature.is_by(key, &bytes))
        })
    }

    fn is_by_session(&self, record: &Record, key: &Digest) -> bool {
        let signed = self.position(&record.request).zip(record.signature);
        signed.is_some_and(|(at, signature)| {
            session_bytes(at, record).is_ok_and(|bytes| signature.is_by(key, &bytes))
        })
    }
}
