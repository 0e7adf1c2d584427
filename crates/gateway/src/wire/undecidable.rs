//! What nobody can decide between an agent and its model.

use std::fmt;

/// Something in a request or an answer that nobody can decide here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Undecidable {
    /// Several answers, of which the client takes any.
    SeveralAnswers,
    /// Calls as they were before there were several in an answer.
    FunctionCall,
    /// Tools that the vendor runs, as they have run by the time the answer comes.
    VendorTool,
    /// MCP servers that the vendor calls, likewise.
    VendorMcp,
    /// A conversation, or part of one, that the vendor keeps: nobody sees here what the model reads.
    StoredConversation,
    /// A prompt that the vendor keeps, likewise.
    StoredPrompt,
    /// Answers that are made after the request has ended, and fetched elsewhere.
    Background,
    /// One tool of the host in which other calls run, such as the code mode of Codex.
    HostTool,
    /// A part of an answer of a kind that is not known here.
    UnknownBlock,
    /// A compacted history with what was not said before, and not by the model.
    AddedHistory,
}

impl Undecidable {
    /// What it is, for records and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SeveralAnswers => "several answers to one request",
            Self::FunctionCall => "calls in the form of `function_call`",
            Self::VendorTool => "tools that the vendor runs",
            Self::VendorMcp => "MCP servers that the vendor calls",
            Self::StoredConversation => "a conversation that the vendor stores",
            Self::StoredPrompt => "a prompt that the vendor stores",
            Self::Background => "answers in the background",
            Self::HostTool => "calls that a host runs inside one tool",
            Self::UnknownBlock => "a block of an unknown kind",
            Self::AddedHistory => "a compacted history with what nobody said",
        }
    }

    /// Whether the model may have read in it what nobody saw here, and made calls of that in the same answer.
    pub(crate) fn brings_text(self) -> bool {
        match self {
            Self::VendorTool | Self::VendorMcp | Self::UnknownBlock => true,
            // The blocks of the request stand for what is stored.
            Self::StoredConversation
            | Self::StoredPrompt
            | Self::SeveralAnswers
            | Self::FunctionCall
            | Self::Background
            | Self::HostTool
            | Self::AddedHistory => false,
        }
    }

    /// Whether it goes on only to clients that asked for it. New kinds of blocks come without being asked for.
    pub(crate) fn is_asked_for(self) -> bool {
        self != Self::UnknownBlock
    }
}

impl fmt::Display for Undecidable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
