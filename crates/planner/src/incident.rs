//! An incident: the evidence, and everything it reached.

use custody_kernel::evidence::{Evidence, Finding};
use custody_kernel::score::Score;
use custody_log::Seq;

use crate::closure::{Closure, ClosureError, WalkMode};
use crate::graph::Graph;

/// The findings of one incident on one graph, and their causal closure.
///
/// Every finding is a seed. What derives from *direct* evidence is [confirmed](Self::is_confirmed). What derives from a
/// similarity alone is a member too, but is not quarantined for it until a person names the entry: a similarity is the
/// estimate of a model.
#[derive(Debug, Clone)]
pub struct IncidentClosure<'g> {
    /// Ascending, each once.
    findings: Vec<Finding>,
    closure: Closure<'g>,
    confirmed: Closure<'g>,
}

impl<'g> IncidentClosure<'g> {
    /// Follows `findings` through `graph`.
    ///
    /// # Errors
    /// When a finding names an entry that the graph does not have.
    pub fn trace(graph: &'g Graph, findings: &[Finding]) -> Result<Self, ClosureError> {
        let mut findings = findings.to_vec();
        findings.sort_unstable();
        findings.dedup();
        let all: Vec<Seq> = findings.iter().map(|finding| finding.entry).collect();
        let direct = findings.iter().filter(|finding| finding.by.is_direct());
        let direct: Vec<Seq> = direct.map(|finding| finding.entry).collect();
        let closure = Closure::new(graph, WalkMode::Causal, &all)?;
        let confirmed = Closure::new(graph, WalkMode::Causal, &direct)?;
        Ok(Self { findings, closure, confirmed })
    }

    /// Everything that was found, ascending.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// What was found and all that derives from it.
    pub const fn closure(&self) -> &Closure<'g> {
        &self.closure
    }

    /// Whether `entry` was found by direct evidence or derives from such an entry.
    pub fn is_confirmed(&self, entry: Seq) -> bool {
        self.confirmed.contains(entry)
    }

    /// Whether `entry` itself was found by direct evidence.
    pub fn has_direct_evidence(&self, entry: Seq) -> bool {
        self.evidence(entry).any(Evidence::is_direct)
    }

    /// P(contaminated | e): the strongest evidence for the entry itself, 0 without any.
    ///
    /// Taint is not considered: most of a record is tainted, because it came from outside.
    pub fn contamination(&self, entry: Seq) -> Score {
        self.evidence(entry).map(Evidence::strength).max().unwrap_or(Score::ZERO)
    }

    fn evidence(&self, entry: Seq) -> impl Iterator<Item = Evidence> + '_ {
        let from = self.findings.partition_point(|finding| finding.entry < entry);
        let rest = self.findings.get(from..).unwrap_or_default();
        rest.iter().take_while(move |finding| finding.entry == entry).map(|finding| finding.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphNode;

    #[test]
    fn the_strongest_evidence_counts_and_a_guess_confirms_nothing() {
        let after = |parent: &'static [Seq]| GraphNode { parents: parent, ..GraphNode::default() };
        let graph = Graph::new([after(&[]), after(&[]), after(&[Seq(1)])]).unwrap();
        let similar = |entry, strength| Finding {
            entry: Seq(entry),
            indicator: 0,
            by: Evidence::Similarity(Score::new(strength).unwrap()),
        };
        let named = Finding { entry: Seq(0), indicator: 1, by: Evidence::Text };
        let incident = IncidentClosure::trace(
            &graph,
            &[similar(1, 0.8), similar(0, 0.9), named, similar(1, 0.7)],
        )
        .unwrap();
        assert_eq!(incident.contamination(Seq(0)), Score::ONE);
        assert_eq!(incident.contamination(Seq(1)), Score::new(0.8).unwrap());
        assert_eq!(incident.contamination(Seq(2)), Score::ZERO);
        let confirmed = [0, 1, 2].map(|entry| incident.is_confirmed(Seq(entry)));
        assert_eq!(confirmed, [true, false, false]);
        assert_eq!(incident.closure().len(), 3);
    }
}
