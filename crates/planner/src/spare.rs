//! Sparing: a member of a closure that says nothing but what trusted clean texts say is flagged and kept.
//!
//! An agent that read a bad page goes on quoting its user, its system prompt and its clean memory. All of that is in
//! the closure, and little of it is bad. An entry is spared if every sentence of it stands, as a whole sentence, in a
//! trusted clean text outside the closure that is older than every seed which reaches the entry: nothing that speaks
//! against the entry can have led to that text, on the record or past it. Whole sentences hold whatever numbers,
//! addresses and identifiers they hold, so none of these can be put together from parts. Sentences under [`MIN_ALONE`]
//! characters vouch for nothing alone: a list of words, one per line, would else vouch for any text.
//!
//! Spared entries stay tainted. They are found anew whenever seeds are added, since both conditions look at the seeds.
//!
//! Source: docs/design.md §6.4.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use custody_kernel::kind::EntryKind;
use custody_kernel::label::Label;
use custody_log::{Digest, Seq};
use serde::{Deserialize, Serialize};

use crate::incident::IncidentClosure;
use crate::sentences::sentences;

/// The shortest sentence that is held without a neighbour, in characters. A shorter one must stand in the trusted
/// text beside the same sentence as here, unless it is all that the entry says.
pub const MIN_ALONE: usize = 20;

/// What an entry did besides saying something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryEffect {
    /// Nothing: a message, a completion, an output, a reading.
    Said,
    /// It called a tool.
    Called,
    /// It changed memory.
    Wrote,
    /// It changed what holds for others: a policy, an adapter, a principal, a limit, an approval.
    Governed,
}

impl EntryEffect {
    /// What an entry of this kind did besides saying something.
    pub const fn of(kind: EntryKind) -> Self {
        match kind {
            EntryKind::Message
            | EntryKind::Completion
            | EntryKind::ToolOutput
            | EntryKind::Retrieval
            | EntryKind::MemoryRead
            | EntryKind::FileChange => Self::Said,
            EntryKind::ToolCall => Self::Called,
            EntryKind::MemoryWrite => Self::Wrote,
            EntryKind::AdapterLoad
            | EntryKind::AdapterUnload
            | EntryKind::AdapterFuse
            | EntryKind::Decision => Self::Governed,
        }
    }
}

/// Why an entry is spared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SparedReason {
    /// There is nothing in it but white space.
    SaysNothing,
    /// Every sentence stands in trusted clean texts.
    SaidBefore,
}

/// Why an entry is not spared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSpared {
    /// It is not in the closure.
    #[error("it is not in the closure")]
    NoMember,
    /// Direct evidence points to it.
    #[error("direct evidence points to it")]
    DirectEvidence,
    /// It acted, and saying nothing new does not undo that.
    #[error("it did more than say something")]
    Acted,
    /// Its text is purged, missing or no text. Unknown is not clean.
    #[error("its text cannot be read")]
    Unreadable,
    /// A sentence that no trusted clean text holds, counted from 0.
    #[error("no trusted clean text says its sentence {0}")]
    SaysMore(usize),
}

/// Finds out which members of an incident's closure are spared.
///
/// First every trusted text is [shown](Self::show), then the members are [judged](Self::judge). One that is judged
/// too early is spared less often, never more.
#[derive(Debug)]
pub struct Sparing<'i, 'g> {
    incident: &'i IncidentClosure<'g>,
    /// The earliest seed that reaches each member, in their order.
    reached_by: Vec<Seq>,
    /// The latest of these. What is not older vouches for nobody.
    until: Seq,
    /// Hashes of sentences, and of each with the one after it, with the entry that said it first.
    held: HashMap<Digest, Seq>,
    spared: BTreeMap<Seq, Vouched>,
}

impl<'i, 'g> Sparing<'i, 'g> {
    /// With no trusted text yet.
    pub fn new(incident: &'i IncidentClosure<'g>) -> Self {
        let reached_by = incident.closure().earliest_seeds();
        let until = reached_by.iter().copied().max().unwrap_or(Seq(0));
        Self { incident, reached_by, until, held: HashMap::new(), spared: BTreeMap::new() }
    }

    /// Before which entry a text must stand to vouch for any member.
    pub const fn until(&self) -> Seq {
        self.until
    }

