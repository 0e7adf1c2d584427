//! MON's evaluation, against real stores in scratch folders and without mocks.
//!
//! - [`payloads`]: the 199 published payloads, and the same texts from the user themself.
//! - [`custody_cli::attacks`]: the ten attacks, each decided by the mechanism it names, which `custody demo` plays too.
//! - [`echo`]: untrusted texts that arrive again, one's own that pages repeat, and attempts to launder one.
//! - [`forgery`]: what a holder of the log key writes into a store, and whether verifying the ledger names it.
//! - [`isolation`]: fifty sessions and what they can get at of one another.
//! - [`model`], [`extended`]: the rules and the design's additions, written down naively.
//! - [`action`], [`drive`]: the same actions for the store and a model, and the comparison.
//! - [`crash`]: a program killed in the middle of its writes.

pub mod payloads;

pub mod echo;

pub mod forgery;

pub mod isolation;

pub mod model;

pub mod extended;

pub mod action;

pub mod drive;

pub mod crash;

use std::path::{Path, PathBuf};

use action::Vocabulary;
use crash::Program;
use custody_cli::attacks::{self, Attack, AttackOutcome};
use drive::Rig;

use crate::data::{DataError, DataFolder};
use crate::error::EvalError;
use crate::random::Generator;
use crate::report::{DataFile, EvalReport, Figure};
use crate::size::Size;

impl Size {
    const fn model_steps(self) -> u64 {
        match self {
            Self::Smoke => 20_000,
            Self::Full => 100_000,
        }
    }

    const fn crash_runs(self) -> u64 {
        match self {
            Self::Smoke => 20,
            Self::Full => 200,
        }
    }
}

/// What to measure, with what.
#[derive(Debug, Clone)]
pub struct MemoryOptions {
    /// The folder of the benchmark data, if there is one.
    pub data: Option<PathBuf>,
    /// What every random draw comes from.
    pub seed: u64,
    /// How much.
    pub size: Size,
    /// What is killed.
    pub program: Program,
}

/// Measures everything. `progress` is given the part, how far it is, and how far it goes.
///
/// # Errors
/// When a store fails or the data is not as documented. Absent data is no error: its figures say so.
pub fn run(
    options: &MemoryOptions,
    progress: &mut dyn FnMut(&str, u64, u64),
) -> Result<EvalReport, EvalError> {
    let mut figures = Vec::new();
    let (texts, data) = match options.data.as_deref().map(payload_texts) {
        Some(Ok((texts, data))) => (Ok(texts), data),
        Some(Err(DataError::Absent { path })) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (Err(format!("the data set `{name}` is not here")), Vec::new())
        }
        Some(Err(error)) => return Err(error.into()),
        None => (Err("no folder of benchmark data was given".to_owned()), Vec::new()),
    };
    let changed = match texts {
        Ok(texts) => {
            let payloads = payloads::run(&texts, progress)?;
            figures.extend(payload_figures(&payloads));
            Ok(payloads.changed_files)
        }
        Err(why) => {
            figures.extend(PAYLOAD_FIGURES.map(|(id, unit)| Figure::unmeasured(id, unit, &why)));
            Err(why)
        }
    };
    progress("attacks", 0, 10);
    let attacks = attacks::all()?;
    let total = attacks.len() as u64;
    // The paper names seven; the code behind it simulates ten.
    figures.push(Figure::count("attacks.total", total, "attacks").published(7.0, "MON §3.6"));
    let sum = attacks.iter().filter(|attack| is_defeated(attack)).count() as u64;
    figures.push(Figure::count("attacks.defeated", sum, "attacks").published(7.0, "MON §3.6"));
    for attack in &attacks {
        let id = format!("attacks.{}.defeated", attack.number);
        figures.push(Figure::count(&id, u64::from(is_defeated(attack)), "attacks"));
    }
    let (echoes, forgeries) = (echo::run(progress)?, forgery::run(progress)?);
    figures.extend(echo_figures(&echoes));
    figures.extend(forgery_figures(&forgeries));
    figures.extend(isolation_figures(&isolation::run(options.seed, progress)?));
    let by_attacks: u64 = attacks.iter().map(|attack| attack.changed_files).sum();
    figures.push(match changed {
        Ok(by_payloads) => {
            Figure::count("protected_files.changed", by_payloads + by_attacks, "files")
                .published(0.0, "MON §5.4")
        }
        Err(why) => Figure::unmeasured("protected_files.changed", "files", why),
    });
    figures.extend(rule_figures(options, progress)?);
    let crashes = crash::run(&options.program, options.size.crash_runs(), options.seed, progress)?;
    figures.extend(crash_figures(&crashes));
    let notes = vec![echo_note(&echoes), forgery_note(&forgeries)];
    Ok(EvalReport { data, notes, ..EvalReport::of("memory", options.seed, figures) })
}

fn is_defeated(attack: &Attack) -> bool {
    attack.outcome == AttackOutcome::Defeated
}

/// The payloads: every row with label 1 of the two test splits.
fn payload_texts(folder: &Path) -> Result<(Vec<String>, Vec<DataFile>), DataError> {
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for split in ["deepset", "jackhhao"] {
        let split = DataFolder::open(folder).split(split)?;
        let positive = split.test.into_iter().filter(|row| row.label == Some(1));
        texts.extend(positive.map(|row| row.text));
        files.extend(split.files);
    }
    Ok((texts, files))
}

const PAYLOAD_FIGURES: [(&str, &str); 5] = [
    ("payloads.total", "payloads"),
    ("payloads.cases", "cases"),
    ("payloads.blocked", "cases"),
    ("payloads.controls", "cases"),
    ("payloads.controls_accepted", "cases"),
];

