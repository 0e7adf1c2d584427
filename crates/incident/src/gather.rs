//! Gathering: the facts for a plan, of one moment of a store.
//!
//! The moment is taken at once: its graph, its findings, the step of each incident. The texts are read afterwards, a
//! bounded number at a time, so that writers do not wait for a plan over a million entries (G30).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use custody_kernel::evidence::Finding;
use custody_kernel::kind::EntryKind;
use custody_kernel::label::Label;
use custody_kernel::memory::item::ContentRef;
use custody_kernel::record::{Answer, ObservationKind, Record, Request, SessionRequest};
use custody_kernel::state::{IncidentState, State};
use custody_kernel::tool::asked::ApprovalStatus;
use custody_log::{Digest, IncidentId, Seq};
use custody_planner::{
    Closure, EntryEffect, FoundEntry, Graph, IncidentClosure, ItemChange, ItemHistory,
    OutsideEffect, Plan, PlanBasis, PlanFacts, RepeatedText, RiskConfig, SparedEntries, Sparing,
    WaitingProposal, plan_recovery,
};
use custody_runtime::store::{EntryEdges, View, content_of, is_kept};

use crate::IncidentError;
use crate::arrival::{arrival, covering_parts};
use crate::graph::graph_of;
use crate::store::Incidents;

/// The settings of a plan.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The weights and tiers of risk.
    pub risk: RiskConfig,
    /// The influence of adapters, by the hash of their weights. Weights without an entry were not measured.
    pub influence: BTreeMap<Digest, f64>,
    /// Whether trusted findings that are older than every untrusted one are purged and not only quarantined.
    pub purge_trusted: bool,
    /// How much of a plan is applied in one turn of the writer.
    pub part: PartLimits,
}

/// How much of a plan is applied in one turn of the writer. Each part has one entry at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartLimits {
    /// The most entries that are marked or destroyed.
    pub entries: usize,
    /// The most texts that are destroyed.
    pub texts: usize,
    /// How many bytes of text are destroyed before a part ends.
    pub bytes: usize,
}

impl Default for PartLimits {
    /// Meant to keep a turn below 100 ms; `cargo bench -p custody-incident` measures how long another writer waits.
    fn default() -> Self {
        Self { entries: 5_000, texts: 200, bytes: 256 << 10 }
    }
}

/// A plan, and the moment of the record at which it was made.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) moment: Moment,
}

/// One moment of the record: all that a plan needs and that others may change meanwhile. What is not in it, records and
/// texts, is read afterwards, since a record never changes.
pub(crate) struct Moment {
    basis: PlanBasis,
    /// The number of steps of all incidents: they alone put entries out, bring them back and destroy texts.
    steps: u64,
    graph: Graph,
    findings: Vec<Finding>,
    contained: Option<Seq>,
    /// The texts that repeat an untrusted one and are not tainted by it.
    repeated: Vec<RepeatedText>,
    /// Whether what is made from members is put in quarantine as it comes.
    is_held: bool,
}

impl Moment {
    fn of(view: View<'_>, incident: IncidentId) -> Result<Self, IncidentError> {
        let known = known(view.state(), incident)?;
        Ok(Self {
            basis: PlanBasis { size: view.len(), root: Digest(view.root()) },
            steps: steps(view.state()),
            graph: graph_of(view)?,
            findings: known.findings.clone(),
            contained: known.contained,
            repeated: repeated_texts(view),
            is_held: known.holds(),
        })
    }

    /// Whether a plan of this moment still is one of `view`: no incident took a step, no host changed its adapters, and
    /// nothing was made from a member but what a contained incident holds anyway.
    pub(crate) fn is_valid(&self, view: View<'_>, plan: &Plan) -> bool {
        let (size, edges) = (self.basis.size, view.edges());
        let mut since = edges.since(size);
        steps(view.state()) == self.steps
            && !edges.is_changed_since(size)
            && (self.is_held
                || (since.len() as u64 <= MAX_SINCE
                    && !since.any(|edges| is_made_from(plan, edges))))
    }
}

/// The most records that may have arrived since a plan was made, to be looked at within one turn of the writer.
const MAX_SINCE: u64 = 100_000;

/// How often a plan is made again because incidents or adapters changed while it was made.
pub(crate) const MAX_ATTEMPTS: usize = 8;

