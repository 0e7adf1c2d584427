//! Contents: bytes that a record names by commitment.

use custody_kernel::memory::item::ContentRef;
use custody_kernel::record::{AdminRequest, Answer, FORMAT, Record, Request, SessionRequest};
use custody_log::Digest;

use crate::clock::random;
use crate::error::StoreError;

/// The longest text that is stored in one piece, in bytes.
pub const MAX_CONTENT_BYTES: usize = 64 << 20;

/// Bytes on their way into the store, with the salt that hides them in the record.
#[derive(Debug, Clone)]
pub struct Content {
    pub(crate) salt: [u8; 16],
    pub(crate) bytes: Vec<u8>,
    commitment: Digest,
}

impl Content {
    /// Salts and commits to `bytes`.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] above [`MAX_CONTENT_BYTES`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, StoreError> {
        let bytes = bytes.into();
        Self::check_length(bytes.len())?;
        let salt = random();
        let commitment = Digest::commit(&salt, &bytes);
        Ok(Self { salt, bytes, commitment })
    }

    /// Whether so many bytes can be stored in one piece.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] above [`MAX_CONTENT_BYTES`].
    pub fn check_length(bytes: usize) -> Result<(), StoreError> {
        if bytes > MAX_CONTENT_BYTES {
            return Err(StoreError::TooLarge { bytes, limit: MAX_CONTENT_BYTES });
        }
        Ok(())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What the record will keep of it.
    pub const fn commitment(&self) -> Digest {
        self.commitment
    }
}

/// Whether the content that arrived with `record` is kept. What was refused is not, but for the arguments of calls:
/// whoever verifies the store traces them again.
pub fn is_kept(record: &Record) -> bool {
    let is_call = matches!(record.request, Request::Call(_)) && record.v == FORMAT;
    is_call || !matches!(record.answer, Answer::Refused(_))
}

/// The content that a record names, wherever it is stored.
pub fn content_of(record: &Record) -> Option<ContentRef> {
    if let Some(content) = record.content {
        return Some(content);
    }
    match (&record.request, &record.answer) {
        (_, Answer::Value { content, .. }) => Some(*content),
        (Request::Session(SessionRequest::Observe { content, .. }), _) => {
            content.map(|value| value.content(record.seq))
        }
        (
            Request::Session(SessionRequest::Write { value, .. })
            | Request::Admin(AdminRequest::AdoptFile { value, .. })
            | Request::Session(SessionRequest::Withhold { content: value, .. }),
            _,
        ) => Some(value.content(record.seq)),
        (Request::Session(SessionRequest::Extract(extract)), _) => {
            extract.value.map(|value| value.content(record.seq))
        }
        (Request::Session(SessionRequest::DeclareIntents(intents)), _) => {
            Some(intents.text.content(record.seq))
        }
        (Request::Session(SessionRequest::RecordBasis(basis)), _) => {
            Some(basis.text.content(record.seq))
        }
        (Request::Call(call), _) => Some(call.arguments.content(record.seq)),
        (Request::Admin(AdminRequest::SetPolicy { text, .. }), _) => Some(text.content(record.seq)),
        (Request::Admin(AdminRequest::Recover(recover)), _) => {
            recover.step.arriving().map(|value| value.content(record.seq))
        }
        _ => None,
    }
}
