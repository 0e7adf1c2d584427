//! Labelling at ingress: which part of an arriving text comes from where.
//!
//! A text that repeats an untrusted entry does not become trusted by being said again: a run of 64 or more canonical
//! characters that an untrusted entry of the same tenant holds is split off as an entry of its own, with that entry
//! as its parent, in whatever role it arrives. Shorter coincidences do not count, and neither does what older
//! trusted texts hold as well (docs/design.md §3.4). Finding such runs is `echo`; this module labels and records.
//! Part of the trusted base.
//!
//! A text is [prepared](Arrival::prepare) before the writer's turn, on a moment of the store; within the turn only
//! what arrived since is compared with it.

use std::ops::Range;

use custody_kernel::label::{Channel, Label};
use custody_kernel::principal::PrincipalClaim;
use custody_kernel::record::{ObservationKind, SessionRequest, TextPart, Value};
use custody_kernel::state::{AskError, State};
use custody_log::{Seq, SessionId};
use custody_store::{Content, Receipt, Store, StoreError, Transaction, View};

use crate::advice::{Advice, Advisor};
use crate::echo::{
    ComparedWith, Echoes, Fingerprints, Hit, LOOKUPS_AT_ONCE, OwnText, Record, Resolved, Sources,
    StoreHasher, Voice, Work, hits_before, hits_since, insert_waiting, merged, resolve,
    resolve_quickly, voice_in,
};

pub use crate::echo::MIN_RUN;

/// Something that entered a session, or that its model produced.
#[derive(Debug, Clone)]
pub struct Observation {
    /// What it is.
    pub kind: ObservationKind,
    /// Where it entered; set by the code that received it.
    pub channel: Channel,
    /// The text.
    pub text: String,
    /// A tool, address or line it came from, for the reader.
    pub origin: Option<String>,
    /// Entries it was made from, besides what a model had read.
    pub parents: Vec<Seq>,
    /// The caller gives up its trust.
    pub lowered: bool,
    /// What a detector said of the text, if one was asked already.
    pub advice: Option<Advice>,
}

impl Observation {
    /// A message on a channel.
    pub fn message(channel: Channel, text: impl Into<String>) -> Self {
        Self::of(ObservationKind::Message, channel, text)
    }

    /// What a tool answered to `call`.
    pub fn tool_output(call: Seq, text: impl Into<String>) -> Self {
        let output = Self::of(ObservationKind::ToolOutput, Channel::Tool, text);
        Self { parents: vec![call], ..output }
    }

    /// What the model said out of its whole context.
    pub fn completion(text: impl Into<String>) -> Self {
        Self::of(ObservationKind::Completion, Channel::Model, text)
    }

    /// A call of `tool` inside a completion, with its arguments as they were written.
    pub fn tool_call(tool: impl Into<String>, arguments: impl Into<String>) -> Self {
        let call = Self::of(ObservationKind::ToolCall, Channel::Model, arguments);
        Self { origin: Some(tool.into()), ..call }
    }

    fn of(kind: ObservationKind, channel: Channel, text: impl Into<String>) -> Self {
        let (origin, parents) = (None, Vec::new());
        Self { kind, channel, text: text.into(), origin, parents, lowered: false, advice: None }
    }

    /// The same, with what `advisor` says of its text. Done before the writer's turn, so that it holds nobody up.
    #[must_use]
    pub fn advised_by(mut self, advisor: &dyn Advisor) -> Self {
        self.advice = self.advice.or_else(|| advisor.advise(&self.text, self.channel));
        self
    }

    /// The same, from `origin`.
    #[must_use]
    pub fn from(self, origin: impl Into<String>) -> Self {
        Self { origin: Some(origin.into()), ..self }
    }
}

/// How long a text without fingerprints may be to be recorded without looking at the store first. It is read once more
/// in the writer's turn.
const MAX_UNCOMPARED_BYTES: usize = 4 << 10;
/// How often a long text is compared again when much arrived meanwhile.
const MAX_TRIES: usize = 4;

/// An observation on its way into a session, compared with a moment of the store.
#[derive(Debug)]
pub struct Arrival {
    session: SessionId,
    observation: Observation,
    with: ComparedWith,
    own: OwnText,
    /// The number of records that the text was compared with.
    compared: Seq,
    hits: Vec<Hit>,
    sources: Sources,
    parts: Vec<Part>,
}

/// The receipts of an observation, each with the bytes of the text that its part holds.
pub(crate) type RecordedParts = Vec<(Range<usize>, Receipt)>;

