//! Scans all views of one text and computes the score.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use memchr::memchr2;

use super::mention::is_mentioned;
use super::{RuleSet, THRESHOLD};
use crate::finding::{DetectorFinding, Severity, TextView};
use crate::normalise::{
    MAX_TEXT_BYTES, Message, RespelledText, TextTooLong, encoded_parts, normalise_bounded, unescape,
};

/// The maximum number of findings per rule and text. The score needs only one.
pub const MAX_FINDINGS_PER_RULE: usize = 64;
/// The maximum depth of nested encodings.
const MAX_DEPTH: usize = 3;
/// The limit on decoded bytes, as a multiple of the text's length.
const MAX_DECODED: usize = 4;
/// Added to that limit, for short texts.
const MIN_DECODED: usize = 1 << 12;
/// Confidences of findings that begin at most this many bytes apart are combined; twice as far
/// apart they never are. An injected instruction takes a few sentences, while a long document
/// contains weak signs of many families by chance.
const NEAR: usize = 1 << 10;
/// The confidence that a finding in a comment was hidden on purpose.
const IN_COMMENT: f64 = 0.45;

/// The findings in one text and their score.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanResult {
    /// In order of position in the text.
    pub findings: Vec<DetectorFinding>,
    /// The maximum over all regions of `1 - Π (1 - c)` over the families found in the region,
    /// where `c` is the highest confidence in a family. In `[0, 1]`. One weak rule cannot flag a
    /// text, however often it matches; weak rules of several families can. A rule with
    /// confidence 0 does not change the score: a text's claim about itself ("for a security
    /// course") never lowers it.
    pub score: f64,
    /// Bytes read by automata: a measure of work that does not depend on a clock.
    pub work: u64,
}

impl ScanResult {
    /// Whether the score reaches [`THRESHOLD`].
    #[must_use]
    pub fn is_flagged(&self) -> bool {
        self.score >= THRESHOLD
    }
}

/// Maps a range of a view to a range of the original.
type ToOriginal<'a> = &'a dyn Fn(Range<usize>) -> Range<usize>;

/// The findings in `text` that end after `from`. Earlier ones do not count towards any limit.
pub(super) fn scan(rules: &RuleSet, text: &str, from: usize) -> Result<ScanResult, TextTooLong> {
    let mut reader = Reader { from, ..Reader::new(rules, text, MAX_FINDINGS_PER_RULE) };
    reader.read_original()?;
    let mut findings = without_repeats(reader.findings);
    findings.extend(in_comments(text, &findings));
    findings.retain(|found| found.span.end > from);
    findings.sort_by(|a, b| {
        (a.span.start, a.span.end, &a.rule).cmp(&(b.span.start, b.span.end, &b.rule))
    });
    Ok(ScanResult { score: score(&findings), findings, work: reader.work })
}

/// The byte ranges of the original in which a rule at or above the threshold matched, ascending
/// and disjoint. A mentioned phrase counts like a used one here.
pub(super) fn decisive_spans(
    rules: &RuleSet,
    text: &str,
) -> Result<Vec<Range<usize>>, TextTooLong> {
    let mut reader = Reader { has_mentions: false, ..Reader::new(rules, text, usize::MAX) };
    reader.read_original()?;
    let decisive = reader.findings.into_iter().filter(|found| found.confidence >= THRESHOLD);
    let mut spans: Vec<Range<usize>> = decisive.map(|found| found.span).collect();
    spans.sort_by_key(|span| (span.start, span.end));
    let mut disjoint: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    for span in spans {
        match disjoint.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => disjoint.push(span),
        }
    }
    Ok(disjoint)
}

/// The highest confidence in each family.
type Families<'f> = BTreeMap<&'f str, f64>;

/// Source: memory integrity paper §5.2, which takes the highest weight instead: there any match
/// flags the text.
fn score(findings: &[DetectorFinding]) -> f64 {
    let mut everywhere = Families::new();
    let mut cells: BTreeMap<usize, Families<'_>> = BTreeMap::new();
    for finding in findings {
        let families = if finding.span.len() > NEAR {
            &mut everywhere
        } else {
            cells.entry(finding.span.start / NEAR).or_default()
        };
        let highest = families.entry(&finding.family).or_default();
        *highest = highest.max(finding.confidence);
    }
    let none = Families::new();
    cells
        .iter()
        .map(|(cell, families)| {
            combine([&everywhere, families, cells.get(&(cell + 1)).unwrap_or(&none)])
        })
        .fold(combine([&everywhere, &none, &none]), f64::max)
}

