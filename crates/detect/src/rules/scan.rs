//! All readings of one text, and the score.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use memchr::memchr2;

use super::mention::is_mentioned;
use super::{Rules, THRESHOLD};
use crate::finding::{Finding, Severity, View};
use crate::normalise::{
    MAX_TEXT_BYTES, Message, Respelled, TextTooLong, encoded_parts, normalise_bounded, unescape,
};

/// Findings that a rule may report in one text. One decides; the rest shows where.
pub const MAX_FINDINGS_PER_RULE: usize = 64;
/// Encodings within encodings that are read.
const MAX_DEPTH: usize = 3;
/// Decoded bytes that are read beyond the text itself, as a multiple of it.
const MAX_DECODED: usize = 4;
/// Decoded bytes that are read even for a short text.
const MIN_DECODED: usize = 1 << 12;
/// Findings that begin at most so many bytes apart add up; those twice as far apart do not. Somebody who wants
/// something says so in a few sentences, while a long document comes to hold a little of everything.
const NEAR: usize = 1 << 10;
/// How sure it is that something found in a comment was meant to be hidden.
const IN_COMMENT: f64 = 0.45;

/// What the rules say of one text.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// In the order in which they stand in the text.
    pub findings: Vec<Finding>,
    /// `1 - Π (1 - c)` over the families found near one another, `c` being the highest confidence in a family; of all
    /// such places the highest. In `[0, 1]`. One weak rule decides nothing, however often it fires; weak rules of
    /// several families do. A rule with confidence 0 is a remark and changes nothing: what a text says
    /// about itself ("for a security course") takes nothing away.
    pub score: f64,
    /// Bytes that were read by an automaton, a measure of work that needs no clock.
    pub work: u64,
}

impl Scan {
    /// Whether the score reaches [`THRESHOLD`].
    #[must_use]
    pub fn is_flagged(&self) -> bool {
        self.score >= THRESHOLD
    }
}

/// A place in the original for a place in some reading.
type ToOriginal<'a> = &'a dyn Fn(Range<usize>) -> Range<usize>;

/// What is found in `text` and ends after `from`; the rest neither counts nor is in the way of what does.
pub(super) fn scan(rules: &Rules, text: &str, from: usize) -> Result<Scan, TextTooLong> {
    let mut reader = Reader { from, ..Reader::new(rules, text, MAX_FINDINGS_PER_RULE) };
    reader.read_original()?;
    let mut findings = without_repeats(reader.findings);
    findings.extend(in_comments(text, &findings));
    findings.retain(|found| found.span.end > from);
    findings.sort_by(|a, b| {
        (a.span.start, a.span.end, &a.rule).cmp(&(b.span.start, b.span.end, &b.rule))
    });
    Ok(Scan { score: score(&findings), findings, work: reader.work })
}

/// The bytes of the original in which a rule fired that decides alone, ascending and apart. Here a
/// phrase that is spoken of counts as one that is used.
pub(super) fn decisive_spans(rules: &Rules, text: &str) -> Result<Vec<Range<usize>>, TextTooLong> {
    let mut reader = Reader { mentions: false, ..Reader::new(rules, text, usize::MAX) };
    reader.read_original()?;
    let decisive = reader.findings.into_iter().filter(|found| found.confidence >= THRESHOLD);
    let mut spans: Vec<Range<usize>> = decisive.map(|found| found.span).collect();
    spans.sort_by_key(|span| (span.start, span.end));
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    for span in spans {
        match apart.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => apart.push(span),
        }
    }
    Ok(apart)
}

/// The highest confidence in each family.
type Families<'f> = BTreeMap<&'f str, f64>;

/// Source: memory integrity paper §5.2 takes the highest weight; there, any match decides.
fn score(findings: &[Finding]) -> f64 {
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
    let from = |cell: &usize| {
        let next = cells.get(&(cell + 1)).unwrap_or(&none);
        together([&everywhere, cells.get(cell).unwrap_or(&none), next])
    };
    cells.keys().map(from).fold(together([&everywhere, &none, &none]), f64::max)
}

