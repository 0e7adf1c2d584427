//! Links between our documents lead somewhere.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::files::TrackedFiles;
use super::finding::Finding;

/// Finds relative links to no file, and anchors to no heading. Addresses outside the repository
/// are not looked up.
pub(crate) fn check(files: &TrackedFiles) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files.ending(".md") {
        for (destination, line) in links(text) {
            if let Some(what) = objection(path, &destination, files) {
                findings.push(Finding::on_line(path, line, what, "correct the link"));
            }
        }
    }
    findings
}

fn parse(text: &str) -> impl Iterator<Item = (Event<'_>, usize)> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    Parser::new_ext(text, options).into_offset_iter().map(|(event, range)| (event, range.start))
}

/// The destination of every link and image, each with its line.
fn links(text: &str) -> Vec<(String, usize)> {
    let mut links = Vec::new();
    for (event, start) in parse(text) {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
            links.push((dest_url.to_string(), text[..start].matches('\n').count() + 1));
        }
    }
    links
}

/// What is wrong with a link found in `file`, if anything is.
fn objection(file: &str, destination: &str, files: &TrackedFiles) -> Option<String> {
    if destination.contains("://") || destination.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = match destination.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (destination, None),
    };
    let Some(target) = resolve(file, &path.replace("%20", " ")) else {
        return Some(format!("`{destination}` leads out of the repository"));
    };
    if !files.contains(&target) {
        return Some(format!("`{destination}` leads to no tracked file"));
    }
    let text = files.text(&target).filter(|_| target.ends_with(".md"))?;
    let anchor = anchor?;
    (!anchors(text).contains(anchor))
        .then(|| format!("`{destination}` leads to no heading of `{target}`"))
}

/// The path from the root that a link in `file` means; `None` if it leaves the root.
pub(super) fn resolve(file: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(file.to_owned());
    }
    let mut names: Vec<&str> = match link.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => file.split('/').collect(),
    };
    names.pop();
    for name in link.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// Every anchor of a document: its headings as GitHub and docs.rs name them, and `id`s in HTML.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for (event, _) in parse(text) {
        if matches!(event, Event::Start(Tag::Heading { .. })) {
            heading = Some(String::new());
        } else if matches!(event, Event::End(TagEnd::Heading(_))) {
            insert_heading(&mut anchors, &heading.take().unwrap_or_default());
        } else if let Event::Text(piece) | Event::Code(piece) = &event {
            heading.iter_mut().for_each(|heading| heading.push_str(piece));
        } else if let Event::Html(html) | Event::InlineHtml(html) = &event {
            let ids = html.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next());
            anchors.extend(ids.map(str::to_owned));
        }
    }
    anchors
}

/// A heading that comes again has its count behind it: `errors`, `errors-1`, `errors-2`.
fn insert_heading(anchors: &mut BTreeSet<String>, heading: &str) {
    let slug = slug(heading);
    let numbered = (1..).map(|count| format!("{slug}-{count}"));
    let free = std::iter::once(slug.clone()).chain(numbered).find(|name| !anchors.contains(name));
    anchors.extend(free);
}

fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        _ if character.is_alphanumeric() => Some(character),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    const GUIDE: &str = "# The `custody` guide\n\n## Errors\n\n## Errors\n\n<a id=\"far\"></a>\n";

    fn found(link: &str) -> Vec<String> {
        let text = format!("# Here\n\nSee [this]({link}).\n");
        let files = TrackedFiles::from([("docs/a.md", text.as_str()), ("docs/in/guide.md", GUIDE)]);
        brief(&check(&files))
    }

    #[test]
    fn a_link_to_a_file_a_folder_a_heading_or_the_outside_is_fine() {
        let links = [
            "in/guide.md",
            "./in/guide.md#the-custody-guide",
            "in/guide.md#errors-1",
            "in/guide.md#far",
            "../docs/a.md",
            "/docs/in/",
            "#here",
            "https://example.org/x#y",
            "mailto:security@example.org",
        ];
        for link in links {
            assert_eq!(found(link), [""; 0], "`{link}`");
        }
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let cases = [
            ("guide.md", "leads to no tracked file"),
            ("/in/guide.md", "leads to no tracked file"),
            ("../../elsewhere.md", "leads out of the repository"),
            ("in/guide.md#errors-2", "leads to no heading of `docs/in/guide.md`"),
            ("#there", "leads to no heading of `docs/a.md`"),
        ];
        for (link, expected) in cases {
            assert_eq!(found(link), [format!("docs/a.md:3 `{link}` {expected}")], "`{link}`");
        }
    }
}
