//! Labels: what is known of an entry (docs/design.md §2.3, MON §3.2 and §3.4).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where bytes entered. Set by the code that received them, never by the text, the model or
/// an untrusted caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Channel {
    /// The operator's configuration, and what Custody itself says.
    System,
    /// The person the session runs for.
    User,
    /// A page or document fetched from outside.
    Web,
    /// The answer of a tool.
    Tool,
    /// A skill or plugin.
    Skill,
    /// A foreign index.
    Retrieval,
    /// Our own memory.
    Memory,
    /// A language model.
    Model,
    /// A file that is not a watched item.
    File,
    /// Another agent.
    PeerAgent,
}

impl Channel {
    /// Every channel, in the order of the design.
    pub const ALL: [Self; 10] = [
        Self::System,
        Self::User,
        Self::Web,
        Self::Tool,
        Self::Skill,
        Self::Retrieval,
        Self::Memory,
        Self::Model,
        Self::File,
        Self::PeerAgent,
    ];

    /// The name used in records and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Web => "web",
            Self::Tool => "tool",
            Self::Skill => "skill",
            Self::Retrieval => "retrieval",
            Self::Memory => "memory",
            Self::Model => "model",
            Self::File => "file",
            Self::PeerAgent => "peer-agent",
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a source is authenticated: π of MON §3.2. Ordered so that the join is the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// System configuration, or a person who proved who they are.
    Trusted,
    /// Everything else.
    Untrusted,
}

/// Whether any ancestor came from an untrusted channel: τ of MON §3.2. The join is the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Taint {
    /// τ = 0.
    Clean,
    /// τ = 1.
    Tainted,
}

/// Channel, trust and taint of one entry.
///
/// Trust and taint can only be made worse: there is no way to build a label that is better
/// than its channel and its parents allow, nor to read one from a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Label {
    channel: Channel,
    trust: Trust,
    taint: Taint,
}

/// A label as a record has it, before it is known to be one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    channel: Channel,
    trust: Trust,
    taint: Taint,
}

/// Why a label in a record is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing on channel `{0}` can have this trust and taint")]
pub struct LabelError(Channel);

impl TryFrom<Written> for Label {
    type Error = LabelError;

    fn try_from(written: Written) -> Result<Self, LabelError> {
        let Written { channel, trust, taint } = written;
        let best = Self::at_ingress(channel, Trust::Trusted);
        // Trust and taint start together and fall together.
        let agree = (trust == Trust::Untrusted) == (taint == Taint::Tainted);
        if !agree || trust < best.trust {
            return Err(LabelError(channel));
        }
        Ok(Self { channel, trust, taint })
    }
}

impl Label {
    /// The label of bytes that arrive on `channel` in a session that runs for a principal of
    /// trust `on_behalf_of`.
    ///
    /// `model` and `memory` have no trust of their own and start at the identity of the join;
    /// their parents decide.
    ///
    /// Source: MON §3.2 and §3.4, source labelling.
    pub fn at_ingress(channel: Channel, on_behalf_of: Trust) -> Self {
        let trust = match channel {
            Channel::System | Channel::Model | Channel::Memory => Trust::Trusted,
            Channel::User => on_behalf_of,
            Channel::Web
            | Channel::Tool
            | Channel::Skill
            | Channel::Retrieval
            | Channel::File
            | Channel::PeerAgent => Trust::Untrusted,
        };
        let taint = match trust {
            Trust::Trusted => Taint::Clean,
            Trust::Untrusted => Taint::Tainted,
        };
        Self { channel, trust, taint }
    }

    /// This label after reading `other` as well: the worse of both trusts and taints.
    ///
    /// Source: MON rule 8; assumption A3.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            channel: self.channel,
            trust: self.trust.max(other.trust),
            taint: self.taint.max(other.taint),
        }
    }

    /// This label with its trust given up. A caller may always ask for that.
    #[must_use]
    pub fn lowered(self) -> Self {
        Self { channel: self.channel, trust: Trust::Untrusted, taint: Taint::Tainted }
    }

    /// Where the bytes entered.
    pub const fn channel(self) -> Channel {
        self.channel
    }

    /// π.
    pub const fn trust(self) -> Trust {
        self.trust
    }

    /// τ.
    pub const fn taint(self) -> Taint {
        self.taint
    }

    /// Whether τ = 1.
    pub const fn is_tainted(self) -> bool {
        matches!(self.taint, Taint::Tainted)
    }

    /// Whether it is trusted and clean, as what vouches for others has to be.
    pub const fn is_good(self) -> bool {
        matches!(self.trust, Trust::Trusted) && !self.is_tainted()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taint = if self.is_tainted() { "tainted" } else { "clean" };
        write!(f, "{}, {taint}", self.channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_system_and_an_authenticated_user_are_trusted_and_clean() {
        for channel in Channel::ALL {
            let label = Label::at_ingress(channel, Trust::Trusted);
            let clean = matches!(
                channel,
                Channel::System | Channel::User | Channel::Model | Channel::Memory
            );
            assert_eq!(label.is_tainted(), !clean, "{channel}");
            assert_eq!(label.trust() == Trust::Trusted, clean, "{channel}");
        }
        assert!(Label::at_ingress(Channel::User, Trust::Untrusted).is_tainted());
    }

    #[test]
    fn the_join_never_falls() {
        let clean = Label::at_ingress(Channel::User, Trust::Trusted);
        let web = Label::at_ingress(Channel::Web, Trust::Trusted);
        assert!(clean.join(web).is_tainted());
        assert!(web.join(clean).is_tainted());
        assert_eq!(clean.join(web).channel(), Channel::User);
    }
}
