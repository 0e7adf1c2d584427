//! What the design adds to MON §3.3, written down as naively as [`model`](super::model): modes,
//! shadowing, look-alikes, deletes, review and declassification, rate limits.
//!
//! It repeats the nine rules in its own words, since the additions meet every one of them. Look-alikes
//! are a table of four names, not Unicode; a limit is a list of times that is counted anew each time.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::action::{
    Act, Action, ActionChannel, ActionSpeaker, Judge, Place, PlainAnswer, Seen, Text,
};
use crate::memory::drive::RulesModel;

/// Names that a reader takes for one another; the first two are Latin, the last has a Cyrillic `о`.
const ALIKE: [(&str, &str); 4] =
    [("SOUL.md", "soul.md"), ("notes", "Notes"), ("notes", "nоtes"), ("Notes", "nоtes")];

/// A limit on changes, per principal and namespace.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// This many.
    pub changes: usize,
    /// In this time.
    pub window_ms: u64,
    /// How long a proposal waits.
    pub waits_ms: u64,
}

/// Everything there is.
#[derive(Debug, Clone)]
pub struct Extended {
    limit: Limit,
    /// What the clock shows, which may be set back.
    clock: u64,
    /// The time of the last entry, which never runs backwards.
    now: u64,
    entries: Vec<Entry>,
    items: Vec<Item>,
    sessions: Vec<(ActionSpeaker, Vec<usize>)>,
    proposals: Vec<Proposal>,
    changes: Vec<(String, String, u64)>,
    forgotten: Option<&'static str>,
}

#[derive(Debug, Clone)]
struct Entry {
    /// Whether it is tainted whatever it was made from.
    dirty: bool,
    /// What it was made from, as far as that can taint it.
    from: Vec<usize>,
    /// The version that it read or shares. Stored versions are clean, whatever came before them.
    version: Option<usize>,
}

#[derive(Debug, Clone)]
struct Item {
    namespace: String,
    key: String,
    mode: &'static str,
    /// The text, and the entry that wrote it.
    value: Option<(String, usize)>,
    /// How often it changed, deletes included.
    changes: usize,
}

#[derive(Debug, Clone)]
struct Proposal {
    entry: usize,
    namespace: String,
    key: String,
    text: Option<String>,
    /// How often the item had changed.
    base: usize,
    by: String,
    in_person: bool,
    expires: u64,
}

impl Extended {
    fn parents_of(&self, entry: usize) -> impl Iterator<Item = usize> {
        let Entry { from, version, .. } = &self.entries[entry];
        from.iter().chain(version).copied()
    }

    /// Empty, in a store whose last entry is of `now`, by a clock that shows `clock`.
    pub fn new(limit: Limit, now: u64, clock: u64, sessions: &[ActionSpeaker]) -> Self {
        Self {
            limit,
            clock,
            now,
            entries: Vec::new(),
            items: Vec::new(),
            sessions: sessions.iter().map(|speaker| (speaker.clone(), Vec::new())).collect(),
            proposals: Vec::new(),
            changes: Vec::new(),
            forgotten: None,
        }
    }

    /// The same with one addition left out, to show that the comparison notices.
    #[must_use]
    pub fn without(self, addition: &'static str) -> Self {
        Self { forgotten: Some(addition), ..self }
    }

    fn knows(&self, addition: &str) -> bool {
        self.forgotten != Some(addition)
    }

    fn enter(&mut self, dirty: bool, from: Vec<usize>) -> usize {
        self.entries.push(Entry { dirty, from, version: None });
        self.entries.len() - 1
    }

    fn enter_with(&mut self, version: usize, from: Vec<usize>) -> usize {
        self.entries.push(Entry { dirty: false, from, version: Some(version) });
        self.entries.len() - 1
    }

