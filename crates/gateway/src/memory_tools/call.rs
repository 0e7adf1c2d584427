//! What a call wants of memory.

/// A tool call that reads or changes memory.
///
/// A key is as the call wrote it, less a leading `/memories/`, `/` or `./`; for a watched
/// file it is the file's name. It need not be well-formed. `watched` tells that its last
/// segment is a watched name, whatever its letter case or width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryCall {
    /// Reads one item, or searches or lists all without a key.
    Read {
        /// The item.
        key: Option<String>,
    },
    /// Changes one item.
    Write {
        /// The item.
        key: String,
        /// What becomes of its value.
        value: Edit,
        /// Whether the item is a watched file.
        watched: bool,
    },
    /// Removes one item, or all below a key that is a folder.
    Delete {
        /// The item.
        key: String,
        /// Whether the item is a watched file.
        watched: bool,
    },
    /// Removes one item and writes its value to another key.
    Rename {
        /// The item before.
        from: String,
        /// The item after. One that exists is overwritten.
        to: String,
        /// Whether either is a watched file.
        watched: bool,
    },
}

/// What to do to the current value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// This is the value now.
    Replace(String),
    /// `new` stands for `old`.
    Substitute {
        /// The text to look for.
        old: String,
        /// The text to put there.
        new: String,
        /// Everywhere; otherwise `old` must occur exactly once.
        all: bool,
    },
    /// `text` stands after line `line`.
    Insert {
        /// From 1; 0 is before the first line.
        line: u64,
        /// The text to put there.
        text: String,
    },
    /// This follows the value.
    Append(String),
    /// One after the other.
    Sequence(Vec<Edit>),
}

/// Why it cannot be told what a memory tool's call would do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryCallError {
    /// An argument that the tool needs is absent.
    #[error("`{tool}` has no argument {wanted}; call it with one")]
    MissingArgument {
        /// The tool, fit to show.
        tool: String,
        /// The names that would do, each in backticks.
        wanted: String,
    },
    /// An argument has the wrong type.
    #[error("`{tool}` has an argument `{argument}` that is not {wanted}; call it with one")]
    WrongArgument {
        /// The tool, fit to show.
        tool: String,
        /// The argument.
        argument: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// The tool's `command` is none that is known.
    #[error(
        "`{tool}` knows no command `{command}`; use `view`, `create`, `str_replace`, `insert`, `delete` or `rename`"
    )]
    UnknownCommand {
        /// The tool, fit to show.
        tool: String,
        /// The command, fit to show.
        command: String,
    },
}