fn payload_figures(found: &payloads::Payloads) -> [Figure; 5] {
    let payloads::Payloads { total, cases, blocked, controls, controls_accepted, .. } = *found;
    let values = [total, cases, blocked, controls, controls_accepted];
    let mut values = values.into_iter();
    let [total, cases, blocked, controls, accepted] = PAYLOAD_FIGURES
        .map(|(id, unit)| Figure::count(id, values.next().unwrap_or_default(), unit));
    // The paper's 796 is one verdict on 199 texts in four variants (M12, M15).
    let blocked = blocked.published(796.0, "docs/threats.md M12");
    [total.published(199.0, "MON §5.3"), cases, blocked, controls, accepted]
}

/// Each with the cases that explain it.
fn echo_figures(found: &echo::EchoFigures) -> [Figure; 6] {
    let echo::EchoFigures { reuses, missed, innocents, false_taints, attempts, laundered } = found;
    let recognised = reuses.saturating_sub(missed.len() as u64);
    [
        Figure::count("echo.reuses", *reuses, "texts"),
        listing(Figure::rate("echo.recognised", recognised, *reuses), missed),
        Figure::count("echo.innocents", *innocents, "texts"),
        counted("echo.false_taints", false_taints, "texts"),
        Figure::count("echo.launderings", *attempts, "attempts"),
        counted("echo.laundered", laundered, "attempts"),
    ]
}

fn forgery_figures(found: &forgery::Forgeries) -> [Figure; 5] {
    let tried = found.attempts.len() as u64;
    [
        Figure::count("forgeries.controls", found.controls, "stores"),
        counted("forgeries.controls_refused", &found.controls_refused, "stores"),
        Figure::count("forgeries.tried", tried, "forgeries"),
        Figure::count("forgeries.found", found.found(), "forgeries"),
        counted("forgeries.missed", &found.missed(), "forgeries"),
    ]
}

fn echo_note(found: &echo::EchoFigures) -> String {
    let echo::EchoFigures { missed, false_taints, laundered, .. } = found;
    format!(
        "Echoes: texts written for this (`lab/src/memory/echo`), each played in a store of its own. A copy is recognised if \
         four fifths of what was carried over are labelled untrusted; an innocent text is tainted if any part is; an \
         attempt to launder succeeds if more than a fifth is not untrusted. Copies that were missed: {}. False taints: {}. \
         Laundered: {}.",
        listed(missed),
        listed(false_taints),
        listed(laundered)
    )
}

fn forgery_note(found: &forgery::Forgeries) -> String {
    format!(
        "Forgeries: what somebody with the log key and a database editor writes, each into a store of its own. It is found \
         if opening or verifying the store refuses it and names the record, and a running process refuses to go on, where \
         there is one; or if a witness's checkpoint tells against it. Missed: {}.",
        listed(&found.missed())
    )
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join("; ") }
}

fn counted(id: &str, names: &[String], unit: &str) -> Figure {
    listing(Figure::count(id, names.len() as u64, unit), names)
}

/// `figure`, with the cases that explain it.
fn listing(figure: Figure, names: &[String]) -> Figure {
    let why = (!names.is_empty()).then(|| names.join("; "));
    Figure { why, ..figure }
}

fn isolation_figures(found: &isolation::Isolation) -> [Figure; 4] {
    let source = "MON §5.3";
    [
        Figure::count("isolation.sessions", found.sessions, "sessions").published(50.0, source),
        // Ten of the fifty were really stored there.
        Figure::count("isolation.secrets", found.secrets, "secrets")
            .published(10.0, "docs/threats.md M14"),
        Figure::count("isolation.pairs", found.pairs, "pairs").published(2_450.0, source),
        Figure::count("isolation.leaks", found.leaks, "pairs").published(0.0, source),
    ]
}

/// Drives the store beside both models with traces from the seed.
fn rule_figures(
    options: &MemoryOptions,
    progress: &mut dyn FnMut(&str, u64, u64),
) -> Result<Vec<Figure>, EvalError> {
    let mut figures = Vec::new();
    let parts = [
        ("rules.model", "rules.divergences", Vocabulary::Mon),
        ("rules.extended", "rules.extended_divergences", Vocabulary::Extended),
    ];
    for (part, divergences_id, vocabulary) in parts {
        let goal = options.size.model_steps();
        let mut generator = Generator::new(options.seed);
        let mut rig = Rig::new(vocabulary);
        let (mut steps, mut divergences, mut first) = (0, 0, None);
        while steps < goal {
            progress(part, steps, goal);
            let length = usize::try_from(generator.below(600)).unwrap_or_default();
            let played = rig.play(generator.bytes(length))?;
            steps += played.steps;
            divergences += u64::from(played.divergence.is_some());
            first = first.or(played.divergence.map(|divergence| divergence.to_string()));
        }
        rig.retire()?;
        figures.push(Figure::count(&format!("{part}_steps"), steps, "steps"));
        let found = Figure::count(divergences_id, divergences, "divergences");
        figures.push(Figure { why: first, ..found });
    }
    Ok(figures)
}

/// Without the number of writes acknowledged: no two runs are killed at the same one.
fn crash_figures(found: &crash::Crashes) -> [Figure; 4] {
    [
        Figure::count("crash.runs", found.runs, "runs"),
        Figure::count("crash.lost_acknowledged", found.lost_acknowledged, "writes"),
        Figure::count("crash.refused_present", found.refused_present, "values"),
        Figure::count("crash.unverified", found.unverified, "runs"),
    ]
}
