//! Every path of the route: which there are, and what holds on all of them.

#![allow(clippy::panic, clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "tests")]

use std::fmt::Write as _;

use custody_kernel::route::{
    Compared, Heard, Mended, Outcome, Reason, ReplayError, RoutePolicy, Screened, Step, Subject,
    Tried, Undecided, replay, start,
};

const WHY: [Undecided; 4] =
    [Undecided::NoModel, Undecided::Failed, Undecided::Refused, Undecided::Unclear];

/// The text that a step is about, with the answers it may get.
fn answers(step: &Step) -> (Option<Subject>, Vec<Heard>) {
    fn all<T: Copy, const N: usize>(
        said: [T; N],
        heard: fn(Result<T, Undecided>) -> Heard,
    ) -> Vec<Heard> {
        said.map(Ok).into_iter().chain(WHY.map(Err)).map(heard).collect()
    }
    match step {
        Step::Prefilter(asked) => {
            let said = [Screened::Clean, Screened::Suspicious, Screened::SuspiciousForSure];
            (Some(asked.subject()), all(said, Heard::Prefilter))
        }
        Step::Sandbox(asked) => {
            (Some(asked.subject()), all([Tried::Untouched, Tried::Compromised], Heard::Sandbox))
        }
        Step::Repair(_) => (None, all([Mended::Text, Mended::Nothing], Heard::Repair)),
        Step::Compare(_) => (None, all([Compared::Faithful, Compared::Unfaithful], Heard::Compare)),
        Step::Done(_) => (None, Vec::new()),
    }
}

fn go(step: Step, heard: Heard) -> Step {
    match (step, heard) {
        (Step::Prefilter(asked), Heard::Prefilter(said)) => asked.answer(said),
        (Step::Sandbox(asked), Heard::Sandbox(said)) => asked.answer(said),
        (Step::Repair(asked), Heard::Repair(said)) => asked.answer(said),
        (Step::Compare(asked), Heard::Compare(said)) => asked.answer(said),
        (step, heard) => panic!("{heard:?} answers {step:?}"),
    }
}

/// All answers from here to the end, with that end.
fn paths(step: Step, so_far: &[Heard], found: &mut Vec<(Vec<Heard>, Outcome)>) {
    let (_, answers) = answers(&step);
    if let Step::Done(outcome) = step {
        found.push((so_far.to_vec(), outcome));
        return;
    }
    for heard in answers {
        paths(go(step.clone(), heard), &[so_far, &[heard]].concat(), found);
    }
}

fn all_paths() -> Vec<(RoutePolicy, Vec<Heard>, Outcome)> {
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
fn draw(step: &Step, depth: usize, drawing: &mut String) {
    let (subject, answers) = answers(step);
    let about = match subject {
        Some(Subject::Original) => " original",
        Some(Subject::Repaired) => " repaired",
        None => "",
    };
    for heard in answers {
        let (stage, said) = match heard {
            Heard::Prefilter(said) => ("prefilter", said.map(|said| format!("{said:?}"))),
            Heard::Sandbox(said) => ("sandbox", said.map(|said| format!("{said:?}"))),
            Heard::Repair(said) => ("repair", said.map(|said| format!("{said:?}"))),
            Heard::Compare(said) => ("compare", said.map(|said| format!("{said:?}"))),
        };
        let said = match said {
            Ok(said) => said,
            Err(Undecided::NoModel) => "no answer".to_owned(),
            Err(_) => continue,
        };
        let next = go(step.clone(), heard);
        let end = match &next {
            Step::Done(Outcome::Production(release)) => {
                format!(" => production, {:?}: {}", release.subject(), release.reason().name())
            }
            Step::Done(outcome) => format!(" => refused: {}", outcome.reason().name()),
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
            Heard::Prefilter(said) => said.is_ok(),
            Heard::Sandbox(said) => said.is_ok(),
            Heard::Repair(said) => said.is_ok(),
            Heard::Compare(said) => said.is_ok(),
        });
        without_answer += usize::from(!is_answered);
        assert_eq!(is_answered, outcome.reason() != Reason::Undecided, "{heard:?}");
    }
    assert!(without_answer > 50, "{without_answer}");
}

#[test]
fn no_repaired_text_goes_out_without_all_of_the_verification() {
    let needed = [Heard::Compare(Ok(Compared::Faithful)), Heard::Sandbox(Ok(Tried::Untouched))];
    let mut repaired = 0;
    for (policy, heard, outcome) in all_paths() {
        let Outcome::Production(release) = outcome else { continue };
        let is_repaired = heard.contains(&Heard::Repair(Ok(Mended::Text)));
        assert_eq!(release.subject() == Subject::Repaired, is_repaired);
        assert_eq!(release.reason() == Reason::Repaired, is_repaired);
        if is_repaired {
            repaired += 1;
            let prefiltered =
                heard.iter().filter(|heard| matches!(heard, Heard::Prefilter(_))).count();
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
        let is_sure = heard[0] == Heard::Prefilter(Ok(Screened::SuspiciousForSure));
        let is_untried = is_sure && !matches!(heard[1], Heard::Sandbox(_));
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
        assert_eq!(serde_json::from_str::<Vec<Heard>>(&text).unwrap(), heard);
        assert!(replay(policy, &heard[1..]).is_err(), "{heard:?}");
        let cut = &heard[..heard.len() - 1];
        assert_eq!(replay(policy, cut), Err(ReplayError::Incomplete));
        let longer = [heard.as_slice(), &heard[..1]].concat();
        assert_eq!(replay(policy, &longer), Err(ReplayError::WrongStage { place: heard.len() }));
    }
}