/// The probability that at least one family is right, if they were independent.
fn combine(parts: [&Families<'_>; 3]) -> f64 {
    let mut all = Families::new();
    for (family, confidence) in parts.into_iter().flatten() {
        let highest = all.entry(family).or_default();
        *highest = highest.max(*confidence);
    }
    1.0 - all.values().map(|confidence| 1.0 - confidence).product::<f64>()
}

/// Scans the views of one text.
struct Reader<'r> {
    rules: &'r RuleSet,
    original: &'r str,
    /// Findings that end at or before this byte are skipped.
    from: usize,
    /// Findings per rule so far, at most `limit`.
    fired: Vec<Cell<usize>>,
    limit: usize,
    /// Whether mentioned phrases get the lower confidence.
    has_mentions: bool,
    /// Decoded bytes left to read.
    budget: usize,
    findings: Vec<DetectorFinding>,
    work: u64,
}

impl<'r> Reader<'r> {
    fn new(rules: &'r RuleSet, original: &'r str, limit: usize) -> Reader<'r> {
        let fired = vec![Cell::new(0); rules.rules.len()];
        Reader {
            rules,
            original,
            from: 0,
            fired,
            limit,
            has_mentions: true,
            budget: 0,
            findings: Vec::new(),
            work: 0,
        }
    }

    fn read_original(&mut self) -> Result<(), TextTooLong> {
        let text = self.original;
        if text.len() > MAX_TEXT_BYTES {
            return Err(TextTooLong { len: text.len() });
        }
        self.budget = text.len() * MAX_DECODED + MIN_DECODED;
        self.read(text, 0, TextView::Plain, &|range| range);
        Ok(())
    }

    /// Scans `text` and every view derived from it.
    fn read(&mut self, text: &str, depth: usize, view: TextView, to_original: ToOriginal<'_>) {
        let normalised = normalise_bounded(text);
        for mut finding in normalised.hidden.findings() {
            finding.span = to_original(finding.span);
            self.findings.push(finding);
        }
        let from_normalised = |range| to_original(normalised.original(range));
        self.match_rules(normalised.text(), view, &from_normalised);

        let vocabulary = &self.rules.vocabulary;
        let spaced = vocabulary.join_spaced(normalised.text());
        let leet = vocabulary.replace_leet(normalised.text());
        for (respelled, view) in [(spaced, TextView::Spaced), (leet, TextView::Leet)] {
            if let Some(RespelledText { text, offsets }) = respelled {
                self.match_rules(&text, view, &|range| from_normalised(offsets.original(range)));
            }
        }

        for Message { text, offsets, .. } in [&normalised.hidden.tags, &normalised.hidden.selectors]
        {
            self.read_decoded(text, depth, TextView::Hidden, &|range| {
                to_original(offsets.original(range))
            });
        }
        if let Some((decoded, offsets)) = unescape(text) {
            let from_decoded = |range| to_original(offsets.original(range));
            self.read_decoded(&decoded, depth, TextView::Unescaped, &from_decoded);
        }
        for part in encoded_parts(text) {
            let span = to_original(part.span);
            self.read_decoded(&part.text, depth, part.view, &|_| span.clone());
        }
    }

    /// Scans decoded text. Beyond the depth or size limit it reports a finding instead.
    fn read_decoded(
        &mut self,
        text: &str,
        depth: usize,
        view: TextView,
        to_original: ToOriginal<'_>,
    ) {
        if text.is_empty() {
            return;
        }
        if depth == MAX_DEPTH || text.len() > self.budget {
            self.findings.push(DetectorFinding {
                rule: "encoding.unread".to_owned(),
                family: "encoding".to_owned(),
                severity: Severity::Medium,
                confidence: 0.3,
                span: to_original(0..text.len()),
                view,
                explanation: "encoded too often or too much to be read to the end".to_owned(),
            });
            return;
        }
        self.budget -= text.len();
        self.read(text, depth + 1, view, to_original);
    }

    fn match_rules(&mut self, text: &str, view: TextView, to_original: ToOriginal<'_>) {
        let Reader { rules, original, from, fired, limit, has_mentions, findings, work, .. } = self;
        *work += rules.engine.find(
            text,
            |pattern| {
                fired.get(rules.rule_index(pattern)).is_some_and(|count| count.get() < *limit)
            },
            |pattern, range| {
                let number = rules.rule_index(pattern);
                let (Some(rule), Some(count)) = (rules.rules.get(number), fired.get(number)) else {
                    return;
                };
                let span = to_original(range.clone());
                if span.end <= *from {
                    return;
                }
                count.set(count.get() + 1);
                let is_mention = *has_mentions
                    && rule.mentioned < rule.confidence
                    && is_mentioned(text, range.start, is_capitalised(original, &span));
                findings.push(DetectorFinding {
                    rule: rule.name.clone(),
                    family: rule.family.clone(),
                    severity: rule.severity,
                    confidence: if is_mention { rule.mentioned } else { rule.confidence },
                    span,
                    view,
                    explanation: rule.explanation.clone(),
                });
            },
        );
    }
}

