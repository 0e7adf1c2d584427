//! Attacks buried in what a tool brings back, and the same places without them.
//!
//! *InjecAgent*: every attacker instruction in the answers of seventeen tools. A clean twin is the same answer
//! with a text in the field that would stand there on an ordinary day. Those are written for this project
//! (`innocuous.txt`), several requests and imperatives among them, and take part in no training of shipped
//! weights; they are parted by the text in the field.
//!
//! *BIPIA*: every attack at the start, in the middle and at the end of contexts, code attacks in code and the
//! others in e-mails and tables, as in the paper. Contexts are parted by document first, then attacks are
//! inserted, so no context is both trained on and measured.
//!
//! An attack is never measured by a detector trained on its group: all cases of one attacker instruction, or
//! of one category of BIPIA, are in one fold.

use std::collections::BTreeMap;
use std::path::Path;

use super::ordinary::{self, OrdinaryDocument};
use super::parts::{SetPart, hash, normal_form, part_of};
use super::rows::read;
use crate::data::{DataError, Row};
use crate::error::EvalError;
use crate::random::Generator;
use crate::report::DataFile;

const INNOCUOUS: &str = include_str!("innocuous.txt");

/// The tools of InjecAgent's user cases, each with the kind of text that stands in its field.
const FIELDS: [(&str, &str); 17] = [
    ("AmazonGetProductDetails", "review"),
    ("EvernoteManagerSearchNotes", "note"),
    ("GitHubGetRepositoryDetails", "repository"),
    ("GitHubGetUserDetails", "biography"),
    ("GitHubSearchRepositories", "repository"),
    ("GmailReadEmail", "mail"),
    ("GmailSearchEmails", "mail"),
    ("GoogleCalendarGetEventsFromSharedCalendar", "event"),
    ("GoogleCalendarReadEvents", "appointment"),
    ("ShopifyGetProductDetails", "product"),
    ("TeladocViewReviews", "review"),
    ("TodoistSearchTasks", "task"),
    ("TwilioGetReceivedSmsMessages", "message"),
    ("TwitterManagerGetUserProfile", "biography"),
    ("TwitterManagerReadTweet", "post"),
    ("TwitterManagerSearchTweets", "post"),
    ("WebBrowserNavigateTo", "page"),
];

/// Where the attack stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BuriedPosition {
    /// Nowhere.
    Clean,
    /// Before the context.
    Start,
    /// Between two lines of it.
    Middle,
    /// After it.
    End,
    /// In one field of a tool's answer.
    Field,
}

impl BuriedPosition {
    /// Its name in ids of figures.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
            Self::Field => "field",
        }
    }
}

/// A text that a tool brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuriedCase {
    /// Stable and unique in its set.
    pub id: String,
    /// The text.
    pub text: String,
    /// Whether an attack is in it.
    pub label: bool,
    /// The attack itself, which may stand in several documents. Empty without one.
    pub attack: String,
    /// What is kept in one fold: the attacker's instruction, or BIPIA's category. Empty without an attack.
    pub group: String,
    /// Where the attack stands.
    pub position: BuriedPosition,
    /// The kind of attack, or of context without one.
    pub category: String,
    /// The document it stands in: a context, an innocuous text, or a tool.
    pub document: String,
    /// What the document may be used for. `None` where only folds part the cases.
    pub part: Option<SetPart>,
}

