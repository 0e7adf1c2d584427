//! The real store and a naive model, driven side by side by the same actions.
//!
//! After each action the whole visible state is compared: the answer and the rule it names, the taint and
//! all ancestors of the new entry, every session's context, every item of every namespace with its text, provenance,
//! taint and mode, and what waits for a reviewer. An episode has tenants of its own and is one
//! transaction of the store; after it the values are read back from disk. A store serves many episodes,
//! and is then verified, opened again and replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use custody_kernel::digest::Digest;
use custody_kernel::id::{EntryId, PrincipalId, Seq, SessionId};
use custody_kernel::key::Key;
use custody_kernel::label::{self, Taint, Trust};
use custody_kernel::memory::item::{ContentRef, Mode};
use custody_kernel::memory::rate::Limits;
use custody_kernel::memory::review::Purpose;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::{Authority, Principal, Role};
use custody_kernel::record::{Answer, By, EntryKind, Named, Request, Value};
use custody_kernel::state::{Actor, AskError, State};
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::keys::HumanKey;
use custody_runtime::store::{Content, Receipt, Transaction};
use custody_runtime::{Store, StoreError};

use crate::error::EvalError;
use crate::memory::action::{
    Act, Action, Channel, Judge, Known, Place, Seen, Speaker, Text, Verdict, Vocabulary, decode,
};
use crate::memory::extended::{Extended, Limit};
use crate::memory::model::Model;
use crate::memory::scratch::{FREE, Scratch, key};

/// What a model of the rules must be able to say. Entries are counted in the order recorded.
pub trait Rules {
    /// Acts, and gives the answer. An answer that is recorded adds exactly one entry.
    fn perform(&mut self, action: &Action) -> Verdict;
    /// Makes a shared key immutable in every tenant, before the first action.
    fn lock(&mut self, key: &str);
    /// How many entries there are.
    fn entries(&self) -> usize;
    /// Everything that an entry was made from, however far back.
    fn ancestors(&self, entry: usize) -> BTreeSet<usize>;
    /// The taint of an entry.
    fn is_tainted(&self, entry: usize) -> bool;
    /// The taint of what a session has read.
    fn context_is_tainted(&self, session: usize) -> bool;
    /// What a namespace holds.
    fn namespace_of(&self, session: usize, place: Place) -> BTreeMap<String, Seen>;
    /// The entries whose proposals wait for a reviewer.
    fn waiting(&self) -> BTreeSet<usize> {
        BTreeSet::new()
    }
}

/// Where the store and the model part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// After how many actions of the episode.
    pub step: usize,
    /// The last action.
    pub action: String,
    /// What differs.
    pub what: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}, {}: {}", self.step, self.action, self.what)
    }
}

/// What came of an episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// Actions performed.
    pub steps: u64,
    /// How often each answer was given, by its words: `refused rule 4`.
    pub answers: BTreeMap<String, u64>,
    /// Where it ended early, if it did.
    pub divergence: Option<Divergence>,
}

/// Episodes per store.
const EPISODES: u64 = 100;
const KEYS: [&str; 4] = ["SOUL.md", "notes", "plan", "facts"];
const EXTENDED_KEYS: [&str; 6] = ["SOUL.md", "notes", "plan", "soul.md", "Notes", "nоtes"];
const LIMIT: Limit = Limit { changes: 3, window_ms: 300, waits_ms: 400 };

/// A store to drive, and what it is driven with.
pub struct Rig {
    vocabulary: Vocabulary,
    forgotten: Option<Forgotten>,
    scratch: Option<Scratch>,
    humans: BTreeMap<&'static str, HumanKey>,
    episodes: u64,
}

/// What a model leaves out, to show that the comparison notices.
#[derive(Debug, Clone, Copy)]
pub enum Forgotten {
    /// A rule of MON.
    Rule(u8),
    /// An addition of the design.
    Addition(&'static str),
}

impl Rig {
    /// Actions of MON §3.3 beside [`Model`], or all of them beside [`Extended`].
    pub fn new(vocabulary: Vocabulary) -> Self {
        let humans = ["ann", "bob", "rex", "stranger"].map(|name| (name, HumanKey::generate()));
        Self { vocabulary, forgotten: None, scratch: None, humans: humans.into(), episodes: 0 }
    }

