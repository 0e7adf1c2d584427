//! Search: the entries that match the indicators, in every tenant and in quarantine. It only reads.

use custody_kernel::evidence::{Evidence, Finding};
use custody_kernel::kind::EntryKind;
use custody_kernel::record::{
    AdminRequest, Author, ObservationKind, Record, Request, SessionRequest,
};
use custody_log::{Digest, Seq};
use custody_runtime::store::{IndexGap, View};
use custody_text::Phrase;
use memchr::memmem;
use regex_automata::meta::Regex;

use crate::IncidentError;
use crate::arrival::arrival;
use crate::indicator::{Indicator, Origin};
use crate::neighbours::{SIMILAR, Vectors};
use crate::parts::across_parts;
use crate::store::Incidents;

/// The largest automaton that a pattern may need, in bytes.
const MAX_PATTERN_BYTES: usize = 4 << 20;

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Every finding, ascending.
    pub findings: Vec<Finding>,
    /// The result for each indicator.
    pub hits: Vec<Hits>,
    /// How the indexes of texts and hashes differ from the record. If they do, every text was read instead.
    pub index_gaps: Vec<IndexGap>,
}

/// The result for one indicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hits {
    /// The indicator.
    pub indicator: Indicator,
    /// The number of entries that match.
    pub entries: u64,
    /// Why it was not searched, if it was not.
    pub not_searched: Option<String>,
}

impl Incidents<'_> {
    /// Finds the entries that match `indicators`, across tenants. Ids, hashes and texts are looked up; linear in the
    /// record for patterns and origins, and for what is not found or not indexed.
    ///
    /// # Errors
    /// [`IncidentError::Pattern`], [`IncidentError::Store`], or when the store cannot be read.
    pub fn find(&self, indicators: &[Indicator]) -> Result<Found, IncidentError> {
        self.find_with(indicators, None)
    }

    /// As [`Incidents::find`], and by similarity with the vectors of a model.
    ///
    /// # Errors
    /// As [`Incidents::find`], or when the model fails.
    pub fn find_with(
        &self,
        indicators: &[Indicator],
        vectors: Option<Vectors<'_>>,
    ) -> Result<Found, IncidentError> {
        self.index_texts(|_| ())?;
        let mut found = self.find_stated(indicators)?;
        if let Some(vectors) = vectors {
            self.find_similar(&mut found, vectors)?;
        }
        found.findings.sort_unstable();
        found.findings.dedup();
        Ok(found)
    }

    /// Searches for every indicator but similarity.
    fn find_stated(&self, indicators: &[Indicator]) -> Result<Found, IncidentError> {
        self.store.look(|view| {
            let index_gaps = view.search_index_gaps()?;
            let record = Searched { view, is_index_whole: index_gaps.is_empty() };
            let mut found = Found { index_gaps, ..Found::default() };
            for (number, indicator) in (0_u32..).zip(indicators) {
                let before = found.findings.len();
                let not_searched = record.look(number, indicator, &mut found.findings)?;
                found.hits.push(Hits {
                    indicator: indicator.clone(),
                    entries: (found.findings.len() - before) as u64,
                    not_searched,
                });
            }
            Ok(found)
        })
    }

    fn find_similar(&self, found: &mut Found, vectors: Vectors<'_>) -> Result<(), IncidentError> {
        if !found.hits.iter().any(|hits| matches!(hits.indicator, Indicator::Similar(_))) {
            return Ok(());
        }
        self.index_vectors(vectors, |_, _| ())?;
        for (number, hits) in (0_u32..).zip(&mut found.hits) {
            let Indicator::Similar(text) = &hits.indicator else { continue };
            let near = self.all_neighbours(vectors, text, SIMILAR)?;
            hits.entries = near.found.len() as u64;
            hits.not_searched = (near.not_searched > 0)
                .then(|| format!("{} texts have no vector yet", near.not_searched));
            found.findings.extend(near.found.iter().map(|near| Finding {
                entry: near.entry,
                indicator: number,
                by: Evidence::Similarity(near.similarity),
            }));
        }
        Ok(())
    }

    /// Brings the indexes of texts up to date, step by step so that writers do not wait. Calls `progress` with the
    /// number of steps after each one.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn index_texts(&self, mut progress: impl FnMut(u64)) -> Result<(), IncidentError> {
        let is_behind = self.store.look(|view| view.is_index_behind())?;
        if !is_behind {
            return Ok(());
        }
        for step in 1.. {
            let is_done = !self.store.run(|step| step.index_texts()).wait()?;
            progress(step);
            if is_done {
                break;
            }
        }
        Ok(())
    }
}

