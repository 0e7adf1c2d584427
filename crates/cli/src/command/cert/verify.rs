//! `custody cert verify`: is it the owner's word, is it whole, and does the store still say the same?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use custody_certificate::{
    Certificate, CertificateError, CertificateOutcome as Recovered, Expectations, OutcomeState,
    Verified, key_id,
};
use custody_log::{Digest, IncidentId};
use custody_runtime::Store;
use custody_verify::{
    ClaimReport, ClaimResult, VerifyError, VerifyReport, complete_from_store, verify_claims,
};
use serde_json::{Value, json};

use super::checks::{Check, CheckResult};
use super::describe::{adopted, missing};
use super::key::{KeyArgs, Trusted};
use crate::context::GlobalContext;
use crate::output::{
    BAD, DIM, ExitStatus, GOOD, WARN, count, fact, json_line, line, moment, paint, shown,
};

/// What rests on the owner's word alone, where entries are not given.
const NOT_CHECKED: [&str; 4] = [
    "what each of them is, what was done to it and why",
    "that the counts, and with them the outcome, are those of the entries",
    "that each got what its score, its floor and its evidence ask for",
    "that every adapter one of them names is attested",
];

/// The most claims that are listed one by one.
const MAX_CLAIMS: usize = 20;

/// Verify a certificate from the file and the owner's public key, and against the store if there is one.
///
/// With --key or --key-file alone, nothing but the file is read. With --store, or without a key, the store's record is
/// verified as `custody ledger verify` does, and every claim compared with it; what it cannot tell is said. A key
/// is never taken from the certificate itself. Exit code 1 when something does not hold.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The certificate; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    key: KeyArgs,
    /// The incident that it must be about
    #[arg(long, value_name = "ID")]
    incident: Option<IncidentId>,
    /// The newest certificate known before, as a file or by its SHA-256: this one must follow it
    #[arg(long, value_name = "CERT")]
    after: Option<String>,
    /// The entries, where they do not all stand inside [default: CERTIFICATE.entries.jsonl beside it, if it is there]
    #[arg(long, value_name = "FILE")]
    entries: Option<PathBuf>,
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let trusted = args.key.trusted(context)?;
    let after = args.after.as_deref().map(digest_of).transpose()?;
    let store = match &trusted.store {
        Some(store) => Some(store.state(|state| state.store())?.context("the store is empty")?),
        None => None,
    };
    let expected = Expectations { incident: args.incident, store, after };
    let file = super::read(&args.file)?;
    let verdict = Certificate::verify(&file, &trusted.key, expected);
    let (verdict, entries) = match verdict {
        Ok(verified) => super::with_entries(verified, &args.file, args.entries.as_deref())?,
        refused @ Err(_) => (refused, None),
    };
    let verdict = match (verdict, &trusted.store) {
        (Ok(verified), Some(store)) => Ok(complete_from_store(store, verified)?),
        (verdict, _) => verdict,
    };
    let recount = match (&verdict, &trusted.store) {
        (Ok(verified), Some(store)) => Some(verify_claims(store, verified)?),
        _ => None,
    };
    let (trusted, outcome) = (&trusted, verdict.as_ref());
    let report = Report { file: &file, trusted, expected, verdict: outcome, entries, recount };
    if context.json {
        json_line(&report.json())?;
    } else {
        report.print();
    }
    Ok(ExitStatus::failure_if(verdict.is_err() || report.contradicts().is_some()))
}

/// A certificate as it is named to `--after`: by its digest, or as a file that is hashed.
fn digest_of(named: &str) -> anyhow::Result<Digest> {
    let mut digest = [0; 32];
    match hex::decode_to_slice(named, &mut digest) {
        Ok(()) => Ok(Digest(digest)),
        Err(_) => Ok(Digest::of(&super::read(Path::new(named))?)),
    }
}

struct Report<'a> {
    file: &'a [u8],
    trusted: &'a Trusted,
    expected: Expectations,
    verdict: Result<&'a Verified, &'a CertificateError>,
    /// The file of entries that was read.
    entries: Option<PathBuf>,
    recount: Option<ClaimReport<'a>>,
}