    /// The same beside a model that forgot something.
    #[must_use]
    pub fn forgetting(self, forgotten: Forgotten) -> Self {
        Self { forgotten: Some(forgotten), ..self }
    }

    /// Plays the trace that `bytes` spell.
    ///
    /// # Errors
    /// When the store fails. A divergence is no error.
    pub fn play(&mut self, bytes: Vec<u8>) -> Result<Played, EvalError> {
        if self.episodes.is_multiple_of(EPISODES) {
            self.retire()?;
        }
        let scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => Scratch::new(self.limits())?,
        };
        self.episodes += 1;
        let cast = Cast::new(self.episodes, &scratch, &self.humans)?;
        let (vocabulary, forgotten) = (self.vocabulary, self.forgotten);
        let clock = scratch.clock.clone();
        let ticket = scratch.store.run(move |step| {
            let speakers = cast.speakers();
            match vocabulary {
                Vocabulary::Mon => {
                    let mut model = Model::new(&[], &speakers);
                    if let Some(Forgotten::Rule(rule)) = forgotten {
                        model = model.without_rule(rule);
                    }
                    Episode::new(step, cast, clock, model, vocabulary).play(&bytes)
                }
                Vocabulary::Extended => {
                    let (now, shown) = (step.state().now().0, clock.now().0);
                    let mut model = Extended::new(LIMIT, now, shown, &speakers);
                    if let Some(Forgotten::Addition(addition)) = forgotten {
                        model = model.without(addition);
                    }
                    Episode::new(step, cast, clock, model, vocabulary).play(&bytes)
                }
            }
        });
        let ended = ticket.wait()?;
        let mut played = ended.played;
        if played.divergence.is_none() {
            played.divergence = on_disk(&scratch.store, &ended.expected)?;
        }
        self.scratch = Some(scratch);
        Ok(played)
    }

    /// Verifies the store and lets it go.
    ///
    /// # Errors
    /// When the store does not verify, or does not open again as it was.
    pub fn retire(&mut self) -> Result<(), EvalError> {
        let Some(scratch) = self.scratch.take() else { return Ok(()) };
        scratch.store.verify()?;
        let before = scratch.state_hash()?;
        let again = Store::open(&scratch.paths, scratch.clock.clone())?;
        if again.state(State::state_hash)? != before {
            return Err(EvalError::Setup("a store opened again holds something else".into()));
        }
        Ok(())
    }

    fn limits(&self) -> Limits {
        match self.vocabulary {
            Vocabulary::Mon => FREE,
            Vocabulary::Extended => Limits {
                changes: u32::try_from(LIMIT.changes).ok(),
                window_ms: LIMIT.window_ms,
                proposal_ttl_ms: LIMIT.waits_ms,
                ..FREE
            },
        }
    }
}

/// The principals and sessions of one episode, in tenants of their own.
struct Cast {
    tenant: Tenant,
    replay: Tenant,
    owner: Authority,
    /// To be registered, with what proves each.
    principals: Vec<Principal>,
    judges: BTreeMap<&'static str, Authority>,
    /// Under which authority each session is opened.
    openers: Vec<Authority>,
    sessions: Vec<SessionId>,
}

