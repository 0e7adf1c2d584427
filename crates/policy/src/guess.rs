//! Guesses from names: the effect of a tool, and the sinks among its arguments.
//!
//! In doubt a guess is the stricter one. Names come from the server, so a person has to check every guess.

use custody_arguments::{Sink, ToolEffect};

/// What a name suggests about an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A sink: the value decides what the call does.
    Sink(Sink),
    /// Text for people.
    Text,
    /// The name suggests nothing.
    Unclear,
}

const RECIPIENTS: [&str; 19] = [
    "recipient",
    "to",
    "email",
    "mail",
    "cc",
    "bcc",
    "user",
    "username",
    "channel",
    "participant",
    "attendee",
    "member",
    "invitee",
    "guest",
    "assignee",
    "reviewer",
    "subscriber",
    "contact",
    "receiver",
];
const URLS: [&str; 11] = [
    "url", "uri", "link", "href", "host", "hostname", "domain", "endpoint", "webhook", "website",
    "server",
];
const AMOUNTS: [&str; 8] = ["amount", "price", "sum", "total", "cost", "budget", "fee", "payment"];
const ACCOUNTS: [&str; 18] = [
    "iban",
    "bic",
    "account",
    "card",
    "password",
    "passwd",
    "pin",
    "secret",
    "token",
    "credential",
    "address",
    "street",
    "city",
    "zip",
    "phone",
    "telephone",
    "ssn",
    "key",
];
const COMMANDS: [&str; 9] =
    ["command", "cmd", "code", "script", "sql", "shell", "expression", "program", "args"];
const PATHS: [&str; 10] = [
    "path",
    "file",
    "filename",
    "dir",
    "directory",
    "folder",
    "attachment",
    "cwd",
    "document",
    "repo",
];
const TEXTS: [&str; 14] = [
    "subject",
    "body",
    "message",
    "text",
    "content",
    "title",
    "description",
    "note",
    "comment",
    "summary",
    "caption",
    "greeting",
    "reason",
    "review",
];

/// The kinds, the strictest first: an id or a path may hold a value that a server made, the others never do.
const KINDS: [(Kind, &[&str]); 7] = [
    (Kind::Sink(Sink::Recipient), &RECIPIENTS),
    (Kind::Sink(Sink::Url), &URLS),
    (Kind::Sink(Sink::Account), &ACCOUNTS),
    (Kind::Sink(Sink::Amount), &AMOUNTS),
    (Kind::Sink(Sink::Command), &COMMANDS),
    (Kind::Sink(Sink::Path), &PATHS),
    (Kind::Text, &TEXTS),
];

/// The kind of argument that `name` suggests.
pub(crate) fn kind(name: &str) -> Kind {
    let words = words(name);
    let Some((head, rest)) = words.split_last() else { return Kind::Unclear };
    // The last word names the thing, the words before it qualify it: an e-mail body is a body.
    match head.as_str() {
        // The id of a user or channel is a recipient; the id of a message only selects one.
        "id" if has_any(rest, &["email", "mail"]) => Kind::Sink(Sink::Id),
        "id" if has_any(rest, &RECIPIENTS) => Kind::Sink(Sink::Recipient),
        "id" if has_any(rest, &ACCOUNTS) => Kind::Sink(Sink::Account),
        "id" => Kind::Sink(Sink::Id),
        "address" if has_any(rest, &RECIPIENTS) => Kind::Sink(Sink::Recipient),
        "address" if has_any(rest, &["ip", "web"]) || has_any(rest, &URLS) => Kind::Sink(Sink::Url),
        "query" if has_any(rest, &["sql", "db", "database"]) => Kind::Sink(Sink::Command),
        _ => match of(head) {
            Kind::Unclear => {
                let mut kinds = rest.iter().map(|word| of(word));
                kinds.find(|kind| matches!(kind, Kind::Sink(_))).unwrap_or(Kind::Unclear)
            }
            found @ (Kind::Sink(_) | Kind::Text) => found,
        },
    }
}

fn has_any(words: &[String], list: &[&str]) -> bool {
    words.iter().any(|word| list.contains(&word.as_str()))
}

/// Whether the argument `name` adds to what a call has anyway: a copy to somebody else.
pub(crate) fn is_copy(name: &str) -> bool {
    words(name).iter().any(|word| matches!(word.as_str(), "cc" | "bcc"))
}

/// The kind that one word suggests.
fn of(word: &str) -> Kind {
    let found = KINDS.iter().find(|(_, words)| words.contains(&word));
    found.map_or(Kind::Unclear, |(kind, _)| *kind)
}

