//! The top-level modules of a crate use each other one way only, so that each can be read, moved and tested
//! without those above it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, Meta, Path, UseTree, Visibility};

use super::finding::Finding;
use super::sources::Source;

/// What the root of a crate is called, as the place of what it defines itself.
const ROOT: &str = "lib.rs";

/// Finds the import cycles between the top-level modules of each crate of the product.
///
/// A module uses another if it names it in a `use` or in a path, macro calls and `serde` attributes included. What
/// the root re-exports belongs to the module that defines it, and a re-export is no use. What the root defines
/// itself belongs to a module `lib.rs`, so that a cycle cannot hide there. Every use that is part of a cycle is
/// reported, with the shortest way back.
pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let folders: BTreeSet<&str> = sources.iter().map(|source| source.folder.as_str()).collect();
    let product = folders.into_iter().filter(|folder| folder.starts_with("crates/"));
    product.flat_map(|folder| cycles_of(sources, folder)).collect()
}

fn cycles_of(sources: &[Source], folder: &str) -> Vec<Finding> {
    let modules: Vec<&Source> = sources.iter().filter(|source| source.folder == folder).collect();
    let root = Root::of(&modules);
    let mut uses = Uses::new();
    for source in modules {
        let mut imports =
            Imports { root: &root, module: source.module.clone(), places: Vec::new() };
        imports.visit_file(&source.syntax);
        for (from, to, line) in imports.places {
            uses.entry(from).or_default().entry(to).or_insert((source.path.clone(), line));
        }
    }
    let edges = uses.iter().flat_map(|(from, used)| used.keys().map(move |to| (from, to)));
    edges.filter_map(|(from, to)| finding(folder, &uses, from, to)).collect()
}

/// For each module the modules it uses, each with the first place where it does.
type Uses = BTreeMap<String, BTreeMap<String, (String, usize)>>;

/// The modules of the shortest way from `start` to `end`, both included.
fn shortest_way<'a>(uses: &'a Uses, start: &'a str, end: &str) -> Option<Vec<&'a str>> {
    let mut ways = VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::from([start]);
    while let Some(way) = ways.pop_front() {
        let last = way.last().copied()?;
        if last == end {
            return Some(way);
        }
        let used = uses.get(last).into_iter().flat_map(BTreeMap::keys);
        for next in used.filter(|next| seen.insert(next)) {
            ways.push_back([way.as_slice(), &[next.as_str()]].concat());
        }
    }
    None
}

/// The cycle that the use of `to` by `from` closes, if there is a way back.
fn finding(folder: &str, uses: &Uses, from: &str, to: &str) -> Option<Finding> {
    let way = shortest_way(uses, to, from)?;
    let back = way.windows(2).map(|step| {
        let (file, line) = &uses[step[0]][step[1]];
        format!("`{}` uses `{}` at {file}:{line}", step[0], step[1])
    });
    let (file, line) = &uses[from][to];
    let back = back.collect::<Vec<_>>().join(", ");
    let what = format!("`{from}` uses `{to}`, an import cycle: {back}");
    let remedy = "move what both sides need to a module below them";
    Some(Finding::on_line(file, *line, what, remedy).about(format!("{folder} {from} -> {to}")))
}

/// What a path that begins at the root of a crate leads to.
struct Root {
    modules: BTreeSet<String>,
    /// Names that the root re-exports, with the module they come from; none if it is another crate.
    reexported: BTreeMap<String, Option<String>>,
}

impl Root {
    fn of(sources: &[&Source]) -> Self {
        let items = sources
            .iter()
            .filter(|source| source.module.is_empty())
            .flat_map(|source| &source.syntax.items);
        let mut root = Self { modules: BTreeSet::new(), reexported: BTreeMap::new() };
        let mut imports = Vec::new();
        for item in items {
            if let Item::Mod(module) = item {
                root.modules.insert(module.ident.to_string());
            } else if let Item::Use(import) = item {
                leaves(&import.tree, &mut Vec::new(), &mut imports);
            }
        }
        for Leaf { path, name, .. } in imports {
            let first = path.iter().find(|segment| !matches!(segment.as_str(), "crate" | "self"));
            let module = first.filter(|first| root.modules.contains(*first)).cloned();
            root.reexported.insert(name, module);
        }
        root
    }

    /// The top-level module to which a path from the root leads.
    fn module_of(&self, path: &[String]) -> Option<String> {
        let first = path.first()?;
        if self.modules.contains(first) {
            return Some(first.clone());
        }
        self.reexported.get(first).cloned().unwrap_or_else(|| Some(ROOT.to_owned()))
    }
}

