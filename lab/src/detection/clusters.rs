//! Rates over cases that come in clusters, such as one attack planted in several places.
//!
//! Cases of one cluster tend to fare alike, so that they tell less than as many clusters would. An interval counts
//! them by their effective number, cases / (1 + (m - 1) ρ), where m is the mean size of the cluster that a case is in
//! and ρ the correlation within clusters.
//!
//! Source: Kish, "Survey sampling", 1965 (the design effect of clusters); Ridout, Demétrio and Firth, "Estimating
//! intraclass correlation for binary data", Biometrics 55, 1999 (ρ by analysis of variance).

use std::collections::BTreeMap;

use crate::report::{Figure, wilson_of_rate};

/// How often cases were found, by their clusters.
#[derive(Debug, Clone, Default)]
pub(super) struct Clusters<'a>(BTreeMap<&'a str, Cluster>);

#[derive(Debug, Clone, Copy, Default)]
struct Cluster {
    hits: f64,
    cases: f64,
}

impl<'a> Clusters<'a> {
    /// One more case of `cluster`.
    pub(super) fn add(&mut self, cluster: &'a str, hit: bool) {
        let cluster = self.0.entry(cluster).or_default();
        cluster.hits += f64::from(u8::from(hit));
        cluster.cases += 1.0;
    }

    fn sum(&self, of: impl Fn(&Cluster) -> f64) -> f64 {
        self.0.values().map(of).sum()
    }

    fn rate(&self) -> f64 {
        self.sum(|cluster| cluster.hits) / self.sum(|cluster| cluster.cases)
    }

    /// The mean size of the cluster that a case is in.
    fn size(&self) -> f64 {
        self.sum(|cluster| cluster.cases * cluster.cases) / self.sum(|cluster| cluster.cases)
    }

    /// ρ, between 0 and 1; 1 where nothing tells it, as when all cases fare alike.
    pub(super) fn correlation(&self) -> f64 {
        let (count, cases, rate) =
            (self.0.len() as f64, self.sum(|cluster| cluster.cases), self.rate());
        let between = self.sum(|cluster| {
            let own = cluster.hits / cluster.cases;
            cluster.cases * (own - rate) * (own - rate)
        });
        let within = self.sum(|cluster| cluster.hits * (1.0 - cluster.hits / cluster.cases));
        let (between, within) = (between / (count - 1.0), within / (cases - count));
        let size = (cases - self.size()) / (count - 1.0);
        let correlation = (between - within) / (between + (size - 1.0) * within);
        if correlation.is_finite() { correlation.clamp(0.0, 1.0) } else { 1.0 }
    }

    /// The rate, with an interval for cases that are correlated so within clusters.
    pub(super) fn figure(&self, id: &str, correlation: f64) -> Figure {
        let cases = self.sum(|cluster| cluster.cases);
        if cases == 0.0 {
            return Figure::unmeasured(id, "rate", "nothing was tried");
        }
        let effective = cases / (1.0 + (self.size() - 1.0) * correlation);
        let ci95 = Some(wilson_of_rate(self.rate(), effective));
        Figure { ci95, ..Figure::real(id, self.rate(), "rate") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::wilson;

    /// Of each cluster how many cases there are and how many were found.
    fn clusters(all: &[(&'static str, u64, u64)]) -> Clusters<'static> {
        let mut clusters = Clusters::default();
        for (name, cases, hits) in all {
            (0..*cases).for_each(|at| clusters.add(name, at < *hits));
        }
        clusters
    }

    #[test]
    fn cases_that_all_fare_alike_count_once_a_cluster() {
        let found = clusters(&[("a", 6, 6), ("b", 6, 0), ("c", 6, 6), ("d", 6, 0)]);
        assert_eq!(found.correlation(), 1.0);
        assert_eq!(found.figure("x", 1.0).ci95, Some(wilson(2, 4)));
        // Nothing says that two clusters found whole are more than two.
        let whole = clusters(&[("a", 3, 3), ("b", 3, 3)]);
        assert_eq!(whole.figure("x", whole.correlation()).ci95, Some(wilson(2, 2)));
    }

    #[test]
    fn cases_that_fare_as_they_please_count_each() {
        let found = clusters(&[("a", 6, 3), ("b", 6, 3), ("c", 6, 3)]);
        assert_eq!(found.correlation(), 0.0);
        assert_eq!(found.figure("x", 0.0).ci95, Some(wilson(9, 18)));
        let single = clusters(&[("a", 1, 1), ("b", 1, 0), ("c", 1, 1)]);
        assert_eq!(single.figure("x", single.correlation()).ci95, Some(wilson(2, 3)));
    }

    #[test]
    fn the_correlation_is_that_of_the_analysis_of_variance() {
        let found = clusters(&[("a", 4, 4), ("b", 4, 1), ("c", 4, 1)]);
        // By hand: sums of squares 1.5 and 1.5, degrees of freedom 2 and 9.
        let (between, within) = (1.5 / 2.0, 1.5 / 9.0);
        let expected = (between - within) / (between + 3.0 * within);
        assert!((found.correlation() - expected).abs() < 1e-12, "{}", found.correlation());
    }
}
