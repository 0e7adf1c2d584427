//! Cedar's parse and validation errors, one line each.

use std::collections::HashSet;
use std::fmt;

use cedar_policy::{ParseErrors, PolicyId, PolicySet, ValidationMode, ValidationWarning};
use miette::Diagnostic;

use crate::problem::{PolicyProblem, one_line};
use crate::schema::SchemaVersion;

/// The problems of a text that Cedar cannot parse.
pub(crate) fn parse_problems(text: &str, errors: &ParseErrors) -> Vec<PolicyProblem> {
    errors.iter().map(|error| problem(text, error, None)).collect()
}

/// Validates `set` against the schema, and adds what is wrong and what is probably a mistake.
pub(crate) fn validate(
    text: &str,
    schema: SchemaVersion,
    set: &PolicySet,
    problems: &mut Vec<PolicyProblem>,
    warnings: &mut Vec<PolicyProblem>,
) {
    let result = schema.validator().validate(set, ValidationMode::Strict);
    let mut invalid = HashSet::new();
    for error in result.validation_errors() {
        invalid.insert(error.policy_id());
        problems.push(problem(text, error, Some(error.policy_id())));
    }
    for warning in result.validation_warnings() {
        let problem = problem(text, warning, Some(warning.policy_id()));
        if matches!(warning, ValidationWarning::MixedScriptString(_)) {
            warnings.push(problem);
        } else if !invalid.contains(warning.policy_id()) {
            // A statement that never holds has no effect, so it is refused. For an invalid statement the warning
            // follows from the error.
            problems.push(problem);
        }
    }
}

/// Remedies for errors to which Cedar adds none, or adds one in its own terms: a part of the message, and the remedy.
const REMEDIES: [(&str, &str); 8] = [
    ("found set of entity uids", "the head takes one; write `when { resource in […] }`"),
    ("policy is impossible", "delete it, or correct its condition"),
    ("contains mixed scripts", "spell it in one if it is not meant"),
    ("empty set literals", "use `.isEmpty()`"),
    ("and Channel are not", "write a channel as `Channel::\"web\"`"),
    ("and Effect are not", "write an effect as `Effect::\"reads\"` or `Effect::\"writes\"`"),
    ("and Sink are not", "write a sink as `Sink::\"recipient\"`"),
    ("and Origin are not", "write an origin as `Origin::\"user\"`"),
];

/// One error or warning of Cedar, in one line.
fn problem(
    text: &str,
    error: &(impl Diagnostic + fmt::Display + ?Sized),
    policy: Option<&PolicyId>,
) -> PolicyProblem {
    let label = error.labels().and_then(|mut labels| labels.next());
    let message = error.to_string();
    let remedy = REMEDIES
        .iter()
        .find(|(part, _)| message.contains(part))
        .map(|(_, remedy)| (*remedy).to_owned())
        .or_else(|| error.help().map(|help| help.to_string()))
        .or_else(|| label.as_ref()?.label().map(str::to_owned));
    let mut what = with_remedy(message, remedy);
    let about = policy.map(|id| format!("policy `{id}`"));
    if let Some(about) = &about {
        // The problem begins with its policy already.
        what = what.replace(&format!("for {about}, "), "").replace(&format!("for {about}: "), "");
    }
    let problem = PolicyProblem { at: None, about, what: one_line(&what) };
    match label {
        Some(label) => problem.at(text, label.offset()),
        None => problem,
    }
}

fn with_remedy(message: String, remedy: Option<String>) -> String {
    let Some(remedy) = remedy else { return message };
    match message.split_once(" is of an enumerated entity type") {
        Some((name, _)) => {
            let ids = remedy.trim_start_matches("valid entity eids: ");
            format!("{name} does not exist; use one of {ids}")
        }
        None => format!("{message}; {remedy}"),
    }
}
