//! Gathering: the facts for a plan, read from one view of a store.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use custody_kernel::evidence::Finding;
use custody_kernel::kind::EntryKind;
use custody_kernel::record::{Answer, ObservationKind, Record, Request, SessionRequest};
use custody_kernel::state::{IncidentState, State};
use custody_kernel::tool::asked::ApprovalStatus;
use custody_log::{Digest, IncidentId, Seq};
use custody_planner::{
    Closure, EntryEffect, FoundEntry, IncidentClosure, ItemChange, ItemHistory, OutsideEffect,
    Plan, PlanBasis, PlanFacts, RepeatedText, RiskConfig, SparedEntries, Sparing, WaitingProposal,
    plan_recovery,
};
use custody_runtime::store::{View, content_of, is_kept};

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
}

impl Incidents<'_> {
    /// Plans the recovery from an incident on the current record. Changes nothing.
    ///
    /// # Errors
    /// [`IncidentError::UnknownIncident`], or when the store cannot be read.
    pub fn plan(&self, incident: IncidentId, settings: &Settings) -> Result<Plan, IncidentError> {
        self.store.look(|view| plan(view, incident, settings))
    }
}

/// Plans the recovery from an incident on `view`.
pub(crate) fn plan(
    view: View<'_>,
    incident: IncidentId,
    settings: &Settings,
) -> Result<Plan, IncidentError> {
    let state = view.state();
    let known = known(state, incident)?;
    let graph = graph_of(view)?;
    let traced = IncidentClosure::trace(&graph, &known.findings)?;
    let gathering = Gathering { view, incident: &traced };
    let (spared, effects) = gathering.members()?;
    let histories = histories(state, traced.closure());
    let waiting = waiting(state);
    let found = found_entries(view, &known.findings)?;
    let discounted = view.edges().discounted().iter();
    let repeated: Vec<RepeatedText> =
        discounted.map(|(entry, of)| RepeatedText { entry: *entry, of: *of }).collect();
    let facts = PlanFacts {
        basis: PlanBasis { size: view.len(), root: Digest(view.root()) },
        contained: known.contained,
        effects: &effects,
        histories: &histories,
        waiting: &waiting,
        found: &found,
        repeated: &repeated,
        purge_trusted: settings.purge_trusted,
    };
    let planned = plan_recovery(&traced, &spared, &settings.influence, &facts, &settings.risk);
    Ok(planned?)
}

/// What was found, with label and time.
fn found_entries(view: View<'_>, findings: &[Finding]) -> Result<Vec<FoundEntry>, IncidentError> {
    let entries: BTreeSet<Seq> = findings.iter().map(|finding| finding.entry).collect();
    let found = entries.into_iter().map(|entry| {
        let record = view.record(entry)?;
        Ok(FoundEntry { entry, label: record.label, at: record.at })
    });
    found.collect()
}

/// An incident of the store.
pub(crate) fn known(state: &State, id: IncidentId) -> Result<&IncidentState, IncidentError> {
    state.incident(id).ok_or(IncidentError::UnknownIncident(id))
}

struct Gathering<'a> {
    view: View<'a>,
    incident: &'a IncidentClosure<'a>,
}

impl Gathering<'_> {
    /// The spared entries and the effects. It reads one member at a time, because a closure may be the whole record.
    fn members(&self) -> Result<(SparedEntries, Vec<OutsideEffect>), IncidentError> {
        let mut sparing = Sparing::new(self.incident);
        self.show_trusted(&mut sparing)?;
        let mut effects = Vec::new();
        for member in self.incident.closure().members() {
            let record = self.view.record(member.entry)?;
            effects.extend(effect(&record));
            self.judge(&mut sparing, &record)?;
        }
        Ok((sparing.finish(), effects))
    }

    /// Shows every text that may cover a member.
    fn show_trusted(&self, sparing: &mut Sparing<'_, '_>) -> Result<(), IncidentError> {
        let state = self.view.state();
        for seq in (0..sparing.until().0).map(Seq) {
            let Some(label) = state.label(seq).filter(|label| label.is_good()) else { continue };
            // A text that an earlier incident took out covers nothing.
            if self.incident.closure().contains(seq) || state.is_out(seq) {
                continue;
            }
            let record = self.view.record(seq)?;
            if let Some(content) = arrival(&record)
                && let Some(text) = self.text(content)?
            {
                for part in covering_parts(&record, &text) {
                    sparing.show(seq, label, part);
                }
            }
        }
        Ok(())
    }

    fn judge(&self, sparing: &mut Sparing<'_, '_>, record: &Record) -> Result<(), IncidentError> {
        let effect = EntryEffect::of(EntryKind::of(&record.request));
        // An entry with an effect or with direct evidence is not spared, so its text is not read.
        let is_read =
            effect == EntryEffect::TextOnly && !self.incident.has_direct_evidence(record.seq);
        let content = content_of(record)
            .filter(|content| is_read && (content.arrival != record.seq || is_kept(record)));
        let text = content.map(|content| self.text(content)).transpose()?.flatten();
        // An entry that is not spared gets an action in the plan, so the reason is not needed here.
        let _ = sparing.judge(record.seq, effect, text.as_deref());
        Ok(())
    }

    /// The text; `None` if it is destroyed or not UTF-8.
    fn text(
        &self,
        content: custody_kernel::memory::item::ContentRef,
    ) -> Result<Option<String>, IncidentError> {
        let bytes = self.view.any_content(content)?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
    }
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
