//! Verifying a certificate against the store that it is about: what the store says today of each of its claims.
//!
//! The claims about the log come first. Where the store's log is not the one that the certificate saw, nothing else can
//! be compared. Everything is read at one moment of the store, but for the graph, which only grows.

use custody_certificate::{
    Claim, ClosureMode, EvidenceKind, IncludedRecord, IrreversibleEffect, LedgerBreak, LoggedStep,
    ManifestEntry, MemberAction, MemberRisk, MembershipProbe, Ppm, Recovery, RiskMode,
    SparedMember, Verified,
};
use custody_incident::adapters::{WeightsStatus, adapters_of};
use custody_incident::certify::ProbeReport;
use custody_incident::{IncidentError, Incidents, covering_parts, member_kind};
use custody_kernel::evidence::{Evidence, Finding};
use custody_kernel::kind::EntryKind;
use custody_kernel::record::{
    AdminRequest, Answer, ObservationKind, Record, Request, SessionRequest,
};
use custody_kernel::score::Score;
use custody_kernel::state::Mark;
use custody_kernel::step::RecoveryStep;
use custody_log::{Digest, Seq};
use custody_planner::{
    Closure, Counting, EntryEffect, IncidentClosure, Sparing, WalkMode, count_reached,
};
use custody_policy::Policy;
use custody_runtime::Store;
use custody_runtime::store::{StoreError, Tampering, View, content_of};

use crate::{VerifyError, VerifyReport, verify_ledger};

/// What the store says of one claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimResult {
    /// The same.
    Holds,
    /// Something else.
    Fails(String),
    /// Nothing, or not all of it.
    CannotTell(&'static str),
}

/// What the store says of a certificate.
#[derive(Debug)]
pub struct ClaimReport<'a> {
    /// Every claim with what the store says of it.
    pub claims: Vec<(Claim<'a>, ClaimResult)>,
    /// What verifying the store's own record gave: claims are recounted from it, so they are worth no more than it is.
    pub ledger: Result<VerifyReport, VerifyError>,
    /// How many records the store has.
    pub records: u64,
    /// How many entries the seeds reached since the plan was made. None of them is in the certificate.
    pub reached_since: u64,
}

const OTHER_LOG: &str = "the store's log is not the one that the certificate saw";
const NO_CLOSURE: &str = "the closure could not be taken again";
const NO_EVIDENCE: &str = "its share of the store holds; the record does not hold its evidence";
const NO_ENTRIES: &str =
    "the entries are not given, and the store has others today; give the file of entries";
const UNRECORDED: &str = "the record does not name this certificate";
const NO_TEXT: &str = "a text that it rests on is not kept";
const ELSEWHERE: &str = "its content arrived with another entry";
const RVU_SCORE: &str = "scores as the paper's program makes them are not recounted";

/// Finds the entries that are not listed in a certificate in its store: the plan that the record holds, and what is
/// done of it today. They are taken only if they have the root that was signed, and the certificate is whole then; else
/// it is returned as it is.
///
/// # Errors
/// When the store cannot be read, or was tampered with.
pub fn complete_from_store(store: &Store, verified: Verified) -> Result<Verified, IncidentError> {
    let stated = verified.certificate();
    let is_known = store.state(|state| state.incident(stated.recovery.incident).is_some())?;
    if stated.is_whole() || !is_known {
        return Ok(verified);
    }
    let Some(recovery) = Incidents::of(store).recount_entries(&stated.recovery)? else {
        return Ok(verified);
    };
    Ok(verified.clone().completed(recovery).unwrap_or(verified))
}

