//! Where a path or command ends that somebody wrote into a sentence.
//!
//! Paths hold blanks, and commands are words like others. Without marks around it, where one ends is certain only at
//! the end of a sentence or line, or before a word that cannot belong to it. In doubt it goes on.

use std::ops::Range;

use crate::vocabulary::{is_known, is_verb};

/// How far around a path or command is looked, in bytes.
const REACH: usize = 400;

/// Words that join a path to another or to a place.
const JOINING: &[&str] = &[
    "and", "or", "to", "into", "in", "on", "from", "with", "for", "as", "at", "by", "via", "but",
    "und", "oder", "nach", "in", "mit", "für", "auf", "von", "aus", "an", "als", "aber", "zu",
];
/// Words that go on with a sentence and begin no part of a name.
const GOING_ON: &[&str] =
    &["please", "bitte", "then", "dann", "is", "are", "ist", "sind", "has", "hat"];
/// Words before a relative path or the name of a file.
const BEFORE_NAMES: &[&str] =
    &["called", "named", "namens", "genannt", "final", "newest", "latest"];
/// Words before a command.
const BEFORE_COMMANDS: &[&str] = &[
    "run",
    "execute",
    "start",
    "launch",
    "use",
    "try",
    "do",
    "type",
    "enter",
    "command",
    "commands",
    "script",
    "query",
    "statement",
    "call",
    "rerun",
    "repeat",
    "and",
    "then",
    "or",
    "with",
    "of",
    "to",
    "the",
    "please",
    "just",
    "only",
    "führe",
    "führ",
    "starte",
    "start",
    "nutze",
    "verwende",
    "befehl",
    "kommando",
    "abfrage",
    "und",
    "dann",
    "oder",
    "mit",
    "den",
    "das",
    "die",
    "bitte",
    "nur",
    "run:",
    "is",
    "ist",
    "lass",
    "where",
    "wo",
];
/// Words after a command in quotation marks.
const AFTER_COMMANDS: &[&str] = &[
    "in", "on", "and", "or", "to", "then", "for", "please", "with", "again", "now", "once", "from",
    "before", "after", "as", "until", "aus", "und", "oder", "in", "auf", "dann", "bitte", "jetzt",
    "mit", "noch", "nochmal", "vor", "nach", "für", "zu",
];
/// Words that begin a line after a command, and go on with none.
const AFTER_LINES: &[&str] = &[
    "then",
    "please",
    "afterwards",
    "thanks",
    "thank",
    "tell",
    "show",
    "let",
    "report",
    "send",
    "i",
    "we",
    "it",
    "this",
    "that",
    "if",
    "when",
    "once",
    "dann",
    "danach",
    "bitte",
    "danke",
    "sag",
    "zeig",
    "ich",
    "wir",
    "das",
    "es",
    "wenn",
    "schick",
];

/// Whether the path at `at` is written to its end and from its beginning.
pub(crate) fn is_whole_path(text: &str, at: &Range<usize>) -> bool {
    let (before, after) = around(text, at);
    let path = text.get(at.clone()).unwrap_or_default();
    !may_go_on(path, after) && begins_here(before, path)
}

/// Whether what is written after `path` could be a part of it.
fn may_go_on(path: &str, after: &str) -> bool {
    let line = after.split('\n').next().unwrap_or_default().trim_end_matches('\r');
    let mut words = line.split_whitespace();
    let touching = line.split(char::is_whitespace).next().unwrap_or_default();
    // An escaped blank, or a mark that closes nothing.
    if touching.starts_with(['\\', '"', '\'', '`', '“', '”', '’', '«', '»']) {
        return true;
    }
    if !touching.is_empty() {
        let _ = words.next();
    }
    let next = words.next().unwrap_or_default();
    if touching.contains(['.', '!', '?', ';', ':', ')', ']', '>', '}']) || next.is_empty() {
        return false;
    }
    let word = bare(next);
    if touching.contains(',') {
        // A name such as `Smith, John` goes on with a capital letter.
        return next.starts_with(char::is_uppercase);
    }
    if next.starts_with(['(', '-', '–', '—', '→', '=']) {
        return !has_extension(path) && !matches!(next, "-" | "–" | "—" | "→" | "->" | "=>");
    }
    let then = words.next().unwrap_or_default();
    if GOING_ON.contains(&word.as_str()) || (JOINING.contains(&word.as_str()) && is_path_like(then))
    {
        return false;
    }
    let joins_a_wish =
        matches!(word.as_str(), "and" | "und") && is_verb(&bare(then)) && is_small(then);
    if joins_a_wish {
        return false;
    }
    // After its ending a name goes on in rare words only, and never in such ones.
    let is_plain_word =
        is_small(next) && (is_known(&word) || is_verb(&word)) && !is_part_of_names(&word);
    !(has_extension(path) && is_plain_word)
}

fn is_small(word: &str) -> bool {
    word.starts_with(char::is_lowercase)
}

/// Words that people put into names of files.
fn is_part_of_names(word: &str) -> bool {
    matches!(
        word,
        "copy"
            | "backup"
            | "old"
            | "new"
            | "draft"
            | "final"
            | "version"
            | "alt"
            | "alte"
            | "neu"
            | "neue"
            | "of"
            | "kopie"
            | "entwurf"
            | "data"
    )
}