/// The most entries, and about the most bytes of text, that are read from the store at once. Nobody can write
/// meanwhile.
const READ_ENTRIES: usize = 2_000;
const READ_BYTES: usize = 4 << 20;

fn repeated_texts(view: View<'_>) -> Vec<RepeatedText> {
    let discounted = view.edges().discounted().iter();
    discounted.map(|(entry, of)| RepeatedText { entry: *entry, of: *of }).collect()
}

fn steps(state: &State) -> u64 {
    state.incidents().iter().map(|incident| incident.steps).sum()
}

/// Whether an entry that is newer than `plan` was made from a member, or under the weights of one.
fn is_made_from(plan: &Plan, edges: EntryEdges<'_>) -> bool {
    let mut weights = edges.weights.iter();
    let mut parents = edges.parents.iter();
    parents.any(|parent| plan.entries.binary_search_by_key(parent, |one| one.entry).is_ok())
        || weights.any(|weights| plan.weights.iter().any(|of| of.weights == *weights))
}

impl Incidents<'_> {
    /// Plans the recovery from an incident on the current record. Changes nothing, and lets others write meanwhile.
    ///
    /// # Errors
    /// [`IncidentError::UnknownIncident`], [`IncidentError::Restless`], or when the store cannot be read.
    pub fn plan(&self, incident: IncidentId, settings: &Settings) -> Result<Plan, IncidentError> {
        Ok(self.plan_now(incident, settings)?.plan)
    }

    /// The same, with the moment of which it is a plan.
    pub(crate) fn plan_now(
        &self,
        incident: IncidentId,
        settings: &Settings,
    ) -> Result<Planned, IncidentError> {
        for _ in 0..MAX_ATTEMPTS {
            let moment = self.store.look(|view| Moment::of(view, incident))?;
            if let Some(plan) = self.plan_at(&moment, settings)? {
                return Ok(Planned { plan, moment });
            }
        }
        Err(IncidentError::Restless(incident))
    }

    /// The plan of a moment; `None` if incidents changed while its texts were read.
    fn plan_at(&self, moment: &Moment, settings: &Settings) -> Result<Option<Plan>, IncidentError> {
        let traced = IncidentClosure::trace(&moment.graph, &moment.findings)?;
        let gathering = Gathering { incidents: *self, moment, incident: &traced };
        let (spared, effects) = gathering.members()?;
        let found = gathering.found()?;
        let items = self.store.look(|view| {
            let state = view.state();
            let is_same = steps(state) == moment.steps;
            let gathered = is_same.then(|| (gathering.histories(state), gathering.waiting(state)));
            Ok::<_, IncidentError>(gathered)
        })?;
        let Some((histories, waiting)) = items else { return Ok(None) };
        let facts = PlanFacts {
            basis: moment.basis,
            contained: moment.contained,
            effects: &effects,
            histories: &histories,
            waiting: &waiting,
            found: &found,
            repeated: &moment.repeated,
            purge_trusted: settings.purge_trusted,
        };
        let planned = plan_recovery(&traced, &spared, &settings.influence, &facts, &settings.risk);
        Ok(Some(planned?))
    }

    /// Reads each entry, a bounded number at a time; writers wait for one such batch at most. `read` returns what it
    /// found and how many bytes it read; `take` gets what was found, outside of the store.
    pub(crate) fn read_in_turns<T>(
        &self,
        entries: impl Iterator<Item = Seq>,
        read: impl Fn(View<'_>, Seq) -> Result<Option<(T, usize)>, IncidentError>,
        mut take: impl FnMut(T),
    ) -> Result<(), IncidentError> {
        let mut entries = entries.peekable();
        while entries.peek().is_some() {
            let turn = self.store.look(|view| {
                let (mut turn, mut bytes) = (Vec::new(), 0_usize);
                for entry in entries.by_ref().take(READ_ENTRIES) {
                    if let Some((found, size)) = read(view, entry)? {
                        turn.push(found);
                        bytes = bytes.saturating_add(size);
                    }
                    if bytes >= READ_BYTES {
                        break;
                    }
                }
                Ok::<_, IncidentError>(turn)
            })?;
            turn.into_iter().for_each(&mut take);
        }
        Ok(())
    }
}

/// An incident of the store.
pub(crate) fn known(state: &State, id: IncidentId) -> Result<&IncidentState, IncidentError> {
    state.incident(id).ok_or(IncidentError::UnknownIncident(id))
}