impl Report<'_> {
    /// How many claims no longer hold.
    fn broken(&self) -> usize {
        let claims = self.recount.iter().flat_map(|recount| &recount.claims);
        claims.filter(|(_, found)| matches!(found, ClaimResult::Fails(_))).count()
    }

    /// What of the store speaks against the certificate, if anything does.
    fn contradicts(&self) -> Option<String> {
        let recount = self.recount.as_ref()?;
        match (&recount.ledger, self.broken()) {
            (Ok(_), 0) => None,
            (Ok(_), 1) => Some("1 claim does not hold".to_owned()),
            (Ok(_), broken) => Some(format!("{broken} claims do not hold")),
            (Err(_), _) => Some("the store's record does not verify".to_owned()),
        }
    }

    fn result(&self, check: Check) -> CheckResult {
        let is_asked = check != Check::Expected || self.expected != Expectations::default();
        let is_given = check != Check::Entries || self.not_listed() == 0;
        let result = check.result(self.verdict.err());
        match (is_asked, is_given) {
            _ if result != CheckResult::Held => result,
            (false, _) => CheckResult::NotAsked,
            (true, false) => CheckResult::NotGiven,
            (true, true) => CheckResult::Held,
        }
    }

    /// How many entries are neither in the certificate nor were found elsewhere.
    fn not_listed(&self) -> u64 {
        self.verdict.map_or(0, |verified| {
            let Certificate { recovery, entries, .. } = verified.certificate();
            let closure = &recovery.runtime_recovery.closure;
            let listed = closure.members.len() + closure.possible_origins.len();
            entries.leaves().saturating_sub(listed as u64)
        })
    }

    fn print(&self) {
        match (self.verdict, self.contradicts()) {
            (Ok(verified), None) => line(format_args!(
                "{}: {}",
                paint(GOOD, "verified"),
                sentence(verified.certificate())
            )),
            (Ok(verified), Some(why)) => {
                let said = sentence(verified.certificate());
                line(format_args!("{}: {why}. What it says: {said}", paint(BAD, "not true today")));
            }
            (Err(refusal), _) => {
                line(format_args!("{}: {}", paint(BAD, "refused"), self.why(refusal)));
            }
        }
        for check in Check::ALL {
            let (style, word) = match self.result(check) {
                CheckResult::Held => (GOOD, "held"),
                CheckResult::Failed => (BAD, "failed"),
                CheckResult::NotReached => (DIM, "open"),
                CheckResult::NotAsked => (DIM, "not asked"),
                CheckResult::NotGiven => (WARN, "not given"),
            };
            fact(&paint(style, format_args!("{word:9}")), check.says());
        }
        fact("file", &format!("SHA-256 {}", Digest::of(self.file)));
        fact("key", &format!("SHA-256 {}", key_id(&self.trusted.key)));
        if let Ok(verified) = self.verdict {
            print_facts(verified);
            self.print_entries(verified);
        }
        match &self.recount {
            Some(recount) => print_claims(recount),
            None if self.verdict.is_ok() => {
                fact("store", "not asked; --store recounts the claims as well");
            }
            None => {}
        }
    }

    /// Where the entries were found, or what is not checked without them.
    fn print_entries(&self, verified: &Verified) {
        let left = self.not_listed();
        let all = verified.certificate().entries.leaves();
        if let Some(path) = &self.entries {
            fact("entries", &format!("{all} entries in {}", shown(&path.display().to_string())));
        } else if left > 0 {
            fact(
                "entries",
                &paint(WARN, format_args!("{left} of {all} entries were not checked:")),
            );
            for what in NOT_CHECKED {
                fact("", what);
            }
            fact("", "give them with --entries, or the store with --store");
        }
    }

    /// The reason in one line.
    fn why(&self, refusal: &CertificateError) -> String {
        let why = super::reason(refusal);
        if let CertificateError::OtherKey { found, .. } = refusal
            && *found == hex::encode(self.trusted.key.as_bytes())
        {
            return format!("{why}: what was given is the fingerprint of its key, not the key");
        }
        why
    }

    fn entries(&self, verified: &Verified) -> Value {
        let stated = &verified.certificate().entries;
        let left = self.not_listed();
        json!({
            "count": stated.leaves(),
            "root": stated.root,
            "file": self.entries,
            "not_checked": left,
            "rests_on_the_owners_word": if left > 0 { NOT_CHECKED.as_slice() } else { &[] },
        })
    }

    fn json(&self) -> Value {
        let checks = Check::ALL.map(|check| {
            let result = self.result(check);
            json!({ "check": check, "result": result, "says": check.says() })
        });
        json!({
            "verified": self.verdict.is_ok(),
            "refused": self.verdict.err().map(|refusal| self.why(refusal)),
            "file": { "sha256": Digest::of(self.file), "bytes": self.file.len() },
            "key": { "id": key_id(&self.trusted.key), "from": self.trusted.source },
            "checks": checks,
            "certificate": self.verdict.ok().map(facts),
            "entries": self.verdict.ok().map(|verified| self.entries(verified)),
            "recount": self.recount.as_ref().map(|recount| claims(recount, self.trusted.store.as_ref())),
        })
    }
}

fn sentence(certificate: &Certificate) -> String {
    let incident = certificate.recovery.incident;
    match certificate.outcome.state {
        OutcomeState::Recovered => format!("{incident} is {}.", paint(GOOD, "recovered")),
        OutcomeState::Incomplete => {
            let incomplete = paint(WARN, "incomplete");
            format!(
                "the recovery of {incident} is {incomplete}: {}.",
                reasons(&certificate.outcome)
            )
        }
    }
}

