//! Verdicts as SARIF 2.1.0, which code hosts and editors show beside the lines.

use std::collections::BTreeMap;

use custody_detect::finding::{DetectorFinding, Severity};
use custody_detect::screen::ScreenResult;
use serde_json::{Value, json};

use super::input::Piece;
use crate::output::line;

/// One run, with a result for each finding.
pub(super) fn print(pieces: &[Piece], verdicts: &[ScreenResult]) -> anyhow::Result<()> {
    line(serde_json::to_string_pretty(&log(pieces, verdicts))?);
    Ok(())
}

fn log(pieces: &[Piece], verdicts: &[ScreenResult]) -> Value {
    let mut rules = BTreeMap::new();
    let mut results = Vec::new();
    for (piece, verdict) in pieces.iter().zip(verdicts) {
        for finding in &verdict.findings {
            rules.entry(finding.rule.clone()).or_insert_with(|| {
                json!({
                    "id": finding.rule,
                    "shortDescription": { "text": finding.explanation },
                    "properties": { "tags": ["security", finding.family] },
                })
            });
            results.push(result(piece, verdict, finding));
        }
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "custody",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.into_values().collect::<Vec<_>>(),
            }},
            // Offsets count UTF-16 units unless a log says otherwise; ours are given as bytes.
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn result(piece: &Piece, verdict: &ScreenResult, finding: &DetectorFinding) -> Value {
    let first = piece.line_of(finding.span.start);
    let last = piece.line_of(finding.span.end.saturating_sub(1).max(finding.span.start));
    json!({
        "ruleId": finding.rule,
        "level": level(finding.severity),
        "message": { "text": finding.explanation },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": uri(&piece.source) },
            "region": { "startLine": first, "endLine": last },
        }}],
        "properties": {
            "confidence": finding.confidence,
            "flagged": verdict.is_flagged,
            "score": verdict.score,
            "stage": verdict.stage.name(),
        },
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Low => "note",
        Severity::Medium => "warning",
        Severity::High | Severity::Critical => "error",
    }
}

/// The path as a relative reference: every byte that is not plainly part of a path is escaped.
fn uri(source: &str) -> String {
    source.trim_start_matches("./").bytes().fold(String::new(), |mut uri, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
        uri
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_reference() {
        assert_eq!(uri("./skills/Über uns.md"), "skills/%C3%9Cber%20uns.md");
    }
}