/// The parts of a text that may cover members, with the entry that it arrived with.
type TrustedText = (Seq, Label, Vec<String>);

struct Gathering<'a> {
    incidents: Incidents<'a>,
    moment: &'a Moment,
    incident: &'a IncidentClosure<'a>,
}

impl Gathering<'_> {
    /// The spared entries and the effects. It reads a bounded number of members at a time, because a closure may be the
    /// whole record.
    fn members(&self) -> Result<(SparedEntries, Vec<OutsideEffect>), IncidentError> {
        let mut sparing = Sparing::new(self.incident);
        self.show_trusted(&mut sparing)?;
        let mut effects = Vec::new();
        let members = self.incident.closure().members().map(|member| member.entry);
        self.incidents.read_in_turns(
            members,
            |view, entry| self.member(view, entry).map(Some),
            |(record, text)| {
                effects.extend(effect(&record));
                let effect = EntryEffect::of(EntryKind::of(&record.request));
                // An entry that is not spared gets an action in the plan, so the reason is not needed here.
                let _ = sparing.judge(record.seq, effect, text.as_deref());
            },
        )?;
        Ok((sparing.finish(), effects))
    }

    /// Shows every text that may cover a member.
    fn show_trusted(&self, sparing: &mut Sparing<'_, '_>) -> Result<(), IncidentError> {
        let until = sparing.until();
        self.incidents.read_in_turns(
            (0..until.0).map(Seq),
            |view, entry| self.trusted(view, entry),
            |(entry, label, parts)| {
                for part in parts {
                    sparing.show(entry, label, &part);
                }
            },
        )
    }

    /// The text of an entry, if it may cover a member.
    fn trusted(
        &self,
        view: View<'_>,
        entry: Seq,
    ) -> Result<Option<(TrustedText, usize)>, IncidentError> {
        let state = view.state();
        let label = state.label(entry).filter(|label| label.is_good());
        // A text that an earlier incident took out covers nothing.
        let is_excluded = self.incident.closure().contains(entry) || state.is_out(entry);
        let Some(label) = label.filter(|_| !is_excluded) else { return Ok(None) };
        let record = view.record(entry)?;
        let Some(content) = arrival(&record) else { return Ok(None) };
        let text = text(view, content)?;
        Ok(text.map(|text| {
            let parts = covering_parts(&record, &text).into_iter().map(str::to_owned).collect();
            ((entry, label, parts), text.len())
        }))
    }

    /// A member with its text, if that may be spared for.
    fn member(
        &self,
        view: View<'_>,
        entry: Seq,
    ) -> Result<((Record, Option<String>), usize), IncidentError> {
        let record = view.record(entry)?;
        let effect = EntryEffect::of(EntryKind::of(&record.request));
        // An entry with an effect or with direct evidence is not spared, so its text is not read.
        let is_read =
            effect == EntryEffect::TextOnly && !self.incident.has_direct_evidence(record.seq);
        let content = content_of(&record)
            .filter(|content| is_read && (content.arrival != record.seq || is_kept(&record)));
        let text = content.map(|content| text(view, content)).transpose()?.flatten();
        let size = text.as_ref().map_or(0, String::len);
        Ok(((record, text), size))
    }

    /// What was found, with label and time.
    fn found(&self) -> Result<Vec<FoundEntry>, IncidentError> {
        let entries = self.moment.findings.iter().map(|finding| finding.entry);
        let entries: BTreeSet<Seq> = entries.collect();
        let mut found = Vec::with_capacity(entries.len());
        self.incidents.read_in_turns(
            entries.into_iter(),
            |view, entry| {
                let record = view.record(entry)?;
                Ok(Some((FoundEntry { entry, label: record.label, at: record.at }, 0)))
            },
            |entry| found.push(entry),
        )?;
        Ok(found)
    }

    /// The items with a change in the closure, as they were at the moment of the plan.
    fn histories(&self, state: &State) -> Vec<ItemHistory> {
        let mut found = histories(state, self.incident.closure());
        for history in &mut found {
            history.versions.retain(|version| version.entry.0 < self.moment.basis.size);
        }
        found
    }

    /// The proposals of the moment of the plan that still wait for a human.
    fn waiting(&self, state: &State) -> Vec<WaitingProposal> {
        let mut found = waiting(state);
        found.retain(|waiting| waiting.entry.0 < self.moment.basis.size);
        found
    }
}