impl Cast {
    fn new(
        episode: u64,
        scratch: &Scratch,
        humans: &BTreeMap<&'static str, HumanKey>,
    ) -> Result<Self, EvalError> {
        let named = |text: String| {
            text.parse::<Tenant>().map_err(|error| EvalError::Setup(error.to_string()))
        };
        let tenant = named(format!("t{episode}"))?;
        let elsewhere = named(format!("other{episode}"))?;
        let replay = named(format!("replay-{episode}"))?;
        let id = |number: u8| {
            let mut id = [number; 16];
            id[..8].copy_from_slice(&episode.to_be_bytes());
            id
        };
        let mut principals = Vec::new();
        let mut judges = BTreeMap::from([("owner", scratch.owner.clone())]);
        let mut tokens = BTreeMap::new();
        let roles = [
            ("ann", Role::User, &tenant),
            ("bob", Role::User, &tenant),
            ("bot", Role::Agent, &tenant),
            ("rex", Role::Reviewer, &tenant),
            ("stranger", Role::Reviewer, &elsewhere),
        ];
        for (number, (name, role, tenant)) in (1..).zip(roles) {
            let token = format!("{name}-{episode}");
            let principal = Principal {
                id: PrincipalId::from_random(id(number)),
                name: token.clone(),
                role,
                tenant: tenant.clone(),
                public_key: humans.get(name).map(HumanKey::public_key),
                token_hash: Some(Digest::of(token.as_bytes())),
            };
            if let Some(human) = humans.get(name) {
                judges.insert(name, human.prove(&principal)?);
            }
            let by_token = Authority::by_token(&principal, token.as_bytes());
            tokens.insert(name, by_token.map_err(StoreError::from)?);
            principals.push(principal);
        }
        let replayed = Authority::replayed(replay.clone());
        let openers = [
            tokens.remove("ann"),
            tokens.remove("bob"),
            tokens.remove("bot"),
            judges.get("ann").cloned(),
            replayed,
        ];
        let openers: Vec<Authority> = openers.into_iter().flatten().collect();
        let sessions = (1..).zip(&openers).map(|(n, _)| SessionId::from_random(id(n))).collect();
        let owner = scratch.owner.clone();
        Ok(Self { tenant, replay, owner, principals, judges, openers, sessions })
    }

    fn speakers(&self) -> Vec<Speaker> {
        let cast = [
            ("ann", &self.tenant, true, false),
            ("bob", &self.tenant, true, false),
            ("bot", &self.tenant, false, false),
            ("ann", &self.tenant, true, true),
            ("", &self.replay, true, false),
        ];
        let speaker = |(principal, tenant, trusted, in_person): (&str, &Tenant, bool, bool)| {
            let (tenant, principal) = (tenant.to_string(), principal.to_owned());
            Speaker { tenant, principal, trusted, in_person }
        };
        cast.map(speaker).into()
    }

    fn tenant_of(&self, session: usize) -> &Tenant {
        if session == self.sessions.len() - 1 { &self.replay } else { &self.tenant }
    }

    fn scope(&self, place: Place) -> Scope {
        match place {
            Place::Shared => Scope::Shared,
            Place::Session(session) => Scope::Session(self.sessions[session]),
        }
    }

    fn judge(&self, judge: Judge) -> Authority {
        let name = match judge {
            Judge::Owner => "owner",
            Judge::Reviewer => "rex",
            Judge::Stranger => "stranger",
            Judge::Ann => "ann",
            Judge::Bob => "bob",
            Judge::AnnsToken => return self.openers[0].clone(),
        };
        self.judges[name].clone()
    }
}

/// What an entry of the record is to the models: a number, and what else the driver must know of it.
struct Entry {
    seq: Seq,
    id: EntryId,
    /// Everything that it was made from, by the parents that the records name.
    ancestors: BTreeSet<usize>,
    /// The commitment that a reviewer is shown.
    proposed: Option<Digest>,
    /// The kept text of an observation.
    content: Option<ContentRef>,
    /// Whose it is, when a session made it.
    tenant: Option<Tenant>,
}

struct Episode<'a, 't, R> {
    step: &'a mut Transaction<'t>,
    cast: Cast,
    clock: Clock,
    rules: R,
    vocabulary: Vocabulary,
    entries: Vec<Entry>,
    known: Vec<(usize, Option<String>)>,
    proposals: Vec<usize>,
    texts: BTreeMap<Digest, String>,
    fresh: usize,
    answers: BTreeMap<String, u64>,
}

struct Ended {
    played: Played,
    expected: Vec<(Namespace, BTreeMap<String, Seen>)>,
}

impl<'a, 't, R: Rules> Episode<'a, 't, R> {
    fn new(
        step: &'a mut Transaction<'t>,
        cast: Cast,
        clock: Clock,
        rules: R,
        vocabulary: Vocabulary,
    ) -> Self {
        Self {
            step,
            cast,
            clock,
            rules,
            vocabulary,
            entries: Vec::new(),
            known: Vec::new(),
            proposals: Vec::new(),
            texts: BTreeMap::new(),
            fresh: 0,
            answers: BTreeMap::new(),
        }
    }

