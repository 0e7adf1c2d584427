//! What follows an applied plan: sweep the disk, look for what is left, try to get it back, write down what came of it.

use custody_certificate::{Probe, ProbeKind, ProbeVerdict};
use custody_incident::at_rest::AtRest;
use custody_incident::certify::ProbeReport;
use custody_incident::probe::{PreparedProbes, Reach};
use custody_incident::stage::{Applied, Examination, Probed};
use custody_incident::{Incident, StepResult};
use custody_kernel::principal::Authority;

use super::probing::ProbeModels;
use crate::output::{BAD, DIM, GOOD, WARN, count, line, paint, size};

/// Sees to the disk, probes and records what was found. What was found is `None` when it was all done before.
pub(super) fn finish<'s>(
    owner: &Authority,
    applied: Incident<'s, Applied>,
    (models, prepared): (&ProbeModels, Option<PreparedProbes>),
) -> anyhow::Result<(StepResult<Incident<'s, Probed>>, Option<Examination>)> {
    let Some(found) = models.examine(&applied, prepared.as_ref())? else {
        return Ok((StepResult::Taken(applied.skip_probes()), None));
    };
    Ok((applied.record_probes(owner, &found.report)?, Some(found)))
}

/// What was found, in a few lines.
pub(super) fn print(report: &ProbeReport, reach: &Reach) {
    let AtRest { files, windows, too_short, residue } = &report.at_rest;
    if *windows == 0 {
        line(format_args!("{}  nothing to search the files for", paint(WARN, "at rest")));
    } else if residue.is_empty() {
        let bytes = size(files.iter().map(|(_, bytes)| bytes).sum());
        line(format_args!(
            "{}  none of {windows} runs of the destroyed texts is in the files of the store ({bytes})",
            paint(GOOD, "at rest")
        ));
    }
    for left in residue {
        let file = left.file.display();
        line(format_args!(
            "{}  {} still in {file}",
            paint(BAD, "at rest"),
            count(left.windows, "run")
        ));
    }
    if *too_short > 0 {
        let texts = count(*too_short, "text");
        line(paint(DIM, format_args!("         {texts} too short to be looked for")));
    }
    let probes = &report.membership;
    let style = match probes.verdict {
        ProbeVerdict::Pass => GOOD,
        ProbeVerdict::Partial | ProbeVerdict::Inconclusive | ProbeVerdict::NotRun => WARN,
        ProbeVerdict::Fail => BAD,
    };
    let verdict = paint(style, word(probes.verdict));
    if let Some(why) = &probes.why {
        line(format_args!("{}   {why}: {verdict}", paint(style, "probes")));
        return;
    }
    let (searches, questions): (Vec<&Probe>, Vec<&Probe>) =
        probes.probes.iter().partition(|probe| probe.kind == ProbeKind::Retrieval);
    let searched = count(searches.len() as u64, "probe");
    let what = match &probes.model {
        None => format!("{searched} by search"),
        Some(model) => {
            format!("{searched} by search, {} by asking {}", questions.len(), short(model))
        }
    };
    line(format_args!("{}   {what}: {verdict}", paint(style, "probes")));
    for said in limits(&searches, &questions, reach) {
        line(paint(DIM, format_args!("         {said}")));
    }
    if let Some(why) = &reach.failed {
        line(format_args!("         {}: {why}", paint(WARN, "the model did not answer all")));
    }
}

/// What a reader must know to believe the verdict: how many probes could find anything, and what was not looked at.
fn limits(searches: &[&Probe], questions: &[&Probe], reach: &Reach) -> Vec<String> {
    let mut said = Vec::new();
    if searches.iter().chain(questions).any(|probe| probe.scores.pre.is_some()) {
        let by_search = searches.iter().filter(|probe| found_before(probe)).count();
        let by_question = questions.iter().filter(|probe| found_before(probe)).count();
        let all = searches.len();
        said.push(match questions.len() {
            0 => format!("before the recovery, {by_search} of {all} got the text"),
            asked => format!(
                "before the recovery, {by_search} of {all} got the text by search and {by_question} of {asked} by asking"
            ),
        });
    }
    if questions.is_empty() {
        said.push(
            "no model was asked: name one, as `--model smollm2-135m-instruct` does".to_owned(),
        );
    } else if reach.asked_about < reach.different {
        let Reach { different, asked_about, .. } = reach;
        said.push(format!("the model was asked about {asked_about} of {different} parts of texts"));
    }
    if reach.parts < reach.of {
        said.push(format!(
            "probed for {} of {} parts of texts, evenly spread",
            reach.parts, reach.of
        ));
    }
    if reach.not_searched > 0 {
        let texts = count(reach.not_searched, "text");
        said.push(format!("{texts} without a vector: full text alone finds them"));
    }
    said
}

fn found_before(probe: &Probe) -> bool {
    let pre = probe.scores.pre.and_then(|scores| scores.max());
    pre >= Some(probe.detection_limit_ppm)
}

/// A model's identity without the digest of its weights, which the certificate has.
fn short(model: &str) -> &str {
    model.split("/sha256:").next().unwrap_or(model)
}

pub(super) const fn word(verdict: ProbeVerdict) -> &'static str {
    match verdict {
        ProbeVerdict::Pass => "PASS",
        ProbeVerdict::Partial => "PARTIAL",
        ProbeVerdict::Fail => "FAIL",
        ProbeVerdict::Inconclusive => "INCONCLUSIVE",
        ProbeVerdict::NotRun => "NOT_RUN",
    }
}