/// The text; `None` if it is destroyed or not UTF-8.
fn text(view: View<'_>, content: ContentRef) -> Result<Option<String>, IncidentError> {
    let bytes = view.any_content(content)?;
    Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
}

/// The effect of a call that ran and changed something outside. A call that the host ran itself counts as one,
/// because its effect is unknown.
fn effect(record: &Record) -> Option<OutsideEffect> {
    let entry = record.seq;
    if let Request::Call(call) = &record.request {
        let ran =
            record.answer == Answer::Done && call.effect == custody_arguments::ToolEffect::Writes;
        return ran.then(|| OutsideEffect { entry, tool: call.tool.clone() });
    }
    if let Request::Session(SessionRequest::Observe {
        kind: ObservationKind::ToolCall,
        origin,
        ..
    }) = &record.request
    {
        let tool = origin.clone().unwrap_or_else(|| "unknown".to_owned());
        return Some(OutsideEffect { entry, tool });
    }
    None
}

/// The items with a change in the closure.
fn histories(state: &State, closure: &Closure<'_>) -> Vec<ItemHistory> {
    let mut found = Vec::new();
    for (namespace, key, item) in state.items() {
        let versions: Vec<ItemChange> = item
            .changes
            .iter()
            .map(|change| ItemChange {
                entry: change.entry,
                arrival: change.version.map(|version| version.content.arrival),
            })
            .collect();
        let entries = versions.iter().flat_map(|version| [Some(version.entry), version.arrival]);
        if entries.flatten().any(|entry| closure.contains(entry)) {
            let file = state.watched_item(namespace, key).map(|watched| watched.path.clone());
            found.push(ItemHistory {
                namespace: namespace.clone(),
                key: key.clone(),
                file,
                versions,
            });
        }
    }
    found
}

/// The proposals that wait for a human.
fn waiting(state: &State) -> Vec<WaitingProposal> {
    let changes = state.pending().map(|pending| WaitingProposal {
        proposal: pending.proposal,
        entry: pending.entry,
        depends_on: pending
            .dependencies
            .iter()
            .copied()
            .chain(pending.value.map(|value| value.arrival))
            .collect(),
    });
    let calls = state.asked_calls().filter(|asked| {
        matches!(asked.standing, ApprovalStatus::Waiting | ApprovalStatus::Approved)
    });
    let calls = calls.map(|asked| WaitingProposal {
        proposal: asked.proposal,
        entry: asked.entry,
        depends_on: Vec::new(),
    });
    let mut seen = HashSet::new();
    changes.chain(calls).filter(|waiting| seen.insert(waiting.proposal)).collect()
}

#[cfg(test)]
mod tests {
    use custody_kernel::label::Channel;
    use custody_kernel::memory::rate::Limits;
    use custody_runtime::clock::Clock;
    use custody_runtime::ingress::Observation;
    use custody_runtime::scratch::Scratch;
    use custody_runtime::session::Session;

    use super::*;

    /// Each turn is followed by a write, which would wait for ever if the store were still being read.
    #[test]
    fn g30_others_write_between_two_turns_of_reading() {
        let scratch = Scratch::new(Limits::UNLIMITED, Clock::manual(1)).unwrap();
        let session = Session::open(&scratch.store, &scratch.owner, None).unwrap();
        let size = READ_ENTRIES as u64 * 2 + 3;
        let entries = (0..size).map(|number| Seq(number % 2));
        let (mut taken, mut written, mut turns) = (0, 0, 0);
        let incidents = Incidents::of(&scratch.store);
        let turn = std::cell::Cell::new(0);
        let read = |view: View<'_>, _: Seq| {
            turn.set(view.len());
            Ok(Some((view.len(), 1)))
        };
        let take = |length: u64| {
            taken += 1;
            // The first of a turn is taken after the turn has ended.
            if length > written {
                turns += 1;
                let said = Observation::message(Channel::User, "meanwhile");
                session.observe(said).wait().unwrap();
                written = length;
            }
        };
        incidents.read_in_turns(entries, read, take).unwrap();
        assert_eq!((taken, turns), (size, 3));
        let length = scratch.store.root().unwrap().0;
        assert_eq!(turn.get() + 1, length, "the last turn saw what was written after those before");
    }
}
