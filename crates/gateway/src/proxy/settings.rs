//! What a connection may do and what is believed of it.

use std::collections::BTreeSet;

use custody_log::Digest;
use serde::{Deserialize, Serialize};

/// What becomes of tool calls that are not allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardMode {
    /// They go on; what would have been decided is recorded.
    #[default]
    Observe,
    /// They do not.
    Guard,
}

impl GuardMode {
    /// What people call a connection in this mode.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observing",
            Self::Guard => "guarding",
        }
    }
}

/// Which text in the role of the user is the user's. Later values believe more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserText {
    /// None.
    Never,
    /// What a hook of the same session reported as typed.
    #[default]
    Hook,
    /// All of it. For programs without tools that put nothing else into that role.
    Trusted,
}

/// The settings of a connection. The default believes least and changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// What becomes of calls that are not allowed.
    pub mode: GuardMode,
    /// Which text in the role of the user is the user's.
    pub user_text: UserText,
    /// Whether requests are refused that ask for what nobody can decide here.
    pub is_strict: bool,
    /// Whether the model is asked for the calls that it means to make, before it reads anything but the user.
    pub asks_intents: bool,
    /// Whether calls that wait for a human go on, because a hook in the host asks about them before they run.
    pub host_asks: bool,
    /// The digests of the system texts that are the operator's. Every other one is untrusted.
    pub system_texts: BTreeSet<Digest>,
}

impl ConnectionSettings {
    /// What of `self` and `signed` allows less, setting by setting.
    #[must_use]
    pub fn tightened(&self, signed: &Self) -> Self {
        Self {
            mode: self.mode.max(signed.mode),
            user_text: self.user_text.min(signed.user_text),
            is_strict: self.is_strict || signed.is_strict,
            // Declared calls run unasked.
            asks_intents: self.asks_intents && signed.asks_intents,
            host_asks: self.host_asks && signed.host_asks,
            system_texts: self.system_texts.intersection(&signed.system_texts).copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_settings_the_tighter_one_holds_in_each_place() {
        let loose = ConnectionSettings {
            mode: GuardMode::Observe,
            user_text: UserText::Trusted,
            is_strict: false,
            asks_intents: true,
            host_asks: true,
            system_texts: [Digest::of(b"a"), Digest::of(b"b")].into(),
        };
        let tight = ConnectionSettings {
            mode: GuardMode::Guard,
            user_text: UserText::Never,
            is_strict: true,
            asks_intents: false,
            host_asks: false,
            system_texts: [Digest::of(b"b")].into(),
        };
        assert_eq!(loose.tightened(&tight), tight);
        assert_eq!(tight.tightened(&loose), tight);
        assert_eq!(loose.tightened(&loose), loose);
    }
}