/// A part of an observed text that is recorded as one entry.
#[derive(Debug, Clone)]
struct Part {
    range: Range<usize>,
    /// The untrusted entries it repeats.
    sources: Vec<Seq>,
    /// The untrusted entries that it repeats and that older trusted texts discount.
    discounted: Vec<Seq>,
    /// Whether it is untrusted whatever its channel.
    is_lowered: bool,
    /// Its fingerprints, for the label that it is expected to get.
    fingerprints: Option<(Voice, Fingerprints)>,
}

impl Arrival {
    /// Compares `observation` with `store` as it is now. Does most of the work of observing, outside the writer's
    /// turn.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], [`StoreError::Ask`] when there is no such session, or [`StoreError::Tampered`].
    pub fn prepare(
        store: &Store,
        session: SessionId,
        observation: Observation,
    ) -> Result<Self, StoreError> {
        let who = store.state(|state| who_in(state, session))??;
        let entered = Entered { session, who: &who, is_opening: false };
        let arrivals = Self::prepare_all(store, entered, vec![observation]);
        arrivals.into_iter().next().unwrap_or(Err(AskError::UnknownSession(session).into()))
    }

    /// Compares several texts with `store`, those that are short with one moment of it.
    pub(crate) fn prepare_all(
        store: &Store,
        entered: Entered<'_>,
        observations: Vec<Observation>,
    ) -> Vec<Result<Self, StoreError>> {
        let (mut prepared, mut together, mut lookups) = (Vec::new(), Vec::new(), 0);
        for observation in observations {
            match Self::uncompared(store, entered, observation) {
                Ok(arrival) => {
                    lookups += arrival.own.print_count();
                    together.push(arrival);
                }
                Err(error) => {
                    prepared.extend(compare_all(store, entered, std::mem::take(&mut together)));
                    prepared.push(Err(error));
                    lookups = 0;
                }
            }
            if lookups > LOOKUPS_AT_ONCE {
                prepared.extend(compare_all(store, entered, std::mem::take(&mut together)));
                lookups = 0;
            }
        }
        prepared.extend(compare_all(store, entered, together));
        prepared
    }

    fn uncompared(
        store: &Store,
        entered: Entered<'_>,
        observation: Observation,
    ) -> Result<Self, StoreError> {
        // Before anything is written: a part that turned out too long would undo the parts before it, and
        // everybody else's work in the same group.
        Content::check_length(observation.text.len())?;
        let own = OwnText::of(StoreHasher::new(store.fingerprint_key()?), &observation.text);
        Ok(Self::new(entered, observation, own))
    }

    /// Does all of the work within a turn of the writer.
    fn prepare_within(
        step: &Transaction<'_>,
        session: SessionId,
        observation: Observation,
    ) -> Result<Self, StoreError> {
        Content::check_length(observation.text.len())?;
        let own = OwnText::of(StoreHasher::new(step.view().fingerprint_key()?), &observation.text);
        let who = who_in(step.state(), session)?;
        let entered = Entered { session, who: &who, is_opening: false };
        let expected = entered.expected_voice(step.state(), &observation)?;
        let mut arrival = Self::new(entered, observation, own);
        arrival.cut(Resolved::default(), expected);
        Ok(arrival)
    }

    fn new(entered: Entered<'_>, observation: Observation, own: OwnText) -> Self {
        let Entered { session, who, .. } = entered;
        let with = ComparedWith { tenant: who.tenant.clone(), principal: who.principal };
        let (hits, sources, parts) = (Vec::new(), Sources::default(), Vec::new());
        Self { session, observation, with, own, compared: Seq(0), hits, sources, parts }
    }

    /// Whether it is a short text that repeats nothing, whatever there is: it has no run of [`MIN_RUN`].
    fn is_unlike_any(&self) -> bool {
        self.own.print_count() == 0 && self.observation.text.len() <= MAX_UNCOMPARED_BYTES
    }

    /// Finds the echoes in one turn of a reader. Returns whether that was enough.
    fn compare_quickly(
        &mut self,
        view: View<'_>,
        expected: Option<Voice>,
    ) -> Result<bool, StoreError> {
        self.compared = Seq(view.len());
        if self.own.print_count() > LOOKUPS_AT_ONCE {
            return Ok(false);
        }
        let Self { own, with, compared, sources, .. } = self;
        self.hits = hits_before(Record::Moment(view), with, own, *compared, &mut sources.work)?;
        let resolved = resolve_quickly(view, &self.with, &self.own, &self.hits)?;
        let is_enough = resolved.is_some();
        if let Some(resolved) = resolved {
            self.cut(resolved, expected);
        }
        Ok(is_enough)
    }

