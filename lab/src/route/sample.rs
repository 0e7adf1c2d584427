//! Which cases are tried: the same for the same seed, whatever order the files are in.

use custody_log::Digest;

use super::cases::{Case, Source};
use crate::size::Size;

/// How many cases of a source are taken.
struct Numbers {
    attacks: usize,
    benign: usize,
    /// Longer texts are left out, in characters.
    longest: usize,
}

impl Numbers {
    fn of(size: Size) -> Self {
        match size {
            Size::Smoke => Self { attacks: 3, benign: 1, longest: 1_000 },
            Size::Full => Self { attacks: 40, benign: 55, longest: usize::MAX },
        }
    }
}

/// The sample of `cases`: of every source so many attacks and so many ordinary texts.
///
/// Of the attacks three in four, or as many as there are, are such whose success a check can tell. The order is mixed,
/// so that what is finished of a run says how long the rest takes.
pub fn sample(cases: &[Case], size: Size, seed: u64) -> Vec<Case> {
    let numbers = Numbers::of(size);
    let mut ranked: Vec<(Digest, &Case)> = cases
        .iter()
        .filter(|case| case.text.chars().count() <= numbers.longest)
        .map(|case| (Digest::of(format!("{seed} {}", case.id).as_bytes()), case))
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let mut taken = Vec::new();
    for source in Source::OF_ATTACKS {
        let checked = first(&ranked, numbers.attacks * 3 / 4, |case| {
            case.source == source && case.is_attack && case.goal.is_some()
        });
        let left = numbers.attacks - checked.len();
        taken.extend(first(&ranked, left, |case| {
            case.source == source && case.is_attack && case.goal.is_none()
        }));
        taken.extend(checked);
    }
    for source in Source::OF_BENIGN {
        taken.extend(first(&ranked, numbers.benign, |case| {
            case.source == source && !case.is_attack
        }));
    }
    taken.sort_by_key(|(rank, _)| *rank);
    taken.into_iter().map(|(_, case)| case.clone()).collect()
}

/// What a sample of `size` is, for a report.
pub(super) fn described(size: Size) -> String {
    let Numbers { attacks, benign, longest } = Numbers::of(size);
    let longest = if longest == usize::MAX {
        String::new()
    } else {
        format!(" Texts of more than {longest} characters are left out; --size full has them.")
    };
    format!(
        "The sample, fixed by the seed and the ids of the rows: up to {attacks} attacks and {benign} ordinary texts of each \
         source, three in four of the attacks, where there are as many, such whose success a check can tell.{longest}"
    )
}

fn first<'a>(
    ranked: &[(Digest, &'a Case)],
    count: usize,
    counts: impl Fn(&Case) -> bool,
) -> Vec<(Digest, &'a Case)> {
    ranked.iter().filter(|(_, case)| counts(case)).take(count).copied().collect()
}

#[cfg(test)]
mod tests {
    use custody_detect::text_kind::TextKind;

    use super::*;
    use crate::route::demands::Goal;

    fn cases() -> Vec<Case> {
        let case = |source: Source, at: usize, is_attack| Case {
            source,
            id: format!("{}-{is_attack}-{at}", source.id()),
            text: "x".repeat(at * 40),
            kind: TextKind::Prompt,
            is_attack,
            system_prompt: None,
            goal: (is_attack && at.is_multiple_of(2)).then_some(Goal::Planted),
        };
        let attacks = Source::OF_ATTACKS
            .into_iter()
            .flat_map(|source| (0..60).map(move |at| case(source, at, true)));
        let benign = Source::OF_BENIGN
            .into_iter()
            .flat_map(|source| (0..60).map(move |at| case(source, at, false)));
        attacks.chain(benign).collect()
    }

    #[test]
    fn a_sample_depends_on_the_seed_and_not_on_the_order_of_files() {
        let (mut cases, sizes) = (cases(), [Size::Smoke, Size::Full]);
        for size in sizes {
            let taken = sample(&cases, size, 1);
            cases.reverse();
            assert_eq!(sample(&cases, size, 1), taken);
            assert_ne!(sample(&cases, size, 2), taken);
        }
    }

    #[test]
    fn a_sample_holds_every_source_in_both_classes() {
        let taken = sample(&cases(), Size::Full, 1);
        for source in Source::OF_ATTACKS {
            let of = || taken.iter().filter(|case| case.source == source && case.is_attack);
            assert_eq!((of().count(), of().filter(|case| case.goal.is_some()).count()), (40, 30));
        }
        assert_eq!(taken.iter().filter(|case| !case.is_attack).count(), 220);
        let smoke = sample(&cases(), Size::Smoke, 1);
        assert_eq!(smoke.len(), 16);
        assert!(smoke.iter().all(|case| case.text.len() <= 1_000));
    }
}
