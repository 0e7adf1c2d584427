//! What the papers and their repository say of D1–D5.

/// MON Tables 1–3, a line for each data set and detector. [`COLUMNS`] are accuracy and the like in per cent, latency in
/// milliseconds.
const TABLES: &str = "
    deepset  d1 50.86 100.00  5.00  9.52 52.50   0.07
    deepset  d2 90.52  98.04 83.33 90.09 97.44   0.19
    deepset  d3 67.24 100.00 36.67 53.66 89.57 375.5
    deepset  d4 94.83 100.00 90.00 94.74 97.74  22.5
    deepset  d5 94.83 100.00 90.00 94.74 99.14  22.2
    jackhhao d1 61.07  79.37 35.97 49.50 62.75   0.78
    jackhhao d2 96.56  99.24 94.24 96.68 99.51   1.78
    jackhhao d3 90.84  98.32 84.17 90.70 97.91 513.7
    jackhhao d4 97.33  97.14 97.84 97.49 98.87  55.1
    jackhhao d5 97.33  97.14 97.84 97.49 99.63  55.8
    combined d1 58.92  33.33 32.18 32.75 51.85   0.68
    combined d2 95.54  95.29 90.10 92.62 98.26   1.35
    combined d3 92.00  96.88 76.73 85.64 92.62 228.0
    combined d4 96.31  97.85 90.10 93.81 98.18  56.7
    combined d5 96.62  97.87 91.09 94.36 98.75  59.0
";

const COLUMNS: [&str; 6] = ["accuracy", "precision", "recall", "f1", "auroc", "latency_us_p50"];

/// The table of each data set.
const SOURCES: [(&str, &str); 3] =
    [("deepset", "MON Table 1"), ("jackhhao", "MON Table 2"), ("combined", "MON Table 3")];

/// F1 and AUROC of D4 and D5 in the newer run of the repository, in per cent: higher than the paper's.
const NEWER: [(&str, &str, f64, f64); 6] = [
    ("deepset", "d4", 96.6, 99.3),
    ("jackhhao", "d4", 98.2, 99.6),
    ("combined", "d4", 95.7, 99.0),
    ("deepset", "d5", 96.6, 99.3),
    ("jackhhao", "d5", 98.2, 99.6),
    ("combined", "d5", 96.5, 99.0),
];

/// The reference's counts for D2: TP, TN, FP, FN.
const COUNTS: [(&str, [f64; 4]); 3] = [
    ("deepset", [50.0, 55.0, 1.0, 10.0]),
    ("jackhhao", [131.0, 122.0, 1.0, 8.0]),
    ("combined", [182.0, 439.0, 9.0, 20.0]),
];

/// What is published for a figure of a method on a data set, in the figure's unit, and where.
///
/// For F1 and AUROC of D4 and D5 that is the newer run of the repository, which is the harder bar.
pub fn published(data_set: &str, method: &str, figure: &str) -> Option<(f64, &'static str)> {
    newer(data_set, method, figure)
        .or_else(|| counts(data_set, method, figure))
        .or_else(|| tables(data_set, method, figure))
}

fn newer(data_set: &str, method: &str, figure: &str) -> Option<(f64, &'static str)> {
    let found = NEWER.iter().find(|(set, name, ..)| *set == data_set && *name == method);
    let (_, _, f1, auroc) = found?;
    match figure {
        "f1" => Some((f1 / 100.0, "newer run of MON's repository (docs/papers.md §2.4)")),
        "auroc" => Some((auroc / 100.0, "newer run of MON's repository")),
        _ => None,
    }
}

fn counts(data_set: &str, method: &str, figure: &str) -> Option<(f64, &'static str)> {
    let (_, counts) = COUNTS.iter().find(|(set, _)| *set == data_set && method == "d2")?;
    let at = ["tp", "tn", "fp", "fn"].iter().position(|name| *name == figure)?;
    Some((counts[at], "result file of MON's repository"))
}

fn tables(data_set: &str, method: &str, figure: &str) -> Option<(f64, &'static str)> {
    let (_, source) = SOURCES.iter().find(|(set, _)| *set == data_set)?;
    let row = TABLES.lines().find_map(|line| {
        let values = line.trim().strip_prefix(data_set)?.trim_start().strip_prefix(method)?;
        values.starts_with(' ').then_some(values)
    });
    let at = COLUMNS.iter().position(|name| *name == figure)?;
    let value: f64 = row?.split_whitespace().nth(at)?.parse().ok()?;
    let scale = if figure == "latency_us_p50" { 1e3 } else { 1e-2 };
    Some((value * scale, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harder_bar_is_the_one_shown() {
        let near = |found: Option<(f64, &str)>, value: f64, source: &str| {
            let (found, said) = found.unwrap();
            assert!((found - value).abs() < 1e-12 && said.starts_with(source), "{found} {said}");
        };
        near(published("deepset", "d4", "f1"), 0.966, "newer run");
        near(published("deepset", "d4", "recall"), 0.9, "MON Table 1");
        near(published("combined", "d2", "fn"), 20.0, "result file");
        near(published("combined", "d2", "latency_us_p50"), 1_350.0, "MON Table 3");
        assert_eq!(published("deepset", "full", "f1"), None);
        assert_eq!(published("deepset", "d1", "tp"), None);
        for (set, _) in SOURCES {
            for method in ["d1", "d2", "d3", "d4", "d5"] {
                let found = COLUMNS.map(|figure| tables(set, method, figure));
                assert!(found.iter().all(Option::is_some), "{set} {method}");
            }
        }
    }
}
