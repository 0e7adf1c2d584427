//! Every path of the route: which there are, and what holds on all of them.

#![allow(clippy::panic, clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "tests")]

use std::fmt::Write as _;

use custody_kernel::route::{
    ComparisonResult, Reason, RepairResult, RouteError, RouteOutcome, RoutePolicy, RouteStep,
    SandboxResult, Screened, StageResult, Subject, Undecided, replay, start,
};

const WHY: [Undecided; 4] =
    [Undecided::NoModel, Undecided::Failed, Undecided::Refused, Undecided::Unclear];

/// The text that a step is about, with the answers it may get.
fn answers(step: &RouteStep) -> (Option<Subject>, Vec<StageResult>) {
    fn all<T: Copy, const N: usize>(
        said: [T; N],
        heard: fn(Result<T, Undecided>) -> StageResult,
    ) -> Vec<StageResult> {
        said.map(Ok).into_iter().chain(WHY.map(Err)).map(heard).collect()
    }
    match step {
        RouteStep::Prefilter(asked) => {
            let said = [Screened::Clean, Screened::Suspicious, Screened::SuspiciousForSure];
            (Some(asked.subject()), all(said, StageResult::Prefilter))
        }
        RouteStep::Sandbox(asked) => (
            Some(asked.subject()),
            all([SandboxResult::Untouched, SandboxResult::Compromised], StageResult::Sandbox),
        ),
        RouteStep::Repair(_) => {
            (None, all([RepairResult::Text, RepairResult::Nothing], StageResult::Repair))
        }
        RouteStep::Compare(_) => (
            None,
            all([ComparisonResult::Faithful, ComparisonResult::Unfaithful], StageResult::Compare),
        ),
        RouteStep::Done(_) => (None, Vec::new()),
    }
}

fn go(step: RouteStep, heard: StageResult) -> RouteStep {
    match (step, heard) {
        (RouteStep::Prefilter(asked), StageResult::Prefilter(said)) => asked.answer(said),
        (RouteStep::Sandbox(asked), StageResult::Sandbox(said)) => asked.answer(said),
        (RouteStep::Repair(asked), StageResult::Repair(said)) => asked.answer(said),
        (RouteStep::Compare(asked), StageResult::Compare(said)) => asked.answer(said),
        (step, heard) => panic!("{heard:?} answers {step:?}"),
    }
}

/// All answers from here to the end, with that end.
fn paths(
    step: RouteStep,
    so_far: &[StageResult],
    found: &mut Vec<(Vec<StageResult>, RouteOutcome)>,
) {
    let (_, answers) = answers(&step);
    if let RouteStep::Done(outcome) = step {
        found.push((so_far.to_vec(), outcome));
        return;
    }
    for heard in answers {
        paths(go(step.clone(), heard), &[so_far, &[heard]].concat(), found);
    }
}

fn all_paths() -> Vec<(RoutePolicy, Vec<StageResult>, RouteOutcome)> {
    let mut all = Vec::new();
    for untried in [false, true] {
        let policy = RoutePolicy { repairs_confident_findings_untried: untried };
        let mut found = Vec::new();
        paths(start(policy), &[], &mut found);
        all.extend(found.into_iter().map(|(heard, outcome)| (policy, heard, outcome)));
    }
    all
}

/// The tree as text. The reasons for having no answer are all alike and printed once.
fn draw(step: &RouteStep, depth: usize, drawing: &mut String) {
    let (subject, answers) = answers(step);
    let about = match subject {
        Some(Subject::Original) => " original",
        Some(Subject::Repaired) => " repaired",
        None => "",
    };
    for heard in answers {
        let (stage, said) = match heard {
            StageResult::Prefilter(said) => ("prefilter", said.map(|said| format!("{said:?}"))),
            StageResult::Sandbox(said) => ("sandbox", said.map(|said| format!("{said:?}"))),
            StageResult::Repair(said) => ("repair", said.map(|said| format!("{said:?}"))),
            StageResult::Compare(said) => ("compare", said.map(|said| format!("{said:?}"))),
        };
        let said = match said {
            Ok(said) => said,
            Err(Undecided::NoModel) => "no answer".to_owned(),
            Err(_) => continue,
        };
        let next = go(step.clone(), heard);
        let end = match &next {
            RouteStep::Done(RouteOutcome::Production(release)) => {
                format!(" => production, {:?}: {}", release.subject(), release.reason().name())
            }
            RouteStep::Done(outcome) => format!(" => refused: {}", outcome.reason().name()),
            _ => String::new(),
        };
        writeln!(drawing, "{:indent$}{stage}{about}: {said}{end}", "", indent = 2 * depth).unwrap();
        draw(&next, depth + 1, drawing);
    }
}

