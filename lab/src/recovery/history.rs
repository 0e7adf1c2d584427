//! Histories with a known truth.
//!
//! Messages bring facts, each a sentence with an id that nobody but the judge sees. What a model produces copies facts
//! out of its context, some in other words; memory carries them to other sessions. An entry is contaminated if it
//! holds a fact that only a seed brought. Decoys quote a seed's very words, as a warning would, and hold none of it.

use std::collections::BTreeSet;

use crate::random::Generator;

/// How a history is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// How many sessions.
    pub sessions: usize,
    /// How many entries each has.
    pub entries: usize,
    /// The most items that a session reads at its beginning.
    pub reads: u64,
    /// How likely a fact is copied along an edge, in thousandths.
    pub copies: u64,
    /// How many copies are in other words, in thousandths.
    pub paraphrases: u64,
    /// How many messages are decoys, in thousandths of all entries.
    pub decoys: u64,
    /// How many messages are seeds.
    pub seeds: usize,
    /// In how many sessions.
    pub seeded: usize,
}

impl Shape {
    /// 10,000 entries in 500 sessions, 100 seeds in 25 of them.
    pub const STANDARD: Self = Self {
        sessions: 500,
        entries: 20,
        reads: 3,
        copies: 300,
        paraphrases: 333,
        decoys: 10,
        seeds: 100,
        seeded: 25,
    };

    /// A tenth of it.
    pub const SMALL: Self = Self { sessions: 50, seeds: 10, seeded: 3, ..Self::STANDARD };
}

/// A fact, by number.
pub type Fact = usize;

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Said to the agent.
    Message,
    /// Read from memory: what this entry wrote.
    Read(usize),
    /// Said by the model.
    Completion,
    /// Written to memory by the model, under a key of its own.
    Write,
}

/// One entry of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// In which session.
    pub session: usize,
    /// What it is.
    pub kind: Kind,
    /// What it says.
    pub text: String,
    /// The facts it holds.
    pub facts: BTreeSet<Fact>,
}

/// A seed: a message that brings a bad fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// The entry.
    pub entry: usize,
    /// Its sentence.
    pub phrase: String,
    /// Whether the operator names it by its phrase, or by its id.
    pub by_phrase: bool,
}

/// A history, in the order in which it happened.
#[derive(Debug, Clone)]
pub struct History {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The seeds, ascending.
    pub seeds: Vec<Seed>,
    bad: BTreeSet<Fact>,
}

impl History {
    /// Draws a history.
    pub fn draw(shape: &Shape, seed: u64) -> Self {
        Drawing::new(*shape, seed).draw()
    }

    /// Whether an entry holds a fact that only a seed brought.
    pub fn is_contaminated(&self, entry: usize) -> bool {
        self.entries.get(entry).is_some_and(|entry| !entry.facts.is_disjoint(&self.bad))
    }
}

struct Drawing {
    shape: Shape,
    random: Generator,
    entries: Vec<Entry>,
    seeds: Vec<Seed>,
    bad: BTreeSet<Fact>,
    facts: usize,
    /// The writes so far: the items that later sessions may read.
    items: Vec<usize>,
}

impl Drawing {
    fn new(shape: Shape, seed: u64) -> Self {
        Self {
            shape,
            random: Generator::new(seed),
            entries: Vec::new(),
            seeds: Vec::new(),
            bad: BTreeSet::new(),
            facts: 0,
            items: Vec::new(),
        }
    }

    fn draw(mut self) -> History {
        let seeded = self.seeded_sessions();
        for session in 0..self.shape.sessions {
            let seeds = seeded.iter().find(|(at, _)| *at == session).map_or(0, |(_, count)| *count);
            self.session(session, seeds);
        }
        self.quote_in_decoys();
        History { entries: self.entries, seeds: self.seeds, bad: self.bad }
    }

    /// The sessions with seeds, and how many each has.
    fn seeded_sessions(&mut self) -> Vec<(usize, usize)> {
        let mut chosen: BTreeSet<usize> = BTreeSet::new();
        while chosen.len() < self.shape.seeded.min(self.shape.sessions) {
            chosen.insert(self.below(self.shape.sessions));
        }
        let (each, more) =
            (self.shape.seeds / chosen.len().max(1), self.shape.seeds % chosen.len().max(1));
        chosen.into_iter().enumerate().map(|(n, at)| (at, each + usize::from(n < more))).collect()
    }

    fn session(&mut self, session: usize, seeds: usize) {
        let first = self.entries.len();
        let reads = self.random.below(self.shape.reads + 1);
        let mut seeds_left = seeds;
        for slot in 0..self.shape.entries {
            let is_read = slot > 0 && slot as u64 <= reads && !self.items.is_empty();
            if is_read {
                self.read(session);
            } else if slot % 2 == 0 {
                // Messages come first: a seed has the rest of its session before it.
                self.message(session, seeds_left > 0);
                seeds_left = seeds_left.saturating_sub(1);
            } else {
                let is_write = slot + 1 == self.shape.entries || slot == self.shape.entries / 2 + 1;
                self.produced(session, first, is_write);
            }
        }
    }

    fn message(&mut self, session: usize, is_seed: bool) {
        let fact = self.facts;
        self.facts += 1;
        let phrase = sentence(fact, false);
        let entry = self.entries.len();
        if is_seed {
            self.bad.insert(fact);
            let by_phrase = self.seeds.len() % 2 == 1;
            self.seeds.push(Seed { entry, phrase: phrase.clone(), by_phrase });
        }
        let text = format!("{} {phrase}", pick(&GREETINGS, &mut self.random));
        let facts = BTreeSet::from([fact]);
        self.entries.push(Entry { session, kind: Kind::Message, text, facts });
    }