    /// Takes in the text of `entry`, if its label is trusted and clean, it may vouch for any member by its age, and it
    /// is no member and no tombstone. Returns whether it did. Linear in the text.
    ///
    /// What an earlier incident quarantined must not be shown: its label says nothing of that.
    pub fn show(&mut self, entry: Seq, label: Label, text: &str) -> bool {
        let closure = self.incident.closure();
        let is_older = entry < self.until;
        let is_admitted = is_older
            && label.is_good()
            && !closure.contains(entry)
            && !closure.graph().is_purged(entry);
        if is_admitted {
            let sentences = sentences(text);
            let alone = sentences.iter().map(|one| Digest::of(one.as_bytes()));
            for said in alone.chain(sentences.windows(2).map(together)) {
                let first = self.held.entry(said).or_insert(entry);
                *first = entry.min(*first);
            }
        }
        is_admitted
    }

    /// Whether `entry`, which did `deed` and says `text`, is spared. `None` is a text that cannot be read.
    ///
    /// Linear in the text, whatever was shown.
    ///
    /// # Errors
    /// Why it is not.
    pub fn judge(
        &mut self,
        entry: Seq,
        deed: EntryEffect,
        text: Option<&str>,
    ) -> Result<(), NotSpared> {
        let closure = self.incident.closure();
        if !closure.contains(entry) {
            return Err(NotSpared::NoMember);
        }
        if self.incident.has_direct_evidence(entry) {
            return Err(NotSpared::DirectEvidence);
        }
        if deed != EntryEffect::Said || closure.graph().is_adapter_event(entry) {
            return Err(NotSpared::Acted);
        }
        let readable = text.filter(|_| !closure.graph().is_purged(entry));
        let place = closure.place(entry).and_then(|place| self.reached_by.get(place)).copied();
        let before = place.ok_or(NotSpared::NoMember)?;
        let vouched = self.vouch_for(readable.ok_or(NotSpared::Unreadable)?, before)?;
        self.spared.insert(entry, vouched);
        Ok(())
    }

    /// The entries that are spared.
    pub fn finish(self) -> SparedEntries {
        SparedEntries { seeds: self.incident.closure().seeds().to_vec(), entries: self.spared }
    }

    /// The entries before `before` that say what `text` says.
    fn vouch_for(&self, text: &str, before: Seq) -> Result<Vouched, NotSpared> {
        let said = |said: &Digest| self.held.get(said).filter(|by| **by < before);
        let sentences = sentences(text);
        if sentences.is_empty() {
            // A text of marks alone has no sentence, and still says something.
            let is_blank = text.chars().all(char::is_whitespace);
            let vouched = Vouched { because: SparedReason::SaysNothing, by: Vec::new() };
            return if is_blank { Ok(vouched) } else { Err(NotSpared::SaysMore(0)) };
        }
        // Each pair of neighbours that stands together in a trusted text.
        let pairs: Vec<bool> =
            sentences.windows(2).map(|pair| said(&together(pair)).is_some()).collect();
        let mut by = BTreeSet::new();
        for (at, sentence) in sentences.iter().enumerate() {
            let has_neighbour = |pair: Option<usize>| {
                pair.and_then(|pair| pairs.get(pair)).copied().unwrap_or(false)
            };
            let is_enough = pairs.is_empty()
                || sentence.chars().count() >= MIN_ALONE
                || has_neighbour(at.checked_sub(1))
                || has_neighbour(Some(at));
            match said(&Digest::of(sentence.as_bytes())) {
                Some(entry) if is_enough => by.insert(*entry),
                _ => return Err(NotSpared::SaysMore(at)),
            };
        }
        Ok(Vouched { because: SparedReason::SaidBefore, by: by.into_iter().collect() })
    }
}

/// The hash of neighbours. No sentence holds a line break, so no single one has this hash.
fn together(pair: &[String]) -> Digest {
    Digest::of(pair.join("\n").as_bytes())
}

/// Why an entry is spared, and which trusted entries say what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Vouched {
    because: SparedReason,
    /// Ascending.
    by: Vec<Seq>,
}

/// The spared entries of one incident. Only [`Sparing`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparedEntries {
    seeds: Vec<Seq>,
    entries: BTreeMap<Seq, Vouched>,
}

impl SparedEntries {
    /// Whether `entry` is spared.
    pub fn contains(&self, entry: Seq) -> bool {
        self.entries.contains_key(&entry)
    }

    /// The entries and why, ascending.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (Seq, SparedReason)> + '_ {
        self.entries.iter().map(|(entry, vouched)| (*entry, vouched.because))
    }

    /// The trusted entries that say what `entry` says, ascending.
    pub fn covered_by(&self, entry: Seq) -> &[Seq] {
        self.entries.get(&entry).map_or(&[], |vouched| &vouched.by)
    }

    /// Whether it was found for exactly these seeds.
    pub(crate) fn is_for(&self, incident: &IncidentClosure<'_>) -> bool {
        self.seeds == incident.closure().seeds()
    }
}
