//! `custody ledger trace`: where a text came from, and where it went.
//!
//! The graph is printed as a tree that names every entry once. The last relative of an entry stands below
//! it in the same column, the others as branches before it, so that a chain of any length stays narrow;
//! relatives that stand elsewhere are named at the end of the line with `↑`. Nothing here recurses.

use std::collections::HashSet;

use custody_incident::Incidents;
use custody_kernel::record::Record;
use custody_log::Seq;
use custody_runtime::Store;
use serde_json::json;

use super::Entry;
use super::describe::{Names, kept_content};
use crate::context::GlobalContext;
use crate::output::{BAD, BOLD, DIM, ExitStatus, HEAD, WARN, excerpt, json_line, line, paint};

/// The widest indentation, in branches.
const MAX_BRANCHES: usize = 24;
/// The most relatives that are named at the end of one line.
const MAX_ELSEWHERE: usize = 8;

/// Show what a record was made from, and what was made from it.
///
/// Each entry stands below what was made from it (going up) or what it was made from (going down), in the
/// same column or as a branch; `↑` names those that stand elsewhere in the tree. Where a tainted entry has
/// no tainted parent, taint entered there, and the line says so.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The entry, by its position (`12`) or id
    entry: Entry,
    /// Only what it was made from
    #[arg(long, conflicts_with = "down")]
    up: bool,
    /// Only what was made from it
    #[arg(long)]
    down: bool,
    /// The most steps to follow [default: no limit]
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// The most entries to show in each direction
    #[arg(long, short = 'n', value_name = "N", default_value_t = 200)]
    limit: usize,
}

/// The direction along the edges: towards the parents or the children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl Way {
    const fn title(self) -> &'static str {
        match self {
            Self::Up => "made from",
            Self::Down => "made into",
        }
    }

    /// The direct relatives of an entry on this way.
    fn relatives(self, store: &Store, record: &Record) -> anyhow::Result<Vec<Seq>> {
        match self {
            Self::Up => {
                let parents = record.parents.iter().rev().copied();
                Ok(parents.chain(Incidents::of(store).brought_to(record)?).collect())
            }
            Self::Down => Ok(store
                .children(record.seq)?
                .into_iter()
                .chain(Incidents::of(store).made_under(record)?)
                .collect()),
        }
    }
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let root = args.entry.find(&store)?;
    let mut names = Names::new(&store)?;
    let ways = match (args.up, args.down) {
        (true, _) => vec![Way::Up],
        (_, true) => vec![Way::Down],
        (false, false) => vec![Way::Up, Way::Down],
    };
    for (position, way) in ways.into_iter().enumerate() {
        if !context.json {
            if position > 0 {
                line("");
            }
            line(paint(HEAD, way.title()));
        }
        let shown = walk(&store, root, way, args, |visit| {
            if context.json { visit.print_json(way) } else { visit.print(&store, &mut names) }
        })?;
        if !context.json {
            shown.note(args);
        }
    }
    Ok(ExitStatus::Success)
}

/// One line of the tree.
#[derive(Debug)]
struct Visit {
    record: Record,
    /// The branches it stands in.
    branches: usize,
    /// Starts a branch, rather than standing below its relative in the same column.
    is_branch: bool,
    /// Relatives that stand elsewhere.
    elsewhere: Vec<Seq>,
    /// Whether taint entered with this entry.
    taint_enters: bool,
}

/// How a walk ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Walked {
    /// Entries that were not shown because there were too many.
    too_many: bool,
    /// Whether relatives were left out because they are too many steps away.
    too_deep: bool,
}

/// A step that is still to be taken.
struct Step {
    seq: Seq,
    branches: usize,
    is_branch: bool,
}