/// A view of the store, for one search.
struct Searched<'a> {
    view: View<'a>,
    /// Whether the indexes have a row for every text.
    is_index_whole: bool,
}

impl Searched<'_> {
    /// Adds the entries that match `indicator`. Returns why it was not searched, if it was not.
    fn look(
        &self,
        number: u32,
        indicator: &Indicator,
        findings: &mut Vec<Finding>,
    ) -> Result<Option<String>, IncidentError> {
        let (entries, by) = match indicator {
            Indicator::Entry(id) => (vec![self.view.position(*id)?], Evidence::Id),
            Indicator::Position(seq) => {
                self.view.record(*seq)?;
                (vec![*seq], Evidence::Id)
            }
            Indicator::Hash(hash) => {
                let adapter = self.view.state().adapter(*hash);
                let loads = adapter.map(|adapter| adapter.brought_by.clone()).unwrap_or_default();
                let entries = self.view.indexed_with_hash(*hash)?;
                let entries = self.among(entries, |bytes| Digest::of(bytes) == *hash)?;
                (loads.into_iter().chain(entries).collect(), Evidence::Hash)
            }
            Indicator::Text(text) => match Phrase::of(text) {
                Some(phrase) => (self.saying(&phrase)?, Evidence::Text),
                None => return Ok(Some("it has too few letters and digits".to_owned())),
            },
            Indicator::Bytes(bytes) => (self.containing(bytes)?, Evidence::Text),
            Indicator::Pattern(pattern) => (self.matching(pattern)?, Evidence::Pattern),
            Indicator::Origin(origin) => {
                (self.records(|record| Ok(is_from(record, origin)))?, Evidence::Origin)
            }
            Indicator::Similar(_) => {
                return Ok(Some("no embedding model was given".to_owned()));
            }
        };
        findings.extend(entries.into_iter().map(|entry| Finding { entry, indicator: number, by }));
        Ok(None)
    }

    /// The arrivals whose content holds `phrase`, however it is spelled there, or a part of an observation that does.
    fn saying(&self, phrase: &Phrase) -> Result<Vec<Seq>, IncidentError> {
        let candidates = self.view.may_contain(phrase)?;
        let mut found =
            self.among(candidates, |bytes| phrase.is_in(&String::from_utf8_lossy(bytes)))?;
        let parts = match self.is_index_whole && !found.is_empty() {
            true => self.view.may_contain_part(phrase)?,
            false => (0..self.view.len()).map(Seq).collect(),
        };
        found.extend(across_parts(self.view, phrase, &parts)?);
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The arrivals whose content contains exactly the bytes of `text`. Where they stand, their letters stand too, by
    /// which they are looked up; with too few of these, every content is read.
    fn containing(&self, text: &str) -> Result<Vec<Seq>, IncidentError> {
        let finder = memmem::Finder::new(text);
        let phrase = Phrase::of(text);
        let candidates = phrase.map(|phrase| self.view.may_contain(&phrase)).transpose()?;
        self.among(candidates.unwrap_or_default(), |bytes| finder.find(bytes).is_some())
    }

    /// The candidates of an index whose content is `wanted`. An index can be made to forget: before nothing is found,
    /// and where it lacks a row, every content is read.
    fn among(
        &self,
        candidates: Vec<Seq>,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<Seq>, IncidentError> {
        let mut found = Vec::new();
        for seq in candidates.into_iter().filter(|_| self.is_index_whole) {
            let record = self.view.record(seq)?;
            if self.arrived(&record)?.is_some_and(|bytes| wanted(&bytes)) {
                found.push(seq);
            }
        }
        if found.is_empty() {
            return self.records(|record| Ok(self.arrived(record)?.is_some_and(|it| wanted(&it))));
        }
        Ok(found)
    }

    fn matching(&self, pattern: &str) -> Result<Vec<Seq>, IncidentError> {
        let config = Regex::config().nfa_size_limit(Some(MAX_PATTERN_BYTES));
        let regex = Regex::builder().configure(config).build(pattern).map_err(|cause| {
            let pattern = pattern.chars().take(60).flat_map(char::escape_debug).collect();
            IncidentError::Pattern { pattern, why: cause.to_string() }
        })?;
        self.records(|record| {
            let bytes = self.arrived(record)?;
            Ok(bytes.is_some_and(|bytes| regex.is_match(String::from_utf8_lossy(&bytes).as_ref())))
        })
    }

    /// The entries of the record, but for recovery's own, that are `wanted`.
    fn records(
        &self,
        mut wanted: impl FnMut(&Record) -> Result<bool, IncidentError>,
    ) -> Result<Vec<Seq>, IncidentError> {
        let mut found = Vec::new();
        for seq in (0..self.view.len()).map(Seq) {
            let record = self.view.record(seq)?;
            if !matches!(record.request, Request::Admin(AdminRequest::Recover(_)))
                && wanted(&record)?
            {
                found.push(seq);
            }
        }
        Ok(found)
    }

    /// The content that arrived with `record`, if it is not destroyed.
    fn arrived(&self, record: &Record) -> Result<Option<Vec<u8>>, IncidentError> {
        match arrival(record) {
            None => Ok(None),
            Some(content) => Ok(self.view.any_content(content)?),
        }
    }
}

/// Whether an entry has this origin. Administrative records have none.
fn is_from(record: &Record, wanted: &Origin) -> bool {
    let is_in_session = matches!(record.by, Author::Session(_));
    if !is_in_session || EntryKind::of(&record.request) == EntryKind::Decision {
        return false;
    }
    let (origin, tool) = stated_origin(&record.request);
    let Origin { host, tool: named, channel, session, since, until } = wanted;
    host.as_ref().is_none_or(|host| origin.is_some_and(|origin| names_host(origin, host)))
        && named.as_ref().is_none_or(|named| tool == Some(named.as_str()))
        && channel.is_none_or(|channel| record.label.channel() == channel)
        && session.is_none_or(|session| record.by == Author::Session(session))
        && since.is_none_or(|since| record.at >= since)
        && until.is_none_or(|until| record.at < until)
}

/// The stated origin and the tool of a request.
fn stated_origin(request: &Request) -> (Option<&str>, Option<&str>) {
    if let Request::Call(call) = request {
        return (None, Some(&call.tool));
    }
    let Request::Session(SessionRequest::Observe { kind, origin, .. }) = request else {
        return (None, None);
    };
    let is_of_tool = matches!(kind, ObservationKind::ToolCall | ObservationKind::ToolOutput);
    (origin.as_deref(), origin.as_deref().filter(|_| is_of_tool))
}

/// Whether `origin` names `host` or a host below it.
fn names_host(origin: &str, host: &str) -> bool {
    origin.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))).any(|word| {
        let word = word.trim_matches('.').to_lowercase();
        let above = word.strip_suffix(host);
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_with_everything_below_it_and_nothing_beside_it() {
        for origin in
            ["https://evil.example/a", "EVIL.example:80", "www.evil.example.", "(evil.example)"]
        {
            assert!(names_host(origin, "evil.example"), "{origin}");
        }
        for origin in ["https://notevil.example/", "evil.example.org", "example", ""] {
            assert!(!names_host(origin, "evil.example"), "{origin}");
        }
    }
}