#[test]
fn the_tree_is_the_paper_s_with_a_refusal_wherever_nothing_was_decided() {
    let mut drawing = String::new();
    draw(&start(RoutePolicy::default()), 0, &mut drawing);
    assert_eq!(drawing, include_str!("golden/route.txt"), "\n{drawing}");
}

#[test]
fn p1_whatever_could_not_be_answered_never_reaches_production() {
    let mut without_answer = 0;
    for (_, heard, outcome) in all_paths() {
        let is_answered = heard.iter().all(|heard| match heard {
            StageResult::Prefilter(said) => said.is_ok(),
            StageResult::Sandbox(said) => said.is_ok(),
            StageResult::Repair(said) => said.is_ok(),
            StageResult::Compare(said) => said.is_ok(),
        });
        without_answer += usize::from(!is_answered);
        assert_eq!(is_answered, outcome.reason() != Reason::Undecided, "{heard:?}");
    }
    assert!(without_answer > 50, "{without_answer}");
}

#[test]
fn no_repaired_text_goes_out_without_all_of_the_verification() {
    let needed = [
        StageResult::Compare(Ok(ComparisonResult::Faithful)),
        StageResult::Sandbox(Ok(SandboxResult::Untouched)),
    ];
    let mut repaired = 0;
    for (policy, heard, outcome) in all_paths() {
        let RouteOutcome::Production(release) = outcome else { continue };
        let is_repaired = heard.contains(&StageResult::Repair(Ok(RepairResult::Text)));
        assert_eq!(release.subject() == Subject::Repaired, is_repaired);
        assert_eq!(release.reason() == Reason::Repaired, is_repaired);
        if is_repaired {
            repaired += 1;
            let prefiltered =
                heard.iter().filter(|heard| matches!(heard, StageResult::Prefilter(_))).count();
            assert_eq!(prefiltered, 2, "{policy:?} {heard:?}");
            assert_eq!(heard[heard.len() - 1], needed[1], "{heard:?}");
            assert!(heard.contains(&needed[0]), "{heard:?}");
        }
    }
    assert!(repaired > 5, "{repaired}");
}

#[test]
fn confidence_leaves_out_no_stage_unless_the_policy_says_so() {
    for (policy, heard, outcome) in all_paths() {
        let is_sure = heard[0] == StageResult::Prefilter(Ok(Screened::SuspiciousForSure));
        let is_untried = is_sure && !matches!(heard[1], StageResult::Sandbox(_));
        assert_eq!(is_untried, is_sure && policy.repairs_confident_findings_untried);
        if is_untried {
            assert_ne!(outcome.reason(), Reason::FalseAlarm);
        }
    }
}

#[test]
fn a_recorded_route_is_decided_again_and_a_changed_one_is_noticed() {
    for (policy, heard, outcome) in all_paths() {
        assert_eq!(replay(policy, &heard).unwrap(), outcome);
        let text = serde_json::to_string(&heard).unwrap();
        assert_eq!(serde_json::from_str::<Vec<StageResult>>(&text).unwrap(), heard);
        assert!(replay(policy, &heard[1..]).is_err(), "{heard:?}");
        let cut = &heard[..heard.len() - 1];
        assert_eq!(replay(policy, cut), Err(RouteError::Incomplete));
        let longer = [heard.as_slice(), &heard[..1]].concat();
        assert_eq!(replay(policy, &longer), Err(RouteError::WrongStage { place: heard.len() }));
    }
}
