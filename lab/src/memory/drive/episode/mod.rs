//! One episode: its actions, in the store and in the model.

use std::collections::{BTreeMap, BTreeSet};

use custody_cli::attacks::scratch::key;
use custody_kernel::memory::item::{ContentRef, Mode};
use custody_kernel::memory::review::Purpose;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::record::{AdminRequest, Answer, Author, Request, SessionRequest};
use custody_log::{Digest, EntryId, Seq};
use custody_runtime::StoreError;
use custody_runtime::clock::Clock;
use custody_runtime::store::{Receipt, Transaction};

use super::cast::Cast;
use super::{Divergence, Played, RulesModel};
use crate::memory::action::{
    Act, Action, ActionChannel, Known, Place, PlainAnswer, Seen, Text, Vocabulary, decode,
};

mod asked;
mod differences;

const KEYS: [&str; 4] = ["SOUL.md", "notes", "plan", "facts"];
const EXTENDED_KEYS: [&str; 6] = ["SOUL.md", "notes", "plan", "soul.md", "Notes", "nоtes"];

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

/// An episode as it is played.
pub(super) struct Episode<'a, 't, R> {
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

/// What an episode leaves behind.
pub(super) struct Ended {
    pub(super) played: Played,
    /// What each namespace must hold on disk.
    pub(super) expected: Vec<(Namespace, BTreeMap<String, Seen>)>,
}

impl<'a, 't, R: RulesModel> Episode<'a, 't, R> {
    pub(super) fn new(
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

    pub(super) fn play(mut self, bytes: &[u8]) -> Result<Ended, StoreError> {
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
        let owner = self.cast.owner.clone();
        for principal in &self.cast.principals {
            let request = AdminRequest::AddPrincipal(Box::new(principal.clone()));
            self.step.administer(owner.clone(), request, None, Vec::new())?;
        }
        for (session, opener) in self.cast.sessions.iter().zip(&self.cast.openers) {
            self.step.open_session(opener.clone(), *session, None, None)?;
        }
        Ok(())
    }

    /// What gives each tenant its identity file. MON does not say what a value of no known origin is;
    /// the extended model does, so only there may a session have read nothing.
    fn prelude(&self) -> Vec<Action> {
        let last = self.cast.sessions.len() - 1;
        let writes = |session| {
            let (place, key) = (Place::Shared, KEYS[0].to_owned());
            let text = Text::New(format!("identity {session}"));
            let (depends_on, missing, queue) = (Vec::new(), false, false);
            Action { session, act: Act::Write { place, key, text, depends_on, missing, queue } }
        };
        let all = 0..=last;
        let hearing =
            all.filter(|session| self.vocabulary == Vocabulary::Mon || [0, last].contains(session));
        hearing
            .map(|session| {
                let (channel, parents) = (ActionChannel::System, Vec::new());
                Action { session, act: Act::Internal { channel, parents } }
            })
            .chain([writes(0), writes(last)])
            .collect()
    }

    fn lock(&mut self, name: &str) -> Result<(), StoreError> {
        for tenant in [self.cast.tenant.clone(), self.cast.replay.clone()] {
            let (scope, key, mode) = (Scope::Shared, key(name), Mode::Immutable);
            let request = AdminRequest::SetMode { tenant, scope, key, mode };
            let owner = self.cast.owner.clone();
            self.step.administer(owner, request, None, Vec::new())?;
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

    /// Notes the entry that an answer became, and says the answer in plain words.
    fn record(&mut self, session: usize, receipt: &Receipt) -> PlainAnswer {
        let verdict = self.verdict(&receipt.answer);
        let record = self.step.record(receipt.seq).ok();
        let content = record.as_ref().and_then(custody_runtime::store::content_of);
        let parents = record.as_ref().map(|record| record.parents.clone()).unwrap_or_default();
        let in_session =
            record.as_ref().is_some_and(|record| matches!(record.by, Author::Session(_)));
        let tenant = in_session.then(|| self.cast.tenant_of(session).clone());
        let is_observation = record.is_some_and(|record| {
            matches!(record.request, Request::Session(SessionRequest::Observe { .. }))
        });
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

    /// The entries above `parents`. The models know nothing of joins, which only stand for other entries.
    fn ancestors(&self, parents: &[Seq]) -> BTreeSet<usize> {
        let mut ancestors = BTreeSet::new();
        let mut above = parents.to_vec();
        while let Some(parent) = above.pop() {
            if let Ok(at) = self.entries.binary_search_by_key(&parent, |entry| entry.seq) {
                ancestors.insert(at);
                ancestors.extend(&self.entries[at].ancestors);
            } else if self.step.state().is_join(parent)
                && let Ok(join) = self.step.record(parent)
            {
                above.extend(join.parents);
            }
        }
        ancestors
    }

    fn verdict(&self, answer: &Answer) -> PlainAnswer {
        match answer {
            Answer::Done => PlainAnswer::Done,
            Answer::NotFound => PlainAnswer::Absent,
            Answer::Value { content, .. } => PlainAnswer::Found(self.text(*content)),
            Answer::Pending { purpose: Purpose::Review, .. } => {
                PlainAnswer::Pending("review".into())
            }
            Answer::Pending { purpose: Purpose::Declassify, .. } => {
                PlainAnswer::Pending("declassify".into())
            }
            Answer::Pending { purpose: Purpose::Call, .. } => PlainAnswer::Pending("call".into()),
            Answer::Refused(refusal) => PlainAnswer::Refused(refusal.rule().to_string()),
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
}