/// How likely one of them is right, were they independent.
fn together(parts: [&Families<'_>; 3]) -> f64 {
    let mut all = Families::new();
    for (family, confidence) in parts.into_iter().flatten() {
        let highest = all.entry(family).or_default();
        *highest = highest.max(*confidence);
    }
    1.0 - all.values().map(|confidence| 1.0 - confidence).product::<f64>()
}

/// Goes through the readings of a text.
struct Reader<'r> {
    rules: &'r Rules,
    original: &'r str,
    /// Where what ends before is not looked for.
    from: usize,
    /// Findings per rule so far, at most `limit`.
    fired: Vec<Cell<usize>>,
    limit: usize,
    /// Whether it matters that a phrase is only spoken of.
    mentions: bool,
    /// Decoded bytes that may still be read.
    budget: usize,
    findings: Vec<Finding>,
    work: u64,
}

impl<'r> Reader<'r> {
    fn new(rules: &'r Rules, original: &'r str, limit: usize) -> Reader<'r> {
        let fired = vec![Cell::new(0); rules.rules.len()];
        Reader {
            rules,
            original,
            from: 0,
            fired,
            limit,
            mentions: true,
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
        self.read(text, 0, View::Plain, &|range| range);
        Ok(())
    }

    /// Reads `text`, as it stands and in every other way that makes sense.
    fn read(&mut self, text: &str, depth: usize, view: View, to_original: ToOriginal<'_>) {
        let normalised = normalise_bounded(text);
        for mut finding in normalised.hidden.findings() {
            finding.span = to_original(finding.span);
            self.findings.push(finding);
        }
        let from_normalised = |range| to_original(normalised.original(range));
        self.match_rules(normalised.text(), view, &from_normalised);

        let vocabulary = &self.rules.vocabulary;
        let spaced = vocabulary.read_spaced(normalised.text());
        let leet = vocabulary.read_leet(normalised.text());
        for (respelled, view) in [(spaced, View::Spaced), (leet, View::Leet)] {
            if let Some(Respelled { text, offsets }) = respelled {
                self.match_rules(&text, view, &|range| from_normalised(offsets.original(range)));
            }
        }

        for Message { text, offsets, .. } in [&normalised.hidden.tags, &normalised.hidden.selectors]
        {
            self.read_decoded(text, depth, View::Hidden, &|range| {
                to_original(offsets.original(range))
            });
        }
        if let Some((decoded, offsets)) = unescape(text) {
            let from_decoded = |range| to_original(offsets.original(range));
            self.read_decoded(&decoded, depth, View::Unescaped, &from_decoded);
        }
        for part in encoded_parts(text) {
            let span = to_original(part.span);
            self.read_decoded(&part.text, depth, part.view, &|_| span.clone());
        }
    }

