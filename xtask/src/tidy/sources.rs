//! The Rust sources of our crates as syntax trees, without what only tests compile.

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::Item;

use super::files::TrackedFiles;

/// One source file of a crate, as a module of that crate.
pub(crate) struct Source {
    /// Relative to the workspace root.
    pub(crate) path: String,
    /// The folder of the crate: `crates/kernel`.
    pub(crate) folder: String,
    /// The module that the file is: empty for the root of the crate.
    pub(crate) module: Vec<String>,
    /// Without items marked `#[test]`, `#[cfg(test)]` or `#[cfg(all(test, …))]`.
    pub(crate) syntax: syn::File,
}

/// The sources of the crates below `crates/` and `examples/` and of those beside them: every file that the crate's
/// root declares as a module, directly or through others, not for tests alone.
///
/// # Errors
/// When a file is not Rust.
pub(crate) fn read(files: &TrackedFiles) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for (path, text) in files.ending(".rs") {
        let Some((folder, module)) = place(path, files) else { continue };
        let syntax = parse(text).with_context(|| format!("could not read `{path}`"))?;
        sources.push(Source { path: path.to_owned(), folder, module, syntax });
    }
    let declared: BTreeSet<(String, Vec<String>)> = sources.iter().flat_map(declared).collect();
    sources.retain(|source| {
        let prefixes = (1..=source.module.len()).map(|length| source.module[..length].to_vec());
        prefixes.into_iter().all(|module| declared.contains(&(source.folder.clone(), module)))
    });
    Ok(sources)
}

/// The crate and the module that a path stands for; nothing for a path that is no module of a crate of ours.
fn place(path: &str, files: &TrackedFiles) -> Option<(String, Vec<String>)> {
    let (folder, file) = path.split_once("/src/")?;
    let is_crate = match folder.split('/').collect::<Vec<_>>()[..] {
        ["lab" | "xtask"] => true,
        [parent, _] => matches!(parent, "crates" | "examples"),
        _ => false,
    };
    let mut module: Vec<String> = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    match module.last()?.as_str() {
        "mod" => drop(module.pop()),
        "lib" if module.len() == 1 => module.clear(),
        // Beside a library, `main.rs` is the root of another crate.
        "main" if module.len() == 1 && files.contains(&format!("{folder}/src/lib.rs")) => {
            return None;
        }
        "main" if module.len() == 1 => module.clear(),
        _ => {}
    }
    is_crate.then(|| (folder.to_owned(), module))
}

/// A source file without what only tests compile.
///
/// # Errors
/// When the text is not Rust.
pub(crate) fn parse(text: &str) -> Result<syn::File> {
    let stream: TokenStream = text.parse().map_err(|error| anyhow!("not Rust: {error}"))?;
    Ok(syn::parse2(without_tests(stream))?)
}

/// The modules that a file declares, inline ones included.
fn declared(source: &Source) -> Vec<(String, Vec<String>)> {
    let mut modules = Vec::new();
    declared_in(&source.syntax.items, &source.module, &mut modules);
    modules.into_iter().map(|module| (source.folder.clone(), module)).collect()
}

fn declared_in(items: &[Item], parent: &[String], modules: &mut Vec<Vec<String>>) {
    for item in items {
        let Item::Mod(declaration) = item else { continue };
        let module = [parent, &[declaration.ident.to_string()]].concat();
        if let Some((_, items)) = &declaration.content {
            declared_in(items, &module, modules);
        }
        modules.push(module);
    }
}

fn without_tests(stream: TokenStream) -> TokenStream {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut shipped = Vec::new();
    let mut at = 0;
    while at < trees.len() {
        let attributes = attributes(&trees[at..]);
        let kept = if attributes.iter().any(|attribute| is_for_tests(attribute)) {
            at = end_of_item(&trees, at + 2 * attributes.len());
            0
        } else {
            (2 * attributes.len()).max(1)
        };
        shipped.extend(trees[at..at + kept].iter().map(inside_without_tests));
        at += kept;
    }
    shipped.into_iter().collect()
}

/// The attributes that the trees begin with, each as its brackets; a doc comment is one.
fn attributes(trees: &[TokenTree]) -> Vec<&TokenTree> {
    let pairs = trees.chunks_exact(2).map_while(|pair| match pair {
        [mark, TokenTree::Group(group)]
            if is_punct(mark, '#') && group.delimiter() == Delimiter::Bracket =>
        {
            Some(&pair[1])
        }
        _ => None,
    });
    pairs.collect()
}

fn inside_without_tests(tree: &TokenTree) -> TokenTree {
    let TokenTree::Group(group) = tree else { return tree.clone() };
    let mut kept = proc_macro2::Group::new(group.delimiter(), without_tests(group.stream()));
    kept.set_span(group.span());
    TokenTree::Group(kept)
}

fn is_for_tests(attribute: &TokenTree) -> bool {
    let TokenTree::Group(group) = attribute else { return false };
    let words: String = group.stream().to_string().split_whitespace().collect();
    words == "test" || words == "cfg(test)" || words.starts_with("cfg(all(test,")
}

/// The index after the item at `start`: after its `;` or its body, else the end.
fn end_of_item(trees: &[TokenTree], start: usize) -> usize {
    trees[start..].iter().position(is_end).map_or(trees.len(), |length| start + length + 1)
}

/// Whether an item ends with it: a `;` or a body.
fn is_end(tree: &TokenTree) -> bool {
    is_punct(tree, ';')
        || matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

fn is_punct(tree: &TokenTree, expected: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &TrackedFiles) -> Vec<String> {
        let sources = read(files).unwrap();
        sources
            .iter()
            .map(|source| format!("{} {}", source.folder, source.module.join("::")))
            .collect()
    }

    #[test]
    fn the_modules_of_our_crates_are_read_and_those_of_tests_are_not() {
        let files = TrackedFiles::from([
            ("crates/kernel/src/lib.rs", "mod a;\npub mod b;\n#[cfg(test)]\nmod c;\n"),
            ("crates/kernel/src/main.rs", "fn main() {}"),
            ("crates/kernel/src/a.rs", "mod inner { mod deep; }"),
            ("crates/kernel/src/a/inner/deep.rs", ""),
            ("crates/kernel/src/b/mod.rs", ""),
            ("crates/kernel/src/b/nobody.rs", "struct Nobody;"),
            ("crates/kernel/src/c.rs", ""),
            ("crates/kernel/tests/d.rs", ""),
            ("xtask/src/main.rs", ""),
            ("fuzz/src/lib.rs", ""),
        ]);
        let expected = [
            "crates/kernel a",
            "crates/kernel a::inner::deep",
            "crates/kernel b",
            "crates/kernel ",
            "xtask ",
        ];
        assert_eq!(modules(&files), expected);
    }

    #[test]
    fn items_for_tests_are_left_out_wherever_they_stand() {
        let source = "/// Doc.\n#[cfg(test)] use a::b;\n#[test] fn c() {}\nimpl D { #[cfg(all(test, unix))] #[x] fn e() {} fn f() {} }\n\
                      #[cfg(not(test))] struct G;\n#[cfg(test)] mod tests { struct H; }\n";
        let items = parse(source).unwrap().items;
        let [Item::Impl(block), Item::Struct(_)] = &items[..] else {
            panic!("{} items", items.len())
        };
        assert_eq!(block.items.len(), 1);
    }
}
