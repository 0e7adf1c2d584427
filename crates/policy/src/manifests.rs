//! The manifest file: what each tool does, and which groups it is in.
//!
//! ```toml
//! [groups]
//! payments = ["send_money", "schedule_transaction"]
//!
//! [tools.send_money]
//! effect = "writes"
//!
//! [tools.send_money.arguments]
//! recipient = { sink = "account" }
//! amount = { sink = "amount" }
//! subject = {}
//! ```

use std::collections::{BTreeMap, BTreeSet};

use custody_arguments::{Sink, ToolEffect, ToolManifest};
use serde::Deserialize;

use crate::policy::Policy;
use crate::problem::PolicyProblem;
use crate::question::Described;

/// The longest manifest file, in bytes.
pub const MAX_MANIFEST_BYTES: usize = 4 << 20;

/// The manifest of a tool that has none.
static UNKNOWN: ToolManifest = ToolManifest::unknown();

/// All manifests of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifests {
    tools: BTreeMap<String, ToolManifest>,
    /// The groups of each tool, in order.
    groups: BTreeMap<String, Vec<String>>,
}

/// A manifest file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ManifestError(PolicyProblem);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The server whose tools these are: each is called `server/tool`.
    server: Option<String>,
    #[serde(default)]
    groups: BTreeMap<String, BTreeSet<String>>,
    #[serde(default)]
    tools: BTreeMap<String, ToolManifest>,
}

