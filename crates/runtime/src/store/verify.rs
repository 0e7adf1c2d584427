//! Verifying everything: what `custody ledger verify` does.
//!
//! Opening a store compares the log with its signed head. This goes further: every decision is made
//! again, every content is compared with its commitment, and every index with the records.

use custody_kernel::label::Trust;
use custody_kernel::memory::item::ContentRef;
use custody_kernel::namespace::Tenant;
use custody_kernel::record::{AdminRequest, Answer, Author, Record, Request, SessionRequest};
use custody_kernel::state::State;
use custody_kernel::step::RecoveryStep;
use custody_log::Seq;
use custody_planner::{Closure, GraphBuilder, WalkMode};
use rusqlite::Connection;

use super::graph::extend;
use super::ledger::Ledger;
use super::transaction::sql;
use super::{StoreError, Tampering, read};

/// What was found in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct VerifyReport {
    /// Records whose bytes are those that were signed, and whose answer is the one the rules give.
    pub records: u64,
    /// Contents that match their commitment.
    pub contents: u64,
    /// Contents that recovery destroyed; their commitments stand.
    pub purged: u64,
    /// Edges of the provenance graph that the index agrees with.
    pub edges: u64,
    /// Places where an owner adopted a store whose head was lost.
    pub breaks: u64,
    /// Containments whose members are those that their findings reached in the record of then.
    pub containments: u64,
}

pub(super) fn verify(connection: &Connection, ledger: &Ledger) -> Result<VerifyReport, StoreError> {
    let mut report = VerifyReport::default();
    let mut again = State::default();
    let mut fingerprints = 0;
    let mut graph = GraphBuilder::default();
    for seq in (0..ledger.len()).map(Seq) {
        let record = read::record(connection, ledger, seq)?;
        let tenant = untrusted_tenant(&again, &record).cloned();
        again.recount(&record).map_err(|cause| Tampering::Inconsistent(seq.0, cause.into()))?;
        report.containments += u64::from(is_contained_again(&again, &graph, &record)?);
        extend(&mut graph, &record)?;
        match arrived_with(&record) {
            None => {}
            Some(_) if ledger.state().is_purged(seq) => report.purged += 1,
            Some(content) => {
                let text = read::any_content(connection, ledger.state(), content)?;
                report.contents += 1;
                if let Some(tenant) = tenant {
                    fingerprints += known_fingerprints(connection, &tenant, seq, &text)?;
                }
            }
        }
        report.edges += read::children(connection, ledger, seq)?.len() as u64;
        report.records += 1;
    }
    report.breaks = again.breaks().len() as u64;
    count_agrees(connection, "SELECT count(*) FROM log", report.records, "log")?;
    count_agrees(connection, "SELECT count(*) FROM contents", report.contents, "content")?;
    count_agrees(connection, "SELECT count(*) FROM edges", report.edges, "edge")?;
    count_agrees(connection, "SELECT count(*) FROM runs", fingerprints, "fingerprint")?;
    Ok(report)
}

/// Whether the record contains an incident, and what it lists is what its findings reach in `graph`, which is that of
/// the records before it. A holder of the log key could leave out what is to stay in use.
fn is_contained_again(
    state: &State,
    graph: &GraphBuilder,
    record: &Record,
) -> Result<bool, StoreError> {
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

/// The tenant in which the text of this record counts as untrusted, and so is fingerprinted.
fn untrusted_tenant<'a>(before: &'a State, record: &Record) -> Option<&'a Tenant> {
    let Author::Session(session) = record.by else { return None };
    let observed = matches!(record.request, Request::Session(SessionRequest::Observe { .. }));
    let untrusted = record.label.trust() == Trust::Untrusted;
    before.session(session).filter(|_| observed && untrusted).map(|session| &session.who.tenant)
}

/// Counts the fingerprints of a text, all of which the index must hold: it finds the text again when
/// somebody repeats it.
fn known_fingerprints(
    connection: &Connection,
    tenant: &Tenant,
    arrival: Seq,
    text: &[u8],
) -> Result<u64, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT 1 FROM runs WHERE tenant = ?1 AND print = ?2 AND arrival = ?3 AND at = ?4",
    )?;
    let mut count = 0;
    for (print, at) in crate::ingress::fingerprints(text) {
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        if !select.exists((tenant.as_str(), print.cast_signed(), sql(arrival), at))? {
            return Err(Tampering::Index { index: "fingerprint", seq: arrival.0 }.into());
        }
        count += 1;
    }
    Ok(count)
}

fn count_agrees(
    connection: &Connection,
    query: &str,
    expected: u64,
    index: &'static str,
) -> Result<(), StoreError> {
    let found: i64 = connection.query_row(query, [], |row| row.get(0))?;
    if u64::try_from(found) != Ok(expected) {
        return Err(Tampering::Index { index, seq: expected }.into());
    }
    Ok(())
}

/// The content that is stored with this very record.
fn arrived_with(record: &Record) -> Option<ContentRef> {
    if matches!(record.answer, Answer::Refused(_)) {
        return None;
    }
    let content = content_of(record)?;
    (content.arrival == record.seq).then_some(content)
}

/// The content that a record names, wherever it is stored.
pub fn content_of(record: &Record) -> Option<ContentRef> {
    if let Some(content) = record.content {
        return Some(content);
    }
    match (&record.request, &record.answer) {
        (_, Answer::Value { content, .. }) => Some(*content),
        (Request::Session(SessionRequest::Observe { content, .. }), _) => {
            content.map(|value| value.content(record.seq))
        }
        (
            Request::Session(SessionRequest::Write { value, .. })
            | Request::Admin(AdminRequest::AdoptFile { value, .. })
            | Request::Session(SessionRequest::Withhold { content: value, .. }),
            _,
        ) => Some(value.content(record.seq)),
        (Request::Session(SessionRequest::Extract(extract)), _) => {
            extract.value.map(|value| value.content(record.seq))
        }
        (Request::Call(call), _) => Some(call.arguments.content(record.seq)),
        (Request::Admin(AdminRequest::SetPolicy { text, .. }), _) => Some(text.content(record.seq)),
        (Request::Admin(AdminRequest::Recover(recover)), _) => {
            recover.step.arriving().map(|value| value.content(record.seq))
        }
        _ => None,
    }
}