/// Whether the range of the original begins with a capital letter, as a sentence does. A decoded
/// part has no such letter.
fn is_capitalised(original: &str, span: &Range<usize>) -> bool {
    let first = original.get(span.clone()).and_then(|found| found.chars().next());
    first.is_some_and(char::is_uppercase)
}

/// Keeps one of several overlapping findings of one rule: the plainest view, then the longest.
fn without_repeats(mut findings: Vec<DetectorFinding>) -> Vec<DetectorFinding> {
    findings.sort_by(|a, b| {
        let order =
            |found: &DetectorFinding| (found.span.start, found.view, usize::MAX - found.span.end);
        (&a.rule, order(a)).cmp(&(&b.rule, order(b)))
    });
    findings.dedup_by(|next, kept| {
        let repeats = next.rule == kept.rule && next.span.start < kept.span.end;
        if repeats && next.view == kept.view {
            kept.span.end = kept.span.end.max(next.span.end);
        }
        repeats
    });
    findings
}

/// A finding for each HTML or Markdown comment that contains a finding, because a rendered page
/// does not show it. An unclosed comment extends to the end of the text, as in browsers.
fn in_comments(text: &str, findings: &[DetectorFinding]) -> Vec<DetectorFinding> {
    let mut starts: Vec<usize> = findings
        .iter()
        .filter(|found| found.confidence > 0.0 && found.view != TextView::Hidden)
        .map(|found| found.span.start)
        .collect();
    starts.sort_unstable();
    let mut starts = starts.into_iter().peekable();
    let mut hidden = Vec::new();
    for comment in comments(text) {
        while starts.next_if(|start| *start < comment.start).is_some() {}
        if starts.next_if(|start| *start < comment.end).is_none() {
            continue;
        }
        hidden.push(DetectorFinding {
            rule: "hidden.comment".to_owned(),
            family: "hidden_comment".to_owned(),
            severity: Severity::High,
            confidence: IN_COMMENT,
            span: comment,
            view: TextView::Plain,
            explanation: "a comment, which readers of the page do not see, speaks to a model"
                .to_owned(),
        });
        if hidden.len() == MAX_FINDINGS_PER_RULE {
            break;
        }
    }
    hidden
}

/// The comments of a text in order: `<!-- … -->`, and Markdown's `[//]: # (…)` to the line end.
fn comments(text: &str) -> impl Iterator<Item = Range<usize>> {
    const KINDS: [(&str, &str); 3] = [("<!--", "-->"), ("[//]: #", "\n"), ("[comment]: #", "\n")];
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            // One pass for all kinds: one search per kind would read the rest several times.
            let start = from + memchr2(b'<', b'[', text.as_bytes().get(from..)?)?;
            from = start + 1;
            let rest = &text[start..];
            let Some((open, close)) = KINDS.into_iter().find(|(open, _)| rest.starts_with(open))
            else {
                continue;
            };
            let body = start + open.len();
            let end = text[body..].find(close).map_or(text.len(), |end| body + end + close.len());
            from = end;
            return Some(start..end);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A finding of `family` with a confidence of 0.4.
    fn found(family: &str, span: Range<usize>) -> DetectorFinding {
        DetectorFinding {
            rule: family.to_owned(),
            family: family.to_owned(),
            severity: Severity::Medium,
            confidence: 0.4,
            span,
            view: TextView::Plain,
            explanation: String::new(),
        }
    }

    fn score_at(starts: [usize; 2]) -> f64 {
        score(&[found("a", starts[0]..starts[0] + 9), found("b", starts[1]..starts[1] + 9)])
    }

    #[test]
    fn confidences_combine_only_within_a_region() {
        for start in [0, 1, NEAR - 1, NEAR, 7 * NEAR + 5] {
            assert!((score_at([start, start + NEAR]) - 0.64).abs() < 1e-12, "{start}");
            assert!((score_at([start, start + 2 * NEAR]) - 0.4).abs() < 1e-12, "{start}");
        }
        assert_eq!(score(&[]), 0.0);
    }

    #[test]
    fn a_long_finding_combines_with_every_region() {
        let comment = found("comment", 0..9 * NEAR);
        let inside = found("a", 5 * NEAR..5 * NEAR + 9);
        assert!((score(&[comment.clone(), inside]) - 0.64).abs() < 1e-12);
        assert!((score(&[comment]) - 0.4).abs() < 1e-12);
    }

    #[test]
    fn a_family_counts_once() {
        let findings: Vec<DetectorFinding> =
            (0..500).map(|place| found("a", place..place + 3)).collect();
        assert!((score(&findings) - 0.4).abs() < 1e-12);
    }
}
