//! Which records have to be signed, and whether they are (G1).
//!
//! Checked whenever a record is folded in, so that a running process does not follow what a holder of the log key
//! appends, and whenever a log is verified.

use custody_log::{Digest, Seq, SessionId};
use ed25519_dalek::SigningKey;

use crate::principal::{Credential, PrincipalClaim};
use crate::record::{AdminRequest, Author, FORMAT, Record, Request, act_bytes, session_bytes};
use crate::signature::{LogPosition, RecordSignature};
use crate::state::{ApplyError, State};

/// The signature of a record that was folded in before it was checked, so that many can be checked side by side.
#[derive(Debug)]
#[must_use = "until it is checked, nobody may be said to have asked for this record"]
pub struct UncheckedSignature {
    seq: Seq,
    /// The signature, the key that has to have made it, and the bytes under it; nothing where none is needed.
    signed: Option<(RecordSignature, Digest, Vec<u8>)>,
}

impl UncheckedSignature {
    /// The record's position.
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// Checks it.
    ///
    /// # Errors
    /// [`ApplyError::Signature`] when the key did not sign the record at its place.
    pub fn check(&self) -> Result<(), ApplyError> {
        match &self.signed {
            Some((signature, key, bytes)) if !signature.is_by(key, bytes) => {
                Err(ApplyError::Signature(self.seq))
            }
            Some(_) | None => Ok(()),
        }
    }
}

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

    /// The signature that `record` needs, not checked yet: the author's, over the record at its position.
    ///
    /// # Errors
    /// [`ApplyError::Signature`] when the signature is missing, or its author has no key; [`ApplyError::Format`] for a
    /// record of an earlier format than the one before it.
    pub(crate) fn signature_of(&self, record: &Record) -> Result<UncheckedSignature, ApplyError> {
        if !self.is_empty() && !self.log_end.takes(record) {
            return Err(ApplyError::Format(record.seq));
        }
        let seq = record.seq;
        let unsigned = UncheckedSignature { seq, signed: None };
        if record.v != FORMAT {
            return Ok(unsigned);
        }
        let missing = ApplyError::Signature(seq);
        let key = match &record.by {
            Author::Session(id) => self.session(*id).and_then(|session| session.key),
            Author::Principal(who) if who.credential == Credential::Passphrase => {
                self.human_key(who, &record.request)
            }
            Author::Principal(_) if record.signature.is_none() => return Ok(unsigned),
            Author::Principal(_) => None,
        };
        let (Some(key), Some(signature), Some(at)) =
            (key, record.signature, self.position(&record.request))
        else {
            return Err(missing);
        };
        let bytes = match &record.by {
            Author::Session(_) => session_bytes(at, record),
            Author::Principal(who) => act_bytes(at, who, &record.request),
        };
        let bytes = bytes.map_err(|_| missing)?;
        Ok(UncheckedSignature { seq, signed: Some((signature, key, bytes)) })
    }

    /// The signature that `record` needs, if it is a session's. Signatures of humans, which are few, are checked here,
    /// before anything is decided by their acts.
    ///
    /// # Errors
    /// As [`State::signature_of`]; [`ApplyError::Signature`] for an act that its human did not sign.
    pub(crate) fn session_signature(
        &self,
        record: &Record,
    ) -> Result<UncheckedSignature, ApplyError> {
        let signature = self.signature_of(record)?;
        match record.by {
            Author::Session(_) => Ok(signature),
            Author::Principal(_) => {
                signature.check()?;
                Ok(UncheckedSignature { seq: record.seq, signed: None })
            }
        }
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
}