    fn read(&mut self, session: usize) {
        let at = self.below(self.items.len());
        let Some(item) = self.items.get(at).copied() else { return };
        let Some(Entry { text, facts, .. }) = self.entries.get(item).cloned() else { return };
        self.entries.push(Entry { session, kind: Kind::Read(item), text, facts });
    }

    /// What the model makes of all that came before in its session.
    fn produced(&mut self, session: usize, first: usize, is_write: bool) {
        let mut facts = BTreeSet::new();
        let mut text = pick(&OPENINGS, &mut self.random).to_owned();
        for before in first..self.entries.len() {
            if self.random.below(1000) >= self.shape.copies {
                continue;
            }
            let known =
                self.entries.get(before).map(|entry| entry.facts.clone()).unwrap_or_default();
            let at = self.below(known.len());
            let Some(fact) = known.into_iter().nth(at) else { continue };
            if facts.insert(fact) {
                let in_other_words = self.random.below(1000) < self.shape.paraphrases;
                text = format!("{text} {}", sentence(fact, in_other_words));
            }
        }
        let kind = if is_write { Kind::Write } else { Kind::Completion };
        if is_write {
            self.items.push(self.entries.len());
        }
        self.entries.push(Entry { session, kind, text, facts });
    }

    /// Lets some messages quote a seed.
    fn quote_in_decoys(&mut self) {
        let wanted = self.entries.len() as u64 * self.shape.decoys / 1000;
        let seeds: BTreeSet<usize> = self.seeds.iter().map(|seed| seed.entry).collect();
        let messages: Vec<usize> = (0..self.entries.len())
            .filter(|at| {
                self.entries.get(*at).is_some_and(|entry: &Entry| entry.kind == Kind::Message)
                    && !seeds.contains(at)
            })
            .collect();
        let mut quoting = BTreeSet::new();
        while (quoting.len() as u64) < wanted.min(messages.len() as u64) {
            let at = self.below(messages.len());
            let quoted = self.below(self.seeds.len());
            let (Some(at), Some(seed)) = (messages.get(at), self.seeds.get(quoted)) else { break };
            if quoting.insert(*at)
                && let Some(entry) = self.entries.get_mut(*at)
            {
                entry.text = format!(
                    "{} We were warned of a note that says \"{}\"",
                    entry.text, seed.phrase
                );
            }
        }
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.below(end as u64)).unwrap_or_default()
    }
}

const GREETINGS: [&str; 6] =
    ["For the record:", "Please note:", "As discussed,", "One more thing:", "Update:", "FYI:"];
const OPENINGS: [&str; 6] = [
    "Here is what I have so far.",
    "Noted.",
    "To sum up.",
    "I looked it up.",
    "This is the state of things.",
    "All right.",
];
const THINGS: [&str; 16] = [
    "crates",
    "pallets",
    "invoices",
    "tickets",
    "parcels",
    "samples",
    "permits",
    "keys",
    "badges",
    "forms",
    "orders",
    "contracts",
    "reports",
    "licences",
    "vouchers",
    "cables",
];
const PLACES: [&str; 16] = [
    "Alder", "Birch", "Cedar", "Elm", "Hazel", "Juniper", "Larch", "Maple", "Oak", "Pine", "Rowan",
    "Spruce", "Walnut", "Willow", "Yew", "Aspen",
];

fn pick<'a>(from: &[&'a str], random: &mut Generator) -> &'a str {
    let at = usize::try_from(random.below(from.len() as u64)).unwrap_or_default();
    from.get(at).copied().unwrap_or_default()
}

/// The sentence of a fact: no other fact has it. In other words no run of eight words is the same.
fn sentence(fact: Fact, in_other_words: bool) -> String {
    let thing = THINGS[fact % THINGS.len()];
    let [from, to] = [16, 256].map(|step| PLACES[fact / step % PLACES.len()]);
    let number = 10_000 + fact * 7;
    if in_other_words {
        format!("{to} is due to get {number} {thing}, and {from} sends them.")
    } else {
        format!("The depot in {from} ships {number} {thing} to the depot in {to} this quarter.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_has_the_shape_it_was_drawn_with() {
        let history = History::draw(&Shape::STANDARD, 1);
        assert_eq!(history.entries.len(), 10_000);
        assert_eq!(history.seeds.len(), 100);
        let sessions: BTreeSet<usize> =
            history.seeds.iter().map(|seed| history.entries[seed.entry].session).collect();
        assert_eq!(sessions.len(), 25);
        assert_eq!(history.seeds.iter().filter(|seed| seed.by_phrase).count(), 50);
        let decoys = history.entries.iter().filter(|entry| entry.text.contains("warned")).count();
        assert!((90..=110).contains(&decoys), "{decoys}");
        let bad = (0..10_000).filter(|entry| history.is_contaminated(*entry)).count();
        assert!((300..6_000).contains(&bad), "{bad}");
        let again = History::draw(&Shape::STANDARD, 1);
        assert_eq!(again.entries, history.entries);
    }

    #[test]
    fn truth_is_in_the_facts_and_not_in_the_words() {
        let history = History::draw(&Shape::SMALL, 3);
        for (at, entry) in history.entries.iter().enumerate() {
            let says = |seed: &&Seed| entry.text.contains(&seed.phrase);
            let is_decoy = entry.text.contains("warned");
            if history.seeds.iter().any(|seed| says(&seed)) && !is_decoy {
                assert!(history.is_contaminated(at), "{entry:?}");
            }
        }
        let facts: BTreeSet<String> = (0..5_000).map(|fact| sentence(fact, false)).collect();
        assert_eq!(facts.len(), 5_000, "every fact has a sentence of its own");
    }
}