    fn play(mut self, bytes: &[u8]) -> Result<Ended, StoreError> {
        self.enter_the_stage()?;
        let mut played = Played { steps: 0, answers: BTreeMap::new(), divergence: None };
        let mut rest = bytes;
        for action in self.prelude() {
            played.divergence = played.divergence.or(self.perform(&action, 0)?);
        }
        self.lock(KEYS[0])?;
        while played.divergence.is_none() {
            let Some(action) = self.next(&mut rest) else { break };
            played.steps += 1;
            let step = usize::try_from(played.steps).unwrap_or(usize::MAX);
            played.divergence = self.perform(&action, step)?;
        }
        if played.divergence.is_none() {
            played.divergence = self.recount();
        }
        played.answers = std::mem::take(&mut self.answers);
        let expected = self.places().into_iter().map(|(session, place)| {
            (self.namespace(session, place), self.rules.namespace_of(session, place))
        });
        Ok(Ended { expected: expected.collect(), played })
    }

    fn enter_the_stage(&mut self) -> Result<(), StoreError> {
        let owner = Actor::Principal(self.cast.owner.clone());
        for principal in &self.cast.principals {
            let request = Request::AddPrincipal(Box::new(principal.clone()));
            self.step.ask(owner.clone(), request, None, Vec::new())?;
        }
        for (session, opener) in self.cast.sessions.iter().zip(&self.cast.openers) {
            let request = Request::OpenSession { session: *session, alias: None, host: None };
            self.step.ask(Actor::Principal(opener.clone()), request, None, Vec::new())?;
        }
        Ok(())
    }

    /// What gives each tenant its identity file. MON does not say what a value of no known origin is;
    /// the extended model does, so only there may a session have read nothing.
    fn prelude(&self) -> Vec<Action> {
        let last = self.cast.sessions.len() - 1;
        let hears = |session| {
            let (channel, parents) = (Channel::System, Vec::new());
            Action { session, act: Act::Internal { channel, parents } }
        };
        let writes = |session| {
            let (place, key) = (Place::Shared, KEYS[0].to_owned());
            let text = Text::New(format!("identity {session}"));
            let (depends_on, missing, queue) = (Vec::new(), false, false);
            Action { session, act: Act::Write { place, key, text, depends_on, missing, queue } }
        };
        let all = 0..=last;
        let hearing =
            all.filter(|session| self.vocabulary == Vocabulary::Mon || [0, last].contains(session));
        hearing.map(hears).chain([writes(0), writes(last)]).collect()
    }

    fn lock(&mut self, name: &str) -> Result<(), StoreError> {
        for tenant in [self.cast.tenant.clone(), self.cast.replay.clone()] {
            let (scope, key, mode) = (Scope::Shared, key(name), Mode::Immutable);
            let request = Request::SetMode { tenant, scope, key, mode };
            let owner = Actor::Principal(self.cast.owner.clone());
            self.step.ask(owner, request, None, Vec::new())?;
        }
        self.rules.lock(name);
        Ok(())
    }

    fn next(&mut self, bytes: &mut &[u8]) -> Option<Action> {
        self.fresh += 1;
        let keys: &[&str] = match self.vocabulary {
            Vocabulary::Mon => &KEYS,
            Vocabulary::Extended => &EXTENDED_KEYS,
        };
        let known = Known {
            sessions: self.cast.sessions.len(),
            keys,
            entries: &self.known,
            proposals: &self.proposals,
            now_ms: self.clock.now().0,
            fresh: self.fresh,
        };
        let mut action = decode(bytes, self.vocabulary, &known)?;
        // MON has one item per key that is immutable; that a session reads the shared one under its own
        // name too is an addition, which the extended model has.
        if let Act::Read { place, key } = &mut action.act
            && self.vocabulary == Vocabulary::Mon
            && key == KEYS[0]
            && *place == Place::Session(action.session)
        {
            *place = Place::Shared;
        }
        // Entries of another tenant are unknown to a session, which MON, having one tenant, cannot say.
        if let Act::Internal { parents: named, .. } | Act::Write { depends_on: named, .. } =
            &mut action.act
        {
            let tenant = self.cast.tenant_of(action.session);
            named.retain(|entry| self.entries[*entry].tenant.as_ref() == Some(tenant));
        }
        Some(action)
    }

