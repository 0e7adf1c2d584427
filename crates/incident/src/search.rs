//! Search: which entries the indicators point to. Reads everything, tenants and quarantine included, and marks
//! nothing.

use custody_kernel::evidence::{Evidence, Finding};
use custody_kernel::kind::EntryKind;
use custody_kernel::memory::item::ContentRef;
use custody_kernel::record::{
    AdminRequest, Answer, Author, ObservationKind, Record, Request, SessionRequest,
};
use custody_log::Seq;
use custody_runtime::store::{View, content_of};
use memchr::memmem;
use regex_automata::meta::Regex;

use crate::IncidentError;
use crate::indicator::{Indicator, Origin};
use crate::neighbours::{SIMILAR, Vectors};
use crate::store::Incidents;

/// The largest automaton that a pattern may need, in bytes.
const MAX_PATTERN_BYTES: usize = 4 << 20;

/// What indicators found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Every finding, ascending.
    pub findings: Vec<Finding>,
    /// The same, told by indicator.
    pub hits: Vec<Hits>,
}

/// What one indicator found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hits {
    /// The indicator.
    pub indicator: Indicator,
    /// How many entries it points to.
    pub entries: u64,
    /// Why it could not be looked for, if it could not.
    pub not_searched: Option<String>,
}

impl Incidents<'_> {
    /// Finds the entries that `indicators` point to, across tenants. Linear in the record for patterns and origins;
    /// ids, hashes and texts are looked up.
    ///
    /// # Errors
    /// [`IncidentError::Pattern`], [`IncidentError::Store`], or when the store cannot be read.
    pub fn find(&self, indicators: &[Indicator]) -> Result<Found, IncidentError> {
        self.find_with(indicators, None)
    }

    /// The same, and by similarity with the vectors of a model.
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

    /// Everything but what is only similar.
    fn find_stated(&self, indicators: &[Indicator]) -> Result<Found, IncidentError> {
        self.store.look(|view| {
            let record = Searched { view };
            let mut found = Found::default();
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
        let is_similar = |hits: &Hits| matches!(hits.indicator, Indicator::Similar(_));
        if !found.hits.iter().any(is_similar) {
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

    /// Brings the indexes of texts up to the record, step by step so that writers are not held up. `progress` is told
    /// after each step how many there were.
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

/// One moment of a store that is searched.
struct Searched<'a> {
    view: View<'a>,
}

impl Searched<'_> {
    /// Adds what `indicator` points to. Returns why it could not be looked for, if it could not.
    fn look(
        &self,
        number: u32,
        indicator: &Indicator,
        findings: &mut Vec<Finding>,
    ) -> Result<Option<String>, IncidentError> {
        let found = |by| move |entry| Finding { entry, indicator: number, by };
        match indicator {
            Indicator::Entry(id) => {
                let seq = self.view.position(*id)?;
                findings.push(found(Evidence::Id)(seq));
            }
            Indicator::Position(seq) => {
                self.view.record(*seq)?;
                findings.push(found(Evidence::Id)(*seq));
            }
            Indicator::Hash(hash) => {
                let entries = self.view.indexed_with_hash(*hash)?;
                let adapter = self.view.state().adapter(*hash);
                let loads = adapter.map(|adapter| adapter.brought_by.clone()).unwrap_or_default();
                findings.extend(loads.into_iter().map(found(Evidence::Hash)));
                findings.extend(entries.into_iter().map(found(Evidence::Hash)));
            }
            Indicator::Text(text) => {
                let entries = self.containing(text)?;
                findings.extend(entries.into_iter().map(found(Evidence::Text)));
            }
            Indicator::Pattern(pattern) => {
                let entries = self.matching(pattern)?;
                findings.extend(entries.into_iter().map(found(Evidence::Pattern)));
            }
            Indicator::Origin(origin) => {
                let entries = self.records(|record| Ok(is_from(record, origin)))?;
                findings.extend(entries.into_iter().map(found(Evidence::Origin)));
            }
            Indicator::Similar(_) => {
                return Ok(Some("no embedding model was given".to_owned()));
            }
        }
        Ok(None)
    }

    /// The arrivals whose content holds `text`, in any case of letters.
    fn containing(&self, text: &str) -> Result<Vec<Seq>, IncidentError> {
        let Some(candidates) = self.view.may_contain(text)? else {
            return Ok(Vec::new());
        };
        let wanted = text.to_lowercase();
        let finder = memmem::Finder::new(&wanted);
        let mut found = Vec::new();
        for seq in candidates {
            let record = self.view.record(seq)?;
            let Some(bytes) = self.arrived(&record)? else { continue };
            if finder.find(String::from_utf8_lossy(&bytes).to_lowercase().as_bytes()).is_some() {
                found.push(seq);
            }
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

    /// The content that arrived with `record` and is still there.
    fn arrived(&self, record: &Record) -> Result<Option<Vec<u8>>, IncidentError> {
        match arrival(record) {
            None => Ok(None),
            Some(content) => Ok(self.view.any_content(content)?),
        }
    }
}

/// The content that arrived with `record` itself and was kept.
pub(crate) fn arrival(record: &Record) -> Option<ContentRef> {
    let is_kept = !matches!(record.answer, Answer::Refused(_));
    content_of(record).filter(|content| is_kept && content.arrival == record.seq)
}

/// Whether an entry came from there. What governs the store itself came from nowhere.
fn is_from(record: &Record, wanted: &Origin) -> bool {
    let is_in_session = matches!(record.by, Author::Session(_));
    if !is_in_session || EntryKind::of(&record.request) == EntryKind::Decision {
        return false;
    }
    let (origin, tool) = said_of(&record.request);
    let Origin { host, tool: named, channel, session, since, until } = wanted;
    host.as_ref().is_none_or(|host| origin.is_some_and(|origin| names_host(origin, host)))
        && named.as_ref().is_none_or(|named| tool == Some(named.as_str()))
        && channel.is_none_or(|channel| record.label.channel() == channel)
        && session.is_none_or(|session| record.by == Author::Session(session))
        && since.is_none_or(|since| record.at >= since)
        && until.is_none_or(|until| record.at < until)
}

/// What a request says of where it came from, and of which tool.
fn said_of(request: &Request) -> (Option<&str>, Option<&str>) {
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
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    origin.split(|c| !is_part(c)).any(|word| {
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