    /// Whether one of `entries`, or anything they were made from, is dirty.
    fn dirty(&self, entries: &[usize]) -> bool {
        let mut visited = vec![false; self.entries.len()];
        let mut todo = entries.to_vec();
        while let Some(next) = todo.pop() {
            if visited[next] {
                continue;
            }
            visited[next] = true;
            if self.entries[next].dirty {
                return true;
            }
            todo.extend(&self.entries[next].from);
        }
        false
    }

    fn namespace(&self, session: usize, place: Place) -> String {
        let tenant = &self.sessions[session].0.tenant;
        match place {
            Place::Shared => format!("{tenant}/shared"),
            Place::Session(other) => format!("{tenant}/{other}"),
        }
    }

    fn shared_beside(namespace: &str) -> String {
        let tenant = namespace.split('/').next().unwrap_or_default();
        format!("{tenant}/shared")
    }

    fn item(&self, namespace: &str, key: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.namespace == namespace && item.key == key)
    }

    fn item_mut(&mut self, namespace: &str, key: &str) -> &mut Item {
        let at = self.items.iter().position(|i| i.namespace == namespace && i.key == key);
        let at = at.unwrap_or_else(|| {
            let (namespace, key) = (namespace.to_owned(), key.to_owned());
            self.items.push(Item { namespace, key, mode: "open", value: None, changes: 0 });
            self.items.len() - 1
        });
        &mut self.items[at]
    }

    fn mode(&self, namespace: &str, key: &str) -> &'static str {
        self.item(namespace, key).map_or("open", |item| item.mode)
    }

    fn times_changed(&self, namespace: &str, key: &str) -> usize {
        self.item(namespace, key).map_or(0, |item| item.changes)
    }

    fn set(&mut self, namespace: &str, key: &str, value: Option<(String, usize)>) {
        let item = self.item_mut(namespace, key);
        item.value = value;
        item.changes += 1;
    }

    fn base(&self, namespace: &str, key: &str) -> Option<usize> {
        let value = self.item(namespace, key)?.value.as_ref();
        value.map(|(_, entry)| *entry)
    }

    /// Rule 3: the item, the shared item that it would shadow, or one that it looks like. What looks like
    /// another may still be deleted.
    fn is_locked(&self, namespace: &str, key: &str, deletes: bool) -> bool {
        let shared = Self::shared_beside(namespace);
        let [immutable, shared_immutable] =
            [namespace, shared.as_str()].map(|place| self.mode(place, key) == "immutable");
        let shadows = self.knows("shadowing") && shared_immutable;
        let looks_like = ALIKE.iter().any(|(a, b)| {
            let other = if *a == key { *b } else { *a };
            (*a == key || *b == key) && self.mode(&shared, other) != "open"
        });
        let imitates = self.knows("look-alikes") && looks_like && !deletes;
        immutable || shadows || imitates
    }

    fn is_full(&self, principal: &str, namespace: &str) -> bool {
        let recent = self.changes.iter().filter(|(who, place, at)| {
            who == principal && place == namespace && at + self.limit.window_ms > self.now
        });
        // A trace is read faster than it happened.
        let limited = self.knows("rate limits") && !namespace.starts_with("replay-");
        limited && recent.count() >= self.limit.changes
    }

    /// A write, a delete (no text) or a promotion that got past rule 9.
    fn change(&mut self, session: usize, change: Change) -> PlainAnswer {
        let Change { namespace, key, text, entry, spoilt, queue } = change;
        let speaker = self.sessions[session].0.clone();
        if self.is_locked(&namespace, &key, text.is_none()) {
            return PlainAnswer::refused("rule 3");
        }
        let full = self.is_full(&speaker.principal, &namespace);
        // Nothing that was only replayed is shared, whoever would agree to it.
        let never_shared = namespace.starts_with("replay-") && namespace.ends_with("/shared");
        let may_wait = queue && self.knows("declassification") && !full && !never_shared;
        if spoilt && !may_wait {
            return PlainAnswer::refused("rule 4");
        }
        if !spoilt && !speaker.trusted {
            return PlainAnswer::refused("rule 5");
        }
        if never_shared {
            return PlainAnswer::refused("rule 7");
        }
        if !spoilt && full {
            return PlainAnswer::refused("rate limit");
        }
        self.changes.push((speaker.principal.clone(), namespace.clone(), self.now));
        let shared = Self::shared_beside(&namespace);
        let review =
            [&namespace, &shared].into_iter().any(|place| self.mode(place, &key) == "reviewed");
        if spoilt || (review && self.knows("review")) {
            let base = self.times_changed(&namespace, &key);
            let (by, in_person) = (speaker.principal, speaker.in_person);
            let expires = self.now + self.limit.waits_ms;
            self.proposals.push(Proposal {
                entry,
                namespace,
                key,
                text,
                base,
                by,
                in_person,
                expires,
            });
            return PlainAnswer::Pending(if spoilt { "declassify" } else { "review" }.to_owned());
        }
        self.set(&namespace, &key, text.map(|text| (text, entry)));
        PlainAnswer::Done
    }

    fn act(&mut self, action: &Action) -> PlainAnswer {
        let session = action.session;
        match &action.act {
            Act::Internal { channel, parents } => self.internal(session, *channel, parents),
            Act::Read { place, key } => self.read(session, *place, key),
            act @ Act::Write { .. } => self.write(session, act),
            Act::Delete { place, key } => self.delete(session, *place, key),
            Act::Promote { from, key } => self.promote(session, *from, key),
            Act::Approve { judge, proposal, saw_it } => self.approve(*judge, *proposal, *saw_it),
            Act::Deny { judge, proposal } => self.deny(*judge, *proposal),
            act @ Act::SetMode { .. } => self.set_mode(session, act),
            Act::SetClock { ms } => {
                self.clock = *ms;
                PlainAnswer::NothingThere
            }
        }
    }

    fn internal(&mut self, session: usize, channel: ActionChannel, named: &[usize]) -> PlainAnswer {
        let mut from = named.to_vec();
        let dirty = match channel {
            ActionChannel::System => false,
            ActionChannel::User => !self.sessions[session].0.trusted,
            ActionChannel::Completion | ActionChannel::ToolCall => {
                from.extend(&self.sessions[session].1);
                // What a model said out of nothing came from somewhere, and nobody knows where.
                from.is_empty()
            }
            ActionChannel::Web
            | ActionChannel::Tool
            | ActionChannel::Skill
            | ActionChannel::Retrieval
            | ActionChannel::File
            | ActionChannel::PeerAgent => true,
        };
        let entry = self.enter(dirty, from);
        self.sessions[session].1.push(entry);
        PlainAnswer::Done
    }

    fn read(&mut self, session: usize, place: Place, key: &str) -> PlainAnswer {
        let namespace = self.namespace(session, place);
        let own = self.namespace(session, Place::Session(session));
        let shared = self.namespace(session, Place::Shared);
        if namespace != own && namespace != shared {
            self.enter(false, Vec::new());
            return PlainAnswer::Refused("rule 9".to_owned());
        }
        // An immutable shared item is what everybody reads under its key.
        let hidden = self.knows("shadowing") && self.mode(&shared, key) == "immutable";
        let found = if hidden { &shared } else { &namespace };
        match self.item(found, key).and_then(|item| item.value.clone()) {
            None => {
                self.enter(false, Vec::new());
                PlainAnswer::Absent
            }
            // Nothing tainted is ever stored: rule 2 stores τ = 0, and so does a reviewer's word.
            Some((text, version)) => {
                let entry = self.enter_with(version, Vec::new());
                self.sessions[session].1.push(entry);
                PlainAnswer::Found(text)
            }
        }
    }

    fn write(&mut self, session: usize, act: &Act) -> PlainAnswer {
        let Act::Write { place, key, text, depends_on, missing, queue } = act else {
            return PlainAnswer::NothingThere;
        };
        let mut from = self.sessions[session].1.clone();
        from.extend(depends_on);
        let text = match text {
            Text::New(text) => text.clone(),
            Text::Of { entry, text } => {
                from.push(*entry);
                text.clone()
            }
        };
        let no_origin = from.is_empty();
        let spoilt = *missing || no_origin || self.dirty(&from);
        let entry = self.enter(spoilt, from);
        self.propose(session, *place, key, Some(text), entry, spoilt, *queue)
    }

    fn delete(&mut self, session: usize, place: Place, key: &str) -> PlainAnswer {
        let namespace = self.namespace(session, place);
        let nothing = self.base(&namespace, key).is_none() && self.sees(session, &namespace);
        if nothing && !self.is_locked(&namespace, key, true) {
            return PlainAnswer::NothingThere;
        }
        let from = self.sessions[session].1.clone();
        let spoilt = from.is_empty() || self.dirty(&from);
        let entry = self.enter(spoilt, from);
        self.propose(session, place, key, None, entry, spoilt, false)
    }

    fn sees(&self, session: usize, namespace: &str) -> bool {
        [Place::Session(session), Place::Shared]
            .iter()
            .any(|place| self.namespace(session, *place) == namespace)
    }

    #[expect(clippy::too_many_arguments, reason = "one argument per part of a proposal, in words")]
    fn propose(
        &mut self,
        session: usize,
        place: Place,
        key: &str,
        text: Option<String>,
        entry: usize,
        spoilt: bool,
        queue: bool,
    ) -> PlainAnswer {
        let namespace = self.namespace(session, place);
        if !self.sees(session, &namespace) {
            return PlainAnswer::Refused("rule 9".to_owned());
        }
        let key = key.to_owned();
        self.change(session, Change { namespace, key, text, entry, spoilt, queue })
    }

    fn promote(&mut self, session: usize, from: usize, key: &str) -> PlainAnswer {
        let (speaker, context) = self.sessions[session].clone();
        let source = self.namespace(session, Place::Session(from));
        let value = self.item(&source, key).and_then(|item| item.value.clone());
        let Some((text, version)) = value.filter(|_| from == session || speaker.in_person) else {
            return PlainAnswer::NothingThere;
        };
        let spoilt = self.dirty(&context);
        let entry = self.enter_with(version, context);
        if speaker.tenant.starts_with("replay-") {
            return PlainAnswer::Refused("rule 7".to_owned());
        }
        let namespace = self.namespace(session, Place::Shared);
        let (key, text) = (key.to_owned(), Some(text));
        let locked = self.is_locked(&namespace, &key, false);
        if !locked && !spoilt && !speaker.trusted {
            return PlainAnswer::Refused("rule 7".to_owned());
        }
        self.change(session, Change { namespace, key, text, entry, spoilt, queue: false })
    }

    /// Whether `judge` may review what is proposed in a namespace, and whether it is their own.
    fn reviews(judge: Judge, proposal: &Proposal) -> Result<(), &'static str> {
        let tenant = proposal.namespace.split('/').next().unwrap_or_default();
        let (name, may) = match judge {
            Judge::Owner => ("owner", true),
            Judge::Reviewer => ("rex", !tenant.starts_with("replay-")),
            Judge::Stranger | Judge::AnnsToken => ("", false),
            Judge::Ann => ("ann", proposal.by == "ann"),
            Judge::Bob => ("bob", proposal.by == "bob"),
        };
        match (may, name == proposal.by && proposal.in_person) {
            (false, _) => Err("not a reviewer"),
            (true, true) => Err("own"),
            (true, false) => Ok(()),
        }
    }

    fn approve(&mut self, judge: Judge, asked: usize, saw_it: bool) -> PlainAnswer {
        let Some(at) = self.proposals.iter().position(|waiting| waiting.entry == asked) else {
            self.enter(false, Vec::new());
            return PlainAnswer::refused("approval");
        };
        let waiting = self.proposals[at].clone();
        let entry = self.enter(false, vec![asked]);
        if Self::reviews(judge, &waiting).is_err() {
            return PlainAnswer::refused("authority");
        }
        if self.knows("expiry") && self.now >= waiting.expires {
            return PlainAnswer::refused("approval");
        }
        if !saw_it {
            return PlainAnswer::refused("approval");
        }
        if self.is_locked(&waiting.namespace, &waiting.key, waiting.text.is_none()) {
            return PlainAnswer::refused("rule 3");
        }
        let now = self.times_changed(&waiting.namespace, &waiting.key);
        if self.knows("base version") && now != waiting.base {
            return PlainAnswer::refused("approval");
        }
        if self.knows("once") {
            self.proposals.remove(at);
        }
        self.set(&waiting.namespace, &waiting.key, waiting.text.map(|text| (text, entry)));
        PlainAnswer::Done
    }

    fn deny(&mut self, judge: Judge, asked: usize) -> PlainAnswer {
        let Some(at) = self.proposals.iter().position(|waiting| waiting.entry == asked) else {
            self.enter(false, Vec::new());
            return PlainAnswer::Refused("approval".to_owned());
        };
        self.enter(false, vec![asked]);
        if Self::reviews(judge, &self.proposals[at]) == Err("not a reviewer") {
            return PlainAnswer::Refused("authority".to_owned());
        }
        self.proposals.remove(at);
        PlainAnswer::Done
    }

    fn set_mode(&mut self, session: usize, act: &Act) -> PlainAnswer {
        let Act::SetMode { judge, place, key, mode } = act else {
            return PlainAnswer::NothingThere;
        };
        self.enter(false, Vec::new());
        if *judge != Judge::Owner {
            return PlainAnswer::Refused("authority".to_owned());
        }
        let namespace = self.namespace(session, *place);
        self.item_mut(&namespace, key).mode = mode;
        PlainAnswer::Done
    }
}

