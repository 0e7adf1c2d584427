//! Named closures: `let name = |…| …`. A chain of iterator calls or a private function reads better, so their
//! number only falls.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{Expr, Local};

use super::finding::Finding;
use super::sources::Source;

/// The most that the workspace may have, the laboratory and this crate included. Lower it with each one that goes.
const AT_MOST: usize = 40;

/// Finds that there are more than before, and prints how many each crate has.
pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let counts = count(sources);
    let total: usize = counts.values().sum();
    for (folder, count) in &counts {
        println!("  {folder}: {count} named closures");
    }
    println!("  together: {total} named closures, at most {AT_MOST}");
    over(total, AT_MOST).into_iter().collect()
}

fn over(total: usize, at_most: usize) -> Option<Finding> {
    let what = format!("{total} named closures, over {at_most}");
    let remedy = "write an iterator chain or a private function";
    (total > at_most).then(|| Finding::in_file("Cargo.toml", what, remedy))
}

fn count(sources: &[Source]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for source in sources {
        let mut counter = Counter(0);
        counter.visit_file(&source.syntax);
        *counts.entry(source.folder.as_str()).or_default() += counter.0;
    }
    counts
}

struct Counter(usize);

impl<'ast> Visit<'ast> for Counter {
    fn visit_local(&mut self, local: &'ast Local) {
        let is_closure =
            local.init.as_ref().is_some_and(|init| matches!(*init.expr, Expr::Closure(_)));
        self.0 += usize::from(is_closure);
        visit::visit_local(self, local);
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::TrackedFiles;
    use super::super::sources;
    use super::*;

    #[test]
    fn closures_with_a_name_are_counted_in_what_ships() {
        let source = "fn f() {\n let a = |x| x;\n let b = move || { let c = |y| y; c(1) };\n let d = e.map(|z| z);\n g(|| 1);\n}\n\
                      #[cfg(test)] mod tests { fn h() { let i = || 1; } }\n";
        let files =
            TrackedFiles::from([("crates/x/src/lib.rs", source), ("lab/src/lib.rs", source)]);
        let sources = sources::read(&files).unwrap();
        assert_eq!(count(&sources), BTreeMap::from([("crates/x", 3), ("lab", 3)]));
    }

    #[test]
    fn more_than_before_are_found() {
        assert!(over(3, 3).is_none());
        assert_eq!(
            brief(over(4, 3)),
            "Cargo.toml: 4 named closures, over 3; write an iterator chain or a private function"
        );
    }

    fn brief(finding: Option<Finding>) -> String {
        finding.map(|finding| finding.to_string()).unwrap_or_default()
    }
}