impl Manifests {
    /// Reads a manifest file.
    ///
    /// # Errors
    /// The first problem, with its place: invalid TOML, an unknown key, an unknown effect or sink.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        if text.len() > MAX_MANIFEST_BYTES {
            let size = text.len();
            let what =
                format!("the manifest file is {size} bytes; the limit is {MAX_MANIFEST_BYTES}");
            return Err(ManifestError(PolicyProblem::new(what)));
        }
        let file: File = toml::from_str(text)
            .map_err(|error| ManifestError(PolicyProblem::toml(text, &error)))?;
        for (name, tool) in &file.tools {
            for (field, shape) in &tool.closed_output {
                shape.check().map_err(|error| {
                    let about = format!("tool `{name}`, field `{field}`");
                    ManifestError(PolicyProblem::new(error.to_string()).about(about))
                })?;
            }
        }
        let manifests = Self::of(file.tools, &file.groups);
        Ok(match file.server {
            Some(server) => manifests.of_server(&server),
            None => manifests,
        })
    }

    pub(crate) fn of(
        tools: BTreeMap<String, ToolManifest>,
        members: &BTreeMap<String, BTreeSet<String>>,
    ) -> Self {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (group, tools) in members {
            for tool in tools {
                groups.entry(tool.clone()).or_default().push(group.clone());
            }
        }
        Self { tools, groups }
    }

    /// The same tools, as those of `server`.
    fn of_server(self, server: &str) -> Self {
        let Self { tools, groups } = self;
        Self {
            tools: tools
                .into_iter()
                .map(|(name, tool)| (format!("{server}/{name}"), tool))
                .collect(),
            groups: groups.into_iter().map(|(name, of)| (format!("{server}/{name}"), of)).collect(),
        }
    }

    /// The same tools, and once more those that write and whose text stays on the machine, as tools of `server`: what
    /// goes into a file is a sink there.
    #[must_use]
    pub fn with_texts_as_sinks(mut self, server: &str) -> Self {
        let writers = self
            .tools
            .iter()
            .filter(|(_, tool)| tool.effect == ToolEffect::Writes && !tool.text_leaves());
        let writers = writers.map(|(name, tool)| {
            let mut tool = tool.clone();
            for parameter in tool.arguments.values_mut().filter(|it| it.sink.is_none()) {
                // Without such a text, less is written.
                (parameter.sink, parameter.optional) = (Some(Sink::Other), true);
            }
            // Nobody announces it.
            tool.description_sha256 = None;
            (format!("{server}/{}", name.replace('/', ".")), tool)
        });
        let writers: Vec<_> = writers.collect();
        self.tools.extend(writers);
        self
    }

    /// The tool `name`. Without a manifest it writes, and each of its arguments is a sink.
    pub fn tool<'a>(&'a self, name: &'a str) -> Described<'a> {
        let found = self.tools.get(name);
        let groups = self.groups.get(name).map_or(&[][..], Vec::as_slice);
        Described { name, tool: found.unwrap_or(&UNKNOWN), known: found.is_some(), groups }
    }

    /// The manifest of the tool `name`, if it has one.
    pub fn get(&self, name: &str) -> Option<&ToolManifest> {
        self.tools.get(name)
    }

    /// The groups that the tool `name` is in.
    pub fn groups(&self, name: &str) -> Vec<String> {
        self.groups.get(name).cloned().unwrap_or_default()
    }

    /// All tools that have a manifest, by name.
    pub const fn tools(&self) -> &BTreeMap<String, ToolManifest> {
        &self.tools
    }

    /// The tools and groups that `policy` names and no manifest describes, as the policy writes them. They are probably
    /// misspelt.
    pub fn unknown_to(&self, policy: &Policy) -> Vec<String> {
        let mentions = policy.mentions();
        let groups: BTreeSet<&String> = self.groups.values().flatten().collect();
        let tools = mentions.tools.iter().filter(|tool| !self.tools.contains_key(*tool));
        let groups = mentions.groups.iter().filter(|group| !groups.contains(group));
        let tools = tools.map(|tool| format!("Tool::{tool:?}"));
        tools.chain(groups.map(|group| format!("Group::{group:?}"))).collect()
    }

    /// These and `others` together.
    ///
    /// # Errors
    /// The first tool that both describe.
    pub fn joined(mut self, others: Self) -> Result<Self, String> {
        for (name, tool) in others.tools {
            if self.tools.contains_key(&name) {
                return Err(name);
            }
            self.tools.insert(name, tool);
        }
        for (tool, groups) in others.groups {
            let known = self.groups.entry(tool).or_default();
            known.extend(groups);
            known.sort_unstable();
            known.dedup();
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_without_a_manifest_writes_and_is_not_known() {
        let text = "groups.mail = ['send', 'foreign']\n[tools.send]\neffect = 'reads'\n\
                    [tools.send.arguments]\nto = { sink = 'recipient' }\nbody = {}\n";
        let manifests = Manifests::parse(text).unwrap();
        let send = manifests.tool("send");
        assert!(send.known && send.tool.effect == ToolEffect::Reads);
        assert_eq!(send.tool.arguments["to"].sink, Some(Sink::Recipient));
        assert_eq!(send.tool.arguments["body"].sink, None);
        assert_eq!(send.groups, ["mail"]);
        let foreign = manifests.tool("foreign");
        assert!(!foreign.known && *foreign.tool == ToolManifest::unknown());
        assert_eq!(foreign.groups, ["mail"]);
        assert_eq!(manifests.groups("foreign"), ["mail"]);
    }

    #[test]
    fn names_that_no_manifest_describes_are_found() {
        let manifests =
            Manifests::parse("groups.mail = ['send']\n[tools.send]\neffect = 'writes'").unwrap();
        let text = "permit (principal, action, resource in Group::\"mail\")
            when { resource in [Tool::\"send\", Tool::\"sned\"] } unless { resource in Group::\"mial\" };";
        let policy = Policy::parse(text).unwrap();
        assert_eq!(manifests.unknown_to(&policy), ["Tool::\"sned\"", "Group::\"mial\""]);
    }

    #[test]
    fn g16_the_tools_of_a_named_server_have_its_name() {
        let text = "server = 'mail'\ngroups.out = ['send']\n[tools.send]\neffect = 'reads'";
        let manifests = Manifests::parse(text).unwrap();
        assert!(manifests.tool("mail/send").known && !manifests.tool("send").known);
        assert_eq!(manifests.groups("mail/send"), ["out"]);
    }

    #[test]
    fn what_goes_into_a_file_is_a_sink_where_that_was_asked_for() {
        let text = "[tools.write]\neffect = 'writes'\ntext_leaves = false\n\
                    arguments = { path = { sink = 'path' }, text = {} }\n\
                    [tools.send]\neffect = 'writes'\n[tools.read]\neffect = 'reads'\n";
        let manifests = Manifests::parse(text).unwrap().with_texts_as_sinks("instructions");
        let write = &manifests.tool("instructions/write").tool.arguments;
        assert_eq!((write["path"].sink, write["path"].optional), (Some(Sink::Path), false));
        assert_eq!((write["text"].sink, write["text"].optional), (Some(Sink::Other), true));
        assert_eq!(manifests.tool("write").tool.arguments["text"].sink, None);
        assert_eq!(manifests.tools().len(), 4, "neither what sends nor what reads");
    }

    #[test]
    fn two_files_are_one_unless_both_describe_a_tool() {
        let file = |name: &str| {
            Manifests::parse(&format!("groups.g = ['{name}']\n[tools.{name}]\neffect = 'reads'"))
                .unwrap()
        };
        let both = file("a").joined(file("b")).unwrap();
        assert!(both.get("a").is_some() && both.tool("b").known && both.tools().len() == 2);
        assert_eq!(both.joined(file("b")), Err("b".to_owned()));
    }

    #[test]
    fn a_problem_is_one_line_with_its_place() {
        let cases = [
            ("[tools.a]\nefect = 'reads'", "line 2, column 1: unknown field `efect`"),
            ("[tools.a]\neffect = 'red'", "line 2, column 10: unknown variant `red`"),
            ("[tools.a]\n", "line 1, column 1: missing field `effect`"),
            ("tool = 1", "line 1, column 1: unknown field `tool`"),
            (
                "[tools.a]\neffect = 'reads'\narguments.to = { sink = 'mail' }",
                "line 3, column 25: unknown variant",
            ),
            (
                "[tools.a]\neffect = 'reads'\n[tools.a]\neffect = 'writes'",
                "line 3, column 8: duplicate key",
            ),
            ("[tools", "line 1"),
            (
                "[tools.a]\neffect = 'reads'\nclosed_output.sum = { number = { min = 2, max = 1 } }",
                "tool `a`, field `sum`: no value lies between its bounds",
            ),
            (
                "[tools.a]\neffect = 'reads'\nclosed_output.on = { day = { from = 'now', to = 'then' } }",
                "tool `a`, field `on`: `now` is no day",
            ),
        ];
        for (text, expected) in cases {
            let found = Manifests::parse(text).expect_err(text).to_string();
            assert!(found.starts_with(expected), "{text}: {found}");
            assert_eq!(found.lines().count(), 1, "{found}");
        }
        assert!(Manifests::parse(&" ".repeat(MAX_MANIFEST_BYTES + 1)).is_err());
    }
}