struct Change {
    namespace: String,
    key: String,
    text: Option<String>,
    entry: usize,
    /// Whether a dependency is tainted, missing, or there is none.
    spoilt: bool,
    queue: bool,
}

impl RulesModel for Extended {
    fn perform(&mut self, action: &Action) -> PlainAnswer {
        let before = self.now;
        self.now = before.max(self.clock);
        let verdict = self.act(action);
        if !verdict.is_recorded() {
            self.now = before;
        }
        verdict
    }

    fn lock(&mut self, key: &str) {
        for session in 0..self.sessions.len() {
            let shared = self.namespace(session, Place::Shared);
            self.item_mut(&shared, key).mode = "immutable";
        }
    }

    fn entries(&self) -> usize {
        self.entries.len()
    }

    fn ancestors(&self, entry: usize) -> BTreeSet<usize> {
        let mut ancestors = BTreeSet::new();
        let mut todo: Vec<usize> = self.parents_of(entry).collect();
        while let Some(next) = todo.pop() {
            if ancestors.insert(next) {
                todo.extend(self.parents_of(next));
            }
        }
        ancestors
    }

    fn is_tainted(&self, entry: usize) -> bool {
        self.dirty(&[entry])
    }

    fn context_is_tainted(&self, session: usize) -> bool {
        self.dirty(&self.sessions[session].1)
    }

    fn namespace_of(&self, session: usize, place: Place) -> BTreeMap<String, Seen> {
        let namespace = self.namespace(session, place);
        let mut seen = BTreeMap::new();
        for item in self.items.iter().filter(|item| item.namespace == namespace) {
            let value = item.value.as_ref().map(|(text, _)| (text.clone(), true, false));
            if value.is_some() || item.mode != "open" {
                seen.insert(item.key.clone(), Seen { mode: item.mode.to_owned(), value });
            }
        }
        seen
    }

    fn waiting(&self) -> BTreeSet<usize> {
        self.proposals.iter().map(|proposal| proposal.entry).collect()
    }
}
