//! MON §3.3 written down as naively as possible: nine rules over plain strings, lists and sets.
//!
//! This is the specification that the real store is driven beside, so it shares no code, no types and
//! no cleverness with it: taint is computed anew by walking all ancestors each time it is asked for,
//! and every look-up is a search. Open and immutable keys; no limits, no review.
//!
//! Where MON leaves room, this says what Custody promises: a dependency that is not there is not known
//! to be clean (rule 4), nobody in a replayed trace may authorise a promotion (rule 7), and a write to the shared
//! namespace needs what a promotion to it needs (rules 6 and 7).

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::action::{
    Act, Action, ActionChannel, ActionSpeaker, Place, PlainAnswer, Seen, Text,
};
use crate::memory::drive::RulesModel;

/// S = (M, B) and who runs the sessions.
#[derive(Debug, Clone)]
pub struct Model {
    beliefs: Vec<Belief>,
    memory: Vec<Item>,
    immutable: BTreeSet<String>,
    sessions: Vec<Session>,
    forgotten: Option<u8>,
}

/// b ∈ B.
#[derive(Debug, Clone)]
struct Belief {
    untrusted_source: bool,
    parents: Vec<usize>,
}

/// m = (key, val, π, τ, ι, σ); ι is a function of the key, and the tenant is part of σ.
#[derive(Debug, Clone)]
struct Item {
    key: String,
    val: String,
    trusted: bool,
    tainted: bool,
    namespace: String,
    written_by: usize,
}

#[derive(Debug, Clone)]
struct Session {
    tenant: String,
    /// π of the principal it runs for.
    trusted: bool,
    /// Whether that principal may authorise promotions at all.
    authorises: bool,
    /// A person who is present may name other sessions of the tenant in a promotion.
    in_person: bool,
    /// Every belief its model has read or made.
    context: Vec<usize>,
}

impl Model {
    /// Nothing in memory, nobody has read anything.
    pub fn new(immutable: &[&str], sessions: &[ActionSpeaker]) -> Self {
        Self {
            beliefs: Vec::new(),
            memory: Vec::new(),
            immutable: immutable.iter().map(ToString::to_string).collect(),
            sessions: sessions
                .iter()
                .map(|speaker: &ActionSpeaker| Session {
                    tenant: speaker.tenant.clone(),
                    trusted: speaker.trusted,
                    authorises: speaker.trusted && !speaker.tenant.starts_with("replay-"),
                    in_person: speaker.in_person,
                    context: Vec::new(),
                })
                .collect(),
            forgotten: None,
        }
    }

    /// The same with one rule left out, to show that the comparison notices.
    #[must_use]
    pub fn without_rule(self, rule: u8) -> Self {
        Self { forgotten: Some(rule), ..self }
    }

    fn knows(&self, rule: u8) -> bool {
        self.forgotten != Some(rule)
    }

    /// Rule 8: τ(b) = max over ancestors(b) of τ(d); of several beliefs, the maximum of theirs.
    fn taint(&self, beliefs: &[usize]) -> bool {
        let mut visited = vec![false; self.beliefs.len()];
        let mut frontier = beliefs.to_vec();
        while let Some(next) = frontier.pop() {
            if visited[next] {
                continue;
            }
            visited[next] = true;
            if self.beliefs[next].untrusted_source {
                return true;
            }
            if self.knows(8) {
                frontier.extend(&self.beliefs[next].parents);
            }
        }
        false
    }

    /// Rule 9: visible(σ) = own ∪ shared.
    fn visible(&self, session: usize, namespace: &str) -> bool {
        !self.knows(9)
            || namespace == self.namespace(session, Place::Session(session))
            || namespace == self.namespace(session, Place::Shared)
    }

    /// A place as `session` means it: always in its own tenant.
    fn namespace(&self, session: usize, place: Place) -> String {
        let tenant = &self.sessions[session].tenant;
        match place {
            Place::Shared => format!("{tenant}/shared"),
            Place::Session(other) => format!("{tenant}/{other}"),
        }
    }

    fn find(&self, namespace: &str, key: &str) -> Option<&Item> {
        self.memory.iter().find(|item| item.namespace == namespace && item.key == key)
    }

    fn store(&mut self, item: Item) {
        self.memory.retain(|old| old.namespace != item.namespace || old.key != item.key);
        self.memory.push(item);
    }

    fn believe(&mut self, untrusted_source: bool, parents: Vec<usize>) -> usize {
        self.beliefs.push(Belief { untrusted_source, parents });
        self.beliefs.len() - 1
    }

    /// Source labelling (§3.4), and A3: what a model makes depends on its whole context.
    fn internal(&mut self, session: usize, channel: ActionChannel, named: &[usize]) -> PlainAnswer {
        let trusted_source = match channel {
            ActionChannel::System | ActionChannel::Completion | ActionChannel::ToolCall => true,
            ActionChannel::User => self.sessions[session].trusted,
            ActionChannel::Web
            | ActionChannel::Tool
            | ActionChannel::Skill
            | ActionChannel::Retrieval
            | ActionChannel::File
            | ActionChannel::PeerAgent => false,
        };
        let mut parents = named.to_vec();
        if matches!(channel, ActionChannel::Completion | ActionChannel::ToolCall) {
            parents.extend(&self.sessions[session].context);
        }
        let belief = self.believe(!trusted_source, parents);
        self.sessions[session].context.push(belief);
        PlainAnswer::Done
    }