/// One name that a `use` brings in.
struct Leaf {
    path: Vec<String>,
    /// The name it gets here.
    name: String,
    line: usize,
}

impl Leaf {
    fn new(prefix: &[String], last: &Ident, name: &Ident) -> Self {
        let path = prefix.iter().cloned().chain([last.to_string()]).collect();
        Self { path, name: name.to_string(), line: line_of(last) }
    }
}

fn leaves(tree: &UseTree, prefix: &mut Vec<String>, found: &mut Vec<Leaf>) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            leaves(&path.tree, prefix, found);
            prefix.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|item| leaves(item, prefix, found)),
        UseTree::Name(name) if name.ident == "self" => {
            let last = prefix.last().cloned().unwrap_or_default();
            found.push(Leaf { path: prefix.clone(), name: last, line: line_of(&name.ident) });
        }
        UseTree::Name(name) => found.push(Leaf::new(prefix, &name.ident, &name.ident)),
        UseTree::Rename(rename) => found.push(Leaf::new(prefix, &rename.ident, &rename.rename)),
        UseTree::Glob(glob) => {
            let all = Ident::new("__all", glob.star_token.spans[0]);
            found.push(Leaf::new(prefix, &all, &all));
        }
    }
}

fn line_of(name: &Ident) -> usize {
    name.span().start().line
}

/// Collects which top-level modules a file uses.
struct Imports<'a> {
    root: &'a Root,
    /// Where the visitor is.
    module: Vec<String>,
    /// From, to and the line.
    places: Vec<(String, String, usize)>,
}

impl Imports<'_> {
    fn add(&mut self, path: &[String], line: usize) {
        let from = self.module.first().cloned().unwrap_or_else(|| ROOT.to_owned());
        let to = self.absolute_path(path).and_then(|path| self.root.module_of(&path));
        if let Some(to) = to.filter(|to| *to != from) {
            self.places.push((from, to, line));
        }
    }

    /// The path as the root would write it; none for what is inside this module or in another crate.
    fn absolute_path(&self, path: &[String]) -> Option<Vec<String>> {
        let ups = path.iter().take_while(|segment| *segment == "super").count();
        let rest = &path[ups..];
        match rest.first()?.as_str() {
            "crate" => Some(rest[1..].to_vec()),
            "self" => Some([&self.module, &rest[1..]].concat()),
            _ if ups > 0 => {
                let kept = self.module.len().checked_sub(ups)?;
                Some([&self.module[..kept], rest].concat())
            }
            first => {
                (self.module.is_empty() && self.root.modules.contains(first)).then(|| rest.to_vec())
            }
        }
    }

    /// The paths in what is given to a macro, which is not syntax yet.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(tree) = trees.get(at) {
            at += 1;
            match tree {
                TokenTree::Group(group) => self.add_tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let (path, length) = path_at(&trees[at - 1..]);
                    at += length - 1;
                    if path.len() > 1 {
                        self.add(&path, line_of(first));
                    }
                }
                TokenTree::Literal(literal) => {
                    self.add_text(&literal.to_string(), literal.span().start().line);
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    /// A path in a string, as `serde` takes it.
    fn add_text(&mut self, literal: &str, line: usize) {
        let text = literal.trim_matches('"');
        let path: Vec<String> = text.split("::").map(str::to_owned).collect();
        if matches!(path[0].as_str(), "crate" | "super" | "self") && path.len() > 1 {
            self.add(&path, line);
        }
    }
}

/// The path that the trees begin with, and how many of them it is.
fn path_at(trees: &[TokenTree]) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut at = 0;
    while let Some(TokenTree::Ident(segment)) = trees.get(at) {
        path.push(segment.to_string());
        at += 1;
        let goes_on = matches!(trees.get(at + 2), Some(TokenTree::Ident(_)));
        if !(is_colon(trees.get(at)) && is_colon(trees.get(at + 1)) && goes_on) {
            break;
        }
        at += 2;
    }
    (path, at)
}

fn is_colon(tree: Option<&TokenTree>) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == ':')
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        let is_reexport = !matches!(import.vis, Visibility::Inherited);
        if self.module.is_empty() && is_reexport {
            return;
        }
        let mut found = Vec::new();
        leaves(&import.tree, &mut Vec::new(), &mut found);
        found.iter().for_each(|leaf| self.add(&leaf.path, leaf.line));
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let segments: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 && path.leading_colon.is_none() {
            self.add(&segments, line_of(&path.segments[0].ident));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.add_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.add_tokens(list.tokens.clone());
        }
    }

    /// `pub(in crate::a)` says who may use an item and uses nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