/// The effect that the tool name `name` suggests: reading only if its first word is a verb of reading and no word is a
/// verb of writing.
pub(crate) fn effect(name: &str) -> ToolEffect {
    const READS: [&str; 20] = [
        "get",
        "list",
        "search",
        "read",
        "fetch",
        "find",
        "query",
        "view",
        "show",
        "check",
        "count",
        "describe",
        "lookup",
        "look",
        "browse",
        "retrieve",
        "inspect",
        "summarize",
        "is",
        "has",
    ];
    // Servers prefix tool names with their own name.
    let own = name.rsplit(['.', '/', ':']).next().unwrap_or(name);
    let own = own.rsplit("__").next().unwrap_or(own);
    let reads = words(own).first().is_some_and(|first| READS.contains(&first.as_str()));
    if reads && !names_writing(name) { ToolEffect::Reads } else { ToolEffect::Writes }
}

/// Whether a word of the tool's name is a verb of writing.
pub(crate) fn names_writing(name: &str) -> bool {
    const WRITES: [&str; 48] = [
        "send",
        "create",
        "delete",
        "update",
        "write",
        "post",
        "put",
        "set",
        "add",
        "remove",
        "insert",
        "edit",
        "move",
        "rename",
        "upload",
        "execute",
        "exec",
        "run",
        "pay",
        "transfer",
        "buy",
        "book",
        "reserve",
        "cancel",
        "schedule",
        "reschedule",
        "invite",
        "share",
        "publish",
        "reply",
        "forward",
        "append",
        "modify",
        "patch",
        "drop",
        "kill",
        "restart",
        "start",
        "stop",
        "save",
        "store",
        "submit",
        "grant",
        "revoke",
        "merge",
        "push",
        "commit",
        "replace",
    ];
    words(name).iter().any(|word| WRITES.contains(&word.as_str()))
}

/// The words of a name in lower case, without the plural's `s`.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in name.chars().chain(['_']) {
        let begins = c.is_uppercase() && was_lower;
        if !word.is_empty() && (!c.is_alphanumeric() || begins) {
            words.push(singular(std::mem::take(&mut word)));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    words
}

fn singular(word: String) -> String {
    let is_plural = word.len() > 2
        && word.ends_with('s')
        && !word.ends_with("ss")
        && word != "has"
        && word != "args";
    match word.strip_suffix('s') {
        Some(one) if is_plural => if one == "addresse" { "address" } else { one }.to_owned(),
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_suggests_the_sink_of_an_argument() {
        use Sink::{Account, Amount, Command, Id, Path, Recipient, Url};
        let cases = [
            ("recipients", Kind::Sink(Recipient)),
            ("to", Kind::Sink(Recipient)),
            ("bcc", Kind::Sink(Recipient)),
            ("userEmail", Kind::Sink(Recipient)),
            ("channel_id", Kind::Sink(Recipient)),
            ("to_address", Kind::Sink(Recipient)),
            ("webhook_url", Kind::Sink(Url)),
            ("ipAddress", Kind::Sink(Url)),
            ("URL", Kind::Sink(Url)),
            ("total_price", Kind::Sink(Amount)),
            ("account_id", Kind::Sink(Account)),
            ("addresses", Kind::Sink(Account)),
            ("api_key", Kind::Sink(Account)),
            ("file_path", Kind::Sink(Path)),
            ("attachments", Kind::Sink(Path)),
            ("file_name", Kind::Sink(Path)),
            ("cmd", Kind::Sink(Command)),
            ("sql_query", Kind::Sink(Command)),
            ("args", Kind::Sink(Command)),
            ("email_id", Kind::Sink(Id)),
            ("ids", Kind::Sink(Id)),
            ("email_body", Kind::Text),
            ("file_content", Kind::Text),
            ("notes", Kind::Text),
            ("query", Kind::Unclear),
            ("content_type", Kind::Unclear),
            ("name", Kind::Unclear),
            ("", Kind::Unclear),
            ("☃", Kind::Unclear),
        ];
        for (name, expected) in cases {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn a_tool_reads_only_if_no_word_of_its_name_is_a_verb_of_writing() {
        let cases = [
            ("get_balance", ToolEffect::Reads),
            ("mail__searchEmails", ToolEffect::Reads),
            ("files.list", ToolEffect::Reads),
            ("get_or_create_user", ToolEffect::Writes),
            ("mailing_list_subscribe", ToolEffect::Writes),
            ("list__delete", ToolEffect::Writes),
            ("delete.get", ToolEffect::Writes),
            ("frobnicate", ToolEffect::Writes),
            ("", ToolEffect::Writes),
        ];
        for (name, expected) in cases {
            assert_eq!(effect(name), expected, "{name}");
        }
    }
}
