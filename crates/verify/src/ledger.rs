//! Verifying the ledger: every decision is made again, every content is compared with its commitment, and every index
//! with the records.

use custody_kernel::record::{AdminRequest, Answer, Record, Request, UNSIGNED_FORMAT};
use custody_kernel::state::State;
use custody_kernel::step::RecoveryStep;
use custody_log::Seq;
use custody_planner::{Closure, GraphBuilder, GraphNode, WalkMode};
use custody_runtime::Store;
use custody_runtime::store::{Signatures, Tampering, View};

use crate::VerifyError;
use crate::ahead::{Arrived, RecordsAhead};
use crate::calls::CallVerifier;
use crate::echoes::EchoVerifier;
use crate::index_sample::IndexSample;

/// What was found in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct VerifyReport {
    /// Records whose bytes are those that were signed. Each is signed by the human or the session that it names, and
    /// its answer is the one the rules give, but for the `unsigned` ones.
    pub records: u64,
    /// Records of format 1: nobody signed them, and they were decided by other rules.
    pub unsigned: u64,
    /// Contents that match their commitment.
    pub contents: u64,
    /// Contents that recovery destroyed; their commitments stand.
    pub purged: u64,
    /// Contents that the indexes of a search find: each by its hash, a sample also by its letters. The others are of
    /// recovery, or were not indexed yet.
    pub searched: u64,
    /// Edges of the provenance graph that the index agrees with.
    pub edges: u64,
    /// Places where an owner adopted a store whose head was lost.
    pub breaks: u64,
    /// Containments whose members are those that their findings reached in the record of then.
    pub containments: u64,
    /// Tool calls whose arguments were traced again in the recorded texts and about which the recorded policies were
    /// asked again, and values that were taken out of outputs again.
    pub calls_judged: u64,
    /// Tool calls and values that could not be: a text that they rest on was destroyed, or an earlier version recorded
    /// them.
    pub calls_not_judged: u64,
    /// Observed texts that were compared again with all that came before them: what repeats an untrusted entry is
    /// untrusted and names it.
    pub echoes_derived: u64,
    /// Observed texts that could not be: they or older texts were destroyed, or an earlier version recorded them.
    pub echoes_not_derived: u64,
}

/// Verifies all of a store at one moment.
///
/// Linear in the store; reads every record and every content.
///
/// # Errors
/// [`StoreError::Tampered`](custody_runtime::StoreError::Tampered) with the first thing that does not hold.
pub fn verify_ledger(store: &Store) -> Result<VerifyReport, VerifyError> {
    store.look(verify)
}

fn verify(view: View<'_>) -> Result<VerifyReport, VerifyError> {
    if let Some(gap) = view.index_gaps()?.first() {
        return Err(Tampering::IndexRows(*gap).into());
    }
    let sample = IndexSample::new(view)?;
    let mut report = VerifyReport::default();
    let mut again = State::default();
    let mut echoes = EchoVerifier::new(view)?;
    let mut calls = CallVerifier::new(view);
    let mut graph = GraphBuilder::default();
    let mut signatures = Signatures::default();
    for arrived in RecordsAhead::new(view)? {
        let Arrived { seq, record, leaf, text, had_text, own } = arrived?;
        report.contents += u64::from(text.is_some());
        report.searched += u64::from(sample.check(view, seq, text.as_deref())?);
        report.purged += u64::from(had_text && text.is_none());
        echoes.observe(&again, &record, text.as_deref(), own)?;
        calls.observe(&again, &record, text.as_deref())?;
        let signature = again.recount_stored(&record, leaf);
        signatures
            .push(signature.map_err(|cause| Tampering::Inconsistent(seq.0, cause.into()))?)?;
        report.containments += u64::from(is_contained_again(&again, &graph, &record)?);
        extend(&mut graph, &record)?;
        report.records += 1;
        report.unsigned += u64::from(record.v == UNSIGNED_FORMAT);
    }
    signatures.check()?;
    let checked = echoes.finish(&again)?;
    report.echoes_derived = checked.derived;
    report.echoes_not_derived = checked.not_derived;
    let judged = calls.finish();
    report.calls_judged = judged.judged;
    report.calls_not_judged = judged.not_judged;
    report.breaks = again.breaks().len() as u64;
    let rows = view.row_counts()?;
    // They were compared with the records at the beginning, all at once: an entry may have been made from thousands.
    report.edges = rows.edges;
    let expected = [
        (rows.log, report.records, "log"),
        (rows.contents, report.contents, "content"),
        (rows.fingerprints, checked.fingerprints, "fingerprint"),
    ];
    match expected.into_iter().find(|(found, expected, _)| found != expected) {
        Some((_, seq, index)) => Err(Tampering::Index { index, seq }.into()),
        None => Ok(report),
    }
}

/// Adds a record to a graph, and marks what it purged.
fn extend(graph: &mut GraphBuilder, record: &Record) -> Result<(), VerifyError> {
    graph.push(GraphNode::from(record))?;
    if let (Request::Admin(AdminRequest::Recover(recover)), Answer::Done) =
        (&record.request, &record.answer)
        && let Some(effects) = recover.step.effects()
    {
        effects.purged.iter().for_each(|entry| graph.purge(*entry));
    }
    Ok(())
}

/// Whether the record contains an incident, and what it lists is what its findings reach in `graph`, which is that of
/// the records before it. A holder of the log key could leave out what is to stay in use.
fn is_contained_again(
    state: &State,
    graph: &GraphBuilder,
    record: &Record,
) -> Result<bool, VerifyError> {
    let Request::Admin(AdminRequest::Recover(recover)) = &record.request else { return Ok(false) };
    let RecoveryStep::Contain { members } = &recover.step else { return Ok(false) };
    let incident = state.incident(recover.incident).filter(|_| record.answer == Answer::Done);
    let Some(incident) = incident else { return Ok(false) };
    let seeds: Vec<Seq> = incident.findings.iter().map(|finding| finding.entry).collect();
    let graph = graph.clone().finish()?;
    let reached = Closure::new(&graph, WalkMode::Causal, &seeds);
    let reached = reached.map_err(|_| Tampering::Members(record.seq.0))?;
    if !reached.members().map(|member| member.entry).eq(members.iter().copied()) {
        return Err(Tampering::Members(record.seq.0).into());
    }
    Ok(true)
}