    /// Acts in the store and in the model, and compares everything.
    fn perform(&mut self, action: &Action, step: usize) -> Result<Option<Divergence>, StoreError> {
        let real = self.act(action)?;
        *self.answers.entry(real.to_string()).or_default() += 1;
        let expected = self.rules.perform(action);
        let what = if real != expected {
            Some(format!("the store answers {real:?}, the model {expected:?}"))
        } else {
            self.difference()
        };
        Ok(what.map(|what| Divergence { step, action: action.to_string(), what }))
    }

    fn act(&mut self, action: &Action) -> Result<Verdict, StoreError> {
        let session = action.session;
        let by = Actor::Session(self.cast.sessions[session]);
        let receipt = match &action.act {
            Act::Internal { channel, parents } => self.observe(session, *channel, parents)?,
            Act::Read { place, key: name } => {
                let request = Request::Read { scope: self.cast.scope(*place), key: key(name) };
                self.step.ask(by, request, None, Vec::new())?
            }
            Act::Write { place, key: name, text, depends_on, missing, queue } => {
                let mut named: Vec<Named> =
                    depends_on.iter().map(|entry| Named::Entry(self.entries[*entry].seq)).collect();
                if *missing {
                    named.push(Named::Missing(EntryId::from_random([0xEE; 16])));
                }
                let (value, content) = self.value(text)?;
                let (scope, key, queue) = (self.cast.scope(*place), key(name), *queue);
                let request = Request::Write { scope, key, value, depends_on: named, queue };
                self.step.ask(by, request, content.as_ref(), Vec::new())?
            }
            Act::Delete { place, key: name } => {
                let request = Request::Delete { scope: self.cast.scope(*place), key: key(name) };
                match self.step.ask(by, request, None, Vec::new()) {
                    Err(StoreError::Ask(AskError::NoSuchItem { .. })) => {
                        return Ok(Verdict::NothingThere);
                    }
                    other => other?,
                }
            }
            Act::Promote { from, key: name } => {
                let from = self.cast.sessions[*from];
                let request = Request::Promote { from, key: key(name) };
                match self.step.ask(by, request, None, Vec::new()) {
                    Err(StoreError::Ask(AskError::NoSuchItem { .. })) => {
                        return Ok(Verdict::NothingThere);
                    }
                    other => other?,
                }
            }
            Act::Approve { judge, proposal, saw_it } => {
                let proposed = &self.entries[*proposal];
                let shown =
                    if *saw_it { proposed.proposed } else { Some(Digest::of(b"something else")) };
                let request = Request::Approve { proposal: proposed.id, shown };
                let judge = Actor::Principal(self.cast.judge(*judge));
                self.step.ask(judge, request, None, Vec::new())?
            }
            Act::Deny { judge, proposal } => {
                let request = Request::Deny { proposal: self.entries[*proposal].id };
                let judge = Actor::Principal(self.cast.judge(*judge));
                self.step.ask(judge, request, None, Vec::new())?
            }
            Act::SetMode { judge, place, key: name, mode } => {
                let mode = match *mode {
                    "immutable" => Mode::Immutable,
                    "reviewed" => Mode::Reviewed,
                    _ => Mode::Open,
                };
                let tenant = self.cast.tenant_of(session).clone();
                let (scope, key) = (self.cast.scope(*place), key(name));
                let judge = Actor::Principal(self.cast.judge(*judge));
                let request = Request::SetMode { tenant, scope, key, mode };
                self.step.ask(judge, request, None, Vec::new())?
            }
            Act::SetClock { ms } => {
                if let Clock::Manual(now) = &self.clock {
                    now.store(*ms, std::sync::atomic::Ordering::Relaxed);
                }
                return Ok(Verdict::NothingThere);
            }
        };
        Ok(self.record(session, &receipt))
    }

