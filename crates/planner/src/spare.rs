//! Sparing: a member of a closure that only repeats trusted clean texts is flagged and kept.
//!
//! An agent that read a bad page still quotes its user, its system prompt and its clean memory. All of that is in the
//! closure, and most of it is harmless. An entry is spared if every sentence of it occurs, as a whole sentence, in a
//! trusted clean text outside the closure that is older than every seed which reaches the entry: such a text cannot
//! derive from a seed, whether recorded or not. Whole sentences include their numbers, addresses and identifiers, so
//! none of these can be assembled from parts. A sentence under [`MIN_ALONE`] characters needs a neighbour: otherwise
//! a list of words, one per line, would cover any text.
//!
//! Sparing is about words, not about choices: which of the trusted sentences a model said, `yes` or `no` among them,
//! may be an attacker's choice. A spared entry therefore only stays readable. It keeps its taint, is flagged and
//! listed, is never one that acted, and does not shield what derives from it: whatever was decided by it is judged for
//! itself.
//!
//! Spared entries stay tainted. Both conditions depend on the seeds, so they are evaluated again whenever seeds are
//! added.
//!
//! Source: docs/design.md §6.4.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use custody_kernel::kind::EntryKind;
use custody_kernel::label::Label;
use custody_log::{Digest, Seq};
use serde::{Deserialize, Serialize};

use crate::incident::IncidentClosure;
use crate::sentences::sentences;

/// The shortest sentence that is covered without a neighbour, in characters. A shorter one must occur in the trusted
/// text beside the same sentence as in the entry, unless it is the only sentence of the entry.
pub const MIN_ALONE: usize = 20;

/// The effect of an entry besides its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryEffect {
    /// None: a message, a completion, an output or a reading.
    #[serde(rename = "said")]
    TextOnly,
    /// It called a tool.
    Called,
    /// It changed memory.
    Wrote,
    /// It changed the rules for other entries: a policy, an adapter, a principal, a limit, an approval.
    Governed,
}

impl EntryEffect {
    /// The effect of an entry of this kind.
    pub const fn of(kind: EntryKind) -> Self {
        match kind {
            EntryKind::Message
            | EntryKind::Completion
            | EntryKind::ToolOutput
            | EntryKind::Retrieval
            | EntryKind::MemoryRead
            | EntryKind::FileChange => Self::TextOnly,
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
    /// The text is empty or white space.
    #[serde(rename = "says_nothing")]
    Blank,
    /// Every sentence occurs in trusted clean texts.
    #[serde(rename = "said_before")]
    RepeatsTrusted,
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
    /// It had an effect besides its text, which sparing does not undo.
    #[error("it had an effect besides its text")]
    Acted,
    /// Its text is purged, missing or not UTF-8. Unknown is not clean.
    #[error("its text cannot be read")]
    Unreadable,
    /// A sentence that no trusted clean text contains that is old enough, or a short one that stands in none beside the
    /// same sentence as here. Counted from 0.
    #[error("no trusted clean text contains its sentence {0}")]
    NewSentence(usize),
}

/// Determines which members of an incident's closure are spared.
///
/// First [show](Self::show) every trusted text, then [judge](Self::judge) the members. A member judged before all
/// texts are shown may miss being spared; it is never spared wrongly.
#[derive(Debug)]
pub struct Sparing<'i, 'g> {
    incident: &'i IncidentClosure<'g>,
    /// The earliest seed that reaches each member, in their order.
    reached_by: Vec<Seq>,
    /// The latest of these. Only older texts cover anything.
    until: Seq,
    /// Hashes of sentences, and of each with the one after it, with the first entry that contains it.
    held: HashMap<Digest, Seq>,
    spared: BTreeMap<Seq, Cover>,
}

impl<'i, 'g> Sparing<'i, 'g> {
    /// With no trusted text yet.
    pub fn new(incident: &'i IncidentClosure<'g>) -> Self {
        let reached_by = incident.closure().earliest_seeds();
        let until = reached_by.iter().copied().max().unwrap_or(Seq(0));
        Self { incident, reached_by, until, held: HashMap::new(), spared: BTreeMap::new() }
    }

    /// The entry before which a text must be recorded to cover any member.
    pub const fn until(&self) -> Seq {
        self.until
    }

    /// Adds the text of `entry` if its label is trusted and clean, it is old enough to cover a member, and it is
    /// neither a member nor purged. Returns whether it was added. Linear in the text.
    ///
    /// Do not show entries that an earlier incident quarantined: their label does not record it.
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
            for hash in alone.chain(sentences.windows(2).map(together)) {
                let first = self.held.entry(hash).or_insert(entry);
                *first = entry.min(*first);
            }
        }
        is_admitted
    }

