//! The constants of the format: types, and the limits of what is read and written.

/// The largest certificate that is read or written, in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// The largest line of a file of entries, in bytes without its newline.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// How many leaves stand inside a certificate, if it has no more; and of one that has more, how many members of each
/// kind that a reader must see.
pub const MAX_LISTED: u64 = 1_000;

/// The largest integer that every reader of JSON tells from its neighbours: 2⁵³ − 1.
pub(crate) const MAX_INTEGER: u64 = (1 << 53) - 1;

/// The type of an in-toto Statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// What every in-toto Statement calls itself.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// The type of our predicate: a random UUID, so that it claims nobody's name, and what it stands for.
pub const PREDICATE_TYPE: &str =
    "urn:uuid:ea5537ba-3cfc-4935-b270-ee5448b3752d#custody-recovery-certificate-v3";

/// The predicate before, which listed every entry and had no root. It is read and no longer written.
pub const PREDICATE_TYPE_V2: &str =
    "urn:uuid:ea5537ba-3cfc-4935-b270-ee5448b3752d#custody-recovery-certificate-v2";