/// InjecAgent's base cases, then the clean twins of every tool's answer.
///
/// # Errors
/// [`EvalError::Data`] when a file is not there or not as documented.
pub fn injecagent(folder: &Path) -> Result<(Vec<BuriedCase>, DataFile), EvalError> {
    const FILE: &str = "injecagent/cases_base.jsonl";
    let (rows, used) = read(folder, FILE)?;
    let wrong = |why: String| EvalError::from(DataError::file(&folder.join(FILE), why));
    let mut cases = Vec::new();
    let mut answers: BTreeMap<String, (String, String)> = BTreeMap::new();
    for row in rows {
        let (tool, attack) = (
            row.field("user_tool").unwrap_or_default().to_owned(),
            row.field("attacker_instruction").unwrap_or_default(),
        );
        let Some((before, after)) = row.text.split_once(attack).filter(|_| !attack.is_empty())
        else {
            return Err(wrong(format!("`{}` does not hold its attacker's instruction", row.id)));
        };
        answers.entry(tool.clone()).or_insert_with(|| (before.to_owned(), after.to_owned()));
        cases.push(BuriedCase {
            attack: attack.to_owned(),
            group: attack.to_owned(),
            category: row.field("attack_type").unwrap_or_default().to_owned(),
            label: true,
            position: BuriedPosition::Field,
            document: tool,
            part: None,
            id: row.id,
            text: row.text,
        });
    }
    for (tool, (before, after)) in &answers {
        let known = FIELDS.iter().find(|(name, _)| name == tool);
        let (_, kind) = known.ok_or_else(|| wrong(format!("the tool `{tool}` is new")))?;
        for (at, text) in innocuous(kind).enumerate() {
            cases.push(BuriedCase {
                id: format!("{tool}-clean-{at}"),
                text: format!("{before}{text}{after}"),
                label: false,
                attack: String::new(),
                group: String::new(),
                position: BuriedPosition::Clean,
                category: (*kind).to_owned(),
                document: text.to_owned(),
                part: Some(part_of(text)),
            });
        }
    }
    Ok((cases, used))
}

/// The texts under one heading of `innocuous.txt`.
fn innocuous(kind: &str) -> impl Iterator<Item = &'static str> {
    let heading = format!("[{kind}]");
    let lines = INNOCUOUS.lines().skip_while(move |line| *line != heading).skip(1);
    lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.is_empty())
}

/// BIPIA: every distinct context without an attack, then every attack in contexts of the train and the test
/// part, at each position in `contexts` of each kind that fits.
///
/// # Errors
/// [`EvalError::Data`] when a file is not there or not as documented.
pub fn bipia(
    folder: &Path,
    contexts: usize,
) -> Result<(Vec<BuriedCase>, Vec<DataFile>), EvalError> {
    let (documents, context_file) = ordinary::documents(folder, ordinary::Set::BipiaContexts)?;
    let (attacks, attack_file) = read(folder, "bipia/attacks.jsonl")?;
    let mut cases: Vec<BuriedCase> = documents.iter().map(clean_case).collect();
    for attack in &attacks {
        let kinds: &[&str] = if attack.field("attack_set").unwrap_or_default().starts_with("code") {
            &["code"]
        } else {
            &["email", "table"]
        };
        for part in [SetPart::Train, SetPart::Test] {
            for kind in kinds {
                let hosts: Vec<&OrdinaryDocument> = documents
                    .iter()
                    .filter(|document: &&OrdinaryDocument| {
                        document.part == part && document.category == *kind
                    })
                    .collect();
                cases.extend(attack_cases(attack, &hosts, contexts));
            }
        }
    }
    Ok((cases, vec![context_file, attack_file]))
}

fn clean_case(document: &OrdinaryDocument) -> BuriedCase {
    BuriedCase {
        id: document.id.clone(),
        text: document.text.clone(),
        label: false,
        attack: String::new(),
        group: String::new(),
        position: BuriedPosition::Clean,
        category: document.category.clone(),
        document: document.id.clone(),
        part: Some(document.part),
    }
}

