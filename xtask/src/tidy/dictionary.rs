//! Names that were replaced stay replaced: public identifiers use the field's words.
//!
//! A word counts only as what it was replaced as. `By` and `Which` are no names of types, but fields and variants
//! may be called so; `told` and `made` are no functions, but may be variables. `Found` and `Absent` are replaced as
//! what a request asks for and an answer says; another enum may have them. A word whose other meaning is ordinary
//! names the folders in which the replaced meaning would stand: `leaves` is right of a Merkle tree and wrong of the
//! arguments of a call, and `Verdict` is right of a judgement and wrong of a draft of the state. What a format
//! calls its fields is no identifier.

use super::finding::Finding;
use super::public_names::{NameKind, PublicName};

/// A word and what is written instead.
struct Replaced {
    word: &'static str,
    /// What may not be called so.
    kind: NameKind,
    /// For a variant, the enums that it is about; all if there is none.
    parents: &'static [&'static str],
    /// The folders that it is about; all if there is none.
    folders: &'static [&'static str],
    instead: &'static str,
}

const fn type_named(word: &'static str, instead: &'static str) -> Replaced {
    Replaced { word, kind: NameKind::Type, parents: &[], folders: &[], instead }
}

const fn function(word: &'static str, instead: &'static str) -> Replaced {
    Replaced { word, kind: NameKind::Function, parents: &[], folders: &[], instead }
}

const fn variant(
    word: &'static str,
    parents: &'static [&'static str],
    instead: &'static str,
) -> Replaced {
    Replaced { word, kind: NameKind::Variant, parents, folders: &[], instead }
}

const DICTIONARY: &[Replaced] = &[
    type_named("Around", "CallContext"),
    type_named("Asked", "SubmittedRequest"),
    type_named("Became", "a noun: what it became"),
    type_named("Because", "Reason"),
    type_named("By", "Author"),
    type_named("Compared", "ComparisonResult"),
    type_named("Culprit", "TaintSource"),
    type_named("Deed", "Effect"),
    type_named("Fate", "AdapterAction"),
    type_named("Heard", "TextIndex, StageResult or SegmentScore"),
    type_named("Mended", "RepairResult"),
    type_named("Named", "DependencyRef"),
    type_named("Says", "Decision"),
    type_named("Sought", "Query"),
    type_named("Standing", "ApprovalStatus or Marks"),
    type_named("StoodFirst", "a noun: which version was there first"),
    type_named("Surroundings", "WriteContext"),
    type_named("Told", "Values"),
    type_named("Tried", "SandboxResult"),
    type_named("Which", "a noun for the thing selected"),
    type_named("Who", "PrincipalClaim"),
    Replaced {
        word: "Verdict",
        kind: NameKind::Type,
        parents: &[],
        folders: &["crates/kernel/src/state/"],
        instead: "Draft",
    },
    variant("Absent", &["Answer"], "NotFound"),
    variant("Found", &["Request", "Answer"], "CreateStore of a request, Value of an answer"),
    variant("Hears", &[], "a word for what happens to the text"),
    variant("Said", &[], "a word for where the text came from"),
    variant("Says", &[], "a noun for what is decided or contained"),
    variant("Told", &[], "a noun for what was given"),
    function("founds", "supports"),
    function("go_on", "resume"),
    function("hears", "index_text"),
    function("keeps_book_of", "tracks"),
    function("look_again", "recompute"),
    function("made", "a verb in the imperative"),
    function("meet", "join"),
    function("said", "user_text"),
    function("spoil", "taint"),
    function("stands", "is_valid"),
    function("tell", "print or render"),
    function("told", "print, render, or a noun for what is given"),
    function("trusts", "add_trusted_value"),
    Replaced {
        word: "leaves",
        kind: NameKind::Function,
        parents: &[],
        folders: &["crates/arguments/", "crates/record/src/tool/", "crates/policy/"],
        instead: "values",
    },
];

/// Finds public identifiers that the dictionary replaces.
pub(crate) fn check(names: &[PublicName]) -> Vec<Finding> {
    let replaced = names.iter().filter_map(|name| {
        let entry = DICTIONARY.iter().find(|entry| entry.is_about(name))?;
        let kind = match name.kind {
            NameKind::Type => "type",
            NameKind::Function => "function",
            NameKind::Variant => "variant",
        };
        let what = format!("the {kind} `{}` has a name that was replaced", name.name);
        let remedy = format!("call it: {}", entry.instead);
        let subject = format!("{} {kind} {}", name.folder, name.full_name());
        Some(Finding::on_line(&name.file, name.line, what, remedy).about(subject))
    });
    replaced.collect()
}

impl Replaced {
    fn is_about(&self, name: &PublicName) -> bool {
        let mut folders = self.folders.iter();
        self.kind == name.kind
            && self.word == name.name
            && (self.parents.is_empty() || self.parents.contains(&name.parent.as_str()))
            && (self.folders.is_empty() || folders.any(|folder| name.file.starts_with(folder)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::TrackedFiles;
    use super::super::finding::brief;
    use super::super::{public_names, sources};
    use super::*;

    fn found(file: &str, source: &str) -> Vec<String> {
        let folder = file.rsplit_once('/').unwrap().0;
        let root = format!("{}/src/lib.rs", file.split_once("/src/").unwrap().0);
        let declaration = format!("pub mod {};", folder.rsplit('/').next().unwrap());
        let files = match file == root {
            true => TrackedFiles::from([(file, source)]),
            false => TrackedFiles::from([(file, source), (root.as_str(), declaration.as_str())]),
        };
        brief(&check(&public_names::public_names(&sources::read(&files).unwrap())))
    }

    #[test]
    fn a_replaced_name_is_found_as_what_it_was_replaced_as() {
        let cases = [
            ("pub enum By { A }", "the type `By` has a name that was replaced"),
            ("pub type Who = u8;", "the type `Who` has a name that was replaced"),
            ("pub trait T { fn hears(); }", "the function `hears` has a name that was replaced"),
            (
                "pub struct A; impl A { pub fn told(&self) {} }",
                "the function `told` has a name that was replaced",
            ),
            ("pub enum Answer { Absent }", "the variant `Absent` has a name that was replaced"),
        ];
        for (source, expected) in cases {
            let expected = [format!("crates/x/src/lib.rs:1 {expected}")];
            assert_eq!(found("crates/x/src/lib.rs", source), expected, "{source}");
        }
    }

    #[test]
    fn the_same_word_in_another_meaning_is_not_found() {
        let cases = [
            "enum By { A }",
            "pub struct A { pub by: u8, pub told: u8 }",
            "pub enum Edge { By, Which }",
            "pub enum Seen { Absent, Found }",
            "fn told() {}",
            "pub fn leaves() {}",
            "pub enum Verdict { A }",
        ];
        for source in cases {
            assert_eq!(found("crates/x/src/lib.rs", source), [""; 0], "{source}");
        }
    }

    #[test]
    fn a_word_with_an_ordinary_meaning_counts_where_the_other_one_stood() {
        let cases = [
            ("crates/arguments/src/lib.rs", "pub fn leaves() {}", 1),
            ("crates/log/src/lib.rs", "pub fn leaves() {}", 0),
            ("crates/kernel/src/state/mod.rs", "pub struct Verdict;", 1),
            ("crates/record/src/tool/mod.rs", "pub struct Verdict;", 0),
        ];
        for (file, source, expected) in cases {
            assert_eq!(found(file, source).len(), expected, "{file}");
        }
    }
}