/// Whether a path begins at its first character: what stands before it is no part of it.
fn begins_here(before: &str, path: &str) -> bool {
    if starts_anew(path) {
        return true;
    }
    let line = before.rsplit('\n').next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let touches = line.ends_with(|c: char| !c.is_whitespace());
    let last = words.last().copied().unwrap_or_default();
    if last.is_empty()
        || touches
        || last.ends_with([',', ';', ':', '.', '!', '?', ')', '"', '\'', '`', '”', '“'])
    {
        return true;
    }
    // A path that may go on goes on up to here.
    let earlier = words.iter().rev().find(|word| is_path_like(word));
    if let Some(earlier) = earlier {
        let (start, end) = (line.rfind(earlier).unwrap_or(0), earlier.len());
        let rest = line.get(start + end..).unwrap_or_default();
        if may_go_on(earlier, &format!("{rest}{path}")) {
            return false;
        }
    }
    let word = bare(last);
    let is_name =
        last.starts_with(char::is_uppercase) && words.len() > 1 && !is_noun_of_files(&word);
    !is_name
        && (is_known(&word)
            || is_noun_of_files(&word)
            || BEFORE_NAMES.contains(&word.as_str())
            || !path.contains('.'))
}

fn is_noun_of_files(word: &str) -> bool {
    matches!(
        word,
        "file"
            | "files"
            | "folder"
            | "directory"
            | "document"
            | "datei"
            | "dateien"
            | "ordner"
            | "verzeichnis"
            | "dokument"
            | "pfad"
            | "path"
    )
}

fn starts_anew(path: &str) -> bool {
    path.starts_with(['/', '~', '.'])
        || path.get(1..3).is_some_and(|drive| matches!(drive, ":\\" | ":/"))
        || path.starts_with("\\\\")
}

fn is_path_like(word: &str) -> bool {
    let word = word.trim_start_matches(['(', '"', '\'', '`', '“', '„']);
    starts_anew(word) && word.len() > 1 || word.contains('/') || word.contains('\\')
}

/// Whether a path ends in a name with an ending such as `.txt`.
fn has_extension(path: &str) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    name.rsplit_once('.').is_some_and(|(stem, ending)| {
        !stem.is_empty()
            && (1..=5).contains(&ending.len())
            && ending.chars().all(|c| c.is_ascii_alphanumeric())
            && ending.chars().any(|c| c.is_ascii_alphabetic())
    })
}

/// Whether the command at `at` is written to its end and from its beginning: on lines of its own, after a
/// colon, or from a word such as `run` to the end of the sentence.
pub(crate) fn is_whole_command(text: &str, at: &Range<usize>) -> bool {
    let (before, after) = around(text, at);
    command_begins(before) && command_ends(after)
}

/// Whether the command that is quoted at `at` is no argument of another.
pub(crate) fn is_whole_quoted_command(text: &str, at: &Range<usize>) -> bool {
    let (before, after) = around(text, at);
    let before = before.trim_end_matches(is_mark);
    let after = after.trim_start_matches(is_mark);
    let line = after.split('\n').next().unwrap_or_default();
    let next = line.split_whitespace().next().unwrap_or_default();
    let touching = after.chars().next();
    let ends = match touching {
        None | Some('\n' | '.' | ',' | '!' | '?' | ')' | ':') => true,
        Some(c) if c.is_whitespace() => {
            next.is_empty() || AFTER_COMMANDS.contains(&bare(next).as_str()) || is_verb(&bare(next))
        }
        Some(_) => false,
    };
    ends && command_begins(before)
}

fn is_mark(c: char) -> bool {
    matches!(
        c,
        '"' | '“'
            | '”'
            | '„'
            | '«'
            | '»'
            | '‹'
            | '›'
            | '`'
            | '\''
            | '‘'
            | '’'
            | '‚'
            | '＂'
            | '*'
            | '「'
            | '」'
    )
}

fn command_begins(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let Some(last) = line.split_whitespace().last() else {
        // The line before goes on if nothing ends it.
        let lines = before.strip_suffix(line).unwrap_or_default().trim_end_matches([' ', '\t']);
        let last = lines
            .strip_suffix('\n')
            .unwrap_or_default()
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .trim();
        return last.is_empty() || last.ends_with([':', '.', '!', '?']);
    };
    if line.ends_with(|c: char| !c.is_whitespace()) {
        return line.ends_with('(') && line.trim_end_matches('(').ends_with(char::is_whitespace);
    }
    last.ends_with([':', '!', '?', '.', '→']) || BEFORE_COMMANDS.contains(&bare(last).as_str())
}

fn command_ends(after: &str) -> bool {
    let (line, rest) = after.split_once('\n').unwrap_or((after, ""));
    let line = line.trim_end();
    match line.chars().next() {
        None => {
            let next = rest.split('\n').next().unwrap_or_default().trim();
            next.is_empty()
                || AFTER_LINES
                    .contains(&bare(next.split_whitespace().next().unwrap_or_default()).as_str())
        }
        Some('.' | '!' | '?') => {
            line.len() == 1
                || line.get(1..).is_some_and(|rest| rest.starts_with(char::is_whitespace))
        }
        Some(',') => {
            let next = bare(
                line.get(1..).unwrap_or_default().split_whitespace().next().unwrap_or_default(),
            );
            matches!(next.as_str(), "then" | "please" | "but" | "dann" | "bitte" | "aber")
        }
        Some(')') => {
            line.len() == 1 || line.get(1..).is_some_and(|rest| rest.starts_with(['.', ',']))
        }
        Some(_) => false,
    }
}

fn bare(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

fn around<'a>(text: &'a str, at: &Range<usize>) -> (&'a str, &'a str) {
    let before = text.get(..at.start).unwrap_or_default();
    let after = text.get(at.end..).unwrap_or_default();
    let from = before.floor_char_boundary(before.len().saturating_sub(REACH));
    let to = after.floor_char_boundary(REACH);
    (before.split_at(from).1, after.split_at(to).0)
}