/// Compares every claim of a certificate with what the store holds now, and verifies the store's record as
/// [`verify_ledger`] does, every tool call included.
///
/// Linear in the record, and in the certificate.
///
/// # Errors
/// When the store cannot be read, or was tampered with. A claim that does not hold is no error.
pub fn verify_claims<'a>(
    store: &Store,
    verified: &'a Verified,
) -> Result<ClaimReport<'a>, IncidentError> {
    let recovery = &verified.certificate().recovery;
    let seeds = &recovery.runtime_recovery.closure.seeds;
    let mode = mode_of(recovery.runtime_recovery.closure.mode);
    let incidents = Incidents::of(store);
    let (planned_at, applied_at) = planned_at(store, verified)?;
    let then = incidents.graph_at(planned_at)?;
    let now = incidents.graph()?;
    // An entry that the store does not have is named by the claim about the closure.
    let planned = Closure::new(&then, mode, seeds).ok();
    let grown = Closure::new(&now, mode, seeds).ok();
    let late = late(planned.as_ref(), grown.as_ref(), applied_at);
    let incident = IncidentClosure::trace(&then, &findings(recovery)).ok();
    let reached_since = reached(grown.as_ref()).saturating_sub(reached(planned.as_ref()));
    let policy = signed_policy_at(store, verified.after().size)?;
    let ledger = verify_ledger(store);
    store.look(|view| {
        let verifier = Verifier {
            view,
            verified,
            planned: planned.as_ref(),
            late: &late,
            incident: incident.as_ref().filter(|_| mode == WalkMode::Causal),
            shares: shares(planned.as_ref(), mode),
            policy,
        };
        let is_same_log = verifier.is_same_log();
        let claims = verified.claims().map(|claim| {
            let result = verifier.verify(&claim, is_same_log)?;
            Ok((claim, result))
        });
        Ok(ClaimReport {
            claims: claims.collect::<Result<_, IncidentError>>()?,
            ledger,
            records: view.len(),
            reached_since: if is_same_log { reached_since } else { 0 },
        })
    })
}

/// The entries that the seeds reached after the plan was made and before it was applied. While an incident is contained
/// they are put in quarantine as they come, and no plan has to name them.
fn late(planned: Option<&Closure<'_>>, grown: Option<&Closure<'_>>, applied_at: u64) -> Vec<Seq> {
    let Some((planned, grown)) = planned.zip(grown) else { return Vec::new() };
    let size = planned.graph().len();
    let members = grown.members().map(|member| member.entry);
    members.filter(|entry| (size..applied_at).contains(&entry.0)).collect()
}

fn reached(closure: Option<&Closure<'_>>) -> u64 {
    closure.map_or(0, Closure::len) as u64
}

/// The policy for tool calls that the owner had signed when the store had `size` records.
fn signed_policy_at(store: &Store, size: u64) -> Result<Option<Digest>, IncidentError> {
    let mut version = None;
    store.scan(size, |seq, row| {
        // Few records set a policy, and parsing all of them would take longest of all.
        let may_set = std::str::from_utf8(row).is_ok_and(|row| row.contains("\"set_policy\""));
        if may_set {
            let record = Record::from_bytes(row)
                .map_err(|cause| Tampering::Unreadable(seq.0, cause.into()))?;
            if let (Request::Admin(AdminRequest::SetPolicy { version: set, .. }), Answer::Done) =
                (&record.request, &record.answer)
            {
                version = Some(*set);
            }
        }
        Ok::<_, IncidentError>(())
    })?;
    Ok(version)
}

/// How many records there were when the closure was taken, and when the plan was applied. The recorded plan has the
/// former; without it, those before the plan, which is made when it is applied if no record of its own says otherwise.
fn planned_at(store: &Store, verified: &Verified) -> Result<(u64, u64), IncidentError> {
    let recovery = &verified.certificate().recovery;
    let records = &recovery.audit.records;
    let planned = [LoggedStep::Planned, LoggedStep::Applied]
        .into_iter()
        .find_map(|step| records.iter().rev().find(|record| record.step == step));
    let applied = planned.map_or(verified.before().size, |record| record.seq.0);
    let basis = Incidents::of(store).basis_of_plan(recovery)?;
    Ok((basis.filter(|basis| *basis <= applied).unwrap_or(applied), applied))
}

const fn mode_of(mode: ClosureMode) -> WalkMode {
    match mode {
        ClosureMode::Causal => WalkMode::Causal,
        ClosureMode::RvuV1 => WalkMode::RvuV1,
        ClosureMode::RvuV2 => WalkMode::RvuV2,
    }
}