    /// Finds the echoes, a few look-ups and one other text in each turn of a reader.
    fn compare(&mut self, store: &Store, expected: Option<Voice>) -> Result<(), StoreError> {
        let record = Record::Store(store);
        let Self { own, with, compared, sources, .. } = self;
        sources.work = Work::default();
        self.hits = hits_before(record, with, own, *compared, &mut sources.work)?;
        let resolved = resolve(record, &self.with, &self.own, &self.hits, &mut self.sources)?;
        self.cut(resolved, expected);
        Ok(())
    }

    /// Cuts the text at its echoes.
    fn cut(&mut self, resolved: Resolved, expected: Option<Voice>) {
        let length = self.observation.text.len();
        let mut parts: Vec<Part> = match resolved.echoes {
            Echoes::Whole(sources) => vec![Part::untrusted(0..length, sources)],
            Echoes::Parts(echoes) => {
                let cut = split(length, &echoes).into_iter();
                cut.map(|(range, source)| Part::of(range, source)).collect()
            }
        };
        let is_whole = parts.len() == 1;
        for part in &mut parts {
            part.discounted = resolved.discounted.within(&part.range);
            let is_untrusted = part.is_lowered || !part.sources.is_empty();
            let voice = if is_untrusted { Some(Voice::Untrusted) } else { expected };
            let voice = voice.filter(|voice| is_whole || *voice == Voice::Untrusted);
            part.fingerprints = voice.map(|voice| (voice, self.fingerprints(voice, &part.range)));
        }
        self.parts = parts;
    }

    fn fingerprints(&self, voice: Voice, range: &Range<usize>) -> Fingerprints {
        let is_whole = *range == (0..self.observation.text.len());
        if is_whole && let Some(own) = Fingerprints::of_own(&self.own, &self.with.tenant, voice) {
            return own;
        }
        let text = self.observation.text.get(range.clone()).unwrap_or_default();
        Fingerprints::of(self.own.hasher(), &self.with.tenant, voice, text)
    }

    /// The same, as what `tool` answered to `call`, which is known only in the writer's turn.
    #[must_use]
    pub(crate) fn answering(self, call: Seq, tool: &str) -> Self {
        let observation = Observation {
            kind: ObservationKind::ToolOutput,
            origin: Some(tool.to_owned()),
            parents: vec![call],
            ..self.observation
        };
        Self { observation, ..self }
    }

    /// The text that arrives.
    pub(crate) fn text(&self) -> &str {
        &self.observation.text
    }

    /// Whether its fingerprints are more than one turn of the writer inserts. Whoever observes it waits until all
    /// are in the index.
    pub(crate) fn is_long(&self) -> bool {
        self.parts.iter().any(|part| {
            part.fingerprints.as_ref().is_some_and(|(_, fingerprints)| fingerprints.are_many())
        })
    }

