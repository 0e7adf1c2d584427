//! What only the owner sets: limits, the policy for tool calls, the log key, and where a lost head is accepted.

use custody_log::{Digest, LogKey};

use super::draft::{Draft, done_or_refused};
use crate::memory::item::Value;
use crate::memory::rate::Limits;
use crate::memory::refusal::Refusal;
use crate::principal::Authority;
use crate::record::Record;
use crate::state::{SignedPolicy, State};

/// A setting of the store.
#[derive(Debug, Clone)]
pub(crate) enum Setting {
    /// The limits from here on.
    Limits(Limits),
    /// The policy for tool calls from here on, with its text.
    Policy(Digest, Value),
    /// The key that signs checkpoints from here on.
    LogKey(LogKey),
    /// The store goes on from here although its head was lost or disagrees.
    Break,
}

/// A setting that the owner changes.
#[derive(Debug)]
pub(crate) struct AcceptedSetting(Setting);

/// Checks that somebody may do what only the owner may: register principals, adopt files and
/// stores, change limits, rotate keys.
///
/// # Errors
/// [`Refusal::NeedsOwner`].
pub(super) fn check_owner(authority: &Authority) -> Result<(), Refusal> {
    if authority.is_owner() { Ok(()) } else { Err(Refusal::NeedsOwner) }
}

pub(crate) fn decide(authority: &Authority, setting: Setting) -> Draft<AcceptedSetting> {
    Draft::administrative(check_owner(authority).map(|()| AcceptedSetting(setting)))
}

impl AcceptedSetting {
    pub(crate) fn apply(self, state: &mut State, record: &Record) {
        set(state, record, self.0);
    }
}

/// Sets what was set earlier.
pub(crate) fn fold(state: &mut State, record: &Record, setting: Setting) -> Option<()> {
    done_or_refused(record, || set(state, record, setting))
}

fn set(state: &mut State, record: &Record, setting: Setting) {
    match setting {
        Setting::Limits(limits) => state.limits = limits,
        Setting::Policy(version, text) => {
            state.policy = Some(SignedPolicy { version, text: text.content(record.seq) });
        }
        Setting::LogKey(key) => state.log_key = Some(key),
        Setting::Break => state.breaks.push(record.seq),
    }
}