/// The evidence, so far as the scores tell it.
fn findings(recovery: &Recovery) -> Vec<Finding> {
    let scores = &recovery.risk_scores.entries;
    let findings = recovery.runtime_recovery.closure.seeds.iter().map(|seed| {
        let row = scores.binary_search_by_key(seed, |row| row.entry).ok();
        let similarity = row
            .and_then(|at| scores.get(at))
            .filter(|row| row.evidence == EvidenceKind::Similarity)
            .map(|row| Score::at_most_one(f64::from(row.contamination_ppm.millionths()) / 1e6));
        let by = similarity.map_or(Evidence::Id, Evidence::Similarity);
        Finding { entry: *seed, indicator: 0, by }
    });
    findings.collect()
}

/// The share of each member, in their order, where a plan would have counted them.
fn shares(closure: Option<&Closure<'_>>, mode: WalkMode) -> Option<Vec<(Seq, Ppm, Counting)>> {
    let closure = closure.filter(|_| mode == WalkMode::Causal)?;
    let reached = count_reached(closure).ok()?;
    let whole = closure.graph().len();
    let shares = closure.members().zip(&reached.counts).map(|(member, count)| {
        let share = Score::share(u64::from(*count), whole);
        Some((member.entry, Ppm::nearest(share.value())?, reached.counting))
    });
    shares.collect()
}

/// One moment of a store, and what was found out about it before.
struct Verifier<'s, 'g> {
    view: View<'s>,
    verified: &'s Verified,
    /// The closure as it was when the plan was made.
    planned: Option<&'s Closure<'g>>,
    /// The entries that were reached after that, and before the plan was applied.
    late: &'s [Seq],
    /// The same with its evidence, in the mode that spares.
    incident: Option<&'s IncidentClosure<'g>>,
    shares: Option<Vec<(Seq, Ppm, Counting)>>,
    /// The one that the owner signed.
    policy: Option<Digest>,
}

impl Verifier<'_, '_> {
    /// Whether the store's log contains the log that the certificate saw.
    fn is_same_log(&self) -> bool {
        [self.verified.before(), self.verified.after()]
            .into_iter()
            .all(|log| self.view.root_at(log.size) == Some(log.root))
    }

    /// Without a signed policy, the one that shipped with the program of then was in force.
    fn policy(&self, claimed: Digest) -> ClaimResult {
        match self.policy {
            Some(signed) => {
                holds_if(signed == claimed, || format!("the policy in force was {signed}"))
            }
            None => holds_if(Policy::is_shipped(claimed), || {
                "no policy was signed, and this one never shipped".to_owned()
            }),
        }
    }

    fn verify(&self, claim: &Claim<'_>, is_same_log: bool) -> Result<ClaimResult, IncidentError> {
        if !is_same_log && !matches!(claim, Claim::Log(_)) {
            return Ok(ClaimResult::CannotTell(OTHER_LOG));
        }
        match claim {
            Claim::Log(log) => Ok(self.log(log.size, &Digest(log.root))),
            Claim::Record(included) => Ok(self.included(included)),
            Claim::Break(adoption) => self.adoption(adoption),
            Claim::OnlyBreaks(breaks) => Ok(self.only(breaks)),
            Claim::Newest(digest) => Ok(self.newest(*digest)),
            Claim::Policy(digest) => Ok(self.policy(*digest)),
            Claim::Entries(_) => Ok(ClaimResult::CannotTell(NO_ENTRIES)),
            Claim::Closure { members, .. } => Ok(self.closure(members)),
            Claim::Entry(row) => self.entry(row),
            Claim::Risk(row) => Ok(self.risk(row)),
            Claim::Spared(row) => self.spared(row),
            Claim::Effect(effect) => self.effect(effect),
            Claim::Quarantined(entry) => Ok(self.marked(*entry, Mark::Quarantined)),
            Claim::Evicted(evicted) => {
                Ok(self.became(evicted.weights, WeightsStatus::Gone(evicted.loads)))
            }
            Claim::Fused(fused) => {
                Ok(self.became(fused.weights, WeightsStatus::PartOf(fused.base)))
            }
            Claim::StillLoaded(left) => {
                Ok(self.became(left.weights, WeightsStatus::Loaded(left.loads_left)))
            }
            Claim::Retained(kept) => Ok(self.became(kept.weights, WeightsStatus::Kept)),
            Claim::Probes(probes) => self.probes(probes),
        }
    }