    /// Reads what was decoded, unless it is too deep or too much; then it says so.
    fn read_decoded(&mut self, text: &str, depth: usize, view: View, to_original: ToOriginal<'_>) {
        if text.is_empty() {
            return;
        }
        if depth == MAX_DEPTH || text.len() > self.budget {
            self.findings.push(Finding {
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

    fn match_rules(&mut self, text: &str, view: View, to_original: ToOriginal<'_>) {
        let Reader { rules, original, from, fired, limit, mentions, findings, work, .. } = self;
        let rule_of = |pattern: usize| rules.rule_of.get(pattern).copied().unwrap_or(usize::MAX);
        let wanted =
            |pattern| fired.get(rule_of(pattern)).is_some_and(|count| count.get() < *limit);
        *work += rules.engine.find(text, wanted, |pattern, range| {
            let number = rule_of(pattern);
            let (Some(rule), Some(count)) = (rules.rules.get(number), fired.get(number)) else {
                return;
            };
            let place = to_original(range.clone());
            if place.end <= *from {
                return;
            }
            count.set(count.get() + 1);
            let mentioned = *mentions
                && rule.mentioned < rule.confidence
                && is_mentioned(text, range.start, begins_a_sentence(original, &place));
            findings.push(Finding {
                rule: rule.name.clone(),
                family: rule.family.clone(),
                severity: rule.severity,
                confidence: if mentioned { rule.mentioned } else { rule.confidence },
                span: place,
                view,
                explanation: rule.explanation.clone(),
            });
        });
    }
}

/// Whether the original is written there as a sentence begins: with a capital letter. A decoded
/// part gives no such sign.
fn begins_a_sentence(original: &str, place: &Range<usize>) -> bool {
    let first = original.get(place.clone()).and_then(|found| found.chars().next());
    first.is_some_and(char::is_uppercase)
}

/// Keeps, of findings of one rule that overlap, the one in the plainest view, then the longest.
fn without_repeats(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|a, b| {
        let order = |found: &Finding| (found.span.start, found.view, usize::MAX - found.span.end);
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

/// A finding for each comment of HTML or Markdown in which something was found: no reader of the
/// page sees it. An opener without an end hides the rest of the text, as browsers have it.
fn in_comments(text: &str, findings: &[Finding]) -> Vec<Finding> {
    let mut starts: Vec<usize> = findings
        .iter()
        .filter(|found| found.confidence > 0.0 && found.view != View::Hidden)
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
        hidden.push(Finding {
            rule: "hidden.comment".to_owned(),
            family: "hidden_comment".to_owned(),
            severity: Severity::High,
            confidence: IN_COMMENT,
            span: comment,
            view: View::Plain,
            explanation: "a comment, which readers of the page do not see, speaks to a model"
                .to_owned(),
        });
        if hidden.len() == MAX_FINDINGS_PER_RULE {
            break;
        }
    }
    hidden
}

/// The comments of a text, in order: `<!-- … -->`, and Markdown's `[//]: # (…)` to its line end.
fn comments(text: &str) -> impl Iterator<Item = Range<usize>> {
    const KINDS: [(&str, &str); 3] = [("<!--", "-->"), ("[//]: #", "\n"), ("[comment]: #", "\n")];
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            // One pass for all kinds: looking for each in turn would read the rest again and again.
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
    fn found(family: &str, span: Range<usize>) -> Finding {
        Finding {
            rule: family.to_owned(),
            family: family.to_owned(),
            severity: Severity::Medium,
            confidence: 0.4,
            span,
            view: View::Plain,
            explanation: String::new(),
        }
    }

    fn score_at(starts: [usize; 2]) -> f64 {
        score(&[found("a", starts[0]..starts[0] + 9), found("b", starts[1]..starts[1] + 9)])
    }

    #[test]
    fn weak_signs_add_up_near_one_another_only() {
        for start in [0, 1, NEAR - 1, NEAR, 7 * NEAR + 5] {
            assert!((score_at([start, start + NEAR]) - 0.64).abs() < 1e-12, "{start}");
            assert!((score_at([start, start + 2 * NEAR]) - 0.4).abs() < 1e-12, "{start}");
        }
        assert_eq!(score(&[]), 0.0);
    }

    #[test]
    fn what_spans_much_is_near_everything() {
        let comment = found("comment", 0..9 * NEAR);
        let inside = found("a", 5 * NEAR..5 * NEAR + 9);
        assert!((score(&[comment.clone(), inside]) - 0.64).abs() < 1e-12);
        assert!((score(&[comment]) - 0.4).abs() < 1e-12);
    }

    #[test]
    fn a_family_counts_once() {
        let findings: Vec<Finding> = (0..500).map(|place| found("a", place..place + 3)).collect();
        assert!((score(&findings) - 0.4).abs() < 1e-12);
    }
}
