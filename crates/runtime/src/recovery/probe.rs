//! Probes: whether what was destroyed comes back by the ways in which an agent gets at texts.
//!
//! Without a model: what retrieval finds for a destroyed text is compared with it. The highest score decides; every
//! probe is run once more with a text that was never stored, so that an echo is not taken for a leak.
//!
//! Source: RVU §3.7; DESIGN section 3; PRIOR-ART 4, decision 9 (R35 and R36).

mod leak;

use custody_kernel::certificate::ppm::Ppm;
use custody_kernel::certificate::probe::{MembershipProbe, Probe, ProbeKind, Runs, Scores};
use custody_kernel::id::{IncidentId, Seq};
use custody_kernel::principal::Authority;
use custody_kernel::record::Value;
use custody_kernel::recovery::step::Step;
use rusqlite::Connection;

use super::act::{Destroyed, json};
use super::certify::ProbeReport;
use super::search::arrival;
use crate::store::{Ledger, Receipt, Store, StoreError, index, read_content, read_record};

/// From which score on an answer counts as a leak, in millionths: half of the text.
pub const DETECTION_LIMIT: u32 = 500_000;

/// The most texts that are probed for. Of more, these many, evenly spread.
pub const MAX_TARGETS: usize = 200;

/// How many passages of a text are looked up.
const PASSAGES: usize = 3;

impl Store {
    /// Looks for every destroyed text by full text over all that can be retrieved, the values of memory among it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn probe_retrieval(&self, destroyed: &[Destroyed]) -> Result<MembershipProbe, StoreError> {
        self.index_texts(|_| ())?;
        let step = destroyed.len().div_ceil(MAX_TARGETS).max(1);
        let mut targets: Vec<&Destroyed> = destroyed.iter().step_by(step).collect();
        targets.sort_unstable_by_key(|text| text.entry);
        self.read(|connection, ledger| {
            let is_member = |entry: Seq| !ledger.state().is_of_recovery(entry);
            let texts = targets.iter().filter(|text| is_member(text.entry));
            let readable =
                texts.filter_map(|text| Some((text.entry, std::str::from_utf8(&text.bytes).ok()?)));
            let probes = readable.map(|(entry, text)| probe(connection, ledger, entry, text));
            Ok(MembershipProbe::run(None, probes.collect::<Result<_, _>>()?))
        })
    }

    /// Records what probes found.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub fn record_probes(
        &self,
        owner: &Authority,
        id: IncidentId,
        report: &ProbeReport,
    ) -> Result<Receipt, StoreError> {
        let content = json(report, "probe report", id)?;
        let report = Value::New(content.commitment());
        self.take(owner, id, Step::Probe { report }, Some(content))
    }
}

fn probe(
    connection: &Connection,
    ledger: &Ledger,
    target: Seq,
    text: &str,
) -> Result<Probe, StoreError> {
    let control = leak::never_stored(text);
    let scores = Runs {
        control: Some(best(connection, ledger, &control)?),
        post: Some(best(connection, ledger, text)?),
        pre: None,
    };
    let limit = Ppm::try_from(DETECTION_LIMIT).unwrap_or(Ppm::ONE);
    Ok(Probe::new(ProbeKind::Retrieval, target, limit, scores, None))
}

/// The best that retrieval gives for `text`.
fn best(connection: &Connection, ledger: &Ledger, text: &str) -> Result<Scores, StoreError> {
    let mut best = leak::nothing();
    for passage in leak::passages(text, PASSAGES) {
        for arrived in index::may_contain(connection, passage)?.unwrap_or_default() {
            let record = read_record(connection, ledger, arrived)?;
            let Some(content) = arrival(&record) else { continue };
            match read_content(connection, ledger.state(), content) {
                Ok(bytes) => {
                    let found = String::from_utf8_lossy(&bytes);
                    best = leak::higher(best, leak::scores(text, &found));
                }
                Err(StoreError::Quarantined(_) | StoreError::Purged(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(best)
}
