//! Declarations of intents: calls that a session means to make, said before it read anything untrusted (G12).
//!
//! What an intent covers stands in the text, which is a content of the record; how often and until when it may be used
//! is part of the record itself.

use custody_log::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::memory::item::Value;

/// The longest that an intent may be used after it was declared, in milliseconds: one day.
pub const MAX_INTENT_MS: u64 = 24 * 60 * 60 * 1_000;

/// Intents that are declared together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntentDeclaration {
    /// The intents: a JSON list of [`Intent`](custody_arguments::Intent).
    pub text: Value,
    /// The terms of each of them, in the same order.
    pub terms: Vec<IntentTerms>,
    /// The session whose calls they cover, if it is another one of the same principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_session: Option<SessionId>,
}

/// How often an intent may be used, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntentTerms {
    /// The number of calls that it covers.
    pub count: u32,
    /// When it covers no call any more.
    pub expires: Timestamp,
}