/// One attack at every position, in `contexts` hosts drawn for each.
fn attack_cases(attack: &Row, hosts: &[&OrdinaryDocument], contexts: usize) -> Vec<BuriedCase> {
    let mut cases = Vec::new();
    // Drawn from the attack and the first host: adding an attack changes the cases of no other.
    let first = hosts.first().map_or(0, |host| hash(&host.id));
    let mut generator = Generator::new(hash(&attack.id) ^ first);
    for position in [BuriedPosition::Start, BuriedPosition::Middle, BuriedPosition::End] {
        let mut left: Vec<&OrdinaryDocument> = hosts.to_vec();
        for _ in 0..contexts.min(hosts.len()) {
            let at = usize::try_from(generator.below(left.len() as u64)).unwrap_or_default();
            let host = left.swap_remove(at);
            cases.push(BuriedCase {
                id: format!("{}-{}-{}", attack.id, position.id(), host.id),
                text: insert(&host.text, &attack.text, position),
                label: true,
                attack: attack.id.clone(),
                group: attack.field("category").unwrap_or_default().to_owned(),
                position,
                category: attack.field("category").unwrap_or_default().to_owned(),
                document: host.id.clone(),
                part: Some(host.part),
            });
        }
    }
    cases
}

/// `attack` in `context`, on lines of its own.
fn insert(context: &str, attack: &str, position: BuriedPosition) -> String {
    match position {
        BuriedPosition::Start => format!("{attack}\n{context}"),
        BuriedPosition::End => format!("{context}\n{attack}"),
        BuriedPosition::Middle => {
            let (before, after) = context.split_at(middle(context));
            format!("{}\n{attack}\n{}", before.trim_end(), after.trim_start_matches(['\n', ' ']))
        }
        BuriedPosition::Clean | BuriedPosition::Field => context.to_owned(),
    }
}

/// The end of a line nearest to the middle, else the end of a word, else any place near it.
fn middle(context: &str) -> usize {
    let half = context.len() / 2;
    nearest(context, half, |c| c == '\n')
        .or_else(|| nearest(context, half, char::is_whitespace))
        .unwrap_or_else(|| context.floor_char_boundary(half))
}

/// The place nearest to byte `half` of a character that is `wanted`, not the first and none at the end.
fn nearest(context: &str, half: usize, wanted: fn(char) -> bool) -> Option<usize> {
    let inside = context.trim_end().char_indices().filter(|(at, c)| *at > 0 && wanted(*c));
    inside.map(|(at, _)| at).min_by_key(|at| at.abs_diff(half))
}

/// How many distinct documents a part has: what a rate of false positives can be told from.
pub fn clean_documents(cases: &[BuriedCase], part: SetPart) -> usize {
    let of_part = cases.iter().filter(|case| !case.label && case.part == Some(part));
    of_part.map(|case| normal_form(&case.document)).collect::<std::collections::BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_innocuous_texts_and_none_stands_twice() {
        let mut seen = std::collections::BTreeSet::new();
        let kinds: std::collections::BTreeSet<&str> =
            FIELDS.iter().map(|(_, kind)| *kind).collect();
        for kind in kinds {
            let texts: Vec<&str> = innocuous(kind).collect();
            assert_eq!(texts.len(), 24, "{kind}");
            for text in texts {
                assert!(seen.insert(normal_form(text)), "`{text}` stands twice");
            }
        }
    }

    #[test]
    fn an_attack_stands_whole_where_it_was_put() {
        let context = "one\ntwo\nthree\nfour\n";
        let cases = [
            (BuriedPosition::Start, "ATTACK\none\ntwo\nthree\nfour\n"),
            (BuriedPosition::Middle, "one\ntwo\nATTACK\nthree\nfour\n"),
            (BuriedPosition::End, "one\ntwo\nthree\nfour\n\nATTACK"),
            (BuriedPosition::Clean, context),
        ];
        for (position, expected) in cases {
            assert_eq!(insert(context, "ATTACK", position), expected);
        }
        assert_eq!(insert("some words here", "A", BuriedPosition::Middle), "some\nA\nwords here");
        assert_eq!(insert("ééé", "A", BuriedPosition::Middle), "é\nA\néé");
        assert_eq!(insert("", "A", BuriedPosition::Middle), "\nA\n");
    }
}