    fn read(&mut self, session: usize, place: Place, key: &str) -> PlainAnswer {
        let namespace = self.namespace(session, place);
        if !self.visible(session, &namespace) {
            self.believe(false, Vec::new());
            return PlainAnswer::Refused("rule 9".into());
        }
        let Some(item) = self.find(&namespace, key).cloned() else {
            self.believe(false, Vec::new());
            return PlainAnswer::Absent;
        };
        let belief = self.believe(item.tainted, vec![item.written_by]);
        if self.knows(1) {
            self.sessions[session].context.push(belief);
        }
        PlainAnswer::Found(item.val)
    }

    fn write(
        &mut self,
        session: usize,
        place: Place,
        key: &str,
        value: &str,
        named: &[usize],
        missing: bool,
    ) -> PlainAnswer {
        let namespace = self.namespace(session, place);
        let mut deps = self.sessions[session].context.clone();
        deps.extend(named);
        let tainted = missing || self.taint(&deps);
        let belief = self.believe(missing, deps);
        if !self.visible(session, &namespace) {
            return PlainAnswer::Refused("rule 9".into());
        }
        if self.knows(3) && self.immutable.contains(key) {
            return PlainAnswer::Refused("rule 3".into());
        }
        if self.knows(4) && tainted {
            return PlainAnswer::Refused("rule 4".into());
        }
        if self.knows(5) && !self.sessions[session].trusted {
            return PlainAnswer::Refused("rule 5".into());
        }
        if self.knows(7) && place == Place::Shared && !self.sessions[session].authorises {
            return PlainAnswer::Refused("rule 7".into());
        }
        if self.knows(2) {
            let trusted = true;
            let (key, val) = (key.to_owned(), value.to_owned());
            self.store(Item { key, val, trusted, tainted: false, namespace, written_by: belief });
        }
        PlainAnswer::Done
    }

    fn promote(&mut self, session: usize, from: usize, key: &str) -> PlainAnswer {
        let source = self.namespace(session, Place::Session(from));
        if from != session && !self.sessions[session].in_person {
            return PlainAnswer::NothingThere;
        }
        let Some(item) = self.find(&source, key).cloned() else { return PlainAnswer::NothingThere };
        let mut deps = self.sessions[session].context.clone();
        let tainted_context = self.taint(&deps);
        deps.push(item.written_by);
        let belief = self.believe(item.tainted, deps);
        if self.knows(7) && !self.sessions[session].authorises {
            return PlainAnswer::Refused("rule 7".into());
        }
        if self.knows(3) && self.immutable.contains(key) {
            return PlainAnswer::Refused("rule 3".into());
        }
        if self.knows(7) && item.tainted {
            return PlainAnswer::Refused("rule 7".into());
        }
        if self.knows(4) && tainted_context {
            return PlainAnswer::Refused("rule 4".into());
        }
        if self.knows(6) {
            let namespace = self.namespace(session, Place::Shared);
            self.store(Item { namespace, written_by: belief, ..item });
        }
        PlainAnswer::Done
    }
}

impl RulesModel for Model {
    fn perform(&mut self, action: &Action) -> PlainAnswer {
        let session = action.session;
        match &action.act {
            Act::Internal { channel, parents } => self.internal(session, *channel, parents),
            Act::Read { place, key } => self.read(session, *place, key),
            Act::Write { place, key, text: Text::New(value), depends_on, missing, .. } => {
                self.write(session, *place, key, value, depends_on, *missing)
            }
            Act::Promote { from, key } => self.promote(session, *from, key),
            // No actions of MON §3.3.
            Act::Write { text: Text::Of { .. }, .. }
            | Act::Delete { .. }
            | Act::Approve { .. }
            | Act::Deny { .. }
            | Act::SetMode { .. }
            | Act::SetClock { .. } => PlainAnswer::NothingThere,
        }
    }

    fn lock(&mut self, key: &str) {
        self.immutable.insert(key.to_owned());
    }

    fn entries(&self) -> usize {
        self.beliefs.len()
    }

    fn ancestors(&self, entry: usize) -> BTreeSet<usize> {
        let mut ancestors = BTreeSet::new();
        let mut frontier = self.beliefs[entry].parents.clone();
        while let Some(next) = frontier.pop() {
            if ancestors.insert(next) {
                frontier.extend(&self.beliefs[next].parents);
            }
        }
        ancestors
    }

    fn is_tainted(&self, entry: usize) -> bool {
        self.taint(&[entry])
    }

    fn context_is_tainted(&self, session: usize) -> bool {
        self.taint(&self.sessions[session].context)
    }

    fn namespace_of(&self, session: usize, place: Place) -> BTreeMap<String, Seen> {
        let namespace = self.namespace(session, place);
        let mut seen = BTreeMap::new();
        for item in self.memory.iter().filter(|item| item.namespace == namespace) {
            let shared = namespace.ends_with("/shared");
            let immutable = shared && self.immutable.contains(&item.key);
            let mode = if immutable { "immutable" } else { "open" };
            let value = Some((item.val.clone(), item.trusted, item.tainted));
            seen.insert(item.key.clone(), Seen { mode: mode.into(), value });
        }
        // A locked key that nobody wrote: what a replayed trace says is not shared.
        for key in self.immutable.iter().filter(|_| namespace.ends_with("/shared")) {
            let empty = Seen { mode: "immutable".into(), value: None };
            seen.entry(key.clone()).or_insert(empty);
        }
        seen
    }
}
