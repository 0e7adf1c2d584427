//! What the witnesses of a store say about it, for `custody ledger verify`.

use custody_log::{CosignerKey, Hash, LogName};
use custody_runtime::{Store, StoreError};
use custody_witness::{
    LatestCosigned, PinFolder, WitnessClient, WitnessDoubt, WitnessPin, WitnessPins, WitnessUrl,
    WitnessVerdict, fresh_nonce,
};
use serde::Serialize;
use serde_json::json;

use crate::command::witness::{PinnedError, cosigned_at, origin_of, pinned};
use crate::context::GlobalContext;
use crate::output::{BAD, chain, count, json_line, line, moment, paint, shown};

/// Which witnesses are asked.
#[derive(Debug, clap::Args)]
pub(super) struct WitnessArgs {
    /// Ask the pinned witnesses whether this is the newest record; fails if one gives no answer
    #[arg(long)]
    witness: bool,
    /// Ask the witness here, pinned or not: an auditor has no reason to believe the store's own pins
    #[arg(long, value_name = "URL", requires = "witness_key")]
    witness_url: Option<WitnessUrl>,
    /// The verifier key of that witness, from whoever runs it
    #[arg(long, value_name = "VKEY", requires = "witness_url")]
    witness_key: Option<CosignerKey>,
}

/// What became of one witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum WitnessStatus {
    /// The store holds what the witness saw.
    Checked,
    /// The witness saw more.
    RolledBack,
    /// The witness saw other records.
    Forked,
    /// What the witness saw is unknown, although it was asked.
    NotChecked,
    /// It was not asked.
    NotAsked,
}

/// What one witness says, as it is printed.
#[derive(Debug, Serialize)]
pub(super) struct WitnessResult {
    /// What the owner calls it; none when it is about all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    status: WitnessStatus,
    /// How many records it saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    witnessed: Option<u64>,
    /// How many there are.
    size: u64,
    /// When it cosigned them, as `2026-11-21T09:30:00.000Z`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cosigned_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl WitnessResult {
    /// Whether nothing speaks against the store, and everything that was asked was answered.
    pub(super) const fn is_fine(&self) -> bool {
        matches!(self.status, WitnessStatus::Checked | WitnessStatus::NotAsked)
    }

    fn about_all(status: WitnessStatus, size: u64, reason: String) -> Self {
        Self { name: None, status, witnessed: None, size, cosigned_at: None, reason: Some(reason) }
    }

    /// The result as a sentence, with both sizes.
    pub(super) fn sentence(&self) -> String {
        let Some(name) = &self.name else { return self.reason.clone().unwrap_or_default() };
        let (seen, size) =
            (count(self.witnessed.unwrap_or_default(), "record"), count(self.size, "record"));
        let reason = self.reason.as_deref().unwrap_or_default();
        let at = self.cosigned_at.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        match self.status {
            WitnessStatus::Checked => {
                let seen = self.witnessed.unwrap_or_default();
                format!("`{name}` cosigned {seen} of {size}{at}")
            }
            WitnessStatus::RolledBack => format!(
                "the store was rolled back: witness `{name}` cosigned {seen}{at}, and the store has {size}"
            ),
            WitnessStatus::Forked => format!(
                "the store was forked: witness `{name}` cosigned {seen}{at}, and of the {size} here the first are others"
            ),
            WitnessStatus::NotChecked => {
                format!("witness `{name}` gave no answer that counts: {reason}")
            }
            WitnessStatus::NotAsked => format!("`{name}` not asked; add --witness"),
        }
    }
}

/// Compares a store with what its witnesses saw. Every witness is asked if `args` ask for it; without that, only what
/// is kept beside the store is looked at.
pub(super) fn check(store: &Store, args: &WitnessArgs) -> Result<Vec<WitnessResult>, StoreError> {
    let mut results = Vec::new();
    if let (Some(url), Some(key)) = (&args.witness_url, &args.witness_key) {
        let origin = origin_of(store)?;
        let latest = ask(url, key, &origin);
        results.push(Checker { store, origin: &origin }.result(key.name.as_str(), latest, None)?);
    }
    let pinned = match pinned(store) {
        Ok(pinned) => pinned,
        // Whatever is wrong with the pins, the store is not shown to be the newest.
        Err(error) => {
            let status = match error {
                PinnedError::RolledBack { .. } => WitnessStatus::RolledBack,
                PinnedError::Forked { .. } => WitnessStatus::Forked,
                PinnedError::Store(_) | PinnedError::Folder(_) | PinnedError::NoOwner => {
                    WitnessStatus::NotChecked
                }
            };
            let reason = chain(&error);
            results.push(WitnessResult::about_all(status, store.root()?.0, reason));
            return Ok(results);
        }
    };
    let checker = Checker { store, origin: &pinned.origin };
    let pins: Vec<&WitnessPin> = pinned.pins.iter().flat_map(WitnessPins::iter).collect();
    for pin in &pins {
        results.push(checker.pinned(&pinned.folder, pin, args.witness)?);
    }
    if args.witness && pins.is_empty() {
        let reason = "no witness is pinned; see `custody witness add --help`".to_owned();
        let status = WitnessStatus::NotChecked;
        results.push(WitnessResult::about_all(status, store.root()?.0, reason));
    }
    Ok(results)
}

