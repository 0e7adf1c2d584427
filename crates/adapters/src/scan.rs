//! Looking at an adapter: its identity, what it holds, and how large its changes are.

use std::collections::BTreeMap;
use std::path::Path;

use custody_log::Digest;
use serde::Serialize;

use crate::adapter::Adapter;
use crate::change::{self, NotEvaluated};
use crate::configuration::Configuration;
use crate::error::AdapterError;
use crate::finding::{AdapterFinding, AdapterSeverity};
use crate::identity::identity;
use crate::kind::AdapterKind;
use crate::statistics::ChangeStatistics;

/// How far the size of a change may be from those of the same kind of layer, in robust standard deviations of its
/// logarithm. A convention for outliers (Iglewicz and Hoaglin 1993), not a threshold that was calibrated.
const OUTLIER_DEVIATIONS: f64 = 3.5;
/// The fewest layers of one kind among which one can be an outlier.
const FEWEST_LAYERS: usize = 8;
/// How many names are shown of many.
const SHOWN: usize = 5;

/// What was found out about an adapter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdapterReport {
    /// The kind, if it is known.
    pub kind: Option<AdapterKind>,
    /// What its configuration calls its kind: a claim.
    pub claimed_type: Option<String>,
    /// The base model that its configuration names: a claim.
    pub claimed_base: Option<String>,
    /// The commit of that model, if it is pinned to one: a claim.
    pub claimed_base_revision: Option<String>,
    /// SHA-256 over weights and effective configuration.
    pub identity: Digest,
    /// The length of the file with the weights.
    pub bytes: u64,
    /// How many numbers it has.
    pub parameters: u64,
    /// The changes, by module.
    pub changes: Vec<ModuleReport>,
    /// What it holds besides.
    pub findings: Vec<AdapterFinding>,
}

/// The change of one module.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModuleReport {
    /// The module, as the base model names it.
    pub module: String,
    /// The figures, if they could be computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<ChangeStatistics>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_evaluated: Option<&'static str>,
}

impl AdapterReport {
    /// The most severe finding, if there is any.
    pub fn severity(&self) -> Option<AdapterSeverity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// How many changes could not be evaluated.
    pub fn not_evaluated(&self) -> usize {
        self.changes.iter().filter(|module| module.change.is_none()).count()
    }
}

/// Looks at the adapter at `path`: a folder as PEFT writes it, or a safetensors file. `progress` is called with how
/// many modules of how many are done.
///
/// # Errors
/// [`AdapterError`] when it cannot be read. It is not to be loaded then.
pub fn scan(
    path: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<AdapterReport, AdapterError> {
    let adapter = Adapter::open(path)?;
    let none = BTreeMap::new();
    let effects = adapter.configuration.as_ref().map_or(&none, |read| &read.effects);
    let identity = identity(&adapter.file, effects)?;
    let mut changes = Vec::with_capacity(adapter.modules.len());
    for (done, module) in adapter.modules.iter().enumerate() {
        progress(done, adapter.modules.len());
        let read = match (&adapter.configuration, adapter.kind) {
            (Some(configuration), Some(kind)) => {
                change::read(&adapter.file, configuration, kind, module)?
            }
            _ => Err("its kind is not known") as Result<_, NotEvaluated>,
        };
        let (change, not_evaluated) = match read {
            Ok(change) => match ChangeStatistics::of(&change) {
                Some(figures) => (Some(figures), None),
                None => (None, Some("its numbers are too large to be computed with")),
            },
            Err(why) => (None, Some(why)),
        };
        changes.push(ModuleReport { module: module.name.clone(), change, not_evaluated });
    }
    let mut findings = findings(&adapter);
    findings.extend(outliers(&changes));
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.rule));
    let claims = adapter.configuration.as_ref();
    let parameters = adapter.file.tensors().values().map(|entry| entry.numbers() as u64).sum();
    Ok(AdapterReport {
        kind: adapter.kind,
        claimed_type: claims.map(|read| read.peft_type.clone()),
        claimed_base: claims.and_then(|read| read.base_model.clone()),
        claimed_base_revision: claims.and_then(|read| read.base_revision.clone()),
        identity,
        bytes: adapter.file.bytes(),
        parameters,
        changes,
        findings,
    })
}