    fn log(&self, size: u64, root: &Digest) -> ClaimResult {
        match self.view.root_at(size) {
            None => ClaimResult::Fails(format!("the store has only {} records", self.view.len())),
            Some(found) if found != root.0 => {
                ClaimResult::Fails(format!("they have the root {}", Digest(found)))
            }
            Some(_) => ClaimResult::Holds,
        }
    }

    fn included(&self, included: &IncludedRecord) -> ClaimResult {
        let at = usize::try_from(included.seq.0).ok();
        let leaf = at.and_then(|at| self.view.leaves().get(at));
        holds_if(leaf == Some(&included.leaf.0), || "another record stands there".into())
    }

    fn adoption(&self, adoption: &LedgerBreak) -> Result<ClaimResult, IncidentError> {
        let record = self.record(adoption.seq)?;
        let Request::Admin(AdminRequest::AdoptLedger { reason, head_size }) = &record.request
        else {
            return Ok(ClaimResult::Fails("the record is no adoption".into()));
        };
        let is_same = *reason == adoption.reason
            && *head_size == adoption.head_size
            && record.at == adoption.at_ms;
        Ok(holds_if(is_same, || "time, head or reason are others".into()))
    }

    fn only(&self, breaks: &[LedgerBreak]) -> ClaimResult {
        let size = self.verified.after().size;
        let all = self.view.state().breaks().iter().filter(|seq| seq.0 < size);
        let missing =
            all.filter(|seq| !breaks.iter().any(|adoption| adoption.seq == **seq)).count();
        holds_if(missing == 0, || format!("{missing} more stand in the log"))
    }

    fn newest(&self, digest: Digest) -> ClaimResult {
        let all = self.view.state().certificates();
        match all.iter().position(|known| *known == digest) {
            None => ClaimResult::CannotTell(UNRECORDED),
            Some(at) => {
                let newer = all.len() - at - 1;
                holds_if(newer == 0, || format!("{newer} newer were signed since"))
            }
        }
    }

    fn closure(&self, members: &[Seq]) -> ClaimResult {
        let Some(closure) = self.planned else {
            return ClaimResult::Fails(
                "a seed is no entry of the record that the plan was made on".into(),
            );
        };
        let lacks =
            closure.members().filter(|member| members.binary_search(&member.entry).is_err());
        let (lacks, adds) =
            (lacks.count(), members.iter().filter(|m| !closure.contains(**m)).count());
        if lacks + adds > 0 {
            return ClaimResult::Fails(format!(
                "it lacks {lacks} entries that they reach and has {adds} that they do not"
            ));
        }
        let incident = self.verified.certificate().recovery.incident;
        let unheld = self.late.iter().filter(|entry| {
            let standing = self.view.state().standing(**entry);
            standing.and_then(|standing| standing.mark_of(incident)).is_none()
        });
        let unheld = unheld.count();
        holds_if(unheld == 0, || {
            format!("{unheld} more were reached before the plan was applied, and nothing held them")
        })
    }