    fn observe(
        &mut self,
        session: usize,
        channel: Channel,
        parents: &[usize],
    ) -> Result<Receipt, StoreError> {
        let (kind, channel) = match channel {
            Channel::System => (EntryKind::Message, label::Channel::System),
            Channel::User => (EntryKind::Message, label::Channel::User),
            Channel::Web => (EntryKind::Message, label::Channel::Web),
            Channel::Skill => (EntryKind::Message, label::Channel::Skill),
            Channel::PeerAgent => (EntryKind::Message, label::Channel::PeerAgent),
            Channel::Tool => (EntryKind::ToolOutput, label::Channel::Tool),
            Channel::Retrieval => (EntryKind::Retrieval, label::Channel::Retrieval),
            Channel::File => (EntryKind::FileChange, label::Channel::File),
            Channel::Completion => (EntryKind::Completion, label::Channel::Model),
            Channel::ToolCall => (EntryKind::ToolCall, label::Channel::Model),
        };
        let parents = parents.iter().map(|entry| self.entries[*entry].seq).collect();
        let text = format!("heard {}", self.entries.len());
        let observation = Observation { kind, parents, ..Observation::message(channel, text) };
        let mut parts = self.step.observe(self.cast.sessions[session], &observation)?;
        parts.pop().ok_or(StoreError::HalfWay)
    }

    fn value(&mut self, text: &Text) -> Result<(Value, Option<Content>), StoreError> {
        if let Text::Of { entry, .. } = text
            && let Some(content) = self.entries[*entry].content
        {
            return Ok((Value::Of(content), None));
        }
        let (Text::New(text) | Text::Of { text, .. }) = text;
        let content = Content::new(text.as_str())?;
        self.texts.insert(content.commitment(), text.clone());
        Ok((Value::New(content.commitment()), Some(content)))
    }

    /// Notes the entry that an answer became, and says the answer in plain words.
    fn record(&mut self, session: usize, receipt: &Receipt) -> Verdict {
        let verdict = self.verdict(&receipt.answer);
        let record = self.step.record(receipt.seq).ok();
        let content = record.as_ref().and_then(custody_runtime::store::content_of);
        let parents = record.as_ref().map(|record| record.parents.clone()).unwrap_or_default();
        let in_session = record.as_ref().is_some_and(|record| matches!(record.by, By::Session(_)));
        let tenant = in_session.then(|| self.cast.tenant_of(session).clone());
        let is_observation =
            record.is_some_and(|record| matches!(record.request, Request::Observe { .. }));
        let number = self.entries.len();
        let text = is_observation.then(|| format!("heard {number}"));
        if let (Some(text), Some(content)) = (&text, content) {
            self.texts.insert(content.commitment, text.clone());
        }
        if matches!(receipt.answer, Answer::Pending { .. }) {
            self.proposals.push(number);
        }
        // What a promotion would store is the content of the item it names.
        let waiting = self.step.state().pending_by_id(receipt.id);
        let proposed = waiting.map(|waiting| waiting.value.map(|value| value.commitment));
        let proposed = proposed.unwrap_or(content.map(|content| content.commitment));
        self.entries.push(Entry {
            seq: receipt.seq,
            id: receipt.id,
            ancestors: self.ancestors(&parents),
            proposed,
            content: content.filter(|_| is_observation),
            tenant,
        });
        self.known.push((session, text));
        verdict
    }

    fn ancestors(&self, parents: &[Seq]) -> BTreeSet<usize> {
        let mut ancestors = BTreeSet::new();
        for parent in parents {
            if let Ok(at) = self.entries.binary_search_by_key(parent, |entry| entry.seq) {
                ancestors.insert(at);
                ancestors.extend(&self.entries[at].ancestors);
            }
        }
        ancestors
    }

    fn verdict(&self, answer: &Answer) -> Verdict {
        match answer {
            Answer::Done => Verdict::Done,
            Answer::Absent => Verdict::Absent,
            Answer::Found { content, .. } => Verdict::Found(self.text(*content)),
            Answer::Pending { purpose: Purpose::Review, .. } => Verdict::Pending("review".into()),
            Answer::Pending { purpose: Purpose::Declassify, .. } => {
                Verdict::Pending("declassify".into())
            }
            Answer::Pending { purpose: Purpose::Call, .. } => Verdict::Pending("call".into()),
            Answer::Refused(refusal) => Verdict::Refused(refusal.rule().to_string()),
        }
    }

    fn text(&self, content: ContentRef) -> String {
        let text = self.texts.get(&content.commitment);
        text.cloned().unwrap_or_else(|| format!("unknown text {}", content.commitment))
    }

