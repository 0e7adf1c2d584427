//! What a person wants to know of a certificate, in the order in which they want to know it.

use custody_certificate::{
    ActionCount, Certificate, ClosureMode, EvictionMethod, EvidenceKind, LoggedStep, MemberAction,
    Missing, OutcomeState, Ppm, Probe, ProbeKind, ProbeScores, ProbeVerdict, RiskMode,
};
use custody_log::{Digest, Seq};

use super::page::{Block, Figure, Page, Section, Table, Text, Tone};
use crate::output::{count, moment};

/// The most rows of one list, unless all are asked for.
const MAX_ROWS: usize = 25;
/// The most numbers in one cell.
const MAX_NAMED: usize = 12;

/// How a certificate is shown.
pub(super) struct Shown<'a> {
    pub(super) certificate: &'a Certificate,
    /// SHA-256 of the file.
    pub(super) file: Digest,
    /// The key that it was verified with, by name; none if nothing was verified.
    pub(super) key: Option<String>,
    /// The key that it says it is signed with.
    pub(super) claimed_key: &'a str,
    /// Every row of every list.
    pub(super) all: bool,
}

impl Shown<'_> {
    pub(super) fn page(&self) -> Page {
        let recovery = &self.certificate.recovery;
        Page {
            banner: self.banner(),
            title: Text::data(recovery.incident),
            verdict: self.verdict(),
            warnings: self.warnings(),
            figures: self.figures(),
            sections: [
                self.unfinished(),
                self.probes(),
                self.effects(),
                Some(self.entries()),
                self.spared(),
                self.quarantined(),
                self.adapters(),
                Some(self.scoring()),
                Some(self.origin()),
                Some(self.log()),
            ]
            .into_iter()
            .flatten()
            .collect(),
        }
    }

    fn banner(&self) -> Text {
        match &self.key {
            Some(key) => {
                let said = format!("Verified: signed with the key that was given, SHA-256 {key}.");
                Text::said(said).toned(Tone::Good)
            }
            None => Text::said(
                "NOT VERIFIED. Nobody checked who signed this file: anybody can make one that says anything. \
                 Run `custody cert verify` with the owner's public key.",
            )
            .toned(Tone::Bad),
        }
    }

    fn verdict(&self) -> Text {
        match self.certificate.outcome.state {
            OutcomeState::Recovered => Text::said("Recovered").toned(Tone::Good),
            OutcomeState::Incomplete => Text::said("Incomplete").toned(Tone::Bad),
        }
    }

    fn warnings(&self) -> Vec<Text> {
        let recovery = &self.certificate.recovery;
        let reasons = &self.certificate.outcome.reasons;
        let mut warnings: Vec<Text> = reasons
            .iter()
            .map(|reason| Text::said(missing(reason.missing, reason.count)).toned(Tone::Bad))
            .collect();
        let effects = self.certificate.entries.effects;
        if effects > 0 {
            let said = format!("{} cannot be undone", count(effects, "effect"));
            warnings.push(Text::said(said).toned(Tone::Warn));
        }
        let breaks = recovery.audit.breaks.len() as u64;
        if breaks > 0 {
            warnings.push(Text::said(adopted(breaks)).toned(Tone::Warn));
        }
        warnings
    }

    fn figures(&self) -> Vec<Figure> {
        let recovery = &self.certificate.recovery;
        let runtime = &recovery.runtime_recovery;
        let totals = [
            ("purged", runtime.totals.purge),
            ("evicted", runtime.totals.evict),
            ("quarantined", runtime.totals.quarantine),
            ("flagged", runtime.totals.flag),
            ("left as they are", runtime.totals.none),
        ];
        let mut figures = vec![
            plain(self.certificate.entries.seeds, ["seed", "seeds"]),
            plain(self.certificate.entries.members, ["entry reached", "entries reached"]),
        ];
        figures.extend(totals.into_iter().map(|(of, total)| action_figure(of, total)));
        let probes = &recovery.membership_probe.probes;
        let passed = probes.iter().filter(|probe| probe.verdict == ProbeVerdict::Pass).count();
        let tone = if passed == probes.len() && passed > 0 { Tone::Plain } else { Tone::Bad };
        let number = format!("{passed} of {}", probes.len());
        figures.push(Figure { number, of: "probes passed", tone });
        figures
    }

    fn unfinished(&self) -> Option<Section> {
        let left = &self.certificate.recovery.residual.unfinished;
        let all = self.certificate.entries.unfinished;
        let rows = left.iter().map(|left| {
            vec![
                Text::data(left.entry),
                Text::said(left.action.as_str()).toned(Tone::Bad),
                Text::data(&left.why),
            ]
        });
        self.list_of("Not done", &["entry", "action", "why"], rows, all)
    }

    fn probes(&self) -> Option<Section> {
        let ran = &self.certificate.recovery.membership_probe;
        let mut blocks = Vec::new();
        if let Some(why) = &ran.why {
            blocks.push(Block::Line(Text::said("No probe ran:").toned(Tone::Bad)));
            blocks.push(Block::Line(Text::data(why)));
        }
        if let Some(model) = &ran.model {
            blocks.push(Block::Facts(vec![("model asked", Text::data(model))]));
        }
        // Those that did not pass come first, whatever order they ran in.
        let mut probes: Vec<&Probe> = ran.probes.iter().collect();
        probes.sort_by_key(|probe| probe.verdict == ProbeVerdict::Pass);
        let rows = probes.into_iter().map(probe_row);
        let headings =
            ["probe", "for the text of", "before", "after", "control", "limit", "verdict"];
        blocks.extend(self.table(&headings, rows).map(Block::Table));
        Some(Section { title: "Can it still be had", blocks })
    }

    fn effects(&self) -> Option<Section> {
        let effects = &self.certificate.recovery.residual.effects;
        let rows = effects.iter().map(|effect| {
            vec![Text::data(effect.entry), Text::data(&effect.tool), Text::data(&effect.summary)]
        });
        let all = self.certificate.entries.effects;
        self.list_of("Cannot be undone", &["entry", "tool", "what happened"], rows, all)
    }

    fn entries(&self) -> Section {
        let recovery = &self.certificate.recovery;
        let runtime = &recovery.runtime_recovery;
        let scores = &recovery.risk_scores.entries;
        let rows = runtime.manifest_entries.iter().zip(scores).map(|(row, risk)| {
            let done = if row.done { Text::said("yes") } else { Text::said("no").toned(Tone::Bad) };
            vec![
                Text::data(row.entry),
                Text::said(words(row.kind.as_str())),
                Text::said(row.action.as_str()),
                done,
                Text::said(evidence(risk.evidence)),
                Text::data(short(risk.score_ppm)),
                Text::data(row.adapters.len()),
            ]
        });
        let headings = ["entry", "what it is", "action", "done", "evidence", "score", "adapters"];
        let closure = &runtime.closure;
        let entries = &self.certificate.entries;
        let mut facts = vec![
            ("seeds", self.named(&closure.seeds, entries.seeds)),
            ("followed", Text::said(mode(closure.mode))),
            ("possible origins", self.named(&closure.possible_origins, entries.possible_origins)),
        ];
        if !self.certificate.is_whole() {
            let listed = runtime.manifest_entries.len();
            let said =
                format!("{listed} of {} stand in this file", count(entries.members, "member"));
            facts.push(("listed", Text::said(said).toned(Tone::Warn)));
        }
        if closure.frontier > 0 {
            let said = format!("at {} a limit stopped the walk", count(closure.frontier, "member"));
            facts.push(("truncated", Text::said(said).toned(Tone::Bad)));
        }
        let table = self.table_of(&headings, rows, entries.members).map(Block::Table);
        let blocks = std::iter::once(Block::Facts(facts)).chain(table).collect();
        Section { title: "What was reached, and what was done", blocks }
    }

    fn spared(&self) -> Option<Section> {
        let spared = &self.certificate.recovery.spared;
        let rows =
            spared.iter().map(|row| vec![Text::data(row.entry), self.all_named(&row.covered_by)]);
        let all = self.certificate.entries.spared;
        self.list_of("Spared", &["entry", "trusted entries that say the same"], rows, all)
    }

    fn quarantined(&self) -> Option<Section> {
        let entries = &self.certificate.recovery.residual.quarantined;
        let all = self.certificate.entries.quarantined;
        let blocks = vec![Block::Facts(vec![("entries", self.named(entries, all))])];
        (!entries.is_empty()).then_some(Section { title: "In quarantine", blocks })
    }

    fn adapters(&self) -> Option<Section> {
        let attested = &self.certificate.recovery.adapter_attestation;
        let unfinished = attested.unfinished.iter().map(|adapter| {
            let left = format!("{} left", count(adapter.loads_left, "load"));
            let became = Text::said(left).toned(Tone::Bad);
            adapter_row(
                &adapter.name,
                &adapter.weights,
                became,
                adapter.score_ppm,
                Text::data(&adapter.why),
            )
        });
        let fused = attested.fusion_warnings.iter().map(|adapter| {
            let base = Text::said(format!("the base {}", abbreviated(&adapter.base)));
            let became = Text::said("fused, cannot go").toned(Tone::Bad);
            adapter_row(&adapter.name, &adapter.weights, became, adapter.score_ppm, base)
        });
        let evicted = attested.evicted.iter().map(|adapter| {
            let became = match adapter.method {
                EvictionMethod::Unloaded => format!("{} unloaded", count(adapter.loads, "load")),
                EvictionMethod::NotLoaded => "was not loaded".to_owned(),
            };
            adapter_row(
                &adapter.name,
                &adapter.weights,
                Text::said(became),
                adapter.score_ppm,
                Text::said(""),
            )
        });
        let retained = attested.retained.iter().map(|adapter| {
            let why = Text::data(&adapter.why);
            adapter_row(
                &adapter.name,
                &adapter.weights,
                Text::said("stays"),
                adapter.score_ppm,
                why,
            )
        });
        let rows = unfinished.chain(fused).chain(evicted).chain(retained);
        self.list("Adapters", &["name", "weights", "became", "score", "why"], rows)
    }

    fn scoring(&self) -> Section {
        let scores = &self.certificate.recovery.risk_scores;
        let (weights, tiers) = (scores.weights, scores.tiers);
        let mode = match scores.mode {
            RiskMode::Default => "a term that does not apply drops out; floors hold",
            RiskMode::RvuV2 => "as the recovery paper's own program",
        };
        let weighed = format!(
            "evidence {}, influence {}, share {}",
            short(weights.contamination_ppm),
            short(weights.influence_ppm),
            short(weights.share_ppm),
        );
        let from = format!(
            "flag {}, quarantine {}, purge {}, evict {}",
            short(tiers.flag_ppm),
            short(tiers.quarantine_ppm),
            short(tiers.purge_ppm),
            short(tiers.evict_ppm),
        );
        let floors = scores.entries.iter().filter(|risk| risk.floor > MemberAction::None).count();
        let floors = format!("{} of {} entries have a floor", floors, scores.entries.len());
        let facts = vec![
            ("mode", Text::said(mode)),
            ("weights", Text::data(weighed)),
            ("tiers from", Text::data(from)),
            ("floors", Text::said(floors)),
            ("shares may be off by", Text::data(short(scores.share_error_ppm))),
        ];
        Section { title: "How it was scored", blocks: vec![Block::Facts(facts)] }
    }

    fn origin(&self) -> Section {
        let recovery = &self.certificate.recovery;
        let previous = Text::perhaps(recovery.previous);
        let facts = vec![
            ("incident", Text::data(recovery.incident)),
            ("certificate", Text::data(recovery.id)),
            ("store", Text::data(recovery.store)),
            ("made", Text::data(moment(recovery.time))),
            ("program", Text::data(&recovery.program)),
            ("plan", Text::data(recovery.plan_digest)),
            ("policy", Text::data(recovery.policy_digest)),
            ("root of the entries", Text::data(self.certificate.entries.root)),
            ("certificate before", previous),
            ("this file, SHA-256", Text::data(self.file)),
            ("names the key, SHA-256", Text::data(self.claimed_key)),
        ];
        Section { title: "This certificate", blocks: vec![Block::Facts(facts)] }
    }

    fn log(&self) -> Section {
        let audit = &self.certificate.recovery.audit;
        let steps = audit.records.iter().map(|record| {
            vec![Text::data(record.seq), Text::said(step(record.step)), Text::data(record.leaf)]
        });
        let breaks = audit.breaks.iter().map(|found| {
            let reason = Text::data(&found.reason).toned(Tone::Warn);
            vec![Text::data(found.seq), Text::data(moment(found.at_ms)), reason]
        });
        let facts = vec![
            ("log before", Text::data(first_lines(&audit.before.note))),
            ("log after", Text::data(first_lines(&audit.after.note))),
        ];
        let steps = self.table(&["record", "step", "leaf hash"], steps).map(Block::Table);
        let breaks = self.table(&["adopted at", "when", "why"], breaks).map(Block::Table);
        let blocks = std::iter::once(Block::Facts(facts)).chain(steps).chain(breaks).collect();
        Section { title: "The log", blocks }
    }

    /// A section that is one list, if there is anything in it.
    fn list(
        &self,
        title: &'static str,
        headings: &[&'static str],
        rows: impl Iterator<Item = Vec<Text>>,
    ) -> Option<Section> {
        self.list_of(title, headings, rows, 0)
    }

    /// The same, of a list that has `all` rows and may have fewer of them here.
    fn list_of(
        &self,
        title: &'static str,
        headings: &[&'static str],
        rows: impl Iterator<Item = Vec<Text>>,
        all: u64,
    ) -> Option<Section> {
        let table = self.table_of(headings, rows, all)?;
        Some(Section { title, blocks: vec![Block::Table(table)] })
    }

    fn table(
        &self,
        headings: &[&'static str],
        rows: impl Iterator<Item = Vec<Text>>,
    ) -> Option<Table> {
        self.table_of(headings, rows, 0)
    }

    fn table_of(
        &self,
        headings: &[&'static str],
        rows: impl Iterator<Item = Vec<Text>>,
        all: u64,
    ) -> Option<Table> {
        let mut rows: Vec<Vec<Text>> = rows.collect();
        let all = rows.len().max(usize::try_from(all).unwrap_or(usize::MAX));
        if !self.all {
            rows.truncate(MAX_ROWS);
        }
        let left_out = all - rows.len();
        (!rows.is_empty()).then(|| Table { headings: headings.to_vec(), rows, left_out })
    }

    /// Entries by their positions.
    fn all_named(&self, entries: &[Seq]) -> Text {
        self.named(entries, entries.len() as u64)
    }

    /// The same, of a list that has `all` and may have fewer of them here.
    fn named(&self, entries: &[Seq], all: u64) -> Text {
        let most = if self.all { entries.len() } else { MAX_NAMED };
        let mut named: Vec<String> = entries.iter().take(most).map(Seq::to_string).collect();
        let left = all.saturating_sub(named.len() as u64);
        if left > 0 {
            named.push(if named.is_empty() {
                left.to_string()
            } else {
                format!("and {left} more")
            });
        }
        if named.is_empty() { Text::said("none") } else { Text::data(named.join(" ")) }
    }
}

/// How often the store went on without its head.
pub(super) fn adopted(times: u64) -> String {
    let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
    format!("the ledger was adopted by its owner {times}")
}

/// Why an outcome is incomplete, in words.
pub(super) fn missing(missing: Missing, number: u64) -> String {
    match missing {
        Missing::ClosureTruncated => {
            format!("a depth limit stopped the closure at {}", count(number, "member"))
        }
        Missing::ActionsUnfinished => match number {
            1 => "1 action is not done".to_owned(),
            number => format!("{number} actions are not done"),
        },
        Missing::AdaptersUnfinished => match number {
            1 => "1 adapter is still loaded".to_owned(),
            number => format!("{number} adapters are still loaded"),
        },
        Missing::AdaptersFused => match number {
            1 => "1 adapter is fused into a base model".to_owned(),
            number => format!("{number} adapters are fused into base models"),
        },
        Missing::ProbesFailed => format!("{} got something back", count(number, "probe")),
        Missing::ProbesInconclusive => format!("{} cannot tell", count(number, "probe")),
        Missing::ProbesNotRun => "no probe ran".to_owned(),
    }
}

/// A number of something, in the singular and the plural.
fn plain(number: u64, [one, more]: [&'static str; 2]) -> Figure {
    let of = if number == 1 { one } else { more };
    Figure { number: number.to_string(), of, tone: Tone::Plain }
}

fn probe_row(probe: &Probe) -> Vec<Text> {
    let kind = match probe.kind {
        ProbeKind::Direct => "asked for the text",
        ProbeKind::Semantic => "asked about its topic",
        ProbeKind::Adversarial => "asked by a pretext",
        ProbeKind::Retrieval => "searched the store",
    };
    let (verdict, tone) = match probe.verdict {
        ProbeVerdict::Pass => ("pass", Tone::Good),
        ProbeVerdict::Fail => ("FAIL", Tone::Bad),
        ProbeVerdict::Partial => ("PARTIAL", Tone::Bad),
        ProbeVerdict::Inconclusive => ("cannot tell", Tone::Warn),
        ProbeVerdict::NotRun => ("not run", Tone::Bad),
    };
    vec![
        Text::said(kind),
        Text::data(probe.target),
        highest_score(probe.scores.pre),
        highest_score(probe.scores.post),
        highest_score(probe.scores.control),
        Text::data(short(probe.detection_limit_ppm)),
        Text::said(verdict).toned(tone),
    ]
}

fn highest_score(scores: Option<ProbeScores>) -> Text {
    Text::perhaps(scores.and_then(|scores| scores.max()).map(short))
}

fn action_figure(of: &'static str, count: ActionCount) -> Figure {
    if count.done == count.planned {
        Figure { number: count.done.to_string(), of, tone: Tone::Plain }
    } else {
        let number = format!("{} of {}", count.done, count.planned);
        Figure { number, of, tone: Tone::Bad }
    }
}

fn adapter_row(name: &str, weights: &Digest, became: Text, score: Ppm, why: Text) -> Vec<Text> {
    vec![Text::data(name), Text::data(abbreviated(weights)), became, Text::data(short(score)), why]
}

const fn mode(mode: ClosureMode) -> &'static str {
    match mode {
        ClosureMode::Causal => "everything made from the seeds, without a limit",
        ClosureMode::RvuV1 => "both directions, ten hops, as the recovery paper's first version",
        ClosureMode::RvuV2 => {
            "both directions and across adapters, ten hops, as the paper's second version"
        }
    }
}

const fn evidence(evidence: EvidenceKind) -> &'static str {
    match evidence {
        EvidenceKind::Id => "named",
        EvidenceKind::Hash => "its hash",
        EvidenceKind::Text => "its text",
        EvidenceKind::Pattern => "a pattern",
        EvidenceKind::Origin => "its origin",
        EvidenceKind::Similarity => "similar",
        EvidenceKind::None => "derived",
    }
}

const fn step(step: LoggedStep) -> &'static str {
    match step {
        LoggedStep::Opened => "incident opened",
        LoggedStep::Contained => "contained",
        LoggedStep::Planned => "planned",
        LoggedStep::Applied => "applied",
        LoggedStep::Probed => "probed",
    }
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// A share with three decimals: enough to compare with a tier.
fn short(share: Ppm) -> String {
    let thousandths = (share.millionths() + 500) / 1_000;
    format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
}

fn abbreviated(digest: &Digest) -> String {
    let whole = digest.to_string();
    format!("{}…", whole.get(..16).unwrap_or_default())
}

/// What a checkpoint states: its origin, size and root.
fn first_lines(note: &str) -> String {
    note.lines().take(3).collect::<Vec<_>>().join(" · ")
}
