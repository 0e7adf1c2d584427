//! Which benign entries of a history are in quarantine, by what they are and by why they are not spared.
//!
//! The reasons are in the texts: what nobody but the model said, what was said as a part of another sentence only, and
//! what was said too late to rule out that a seed led to it. None of them needs the facts that only the judge sees.

use std::collections::{BTreeMap, BTreeSet};

use custody_incident::{IncidentError, Incidents};
use custody_kernel::evidence::Finding;
use custody_log::Seq;
use custody_planner::{Closure, RecoveryAction, WalkMode};

use super::history::{Entry, History, Kind};
use super::methods::Judged;
use super::played::Played;
use crate::error::EvalError;
use crate::report::{Figure, FigureIds, Shows, Table, TableColumn, TableRow};

/// Why an entry is not spared. The first that is true of one of its sentences.
const REASONS: [&str; 4] = ["acted", "own_words", "part_of_a_sentence", "said_later"];

/// What an entry is.
const KINDS: [&str; 3] = ["completion", "write", "read"];

/// How many benign entries are in quarantine, by kind and reason, and how many only because of a message that quotes
/// a seed.
pub(super) fn figures(
    id: &str,
    played: &Played,
    history: &History,
    found: &[Finding],
    judged: &Judged,
) -> Result<Vec<Figure>, EvalError> {
    let kept = Statements::of(history, judged);
    let held = (0..).zip(history.entries.iter().zip(&judged.done)).filter(|(at, (_, action))| {
        **action == RecoveryAction::Quarantine && !history.is_contaminated(*at)
    });
    let held: Vec<(usize, &Entry)> = held.map(|(at, (entry, _))| (at, entry)).collect();
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (_, entry) in &held {
        if let Some(kind) = kind(entry) {
            *counts.entry((kind, kept.reason(entry))).or_default() += 1;
        }
    }
    let ids = FigureIds::new(format!("{id}.held"));
    let pairs = KINDS.into_iter().flat_map(|kind| REASONS.map(|reason| (kind, reason)));
    let figures = pairs.map(|(kind, reason)| {
        let count = counts.get(&(kind, reason)).copied().unwrap_or_default();
        ids.count(&format!("{kind}.{reason}"), count, "entries")
    });
    let mut figures: Vec<Figure> = figures.collect();
    let by_seeds = reached_by_seeds(played, history, found)?;
    let only_quoted = held
        .iter()
        .filter(|(at, _)| played.seqs.get(*at).is_some_and(|seq| !by_seeds.contains(seq)));
    figures.push(ids.count("only_through_a_quotation", only_quoted.count() as u64, "entries"));
    Ok(figures)
}

/// What is reached without the messages that only quote a seed.
fn reached_by_seeds(
    played: &Played,
    history: &History,
    found: &[Finding],
) -> Result<BTreeSet<Seq>, EvalError> {
    let quoting = history.entries.iter().zip(&played.seqs).enumerate();
    let quoting: BTreeSet<Seq> = quoting
        .filter(|(at, (entry, _))| entry.kind == Kind::Message && !history.is_contaminated(*at))
        .map(|(_, (_, seq))| *seq)
        .collect();
    let seeds: Vec<Seq> = found.iter().map(|finding| finding.entry).collect();
    let seeds: Vec<Seq> = seeds.into_iter().filter(|seed| !quoting.contains(seed)).collect();
    let graph = Incidents::of(&played.scratch.store).graph()?;
    let closure = Closure::new(&graph, WalkMode::Causal, &seeds).map_err(IncidentError::from)?;
    Ok(closure.members().map(|member| member.entry).collect())
}

/// The kind of an entry that can be in quarantine. A message is in no closure but as a finding, which is destroyed.
const fn kind(entry: &Entry) -> Option<&'static str> {
    match entry.kind {
        Kind::Message => None,
        Kind::Read(_) => Some("read"),
        Kind::Completion => Some("completion"),
        Kind::Write => Some("write"),
    }
}

/// The figures of the history `name`, by kind and reason.
pub(super) fn table(name: &str) -> Table {
    let id = format!("{name}.custody.held");
    Table {
        title: "benign entries in quarantine".to_owned(),
        note: format!("Of `{name}`, by what they are and by why they are not spared."),
        rows_are: "entry".to_owned(),
        rows: KINDS
            .map(|kind| TableRow { name: kind.to_owned(), prefix: format!("{id}.{kind}") })
            .to_vec(),
        columns: REASONS
            .map(|reason| TableColumn::new(reason.replace('_', " "), reason, Shows::Measured))
            .to_vec(),
    }
}

/// What is said outside of the closure, at any time.
struct Statements<'h> {
    whole: BTreeSet<&'h str>,
    /// The last words of a statement that begins with other ones: no greeting of a history has more than three words.
    parts: BTreeSet<&'h str>,
}

impl<'h> Statements<'h> {
    fn of(history: &'h History, judged: &Judged) -> Self {
        let outside = (0..).zip(&history.entries).filter(|(at, _)| !judged.closure.contains(at));
        let whole: BTreeSet<&str> =
            outside.flat_map(|(_, entry)| statements(&entry.text)).collect();
        let parts = whole.iter().flat_map(|statement| {
            let words = statement.match_indices(' ').take(3);
            words.filter_map(|(at, _)| statement.get(at + 1..))
        });
        let parts = parts.collect();
        Self { whole, parts }
    }

    fn reason(&self, entry: &Entry) -> &'static str {
        if entry.kind == Kind::Write {
            return "acted";
        }
        let unsaid: Vec<&str> =
            statements(&entry.text).filter(|said| !self.whole.contains(said)).collect();
        if unsaid.iter().any(|said| !self.parts.contains(said)) {
            "own_words"
        } else if unsaid.is_empty() {
            "said_later"
        } else {
            "part_of_a_sentence"
        }
    }
}

/// The sentences of a text of a history, which all end in a full stop.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(". ").map(str::trim_end)
}
