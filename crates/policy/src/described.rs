//! A tool as calls of it are judged: what its manifest says, and whether it still is the tool that the manifest
//! describes.

use custody_arguments::ToolManifest;
use custody_log::Digest;
use serde::{Deserialize, Serialize};

use crate::question::Described;

/// A tool with everything that a call of it is judged by. Its text is recorded beside the first call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribedTool {
    /// The name of the tool.
    pub name: String,
    /// The manifest, or that of an unknown tool.
    pub manifest: ToolManifest,
    /// Whether the tool has a manifest.
    pub known: bool,
    /// Whether its server announced another description than the one that is pinned.
    pub changed: bool,
    /// The groups that list the tool, in order.
    pub groups: Vec<String>,
}

impl DescribedTool {
    /// The text that is recorded: equal tools have equal texts.
    pub fn text(&self) -> String {
        // Maps are ordered and every key is text, so this cannot fail, and has one result.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// SHA-256 of the text, by which calls and approvals name the tool.
    pub fn digest(&self) -> Digest {
        Digest::of(self.text().as_bytes())
    }

    /// Reads a recorded text.
    ///
    /// # Errors
    /// When it is not the text of a tool.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The tool that `described` is, or was before its description changed.
    pub fn of(described: Described<'_>, changed: bool) -> Self {
        let Described { name, tool, known, groups } = described;
        // What the manifest of a changed tool was written for is another tool.
        let manifest = if changed { ToolManifest::unknown() } else { tool.clone() };
        let (name, groups) = (name.to_owned(), groups.to_vec());
        Self { name, manifest, known: known && !changed, changed, groups }
    }

    /// The tool of this name, of which nothing is known.
    pub fn unknown(described: Described<'_>) -> Self {
        let tool = &ToolManifest::unknown();
        Self::of(Described { tool, known: false, ..described }, false)
    }

    /// The tool, as a policy is asked about it.
    pub fn as_described(&self) -> Described<'_> {
        let Self { name, manifest, known, groups, .. } = self;
        Described { name, tool: manifest, known: *known, groups }
    }
}

#[cfg(test)]
mod tests {
    use custody_arguments::{Parameter, Sink, ToolEffect};

    use super::*;

    #[test]
    fn a_recorded_tool_is_read_back_as_it_was() {
        let tool = DescribedTool {
            name: "send_mail".into(),
            manifest: ToolManifest::unknown(),
            known: false,
            changed: true,
            groups: vec!["mail".into()],
        };
        let read = DescribedTool::parse(&tool.text()).unwrap();
        assert_eq!((read.digest(), &read), (tool.digest(), &tool));
        assert!(DescribedTool::parse("{}").is_err());
    }

    #[test]
    fn a_tool_that_differs_in_anything_is_another_one() {
        let argument =
            ("to".to_owned(), Parameter { sink: Some(Sink::Id), ..Parameter::default() });
        let unknown = ToolManifest::unknown();
        let pinned = ToolManifest { description_sha256: Some(Digest([1; 32])), ..unknown.clone() };
        let described = [
            pinned.clone(),
            ToolManifest { description_sha256: Some(Digest([2; 32])), ..unknown.clone() },
            ToolManifest { effect: ToolEffect::Reads, ..unknown.clone() },
            ToolManifest { text_leaves: Some(false), ..unknown.clone() },
            ToolManifest { arguments: [argument].into(), ..unknown.clone() },
        ];
        let named = ["send", "Send", "\u{455}end", "send\u{200B}"];
        let groups = ["mail".to_owned()];
        let plain = |name, tool| Described { name, tool, known: true, groups: &[] };
        let mut tools: Vec<DescribedTool> =
            described.iter().map(|tool| DescribedTool::of(plain("send", tool), false)).collect();
        tools.extend(named.map(|name| DescribedTool::of(plain(name, &unknown), false)));
        tools.push(DescribedTool::of(
            Described { groups: &groups, ..plain("send", &unknown) },
            false,
        ));
        tools.push(DescribedTool::of(Described { known: false, ..plain("send", &unknown) }, false));
        tools.push(DescribedTool::of(plain("send", &pinned), true));
        let mut digests: Vec<Digest> = tools.iter().map(DescribedTool::digest).collect();
        let count = digests.len();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), count, "an approval would hold for another tool");
    }
}