    fn entry(&self, row: &ManifestEntry) -> Result<ClaimResult, IncidentError> {
        let record = self.record(row.entry)?;
        let kind = member_kind(EntryKind::of(&record.request));
        if kind != row.kind {
            return Ok(ClaimResult::Fails(format!("it is a {}", kind.as_str())));
        }
        let content = content_of(&record);
        if content.map(|content| content.commitment) != row.commitment {
            return Ok(ClaimResult::Fails("its content has another commitment".into()));
        }
        if row.adapters != adapters_of(&record) {
            return Ok(ClaimResult::Fails("it was made under other adapters".into()));
        }
        match (row.action, row.done, content) {
            (MemberAction::None, _, _) | (_, false, _) => Ok(ClaimResult::Holds),
            (MemberAction::Flag, true, _) => Ok(self.marked(row.entry, Mark::Flagged)),
            (MemberAction::Quarantine, true, _) => Ok(self.marked(row.entry, Mark::Quarantined)),
            (MemberAction::Purge | MemberAction::Evict, true, None) => {
                Ok(self.marked(row.entry, Mark::Purged))
            }
            (MemberAction::Purge | MemberAction::Evict, true, Some(content)) => {
                if content.arrival != row.entry {
                    return Ok(ClaimResult::CannotTell(ELSEWHERE));
                }
                let is_kept = self.text(&record)?.is_some();
                Ok(holds_if(!is_kept, || "its content is still stored".into()))
            }
        }
    }

    /// Whether the results of probes are those of the report that was the newest on the record when the certificate was
    /// made.
    fn probes(&self, probes: &MembershipProbe) -> Result<ClaimResult, IncidentError> {
        let recovery = &self.verified.certificate().recovery;
        let size = self.verified.after().size;
        let incident = self.view.state().incident(recovery.incident);
        // One that was recorded later is not of this certificate, and hides which was the newest before it.
        let newest = incident.and_then(|incident| incident.probed).filter(|seq| seq.0 < size);
        let named = recovery.audit.records.iter().find(|it| it.step == LoggedStep::Probed);
        let seq = match (named.map(|record| record.seq), newest) {
            (Some(named), Some(newest)) if named != newest => {
                return Ok(ClaimResult::Fails(format!("{newest} is a newer report of probes")));
            }
            (Some(seq), _) | (None, Some(seq)) => seq,
            (None, None) => {
                return Ok(holds_if(probes.probes.is_empty(), || {
                    "the record has no report of them".into()
                }));
            }
        };
        let record = self.record(seq)?;
        let is_report = matches!(&record.request, Request::Admin(AdminRequest::Recover(recover))
            if recover.incident == recovery.incident
                && matches!(recover.step, RecoveryStep::Probe { .. }))
            && record.answer == Answer::Done;
        if !is_report {
            return Ok(ClaimResult::Fails(format!("{seq} is no report of its probes")));
        }
        let Some(text) = self.text(&record)? else { return Ok(ClaimResult::CannotTell(NO_TEXT)) };
        let report: Option<ProbeReport> = serde_json::from_str(&text).ok();
        Ok(match report {
            None => ClaimResult::Fails(format!("the report {seq} cannot be read")),
            Some(report) => holds_if(report.membership == *probes, || {
                format!("the report {seq} has other results")
            }),
        })
    }

    /// Whether weights are where the certificate says.
    fn became(&self, weights: Digest, stated: WeightsStatus) -> ClaimResult {
        let found = WeightsStatus::of(self.view.state(), weights);
        holds_if(found == stated, || match found {
            WeightsStatus::Kept => "no incident evicted it".into(),
            WeightsStatus::Gone(loads) => format!("{loads} loads were unloaded and none is left"),
            WeightsStatus::PartOf(base) => format!("it is part of the base {base}"),
            WeightsStatus::Loaded(left) => format!("{left} loads are in force"),
        })
    }

    /// Whether the incident's mark on an entry is still there, or one that does more.
    fn marked(&self, entry: Seq, least: Mark) -> ClaimResult {
        let incident = self.verified.certificate().recovery.incident;
        let standing = self.view.state().standing(entry);
        let mark = standing.and_then(|standing| standing.mark_of(incident));
        holds_if(mark >= Some(least), || match mark {
            Some(_) => "it was restored".into(),
            None => "the incident has no mark on it".into(),
        })
    }

