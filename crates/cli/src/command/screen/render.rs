//! Verdicts as people and programs read them.

use custody_detect::finding::Severity;
use custody_detect::screen::ScreenResult;
use serde_json::{Value, json};

use super::input::{Lines, Piece};
use crate::output::{BAD, BOLD, DIM, GOOD, WARN, count, excerpt, json_line, line, paint, shown};

/// How much of a finding is quoted, in characters.
const QUOTED: usize = 72;

/// One paragraph for each text that was flagged or in which something was found, and a closing line.
pub(super) fn text(pieces: &[Piece], verdicts: &[ScreenResult]) {
    for (piece, verdict) in pieces.iter().zip(verdicts) {
        if verdict.is_flagged || !verdict.findings.is_empty() {
            paragraph(piece, verdict);
        }
    }
    let flagged = verdicts.iter().filter(|verdict| verdict.is_flagged).count() as u64;
    let screened = count(verdicts.len() as u64, "text");
    if flagged == 0 {
        line(format_args!(
            "{} of {screened}. That is advice, not clearance.",
            paint(GOOD, "nothing flagged")
        ));
    } else {
        line(format_args!("{} of {screened}", paint(BAD, format!("{flagged} flagged"))));
    }
}

fn paragraph(piece: &Piece, verdict: &ScreenResult) {
    let (word, style) = if verdict.is_flagged { ("flagged", BAD) } else { ("noticed", WARN) };
    line(format_args!(
        "{} {}  score {:.3}  decided by {}",
        paint(style, word),
        paint(BOLD, name(piece)),
        verdict.score,
        verdict.stage.name(),
    ));
    for finding in &verdict.findings {
        let style = if finding.severity >= Severity::High { BAD } else { WARN };
        line(format_args!(
            "  {} {}{}  {}",
            paint(style, format_args!("{:8}", finding.severity.name())),
            finding.rule,
            paint(DIM, format_args!("  line {}", piece.line_of(finding.span.start))),
            finding.explanation,
        ));
        line(paint(DIM, format_args!("           {}", quoted(piece, finding.span.clone()))));
    }
}

/// What a reader calls the piece: its source, and its row or first line.
pub(crate) fn name(piece: &Piece) -> String {
    let source = shown(&piece.source);
    match (&piece.id, &piece.lines) {
        (Some(Value::String(id)), _) => format!("{source} row {}", shown(id)),
        (Some(id), _) => format!("{source} row {id}"),
        (None, Lines::Row(line)) => format!("{source} line {line}"),
        (None, Lines::All | Lines::Added(_)) => source,
    }
}

fn quoted(piece: &Piece, span: std::ops::Range<usize>) -> String {
    excerpt(piece.text.get(span).unwrap_or_default(), QUOTED)
}

/// One object a line, in the order of the input.
pub(super) fn json(pieces: &[Piece], verdicts: &[ScreenResult]) -> anyhow::Result<()> {
    for (piece, verdict) in pieces.iter().zip(verdicts) {
        json_line(&object(piece, verdict))?;
    }
    Ok(())
}

fn object(piece: &Piece, verdict: &ScreenResult) -> Value {
    let findings: Vec<Value> = verdict
        .findings
        .iter()
        .map(|finding| {
            json!({
                "rule": finding.rule,
                "family": finding.family,
                "severity": finding.severity.name(),
                "confidence": finding.confidence,
                "start": finding.span.start,
                "end": finding.span.end,
                "line": piece.line_of(finding.span.start),
                "quote": quoted(piece, finding.span.clone()),
                "explanation": finding.explanation,
            })
        })
        .collect();
    let mut object = json!({
        "flagged": verdict.is_flagged,
        "score": verdict.score,
        "stage": verdict.stage.name(),
        "findings": findings,
    });
    match (&piece.id, &piece.lines) {
        (Some(id), _) => object["id"] = id.clone(),
        (None, Lines::Row(_)) => {}
        (None, Lines::All | Lines::Added(_)) => object["source"] = json!(piece.source),
    }
    object
}