    /// Compares the text with what arrived since, and records it: one receipt for each part, with the bytes of the
    /// text that the part holds. `None` if so much arrived that it has to be prepared again.
    fn record(
        &mut self,
        step: &mut Transaction<'_>,
        is_last_try: bool,
    ) -> Result<Option<RecordedParts>, StoreError> {
        let (view, hits) = (step.view(), &self.hits);
        let since = hits_since(view, &self.with, &self.own, self.compared, hits, is_last_try)?;
        let Some(since) = since else { return Ok(None) };
        if !since.is_empty() {
            let hits = merged(std::mem::take(&mut self.hits), since);
            let record = Record::Moment(step.view());
            // What was read before may have been marked or destroyed since.
            let mut sources = Sources::default();
            let resolved = resolve(record, &self.with, &self.own, &hits, &mut sources)?;
            self.hits = hits;
            let who = who_in(step.state(), self.session)?;
            let entered = Entered { session: self.session, who: &who, is_opening: false };
            let expected = entered.expected_voice(step.state(), &self.observation)?;
            self.cut(resolved, expected);
        }
        let is_whole = self.parts.len() == 1;
        let mut recorded = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let receipt = self.record_part(step, part)?;
            let Observation { kind, channel, .. } = self.observation;
            let open = step.state().session(self.session);
            let said = open.and_then(|open| voice_in(&open.who, kind, channel, receipt.label));
            // A part of a message may not show that it stands in a quotation, so only whole ones speak for
            // themselves.
            let said = said.filter(|said| is_whole || *said == Voice::Untrusted);
            match (&part.fingerprints, said) {
                (Some((voice, made)), Some(said)) if *voice == said => {
                    made.keep(step, receipt.seq)?;
                }
                (_, Some(said)) => self.fingerprints(said, &part.range).keep(step, receipt.seq)?,
                (_, None) => {}
            }
            recorded.push((part.range.clone(), receipt));
        }
        Ok(Some(recorded))
    }

    fn record_part(&self, step: &mut Transaction<'_>, part: &Part) -> Result<Receipt, StoreError> {
        let observation = &self.observation;
        let content = Content::new(observation.text.get(part.range.clone()).unwrap_or_default())?;
        let mut parents = observation.parents.clone();
        parents.extend(&part.sources);
        let request = SessionRequest::Observe {
            kind: observation.kind,
            channel: observation.channel,
            lowered: observation.lowered || part.is_lowered,
            content: Some(Value::New(content.commitment())),
            origin: observation.origin.clone(),
            parents,
            part: text_part(&observation.text, &part.range),
            discounted: part.discounted.clone(),
        };
        let advice = observation.advice.iter().cloned().collect();
        step.ask(self.session, request, Some(&content), advice)
    }
}

impl Part {
    fn of(range: Range<usize>, source: Option<Seq>) -> Self {
        let sources = source.into_iter().collect();
        Self { range, sources, discounted: Vec::new(), is_lowered: false, fingerprints: None }
    }

    fn untrusted(range: Range<usize>, sources: Vec<Seq>) -> Self {
        Self { range, sources, discounted: Vec::new(), is_lowered: true, fingerprints: None }
    }
}

/// The session that texts enter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entered<'a> {
    pub(crate) session: SessionId,
    /// Who it runs for.
    pub(crate) who: &'a PrincipalClaim,
    /// Whether it may not be recorded yet.
    pub(crate) is_opening: bool,
}

impl Entered<'_> {
    /// The voice that a part without echoes is expected to have.
    ///
    /// # Errors
    /// [`StoreError::Ask`] when there is no such session.
    fn expected_voice(
        &self,
        state: &State,
        observation: &Observation,
    ) -> Result<Option<Voice>, StoreError> {
        let Observation { kind, channel, lowered, .. } = *observation;
        let label = Label::at_ingress(channel, self.who.role.trust());
        let label = match state.session(self.session) {
            None if self.is_opening && kind.is_produced() => return Ok(None),
            None if !self.is_opening => return Err(AskError::UnknownSession(self.session).into()),
            Some(open) if kind.is_produced() => label.join(open.context.label()),
            None | Some(_) => label,
        };
        let label = if lowered { label.lowered() } else { label };
        Ok(voice_in(self.who, kind, channel, label))
    }
}

/// Who `session` runs for.
fn who_in(state: &State, session: SessionId) -> Result<PrincipalClaim, StoreError> {
    let open = state.session(session).ok_or(AskError::UnknownSession(session))?;
    Ok(open.who.clone())
}

/// Compares texts with one moment of the store, in one turn of a reader as far as that is enough.
fn compare_all(
    store: &Store,
    entered: Entered<'_>,
    mut arrivals: Vec<Arrival>,
) -> Vec<Result<Arrival, StoreError>> {
    match compare_quickly(store, entered, &mut arrivals) {
        Ok(slow) => {
            let texts = arrivals.into_iter().zip(slow);
            let compared = texts.map(|(mut arrival, slow)| match slow {
                None => Ok(arrival),
                Some(expected) => arrival.compare(store, expected).map(|()| arrival),
            });
            compared.collect()
        }
        Err(error) if arrivals.len() < 2 => vec![Err(error)],
        // Each has an error of its own.
        Err(_) => {
            arrivals.into_iter().flat_map(|one| compare_all(store, entered, vec![one])).collect()
        }
    }
}