    fn risk(&self, row: &MemberRisk) -> ClaimResult {
        let scores = &self.verified.certificate().recovery.risk_scores;
        if scores.mode == RiskMode::RvuV2 {
            return ClaimResult::CannotTell(RVU_SCORE);
        }
        let Some(shares) = &self.shares else { return ClaimResult::CannotTell(NO_CLOSURE) };
        let found = shares.binary_search_by_key(&row.entry, |(entry, _, _)| *entry).ok();
        let Some((_, share, counting)) = found.and_then(|at| shares.get(at)) else {
            return ClaimResult::Fails("it is not in the closure".into());
        };
        let off = share.millionths().abs_diff(row.share_ppm.millionths());
        let is_within = match counting {
            Counting::Exact => off == 0,
            Counting::Estimated => off <= scores.share_error_ppm.millionths(),
        };
        if !is_within {
            return ClaimResult::Fails(format!("its share of the store is {share}"));
        }
        self.contamination(row)
    }

    /// Whether the incident's evidence for an entry is as strong as its score says.
    fn contamination(&self, row: &MemberRisk) -> ClaimResult {
        let recovery = &self.verified.certificate().recovery;
        let incident = self.view.state().incident(recovery.incident);
        let Some(incident) = incident else {
            return ClaimResult::CannotTell(NO_EVIDENCE);
        };
        let of_entry = incident.findings.iter().filter(|finding| finding.entry == row.entry);
        let strongest = of_entry.map(|finding| finding.by.strength()).max().unwrap_or_default();
        let contamination = Ppm::nearest(strongest.value()).unwrap_or(Ppm::ONE);
        holds_if(contamination == row.contamination_ppm, || {
            format!("the evidence for it weighs {contamination}")
        })
    }

    /// Whether exactly the entries that are named vouch for the one that was spared.
    fn spared(&self, row: &SparedMember) -> Result<ClaimResult, IncidentError> {
        let Some(incident) = self.incident else { return Ok(ClaimResult::CannotTell(NO_CLOSURE)) };
        let mut sparing = Sparing::new(incident);
        for entry in &row.covered_by {
            let record = self.record(*entry)?;
            let Some(text) = self.text(&record)? else {
                return Ok(ClaimResult::CannotTell(NO_TEXT));
            };
            let mut is_shown = false;
            for part in covering_parts(&record, &text) {
                is_shown |= sparing.show(*entry, record.label, part);
            }
            if !is_shown {
                return Ok(ClaimResult::Fails(format!(
                    "{entry} is no trusted older text outside it"
                )));
            }
        }
        let record = self.record(row.entry)?;
        let Some(text) = self.text(&record)? else { return Ok(ClaimResult::CannotTell(NO_TEXT)) };
        let effect = EntryEffect::of(EntryKind::of(&record.request));
        let judged = sparing.judge(row.entry, effect, Some(&text));
        Ok(judged.map_or_else(|why| ClaimResult::Fails(why.to_string()), |()| ClaimResult::Holds))
    }

    fn effect(&self, effect: &IrreversibleEffect) -> Result<ClaimResult, IncidentError> {
        let record = self.record(effect.entry)?;
        let tool = match (&record.request, &record.answer) {
            (Request::Call(call), Answer::Done) => Some(call.tool.as_str()),
            (
                Request::Session(SessionRequest::Observe {
                    kind: ObservationKind::ToolCall,
                    origin,
                    ..
                }),
                Answer::Done,
            ) => origin.as_deref(),
            _ => return Ok(ClaimResult::Fails("the record is no call that was made".into())),
        };
        let arguments = content_of(&record).map(|content| content.commitment);
        let is_same = tool == Some(effect.tool.as_str())
            && effect.arguments.is_none_or(|stated| arguments == Some(stated));
        Ok(holds_if(is_same, || "it is a call of another tool or with other arguments".into()))
    }

    fn record(&self, seq: Seq) -> Result<Record, IncidentError> {
        Ok(self.view.record(seq)?)
    }

    /// The text of a record, if it is kept and is text.
    fn text(&self, record: &Record) -> Result<Option<String>, IncidentError> {
        let Some(content) = content_of(record) else { return Ok(None) };
        match self.view.any_content(content) {
            Ok(bytes) => Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok())),
            Err(StoreError::Tampered(Tampering::MissingContent(_))) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn holds_if(holds: bool, why: impl FnOnce() -> String) -> ClaimResult {
    if holds { ClaimResult::Holds } else { ClaimResult::Fails(why()) }
}
