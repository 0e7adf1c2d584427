//! The channel through which a text entered, as an option and as a field of a row.

use anyhow::bail;
use custody_detect::text_kind::TextKind;

/// The channel through which a text entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Channel {
    /// Typed by the person the agent works for
    User,
    /// A page, a search result
    Web,
    /// What a tool returned
    Tool,
    /// The text of a skill
    Skill,
    /// A passage from a foreign index
    Retrieval,
    /// A file
    File,
    /// Another agent
    PeerAgent,
}

impl Channel {
    /// What the screener should take the text for: words to an assistant, or a document it reads.
    pub(crate) fn kind(self) -> TextKind {
        match self {
            Self::User => TextKind::Prompt,
            Self::Web
            | Self::Tool
            | Self::Skill
            | Self::Retrieval
            | Self::File
            | Self::PeerAgent => TextKind::Content,
        }
    }

    /// The channel of that name.
    pub(crate) fn parse(name: &str) -> anyhow::Result<Self> {
        match <Self as clap::ValueEnum>::from_str(name, false) {
            Ok(channel) => Ok(channel),
            Err(_) => bail!("use user, web, tool, skill, retrieval, file or peer-agent"),
        }
    }
}
