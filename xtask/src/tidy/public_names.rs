//! Public names: one type for a name in the whole workspace, and no name that the dictionary replaced.
//!
//! Public is what is written `pub`: `unreachable_pub` holds that to what other crates can reach. Types that a macro
//! of ours defines are not seen.

use std::collections::BTreeMap;

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{
    Block, ImplItemFn, ItemEnum, ItemFn, ItemImpl, ItemStruct, ItemTrait, ItemType, ItemUnion,
    Visibility,
};

use super::finding::Finding;
use super::sources::Source;

/// What a name is the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// A struct, enum, union, trait or type alias.
    Type,
    /// A free function, a method, or a function of a public trait.
    Function,
    /// A variant of a public enum.
    Variant,
}

/// A public name and where it is defined.
#[derive(Debug)]
pub(crate) struct PublicName {
    pub(crate) name: String,
    pub(crate) kind: NameKind,
    /// The enum of a variant; empty for anything else.
    pub(crate) parent: String,
    /// The folder of the crate.
    pub(crate) folder: String,
    pub(crate) file: String,
    pub(crate) line: usize,
}

impl PublicName {
    /// With the enum of a variant before it.
    pub(crate) fn full_name(&self) -> String {
        let parents = [self.parent.as_str()].into_iter().filter(|parent| !parent.is_empty());
        parents.chain([self.name.as_str()]).collect::<Vec<_>>().join("::")
    }
}

/// Every public name of the sources, in the order of the files.
pub(crate) fn public_names(sources: &[Source]) -> Vec<PublicName> {
    let mut names = Vec::new();
    for source in sources {
        let mut collector = Collector { source, names: Vec::new() };
        collector.visit_file(&source.syntax);
        names.extend(collector.names);
    }
    names
}

/// Finds the names that more than one public type has.
pub(crate) fn check_types(names: &[PublicName]) -> Vec<Finding> {
    let mut types: BTreeMap<&str, Vec<&PublicName>> = BTreeMap::new();
    for name in names.iter().filter(|name| name.kind == NameKind::Type) {
        types.entry(&name.name).or_default().push(name);
    }
    let twice = types.into_values().filter(|definitions| definitions.len() > 1);
    twice.flat_map(|definitions| of_one_name(&definitions)).collect()
}

/// A finding for each definition, which names the others.
fn of_one_name(definitions: &[&PublicName]) -> Vec<Finding> {
    let findings = definitions.iter().enumerate().map(|(at, one)| {
        let others = definitions.iter().enumerate().filter(|(other, _)| *other != at);
        let others =
            others.map(|(_, other)| format!("{}:{}", other.file, other.line)).collect::<Vec<_>>();
        Finding::on_line(
            &one.file,
            one.line,
            format!("the public type `{}` is also defined at {}", one.name, others.join(", ")),
            "one name for one concept: rename all but one, or use that one",
        )
        .about(format!("{} in {}", one.name, one.folder))
    });
    findings.collect()
}

struct Collector<'a> {
    source: &'a Source,
    names: Vec<PublicName>,
}

impl Collector<'_> {
    fn add(&mut self, kind: NameKind, name: &Ident, parent: &str) {
        self.names.push(PublicName {
            name: name.to_string(),
            kind,
            parent: parent.to_owned(),
            folder: self.source.folder.clone(),
            file: self.source.path.clone(),
            line: name.span().start().line,
        });
    }

    fn add_if_public(&mut self, visibility: &Visibility, kind: NameKind, name: &Ident) {
        if matches!(visibility, Visibility::Public(_)) {
            self.add(kind, name, "");
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.add_if_public(&item.vis, NameKind::Type, &item.ident);
    }

    fn visit_item_union(&mut self, item: &'ast ItemUnion) {
        self.add_if_public(&item.vis, NameKind::Type, &item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.add_if_public(&item.vis, NameKind::Type, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.add_if_public(&item.vis, NameKind::Type, &item.ident);
        if matches!(item.vis, Visibility::Public(_)) {
            let parent = item.ident.to_string();
            item.variants
                .iter()
                .for_each(|variant| self.add(NameKind::Variant, &variant.ident, &parent));
        }
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.add_if_public(&item.vis, NameKind::Type, &item.ident);
        if matches!(item.vis, Visibility::Public(_)) {
            for member in &item.items {
                if let syn::TraitItem::Fn(function) = member {
                    self.add(NameKind::Function, &function.sig.ident, "");
                }
            }
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add_if_public(&item.vis, NameKind::Function, &item.sig.ident);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add_if_public(&item.vis, NameKind::Function, &item.sig.ident);
    }

    /// The functions of a trait are named where the trait is.
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if item.trait_.is_none() {
            visit::visit_item_impl(self, item);
        }
    }

    /// What a function defines inside, nobody else can name.
    fn visit_block(&mut self, _: &'ast Block) {}
}

#[cfg(test)]
mod tests {
    use super::super::files::TrackedFiles;
    use super::super::finding::brief;
    use super::super::sources;
    use super::*;

    fn names(source: &str) -> Vec<PublicName> {
        let files = TrackedFiles::from([("crates/x/src/lib.rs", source)]);
        public_names(&sources::read(&files).unwrap())
    }

    #[test]
    fn public_types_functions_and_variants_are_collected_and_nothing_else() {
        let source = "pub struct A; pub(crate) struct B; struct C;\npub enum D { E, F(u8) } enum G { H }\npub trait I { fn j(); }\n\
                      trait K { fn l(); }\npub type M = u8;\npub fn n() { struct O; }\nfn p() {}\n\
                      impl A { pub fn q() {} fn r() {} }\nimpl I for A { fn j() {} }\npub mod s { pub struct T; }\n\
                      #[cfg(test)] mod tests { pub struct U; }\n";
        let found: Vec<String> = names(source).into_iter().map(|name| name.name).collect();
        assert_eq!(found.join(" "), "A D E F I j M n q T");
    }

    #[test]
    fn a_name_that_two_public_types_have_is_found() {
        let files = TrackedFiles::from([
            ("crates/x/src/lib.rs", "pub mod a;\npub struct Step;\nstruct Change;\n"),
            ("crates/x/src/a.rs", "pub enum Step { Change }\n"),
            ("lab/src/lib.rs", "pub trait Change {}\npub type Step = u8;\n"),
        ]);
        let found = brief(&check_types(&public_names(&sources::read(&files).unwrap())));
        let [a, b, c] = ["crates/x/src/a.rs:1", "crates/x/src/lib.rs:2", "lab/src/lib.rs:2"];
        let also = "the public type `Step` is also defined at";
        let expected = [
            format!("{a} {also} {b}, {c}"),
            format!("{b} {also} {a}, {c}"),
            format!("{c} {also} {a}, {b}"),
        ];
        assert_eq!(found, expected);
    }
}