    fn places(&self) -> Vec<(usize, Place)> {
        let last = self.cast.sessions.len() - 1;
        let own = (0..=last).map(|session| (session, Place::Session(session)));
        own.chain([(0, Place::Shared), (last, Place::Shared)]).collect()
    }

    fn namespace(&self, session: usize, place: Place) -> Namespace {
        let tenant = self.cast.tenant_of(session).clone();
        Namespace { tenant, scope: self.cast.scope(place) }
    }

    /// The first difference between what the store and the model hold now.
    fn difference(&self) -> Option<String> {
        let state = self.step.state();
        let (real, expected) = (self.entries.len(), self.rules.entries());
        if real != expected {
            return Some(format!("the store has {real} entries, the model {expected}"));
        }
        let last = real.checked_sub(1)?;
        let (real, expected) = (&self.entries[last].ancestors, self.rules.ancestors(last));
        if *real != expected {
            return Some(format!("entry {last} was made from {real:?}, in the model {expected:?}"));
        }
        if let Some(difference) = self.taint_differs(last) {
            return Some(difference);
        }
        for (session, id) in self.cast.sessions.iter().enumerate() {
            let real = state.session(*id).map(|session| session.context.label().is_tainted());
            let expected = self.rules.context_is_tainted(session);
            if real != Some(expected) {
                return Some(format!("the context of session {session} is tainted: {expected}"));
            }
        }
        for (session, place) in self.places() {
            let real = self.seen(state, &self.namespace(session, place));
            let expected = self.rules.namespace_of(session, place);
            if real != expected {
                let place = self.namespace(session, place);
                return Some(format!("`{place}` holds {real:?}, in the model {expected:?}"));
            }
        }
        let real = state.pending().filter_map(|pending| {
            self.proposals.iter().copied().find(|entry| self.entries[*entry].id == pending.proposal)
        });
        let (real, expected) = (real.collect::<BTreeSet<usize>>(), self.rules.waiting());
        (real != expected)
            .then(|| format!("{real:?} wait for a reviewer, in the model {expected:?}"))
    }

    fn taint_differs(&self, entry: usize) -> Option<String> {
        let real = self.step.state().label(self.entries[entry].seq)?.is_tainted();
        let expected = self.rules.is_tainted(entry);
        let differs = || format!("entry {entry} is tainted: {real}, in the model {expected}");
        (real != expected).then(differs)
    }

    /// The taint of every entry once more, now that the graph is whole.
    fn recount(&self) -> Option<Divergence> {
        let what = (0..self.entries.len()).find_map(|entry| self.taint_differs(entry))?;
        Some(Divergence { step: self.entries.len(), action: "the end".into(), what })
    }

    fn seen(&self, state: &State, namespace: &Namespace) -> BTreeMap<String, Seen> {
        let mut seen = BTreeMap::new();
        for (key, item) in state.items_in(namespace) {
            if item.current.is_none() && item.mode == Mode::Open {
                continue;
            }
            let value = item.current.map(|version| {
                let text = self.text(version.content);
                (text, version.provenance == Trust::Trusted, version.taint == Taint::Tainted)
            });
            seen.insert(key.to_string(), Seen { mode: item.mode.to_string(), value });
        }
        seen
    }
}

/// Compares the bytes on disk with what the model holds at the end of an episode.
fn on_disk(
    store: &Store,
    expected: &[(Namespace, BTreeMap<String, Seen>)],
) -> Result<Option<Divergence>, StoreError> {
    for (namespace, seen) in expected {
        let stored: BTreeMap<Key, Vec<u8>> = store.values(namespace)?;
        let stored: BTreeMap<String, String> = stored
            .into_iter()
            .map(|(key, bytes)| (key.to_string(), String::from_utf8_lossy(&bytes).into_owned()))
            .collect();
        let value = |(key, seen): (&String, &Seen)| Some((key.clone(), seen.value.clone()?.0));
        let model: BTreeMap<String, String> = seen.iter().filter_map(value).collect();
        if stored != model {
            let what = format!("`{namespace}` holds {stored:?} on disk, in the model {model:?}");
            return Ok(Some(Divergence { step: 0, action: "reading back".into(), what }));
        }
    }
    Ok(None)
}