/// The same in one turn, as far as that is enough. Returns for each text the voice that it is expected to have if it
/// was not.
fn compare_quickly(
    store: &Store,
    entered: Entered<'_>,
    arrivals: &mut [Arrival],
) -> Result<Vec<Option<Option<Voice>>>, StoreError> {
    if arrivals.iter().all(Arrival::is_unlike_any) {
        arrivals.iter_mut().for_each(|arrival| arrival.cut(Resolved::default(), None));
        return Ok(vec![None; arrivals.len()]);
    }
    loop {
        let compared = store.look(|view| {
            // All that is recorded at this moment has to be in the index.
            if view.has_waiting_fingerprints()? {
                return Ok(None);
            }
            let compared = arrivals.iter_mut().map(|arrival| {
                let expected = entered.expected_voice(view.state(), &arrival.observation)?;
                let is_enough = arrival.compare_quickly(view, expected)?;
                Ok((!is_enough).then_some(expected))
            });
            Ok::<_, StoreError>(Some(compared.collect::<Result<_, StoreError>>()?))
        })?;
        match compared {
            Some(compared) => return Ok(compared),
            None => insert_waiting(store)?,
        }
    }
}

/// Records what entered `session`, split where it repeats what untrusted sources said. Returns one receipt per part,
/// in order.
///
/// All comparison happens within this turn of the writer. [`Session::observe`](crate::Session::observe) and
/// [`observe_arrival`] do most of it before.
///
/// # Errors
/// As [`Transaction::ask`].
pub fn observe(
    step: &mut Transaction<'_>,
    session: SessionId,
    observation: &Observation,
) -> Result<Vec<Receipt>, StoreError> {
    let arrival = Arrival::prepare_within(step, session, observation.clone())?;
    let parts = observe_parts(step, arrival)?;
    Ok(parts.into_iter().map(|(_, receipt)| receipt).collect())
}

/// Records what was prepared. Returns one receipt per part, in order.
///
/// # Errors
/// As [`Transaction::ask`].
pub fn observe_arrival(
    step: &mut Transaction<'_>,
    arrival: Arrival,
) -> Result<Vec<Receipt>, StoreError> {
    let parts = observe_parts(step, arrival)?;
    Ok(parts.into_iter().map(|(_, receipt)| receipt).collect())
}

/// As [`observe_arrival`], with the bytes of the text that each part holds.
pub(crate) fn observe_parts(
    step: &mut Transaction<'_>,
    mut arrival: Arrival,
) -> Result<RecordedParts, StoreError> {
    Ok(arrival.record(step, true)?.unwrap_or_default())
}

/// Records an arrival whose fingerprints are many, and waits until they are in the index. Whatever arrives meanwhile
/// is compared outside the writer's turn as far as that is possible.
///
/// `note` is called with the text and its parts in the turn that records them.
pub(crate) fn observe_long(
    store: &Store,
    mut arrival: Arrival,
    note: impl Fn(&str, RecordedParts) -> Vec<Receipt> + Clone + Send + 'static,
) -> Result<Vec<Receipt>, StoreError> {
    for tries in 1..=MAX_TRIES {
        let note = note.clone();
        let (again, recorded) = store
            .run::<_, StoreError, _>(move |step| {
                let recorded = arrival.record(step, tries == MAX_TRIES)?;
                let recorded = recorded.map(|parts| note(arrival.text(), parts));
                Ok((arrival, recorded))
            })
            .wait()?;
        if let Some(receipts) = recorded {
            insert_waiting(store)?;
            return Ok(receipts);
        }
        arrival = Arrival::prepare(store, again.session, again.observation)?;
    }
    Ok(Vec::new())
}

/// What a record keeps of `range`, if that is not all of `text`.
pub(crate) fn text_part(text: &str, range: &Range<usize>) -> Option<TextPart> {
    let is_whole = *range == (0..text.len());
    (!is_whole).then_some(TextPart { start: range.start as u64, whole: text.len() as u64 })
}

/// Cuts `0..length` at the echoes.
fn split(length: usize, echoes: &[(Range<usize>, Seq)]) -> Vec<(Range<usize>, Option<Seq>)> {
    let mut parts = Vec::new();
    let mut from = 0;
    for (range, source) in echoes {
        if from < range.start {
            parts.push((from..range.start, None));
        }
        parts.push((range.clone(), Some(*source)));
        from = range.end;
    }
    if from < length || parts.is_empty() {
        parts.push((from..length, None));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_exactly_at_its_echoes() {
        let echoes = [(3..5, Seq(9))];
        assert_eq!(split(8, &echoes), [(0..3, None), (3..5, Some(Seq(9))), (5..8, None)]);
        assert_eq!(split(5, &[(0..5, Seq(1))]), [(0..5, Some(Seq(1)))]);
        assert_eq!(split(0, &[]), [(0..0, None)], "an empty message is still a message");
    }
}