#[cfg(test)]
mod tests {
    use super::super::files::TrackedFiles;
    use super::super::finding::brief;
    use super::super::sources;
    use super::*;

    fn found(root: &str, a: &str, b: &str) -> Vec<String> {
        let files = TrackedFiles::from([
            ("crates/x/src/lib.rs", root),
            ("crates/x/src/a.rs", a),
            ("crates/x/src/b/mod.rs", "mod c;"),
            ("crates/x/src/b/c.rs", b),
        ]);
        brief(&check(&sources::read(&files).unwrap()))
    }

    #[test]
    fn two_modules_that_use_each_other_are_found_however_they_say_so() {
        let ways = [
            "use crate::a::A;",
            "use crate::{a::{self, A}, z};",
            "use super::super::a::A;",
            "use crate::A;",
            "fn f() -> crate::a::A { todo!() }",
            "fn f() { g(&crate::a::A) }",
            "fn f() { println!(\"{}\", [crate::a::A]) }",
            "#[serde(with = \"crate::a\")] struct S;",
            "mod d { use super::super::super::a::A; }",
            "pub use crate::a::A;",
        ];
        for way in ways {
            let expected = [
                "crates/x/src/a.rs:1 `a` uses `b`, an import cycle: `b` uses `a` at crates/x/src/b/c.rs:1",
                "crates/x/src/b/c.rs:1 `b` uses `a`, an import cycle: `a` uses `b` at crates/x/src/a.rs:1",
            ];
            let root = "mod a;\nmod b;\npub use a::A;\n";
            assert_eq!(found(root, "use crate::b::B;", way), expected, "{way}");
        }
    }

    #[test]
    fn one_direction_the_own_module_and_other_crates_are_no_cycle() {
        let ways = [
            "use super::c::B;",
            "use crate::b::B;",
            "use self::d::D; mod d {}",
            "use a::A;",
            "use ::a::A;",
            "/// See [`crate::a`].\npub(in crate::a) struct S;",
            "#[cfg(test)] mod tests { use crate::a::A; }",
            "use crate::Digest;",
        ];
        for way in ways {
            let root = "mod a;\nmod b;\npub use a::A;\npub use custody_log::Digest;\n";
            assert_eq!(found(root, "use crate::b::B;", way), [""; 0], "{way}");
        }
    }

    #[test]
    fn what_the_root_defines_is_a_module_of_its_own_and_what_it_re_exports_is_not() {
        let root = "mod a;\nmod b;\npub use a::A;\nfn f() {\n    a::g();\n}\npub struct S;\n";
        let expected = [
            "crates/x/src/a.rs:1 `a` uses `lib.rs`, an import cycle: `lib.rs` uses `a` at crates/x/src/lib.rs:5",
            "crates/x/src/lib.rs:5 `lib.rs` uses `a`, an import cycle: `a` uses `lib.rs` at crates/x/src/a.rs:1",
        ];
        assert_eq!(found(root, "use crate::S;", ""), expected);
        assert_eq!(found(root, "", "use crate::A;"), [""; 0]);
    }

    #[test]
    fn a_longer_cycle_is_described_as_a_whole_and_the_laboratory_is_free() {
        let [a, b, c] = ["use crate::b::X;", "use crate::c::X;", "use crate::a::X;"];
        let root = "mod a; mod b; mod c; mod d;";
        let product = TrackedFiles::from([
            ("crates/x/src/lib.rs", root),
            ("crates/x/src/a.rs", a),
            ("crates/x/src/b.rs", b),
            ("crates/x/src/c.rs", c),
            ("crates/x/src/d.rs", a),
        ]);
        let cycle = "`a` uses `b`, an import cycle: `b` uses `c` at crates/x/src/b.rs:1, `c` uses `a` at crates/x/src/c.rs:1";
        let found = brief(&check(&sources::read(&product).unwrap()));
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], format!("crates/x/src/a.rs:1 {cycle}"));

        let laboratory = [("lab/src/lib.rs", root), ("lab/src/a.rs", b), ("lab/src/c.rs", c)];
        assert!(check(&sources::read(&TrackedFiles::from(laboratory)).unwrap()).is_empty());
    }
}