fn ask(
    url: &WitnessUrl,
    key: &CosignerKey,
    origin: &LogName,
) -> Result<Option<LatestCosigned>, String> {
    let nonce = fresh_nonce().map_err(|error| chain(&error))?;
    let client = WitnessClient::new(url.clone(), key.clone());
    client.latest(origin, nonce).map_err(|error| chain(&error))
}

struct Checker<'a> {
    store: &'a Store,
    origin: &'a LogName,
}

impl Checker<'_> {
    fn pinned(
        &self,
        folder: &PinFolder,
        pin: &WitnessPin,
        is_asked: bool,
    ) -> Result<WitnessResult, StoreError> {
        let kept = match folder.cosigned(pin, self.origin) {
            Ok(kept) => kept,
            Err(error) => return self.not_checked(pin.name(), chain(&error)),
        };
        if is_asked {
            let latest = ask(&pin.url, &pin.key, self.origin);
            return self.result(pin.name(), latest, kept);
        }
        match self.against(pin.name(), kept.as_ref())? {
            Some(result) => Ok(result),
            None => self.unresolved(pin.name(), WitnessStatus::NotAsked, None),
        }
    }

    fn result(
        &self,
        name: &str,
        latest: Result<Option<LatestCosigned>, String>,
        kept: Option<LatestCosigned>,
    ) -> Result<WitnessResult, StoreError> {
        let latest = match (latest, self.against(name, kept.as_ref())?) {
            (Ok(latest), _) => latest,
            (Err(_), Some(result)) => return Ok(result),
            (Err(reason), None) => return self.not_checked(name, reason),
        };
        // The size is taken after the answer: another process may have gone on, and been cosigned, in between.
        let size = self.store.root()?.0;
        let verdict =
            WitnessVerdict::of_answer(latest.as_ref(), kept.as_ref(), size, |at| self.root_at(at));
        match (verdict, latest.or(kept)) {
            (Ok(verdict), Some(seen)) => Ok(verdict_result(name, verdict, &seen)),
            (Ok(_), None) => self.not_checked(name, WitnessDoubt::Nothing.to_string()),
            (Err(doubt), _) => self.not_checked(name, chain(&doubt)),
        }
    }

    /// What a kept cosignature says against the store, if it does. It never speaks for it.
    fn against(
        &self,
        name: &str,
        kept: Option<&LatestCosigned>,
    ) -> Result<Option<WitnessResult>, StoreError> {
        let Some(kept) = kept else { return Ok(None) };
        let size = self.store.root()?.0;
        let verdict = WitnessVerdict::of(&kept.cosigned.checkpoint, size, |at| self.root_at(at));
        Ok((!verdict.extends()).then(|| verdict_result(name, verdict, kept)))
    }

    /// The root over the first records, none if the store cannot be read: then it counts as another.
    fn root_at(&self, size: u64) -> Option<Hash> {
        self.store.look(|view| Ok::<_, StoreError>(view.root_at(size))).ok().flatten()
    }

    fn not_checked(&self, name: &str, reason: String) -> Result<WitnessResult, StoreError> {
        self.unresolved(name, WitnessStatus::NotChecked, Some(reason))
    }

    fn unresolved(
        &self,
        name: &str,
        status: WitnessStatus,
        reason: Option<String>,
    ) -> Result<WitnessResult, StoreError> {
        let (name, size) = (Some(name.to_owned()), self.store.root()?.0);
        Ok(WitnessResult { name, status, witnessed: None, size, cosigned_at: None, reason })
    }
}

fn verdict_result(name: &str, verdict: WitnessVerdict, seen: &LatestCosigned) -> WitnessResult {
    let (status, witnessed, size) = match verdict {
        WitnessVerdict::Extends { witnessed, size } => (WitnessStatus::Checked, witnessed, size),
        WitnessVerdict::RolledBack { witnessed, size } => {
            (WitnessStatus::RolledBack, witnessed, size)
        }
        WitnessVerdict::Forked { witnessed, size } => (WitnessStatus::Forked, witnessed, size),
    };
    // The time belongs to the size that is named, which may be that of a kept cosignature.
    let is_named = seen.cosigned.checkpoint.size == witnessed;
    let cosigned_at = is_named.then(|| moment(cosigned_at(seen)));
    let (name, witnessed) = (Some(name.to_owned()), Some(witnessed));
    WitnessResult { name, status, witnessed, size, cosigned_at, reason: None }
}

/// Prints why a record that is sound in itself does not verify: one line for each witness that speaks against it or
/// gave no answer.
pub(super) fn print_findings(
    context: &GlobalContext,
    results: &[WitnessResult],
) -> anyhow::Result<()> {
    let findings: Vec<&WitnessResult> = results.iter().filter(|result| !result.is_fine()).collect();
    if context.json {
        let sentences: Vec<String> =
            findings.iter().map(|found| shown(&found.sentence())).collect();
        return json_line(&json!({
            "verified": false,
            "finding": sentences.join("; "),
            "witnesses": results,
        }));
    }
    for found in findings {
        let word = match found.status {
            WitnessStatus::NotChecked => "not checked",
            WitnessStatus::Checked
            | WitnessStatus::RolledBack
            | WitnessStatus::Forked
            | WitnessStatus::NotAsked => "not verified",
        };
        line(format_args!("{}: {}", paint(BAD, word), shown(&found.sentence())));
    }
    Ok(())
}