fn reasons(outcome: &Recovered) -> String {
    let reasons: Vec<String> =
        outcome.reasons.iter().map(|reason| missing(reason.missing, reason.count)).collect();
    reasons.join(", ")
}

fn print_facts(verified: &Verified) {
    let recovery = &verified.certificate().recovery;
    fact("made", &format!("{} by {}", moment(recovery.time), shown(&recovery.program)));
    fact("store", &recovery.store.to_string());
    fact("log", &format!("{} → {} records", verified.before().size, verified.after().size));
    let previous = recovery.previous.map_or("none; it is the store's first".into(), |previous| {
        format!("the certificate SHA-256 {previous}")
    });
    fact("follows", &previous);
    let breaks = recovery.audit.breaks.len() as u64;
    if breaks > 0 {
        fact("breaks", &paint(WARN, adopted(breaks)));
    }
}

fn facts(verified: &Verified) -> Value {
    let certificate = verified.certificate();
    let recovery = &certificate.recovery;
    json!({
        "certificate_id": recovery.id,
        "incident": recovery.incident,
        "store": recovery.store,
        "time_ms": recovery.time,
        "program": recovery.program,
        "outcome": certificate.outcome,
        "previous": recovery.previous,
        "plan_digest": recovery.plan_digest,
        "policy_digest": recovery.policy_digest,
        "log": { "before": verified.before().size, "after": verified.after().size },
        "members": certificate.entries.members,
        "breaks": recovery.audit.breaks.len(),
    })
}

fn print_claims(recount: &ClaimReport<'_>) {
    let holds = recount.claims.iter().filter(|(_, found)| *found == ClaimResult::Holds).count();
    let fails: Vec<_> =
        recount.claims.iter().filter(|(_, found)| matches!(found, ClaimResult::Fails(_))).collect();
    line("");
    line(format_args!(
        "Recounted in the store of {}: {} of {} hold, {} fail, {} cannot be told.",
        count(recount.records, "record"),
        holds,
        count(recount.claims.len() as u64, "claim"),
        fails.len(),
        recount.claims.len() - holds - fails.len(),
    ));
    match &recount.ledger {
        Ok(ledger) => line(format_args!(
            "  The record verifies: {} decided again, {} judged again.",
            count(ledger.records, "record"),
            count(ledger.calls_judged, "tool call"),
        )),
        Err(error) => line(format_args!("  {} the record: {error}", paint(BAD, "✗"))),
    }
    for (claim, found) in fails.iter().take(MAX_CLAIMS) {
        let ClaimResult::Fails(why) = found else { continue };
        line(format_args!("  {} {}: {}", paint(BAD, "✗"), shown(&claim.to_string()), shown(why)));
    }
    if fails.len() > MAX_CLAIMS {
        line(format_args!("  and {} more; --json lists them all", fails.len() - MAX_CLAIMS));
    }
    let mut untold: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, found) in &recount.claims {
        if let ClaimResult::CannotTell(why) = found {
            *untold.entry(why).or_default() += 1;
        }
    }
    for (why, number) in untold {
        line(format_args!("  {} {}: {why}", paint(DIM, "?"), count(number, "claim")));
    }
    if recount.reached_since > 0 {
        let entries = count(recount.reached_since, "later record");
        let what = format!("{entries} derive from what was recovered and are in no certificate");
        line(format_args!("  {} {what}", paint(WARN, "!")));
    }
}

fn ledger(found: &Result<VerifyReport, VerifyError>) -> Value {
    let judged = found.as_ref().ok();
    json!({
        "verified": judged.is_some(),
        "refused": found.as_ref().err().map(ToString::to_string),
        "calls_judged": judged.map(|report| report.calls_judged),
        "calls_not_judged": judged.map(|report| report.calls_not_judged),
    })
}

fn claims(recount: &ClaimReport<'_>, store: Option<&Store>) -> Value {
    let mut counts = [0_u64; 3];
    let mut rows = Vec::with_capacity(recount.claims.len());
    for (claim, found) in &recount.claims {
        let (at, result, why) = match found {
            ClaimResult::Holds => (0, "holds", None),
            ClaimResult::Fails(why) => (1, "fails", Some(why.as_str())),
            ClaimResult::CannotTell(why) => (2, "cannot_tell", Some(*why)),
        };
        if let Some(number) = counts.get_mut(at) {
            *number += 1;
        }
        rows.push(json!({
            "claim": claim.name(),
            "entry": claim.entry(),
            "says": claim.to_string(),
            "result": result,
            "why": why,
        }));
    }
    let [holds, fails, cannot_tell] = counts;
    json!({
        "store": store.map(|store| store.path().display().to_string()),
        "records": recount.records,
        "ledger": ledger(&recount.ledger),
        "holds": holds,
        "fails": fails,
        "cannot_tell": cannot_tell,
        "reached_since": recount.reached_since,
        "claims": rows,
    })
}