/// What the files hold besides weights of the kind.
fn findings(adapter: &Adapter) -> Vec<AdapterFinding> {
    let mut found = match &adapter.configuration {
        Some(configuration) => of_configuration(configuration),
        None => {
            let what = "there is no `adapter_config.json`, so nobody knows what its tensors do";
            vec![AdapterFinding::new("no-configuration", AdapterSeverity::Refuse, what)]
        }
    };
    if adapter.kind.is_some() && !adapter.strangers.is_empty() {
        let names = shown(adapter.strangers.iter());
        let what = format!("it brings tensors that are no part of its kind: {names}");
        found.push(AdapterFinding::new("foreign-tensors", AdapterSeverity::Refuse, what));
    }
    if adapter.kind.is_some() && adapter.modules.is_empty() {
        let what = "it has no tensor of the kind that its configuration names";
        found.push(AdapterFinding::new("no-tensors", AdapterSeverity::Refuse, what));
    }
    let metadata = adapter.file.metadata.keys().filter(|key| *key != "format");
    let metadata = shown(metadata);
    if !metadata.is_empty() {
        let what = format!("texts in the header that some programs act on: {metadata}");
        found.push(AdapterFinding::new("header-metadata", AdapterSeverity::Review, what));
    }
    for (rule, files, what) in [
        ("pickle", &adapter.folder.pickles, "files whose reading can run code"),
        ("program", &adapter.folder.programs, "programs, which no adapter needs"),
    ] {
        if !files.is_empty() {
            let what = format!("{what}: {}", shown(files.iter()));
            found.push(AdapterFinding::new(rule, AdapterSeverity::Review, what));
        }
    }
    found
}

fn of_configuration(configuration: &Configuration) -> Vec<AdapterFinding> {
    let mut found = Vec::new();
    if configuration.kind.is_none() {
        let name: String = configuration.peft_type.chars().take(40).collect();
        let what = format!("the kind `{name}` is not known here");
        found.push(AdapterFinding::new("unknown-kind", AdapterSeverity::Refuse, what));
    }
    if !configuration.unknown.is_empty() {
        let names = shown(configuration.unknown.iter());
        let what = format!("keys that are not known here and might change what it does: {names}");
        found.push(AdapterFinding::new("unknown-key", AdapterSeverity::Refuse, what));
    }
    for (key, effect) in &configuration.hidden {
        let what = format!("`{key}`: {effect}");
        found.push(AdapterFinding::new("hidden-effect", AdapterSeverity::Refuse, what));
    }
    if let Some(start) = configuration.altered_base {
        let what = format!(
            "`init_lora_weights` is `{start}`: the base model is altered when it is loaded"
        );
        found.push(AdapterFinding::new("altered-base", AdapterSeverity::Review, what));
    }
    if configuration.has_auto_mapping {
        let what = "`auto_mapping` names a library that is imported when it is loaded";
        found.push(AdapterFinding::new("auto-mapping", AdapterSeverity::Review, what));
    }
    if configuration.base_revision.is_none() {
        let what = "its configuration names no commit of its base model";
        found.push(AdapterFinding::new("unpinned-base", AdapterSeverity::Note, what));
    }
    found
}

/// Layers whose change is far from those of the same name in other layers.
fn outliers(changes: &[ModuleReport]) -> Vec<AdapterFinding> {
    let mut groups = BTreeMap::<&str, Vec<(&str, f64)>>::new();
    for report in changes {
        if let Some(change) = report.change.as_ref().filter(|change| change.frobenius > 0.0) {
            let name = report.module.rsplit('.').next().unwrap_or(&report.module);
            groups.entry(name).or_default().push((&report.module, change.frobenius.ln()));
        }
    }
    let mut far = Vec::new();
    for group in groups.into_values().filter(|group| group.len() >= FEWEST_LAYERS) {
        let middle = median(group.iter().map(|(_, size)| *size));
        let spread = median(group.iter().map(|(_, size)| (size - middle).abs()));
        far.extend(
            group
                .iter()
                .filter(|(_, size)| is_far((size - middle).abs(), spread))
                .map(|(name, _)| *name),
        );
    }
    if far.is_empty() {
        return Vec::new();
    }
    let what =
        format!("changes far from those of the same part of other layers: {}", shown(far.iter()));
    vec![AdapterFinding::new("outlier-layer", AdapterSeverity::Note, what)]
}

/// Whether a distance from the median is large beside the median of all distances.
fn is_far(distance: f64, spread: f64) -> bool {
    // That median is 0.6745 standard deviations of normal numbers.
    spread > 0.0 && 0.6745 * distance > OUTLIER_DEVIATIONS * spread
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = numbers.get(middle).copied().unwrap_or_default();
    let lower = numbers.get(middle.saturating_sub(1)).copied().unwrap_or(upper);
    if numbers.len().is_multiple_of(2) { f64::midpoint(lower, upper) } else { upper }
}

/// The first of many names, as a line that a terminal can show.
fn shown<S: AsRef<str>>(names: impl Iterator<Item = S>) -> String {
    let names: Vec<String> = names
        .map(|name| {
            name.as_ref().chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect()
        })
        .collect();
    let more = names.len().saturating_sub(SHOWN);
    let first: Vec<String> =
        names.into_iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}
