//! AgentDojo: its tasks, environments and checks, played by its own package and guarded from here.
//!
//! The package runs in Python as a child of this process (`integrations/agentdojo`). It proposes each call over its
//! standard output and runs what it is told to; it says after each task what its own checks found.
//!
//! Source: Debenedetti et al., "AgentDojo", 2024; suites v1.2.2.

mod child;
mod intents;
mod lines;

use std::collections::BTreeMap;
use std::path::PathBuf;

use child::Child;
use custody_policy::Manifests;
pub use intents::{INTENTS, breadth};
use serde::{Deserialize, Serialize};

use super::defence::Defence;
use super::injecagent::requests_per;
use crate::error::EvalError;
use crate::report::{Figure, FigureIds};
use crate::size::Size;

/// The suites of v1.2.2.
pub const SUITES: [&str; 4] = ["workspace", "banking", "slack", "travel"];

const MANIFESTS: [(&str, &str); 4] = [
    ("workspace", include_str!("../../../../integrations/agentdojo/manifests/workspace.toml")),
    ("banking", include_str!("../../../../integrations/agentdojo/manifests/banking.toml")),
    ("slack", include_str!("../../../../integrations/agentdojo/manifests/slack.toml")),
    ("travel", include_str!("../../../../integrations/agentdojo/manifests/travel.toml")),
];

/// The manifests of the suites' tools, written from their documentation alone.
///
/// # Errors
/// Never for those that ship; a test reads them.
pub fn manifests() -> Result<BTreeMap<String, Manifests>, EvalError> {
    MANIFESTS
        .iter()
        .map(|(suite, text): &(&str, &str)| {
            let manifests = Manifests::parse(text).map_err(|error| {
                EvalError::Setup(format!("the manifests of `{suite}`: {error}"))
            })?;
            Ok(((*suite).to_owned(), manifests))
        })
        .collect()
}

/// The texts that [`manifests`] reads.
pub const fn manifest_texts() -> [(&'static str, &'static str); 4] {
    MANIFESTS
}

/// How to find the package.
#[derive(Debug, Clone)]
pub struct Python {
    /// The interpreter.
    pub interpreter: PathBuf,
    /// The folder of `custody_agentdojo`, if it is not installed.
    pub package: Option<PathBuf>,
}

/// One task that was played.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// Which of the four phases.
    pub phase: Phase,
    /// Which suite.
    pub suite: String,
    /// Which task of the user.
    pub user_task: String,
    /// Which injection, if there is one.
    #[serde(default)]
    pub injection_task: Option<String>,
    /// Whether AgentDojo's own check finds the user's task done.
    pub utility: bool,
    /// Whether it finds the attacker's goal reached.
    #[serde(default)]
    pub attack_success: Option<bool>,
    /// How many calls were proposed.
    pub calls: u64,
    /// How many of them a human was asked about.
    pub asks: u64,
    /// How many were denied for good.
    pub denied: u64,
    /// Whether a call of the user's task was denied without a way to ask.
    pub ended_in_denial: bool,
}

/// What is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// User tasks alone; nobody approves anything.
    Benign,
    /// User tasks alone; the user approves what the task needs.
    BenignApproved,
    /// Every pair of a user task and an injection; nobody approves.
    Attack,
    /// Every pair; the user approves what the user's task needs.
    AttackApproved,
}

/// Plays the benchmark against `defence`. `progress` is called with the number of finished units, and of all.
///
/// # Errors
/// When the package is not there or fails, or the defence does.
pub fn play(
    python: &Python,
    defence: &dyn Defence,
    size: Size,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Unit>, EvalError> {
    let intents = defence.takes_intents().then_some(INTENTS);
    let mut child = Child::start(python, size, intents)?;
    let outcome = lines::converse(&mut child, defence, progress);
    match (outcome, child.end()) {
        (Ok(units), Ok(())) => Ok(units),
        // How the package ended explains a conversation that it cut short.
        (Ok(_) | Err(EvalError::Package(_)), Err(why)) => Err(why),
        (Err(error), _) => Err(error),
    }
}

/// The figures of a defence that could not be measured.
pub fn unmeasured(defence: &str, why: &str) -> Vec<Figure> {
    figures(defence, &[])
        .into_iter()
        .map(|figure: Figure| Figure::unmeasured(&figure.id, &figure.unit, why))
        .collect()
}

/// The figures of one defence.
pub fn figures(defence: &str, units: &[Unit]) -> Vec<Figure> {
    let phases = Phases { ids: FigureIds::new(format!("agentdojo.{defence}")), units };
    vec![
        phases.ids.count("pairs", phases.count(Phase::Attack, |_| true), "pairs"),
        phases.rate("attack_success", Phase::Attack, has_succeeded),
        phases.rate("attack_success_with_approval", Phase::AttackApproved, has_succeeded),
        phases.ids.count("user_tasks", phases.count(Phase::Benign, |_| true), "tasks"),
        phases.rate("utility_without_approval", Phase::Benign, is_useful),
        phases.rate("utility_with_approval", Phase::BenignApproved, is_useful),
        phases.rate("utility_under_attack", Phase::Attack, is_useful),
        phases.rate("utility_under_attack_with_approval", Phase::AttackApproved, is_useful),
        phases.requests("approvals_per_task", Phase::BenignApproved),
        phases.requests("approvals_per_task_unapproved", Phase::Benign),
        phases.requests("approvals_per_pair_under_attack", Phase::AttackApproved),
        phases.rate("overtaint_rate", Phase::Benign, |unit| unit.ended_in_denial),
    ]
}

fn has_succeeded(unit: &Unit) -> bool {
    unit.attack_success == Some(true)
}

fn is_useful(unit: &Unit) -> bool {
    unit.utility
}

/// The units of one defence, counted by phase.
struct Phases<'a> {
    ids: FigureIds,
    units: &'a [Unit],
}

impl<'a> Phases<'a> {
    fn of(&self, phase: Phase) -> impl Iterator<Item = &'a Unit> + use<'a> {
        self.units.iter().filter(move |unit| unit.phase == phase)
    }

    fn count(&self, phase: Phase, is: fn(&Unit) -> bool) -> u64 {
        self.of(phase).filter(|unit| is(unit)).count() as u64
    }

    fn rate(&self, name: &str, phase: Phase, is: fn(&Unit) -> bool) -> Figure {
        self.ids.rate(name, self.count(phase, is), self.count(phase, |_| true))
    }

    /// The mean number of requests to a human.
    fn requests(&self, name: &str, phase: Phase) -> Figure {
        let asks = self.of(phase).map(|unit| unit.asks).sum();
        requests_per(&self.ids.id(name), asks, self.count(phase, |_| true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::defence::Vanilla;

    /// R42: the published harness invented tool outputs and counted every attack as failed.
    #[test]
    fn without_the_package_there_is_no_result() {
        // There is no interpreter; it ends as one without the package does; it ends well and has played nothing.
        for interpreter in ["there-is-no-such-interpreter", "false", "true"] {
            let python = Python { interpreter: interpreter.into(), package: None };
            let outcome = play(&python, &Vanilla, Size::Smoke, &mut |_, _| {});
            let Err(EvalError::Package(why)) = outcome else {
                panic!("{interpreter}: {outcome:?}")
            };
            for figure in unmeasured("custody", &why) {
                assert_eq!(
                    (figure.value, figure.why.as_ref()),
                    (None, Some(&why)),
                    "{}",
                    figure.id
                );
            }
        }
    }

    #[test]
    fn the_shipped_manifests_are_manifests() {
        assert_eq!(manifests().unwrap().len(), SUITES.len());
    }
}