/// Visits everything reachable from `root`, each entry once.
fn walk(
    store: &Store,
    root: Seq,
    way: Way,
    args: &Args,
    mut visit: impl FnMut(Visit) -> anyhow::Result<()>,
) -> anyhow::Result<Walked> {
    let near = args.depth.map(|depth| within(store, root, way, depth)).transpose()?;
    let mut walked = Walked::default();
    let mut seen = HashSet::from([root]);
    let mut visited = 0;
    let mut steps = vec![Step { seq: root, branches: 0, is_branch: false }];
    while let Some(step) = steps.pop() {
        if visited == args.limit {
            walked.too_many = true;
            break;
        }
        visited += 1;
        let record = store.record(step.seq)?;
        let mut relatives = way.relatives(store, &record)?;
        let taint_enters = taint_enters(store, &record)?;
        let all = relatives.len();
        if let Some(near) = &near {
            relatives.retain(|relative| near.contains(relative));
        }
        walked.too_deep |= relatives.len() < all;
        let (fresh, elsewhere): (Vec<Seq>, Vec<Seq>) =
            relatives.into_iter().partition(|relative| seen.insert(*relative));
        // The last relative goes on in this column; the stack gives the branches first.
        for (position, seq) in fresh.iter().enumerate().rev() {
            let is_branch = position + 1 < fresh.len();
            let branches = step.branches + usize::from(is_branch);
            steps.push(Step { seq: *seq, branches, is_branch });
        }
        let Step { branches, is_branch, .. } = step;
        visit(Visit { record, branches, is_branch, elsewhere, taint_enters })?;
    }
    Ok(walked)
}

/// Everything at most `depth` steps away, by the shortest way.
fn within(store: &Store, root: Seq, way: Way, depth: usize) -> anyhow::Result<HashSet<Seq>> {
    let mut near = HashSet::from([root]);
    let mut edge = vec![root];
    for _ in 0..depth {
        let mut next = Vec::new();
        for seq in edge {
            let relatives = way.relatives(store, &store.record(seq)?)?;
            next.extend(relatives.into_iter().filter(|relative| near.insert(*relative)));
        }
        if next.is_empty() {
            break;
        }
        edge = next;
    }
    Ok(near)
}

fn taint_enters(store: &Store, record: &Record) -> anyhow::Result<bool> {
    if !record.label.is_tainted() {
        return Ok(false);
    }
    let inherited = store.state(|state| {
        let mut labels = record.parents.iter().filter_map(|parent| state.label(*parent));
        labels.any(|label| label.is_tainted())
    })?;
    Ok(!inherited)
}

impl Visit {
    fn print(&self, store: &Store, names: &mut Names<'_>) -> anyhow::Result<()> {
        let outer = self.branches.saturating_sub(usize::from(self.is_branch));
        let mut tree = "│  ".repeat(outer.min(MAX_BRANCHES));
        if self.is_branch {
            tree.push_str("├─ ");
        }
        let record = &self.record;
        let what = names.what(record)?;
        let text = kept_content(store, record)?;
        let text = text.map(|text| excerpt(&String::from_utf8_lossy(&text), 48));
        let text = text.map_or(String::new(), |text| format!(": {text}"));
        let label = record.label.to_string();
        let label = if record.label.is_tainted() { paint(WARN, label) } else { paint(DIM, label) };
        let enters =
            if self.taint_enters { paint(BAD, "  ← taint enters here") } else { String::new() };
        let elsewhere = self.elsewhere();
        let (tree, seq) = (paint(DIM, tree), paint(BOLD, record.seq));
        line(format_args!("{tree}{seq} {what}{text}  {label}{enters}{elsewhere}"));
        Ok(())
    }

    fn elsewhere(&self) -> String {
        let mut named: Vec<String> =
            self.elsewhere.iter().take(MAX_ELSEWHERE).map(|seq| format!("↑{seq}")).collect();
        if self.elsewhere.len() > MAX_ELSEWHERE {
            named.push(format!("and {} more", self.elsewhere.len() - MAX_ELSEWHERE));
        }
        if named.is_empty() {
            String::new()
        } else {
            paint(DIM, format_args!("  {}", named.join(" ")))
        }
    }