    /// Spares `entry`, with `effect` and `text`, if trusted texts cover it. `None` is a text that cannot be read.
    ///
    /// Linear in the text.
    ///
    /// # Errors
    /// The reason why it is not spared.
    pub fn judge(
        &mut self,
        entry: Seq,
        effect: EntryEffect,
        text: Option<&str>,
    ) -> Result<(), NotSpared> {
        let closure = self.incident.closure();
        if !closure.contains(entry) {
            return Err(NotSpared::NoMember);
        }
        if self.incident.has_direct_evidence(entry) {
            return Err(NotSpared::DirectEvidence);
        }
        if effect != EntryEffect::TextOnly || closure.graph().is_adapter_event(entry) {
            return Err(NotSpared::Acted);
        }
        let readable = text.filter(|_| !closure.graph().is_purged(entry));
        let place = closure.place(entry).and_then(|place| self.reached_by.get(place)).copied();
        let before = place.ok_or(NotSpared::NoMember)?;
        let cover = self.cover_for(readable.ok_or(NotSpared::Unreadable)?, before)?;
        self.spared.insert(entry, cover);
        Ok(())
    }

    /// The entries that are spared.
    pub fn finish(self) -> SparedEntries {
        SparedEntries { seeds: self.incident.closure().seeds().to_vec(), entries: self.spared }
    }

    /// The entries before `before` that contain the sentences of `text`.
    fn cover_for(&self, text: &str, before: Seq) -> Result<Cover, NotSpared> {
        let sentences = sentences(text);
        if sentences.is_empty() {
            // A text of punctuation alone has no sentence and is not blank.
            let is_blank = text.chars().all(char::is_whitespace);
            let cover = Cover { because: SparedReason::Blank, by: Vec::new() };
            return if is_blank { Ok(cover) } else { Err(NotSpared::NewSentence(0)) };
        }
        // The trusted text in which each pair of neighbours occurs together.
        let pairs: Vec<Option<Seq>> =
            sentences.windows(2).map(|pair| self.held_before(together(pair), before)).collect();
        let mut by = BTreeSet::new();
        for (at, sentence) in sentences.iter().enumerate() {
            let held = self.held_before(Digest::of(sentence.as_bytes()), before);
            by.insert(held.ok_or(NotSpared::NewSentence(at))?);
            if sentence.chars().count() < MIN_ALONE && !pairs.is_empty() {
                let neighbours = [at.checked_sub(1), Some(at)].into_iter().flatten();
                let beside = neighbours.filter_map(|pair| *pairs.get(pair)?).min();
                // It is a cover as well: without it nobody could derive that the sentence needs no other.
                by.insert(beside.ok_or(NotSpared::NewSentence(at))?);
            }
        }
        Ok(Cover { because: SparedReason::RepeatsTrusted, by: by.into_iter().collect() })
    }

    /// The first entry that contains the hashed sentences, if it is before `before`.
    fn held_before(&self, hash: Digest, before: Seq) -> Option<Seq> {
        self.held.get(&hash).copied().filter(|entry| *entry < before)
    }
}

/// The hash of two neighbours. A sentence contains no line break, so no single sentence has this hash.
fn together(pair: &[String]) -> Digest {
    Digest::of(pair.join("\n").as_bytes())
}

/// Why an entry is spared, and the trusted entries that contain its sentences.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cover {
    because: SparedReason,
    /// Ascending.
    by: Vec<Seq>,
}

/// The spared entries of one incident. Only [`Sparing`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparedEntries {
    seeds: Vec<Seq>,
    entries: BTreeMap<Seq, Cover>,
}

impl SparedEntries {
    /// Whether `entry` is spared.
    pub fn contains(&self, entry: Seq) -> bool {
        self.entries.contains_key(&entry)
    }

    /// The entries with the reasons, ascending.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (Seq, SparedReason)> + '_ {
        self.entries.iter().map(|(entry, cover)| (*entry, cover.because))
    }

    /// The trusted entries that contain the sentences of `entry`, ascending.
    pub fn covered_by(&self, entry: Seq) -> &[Seq] {
        self.entries.get(&entry).map_or(&[], |cover| &cover.by)
    }

    /// Whether the entries were determined for exactly the seeds of `incident`.
    pub(crate) fn is_for(&self, incident: &IncidentClosure<'_>) -> bool {
        self.seeds == incident.closure().seeds()
    }
}
