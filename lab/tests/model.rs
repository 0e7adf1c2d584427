//! The real store beside naive models of its rules: MON §3.3, and what the design adds to it.

use std::collections::BTreeMap;

use custody_lab::memory::action::Vocabulary;
use custody_lab::memory::drive::{Forgotten, Rig};
use custody_lab::random::Generator;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

/// The seed of every run here; another one with `CUSTODY_SEED=…`.
fn seed() -> u64 {
    std::env::var("CUSTODY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_250_917)
}

/// Plays shrinking traces until at least `steps` actions were compared, and every one of `answers` was
/// given at least twenty times.
fn drive(vocabulary: Vocabulary, steps: u64, answers: &[&str]) {
    let rig = std::cell::RefCell::new(Rig::new(vocabulary));
    let played = std::cell::Cell::new(0);
    let given = std::cell::RefCell::new(BTreeMap::<String, u64>::new());
    for round in 0.. {
        let config = ProptestConfig {
            cases: 20,
            failure_persistence: None,
            max_shrink_iters: 2_000,
            ..ProptestConfig::default()
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(seed() + round).to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::XorShift, &bytes);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let outcome = runner.run(&vec(any::<u8>(), 0..600), |trace| {
            let episode = rig.borrow_mut().play(trace).expect("the store works");
            played.set(played.get() + episode.steps);
            for (answer, count) in episode.answers {
                *given.borrow_mut().entry(answer).or_default() += count;
            }
            match episode.divergence {
                None => Ok(()),
                Some(divergence) => Err(TestCaseError::fail(divergence.to_string())),
            }
        });
        assert!(outcome.is_ok(), "CUSTODY_SEED={}: {outcome:?}", seed() + round);
        if played.get() >= steps {
            break;
        }
    }
    rig.borrow_mut().retire().expect("every store verifies and opens again");
    let given = given.into_inner();
    for answer in answers {
        assert!(given.get(*answer).is_some_and(|count| *count >= 20), "{answer}: {given:?}");
    }
}

#[test]
fn the_store_decides_100_000_actions_as_mon_does() {
    let answers = [
        "done",
        "found",
        "absent",
        "nothing there",
        "refused rule 3",
        "refused rule 4",
        "refused rule 5",
        "refused rule 7",
        "refused rule 9",
    ];
    drive(Vocabulary::Mon, 100_000, &answers);
}

#[test]
fn the_store_decides_50_000_actions_as_the_design_says() {
    let answers = [
        "done",
        "found",
        "absent",
        "nothing there",
        "pending review",
        "pending declassify",
        "refused rule 3",
        "refused rule 4",
        "refused rule 5",
        "refused rule 7",
        "refused rule 9",
        "refused rate limit",
        "refused authority",
        "refused approval",
    ];
    drive(Vocabulary::Extended, 50_000, &answers);
}

/// Whether a model that forgot something is found out within `episodes` traces.
fn is_noticed(vocabulary: Vocabulary, forgotten: Forgotten, episodes: u64) -> bool {
    let mut generator = Generator::new(seed());
    let mut rig = Rig::new(vocabulary).forgetting(forgotten);
    (0..episodes).any(|_| {
        let episode = rig.play(generator.bytes(400)).expect("the store works");
        episode.divergence.is_some()
    })
}

#[test]
fn the_comparison_notices_each_rule_that_a_model_forgets() {
    for rule in 1..=9 {
        assert!(is_noticed(Vocabulary::Mon, Forgotten::Rule(rule), 60), "rule {rule}");
    }
}

#[test]
fn the_comparison_notices_each_addition_that_a_model_forgets() {
    let additions = [
        "shadowing",
        "look-alikes",
        "rate limits",
        "declassification",
        "review",
        "expiry",
        "base version",
        "once",
    ];
    for addition in additions {
        let forgotten = Forgotten::Addition(addition);
        assert!(is_noticed(Vocabulary::Extended, forgotten, 200), "{addition}");
    }
}