    fn print_json(&self, way: Way) -> anyhow::Result<()> {
        let record = &self.record;
        json_line(&json!({
            "way": match way { Way::Up => "up", Way::Down => "down" },
            "seq": record.seq,
            "id": record.id,
            "parents": record.parents,
            "label": record.label,
            "taint_enters": self.taint_enters,
            "record": record,
        }))
    }
}

impl Walked {
    fn note(&self, args: &Args) {
        if self.too_many {
            line(paint(DIM, format_args!("… and more; only {} shown, see --limit", args.limit)));
        }
        if self.too_deep {
            let deep = self.too_deep;
            let note =
                format!("… {deep} entries have relatives further away; --depth follows them");
            line(paint(DIM, note));
        }
    }
}

#[cfg(test)]
mod tests {
    use custody_kernel::label::Channel;
    use custody_kernel::memory::rate::Limits;
    use custody_runtime::Session;
    use custody_runtime::clock::Clock;
    use custody_runtime::ingress::Observation;
    use custody_runtime::scratch::Scratch;

    use super::*;

    fn args(limit: usize, depth: Option<usize>) -> Args {
        Args { entry: Entry::At(Seq(0)), up: false, down: false, depth, limit }
    }

    /// A conversation of `rounds` rounds: the user speaks, the model answers out of everything.
    fn conversation(scratch: &Scratch, rounds: usize) -> (Seq, Seq) {
        let session = Session::open(&scratch.store, &scratch.owner, None).unwrap();
        let mut ends = Vec::new();
        for round in 0..rounds {
            let said = Observation::message(Channel::User, format!("question {round}"));
            ends.push(session.observe(said));
            ends.push(session.observe(Observation::completion(format!("answer {round}"))));
        }
        let seqs: Vec<Seq> = ends.into_iter().map(|ticket| ticket.wait().unwrap()[0].seq).collect();
        (seqs[0], *seqs.last().unwrap())
    }

    fn lines(scratch: &Scratch, from: Seq, way: Way, args: &Args) -> (Vec<Visit>, Walked) {
        let mut visits = Vec::new();
        let keep = |visit| {
            visits.push(visit);
            Ok(())
        };
        let walked = walk(&scratch.store, from, way, args, keep).unwrap();
        (visits, walked)
    }

    #[test]
    fn a_long_conversation_stays_narrow_and_names_every_entry_once() {
        let scratch = Scratch::new(Limits::UNLIMITED, Clock::manual(1)).unwrap();
        let rounds = 3_000;
        let (first, last) = conversation(&scratch, rounds);
        for (from, way) in [(last, Way::Up), (first, Way::Down)] {
            let (visits, walked) = lines(&scratch, from, way, &args(usize::MAX, None));
            assert_eq!(walked, Walked::default());
            let names: HashSet<Seq> = visits.iter().map(|visit| visit.record.seq).collect();
            assert_eq!(names.len(), visits.len(), "every entry once, {way:?}");
            assert!(visits.iter().all(|visit| visit.branches <= 1), "narrow, {way:?}");
        }
        let (visits, _) = lines(&scratch, last, Way::Up, &args(usize::MAX, None));
        assert_eq!(visits.len(), 2 * rounds);
    }

    #[test]
    fn limits_are_kept_and_said() {
        let scratch = Scratch::new(Limits::UNLIMITED, Clock::manual(1)).unwrap();
        let (_, last) = conversation(&scratch, 10);
        let (visits, walked) = lines(&scratch, last, Way::Up, &args(5, None));
        assert!(visits.len() == 5 && walked.too_many);
        let (visits, walked) = lines(&scratch, last, Way::Up, &args(200, Some(1)));
        assert!(visits.len() == 3 && walked.too_deep, "{walked:?}");
    }
}
