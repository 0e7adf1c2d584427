//! What a request takes in a session that grows, and what a long body takes.

use super::load::{Target, agent};
use super::overhead::{Field, logged_figures, percentile_of};
use super::product::Product;
use super::service_log::LoggedTimes;
use super::texts::{drawn, request_of};
use crate::error::EvalError;
use crate::metrics::percentile;
use crate::report::{Figure, FigureIds};
use crate::size::Size;

/// How many new texts a request has that fills a session.
const FILL: usize = 50;
/// How many entries an answer is: its text, its call, and its end.
const ANSWER_ENTRIES: usize = 3;
/// The bytes of one message in a long body.
const MESSAGE_BYTES: usize = 2_000;
/// How often a history is sent again, with one new text each time.
const RESENT: usize = 4;
const MB: f64 = 1e6;

/// How many entries a session has, in the order of the table.
pub(super) const fn entries(size: Size) -> &'static [usize] {
    match size {
        Size::Smoke => &[10, 100, 1_000],
        Size::Full => &[10, 100, 1_000, 10_000, 100_000],
    }
}

/// How long histories are, in bytes.
pub(super) const fn bodies(size: Size) -> &'static [usize] {
    match size {
        Size::Smoke => &[10_000, 100_000, 1_000_000],
        Size::Full => &[10_000, 100_000, 1_000_000, 8_000_000],
    }
}

/// How many requests are timed at each size, and how many histories of each length are sent.
const fn tries(size: Size) -> (usize, usize) {
    match size {
        Size::Smoke => (40, 2),
        Size::Full => (200, 5),
    }
}

/// A conversation with a name of its own.
struct NamedSession {
    target: Target,
    agent: ureq::Agent,
    /// Entries that are recorded at least.
    entries: usize,
    /// Texts that were sent.
    texts: u64,
}

impl NamedSession {
    fn new(product: &Product, name: String) -> Self {
        let mut target = product.chat.clone();
        target.headers.push(("x-custody-session", name));
        Self { target, agent: agent(), entries: 0, texts: 0 }
    }

    /// Sends one request with so many texts that nobody has seen.
    fn send_new(&mut self, product: &mut Product, count: usize) -> Result<LoggedTimes, EvalError> {
        let name = self.target.headers.last().map_or("", |(_, name)| name.as_str());
        let texts: Vec<String> = (0..count)
            .map(|_| {
                self.texts += 1;
                format!("Note {} of {name}: {}", self.texts, drawn(self.texts, 40))
            })
            .collect();
        self.entries += count + ANSWER_ENTRIES;
        self.send(product, &texts)
    }

    fn send(&self, product: &mut Product, texts: &[String]) -> Result<LoggedTimes, EvalError> {
        self.target.send(&self.agent, &request_of(texts))?;
        let logged = product.log.next(1)?.into_iter().next();
        logged.ok_or_else(|| EvalError::Setup("an exchange was not logged".to_owned()))
    }

    fn fill(&mut self, product: &mut Product, entries: usize) -> Result<(), EvalError> {
        while self.entries + ANSWER_ENTRIES < entries {
            let missing = entries - self.entries - ANSWER_ENTRIES;
            self.send_new(product, missing.min(FILL))?;
        }
        Ok(())
    }
}

/// Times short requests in sessions of each number of entries.
pub(super) fn of_sessions(
    field: &mut Field,
    size: Size,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<Vec<Figure>, EvalError> {
    let (tries, _) = tries(size);
    let (mut figures, mut medians) = (Vec::new(), Vec::new());
    let product = &mut field.product;
    let mut session = NamedSession::new(product, "growth".to_owned());
    for (at, entries) in entries(size).iter().enumerate() {
        progress("growth", at, self::entries(size).len());
        // A session with few entries has more of them soon, so others take its place.
        let each = (entries / 10).clamp(1, tries);
        let mut logged = Vec::new();
        while logged.len() < tries {
            if session.entries > entries + entries / 2 {
                let name = format!("growth-{entries}-{}", logged.len());
                session = NamedSession::new(product, name);
            }
            session.fill(product, *entries)?;
            for _ in 0..each {
                logged.push(session.send_new(product, 1)?);
            }
        }
        let ids = FigureIds::new(format!("growth.entries_{entries}"));
        figures.extend(logged_figures(&ids, &logged));
        figures.push(ids.count("requests", logged.len() as u64, "requests"));
        figures.push(Figure::real(&ids.id("rss_mb"), product.resident_mb(), "MB"));
        let inside: Vec<f64> = logged.iter().map(LoggedTimes::inside).collect();
        medians.extend(percentile(&inside, 50.0));
    }
    let most = medians.iter().copied().fold(f64::NAN, f64::max);
    let least = medians.iter().copied().fold(f64::NAN, f64::min);
    figures.push(Figure::real("growth.inside_p50_most_to_least", most / least, "ratio"));
    Ok(figures)
}

/// Times requests with histories of each length, new and sent again.
pub(super) fn of_bodies(
    field: &mut Field,
    size: Size,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<Vec<Figure>, EvalError> {
    let (_, tries) = tries(size);
    let (mut figures, mut medians) = (Vec::new(), Vec::new());
    let product = &mut field.product;
    for (at, bytes) in bodies(size).iter().enumerate() {
        progress("bodies", at, bodies(size).len());
        let (mut new, mut resent) = (Vec::new(), Vec::new());
        for attempt in 0..tries {
            let session = NamedSession::new(product, format!("body-{bytes}-{attempt}"));
            let seed = (bytes * tries + attempt) as u64 * 100_000;
            let mut texts: Vec<String> = (0..bytes.div_ceil(MESSAGE_BYTES) as u64)
                .map(|message| drawn(seed + message, MESSAGE_BYTES))
                .collect();
            new.push(session.send(product, &texts)?.inside());
            for again in 0..RESENT {
                texts.push(format!("And {again}?"));
                resent.push(session.send(product, &texts)?.inside());
            }
        }
        let ids = FigureIds::new(format!("body.kb_{}", bytes / 1_000));
        figures.push(percentile_of(&ids.id("new.inside_p50_us"), new.iter().copied(), 50.0));
        figures.push(percentile_of(&ids.id("resent.inside_p50_us"), resent.iter().copied(), 50.0));
        figures.push(ids.count("new.requests", new.len() as u64, "requests"));
        medians.push((*bytes as f64 / MB, percentile(&new, 50.0), percentile(&resent, 50.0)));
    }
    if let (Some((short, new, resent)), Some((long, new_long, resent_long))) =
        (medians.first(), medians.last())
    {
        for (id, less, more) in [("new", new, new_long), ("resent", resent, resent_long)] {
            let slope = per_mb((*short, *less), (*long, *more));
            figures.push(Figure::real(&format!("body.{id}.us_per_mb"), slope, "us"));
        }
    }
    Ok(figures)
}

/// What a megabyte more takes, between two lengths.
fn per_mb((short, less): (f64, Option<f64>), (long, more): (f64, Option<f64>)) -> f64 {
    let (less, more) = (less.unwrap_or(f64::NAN), more.unwrap_or(f64::NAN));
    (more - less) / (long - short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_megabyte_more_takes_the_difference_between_two_lengths() {
        assert_eq!(per_mb((0.5, Some(100.0)), (8.5, Some(900.0))), 100.0);
        assert!(per_mb((0.5, None), (8.5, Some(900.0))).is_nan());
    }
}
