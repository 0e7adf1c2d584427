//! What a server says of itself, and whether the owner pinned just that.

use std::collections::BTreeMap;

use custody_log::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the owner pinned of a server: its command, and everything that it announced then.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerPins {
    /// The digest of its command: the words, and the files among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Digest>,
    /// The digest of each thing that it announced, by its kind and name, as in `tool send_mail`.
    pub announced: BTreeMap<String, Digest>,
}

/// Of two states of a server's pins, those that both have.
impl ServerPins {
    /// The pins that `self` and `signed` agree in.
    #[must_use]
    pub fn tightened(&self, signed: &Self) -> Self {
        let same =
            signed.announced.iter().filter(|(key, pin)| self.announced.get(*key) == Some(pin));
        Self {
            command: signed.command.filter(|command| self.command == Some(*command)),
            announced: same.map(|(key, pin)| (key.clone(), *pin)).collect(),
        }
    }

    /// The pins of the tools, by their names.
    pub(super) fn tools(&self) -> BTreeMap<String, Digest> {
        let tools = self.announced.iter();
        let tools =
            tools.filter_map(|(key, pin)| Some((key.strip_prefix("tool ")?.to_owned(), *pin)));
        tools.collect()
    }

    /// How `entry`, as the server announces it now, compares.
    pub(super) fn compare(&self, entry: &Entry) -> Pinned {
        match self.announced.get(&entry.key) {
            Some(pin) if *pin == entry.digest => Pinned::Same,
            Some(_) => Pinned::Changed,
            None => Pinned::Unlisted,
        }
    }
}

/// How something that a server announces compares with what the owner pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pinned {
    Same,
    Changed,
    Unlisted,
}

/// Something that a server announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) digest: Digest,
}

/// What the result of a request announces: instructions, and lists of tools, prompts and resources.
pub(super) fn entries(result: &Value) -> Vec<Entry> {
    let mut entries = Vec::new();
    if let Some(instructions) = result.get("instructions").filter(|it| !it.is_null()) {
        entries.push(Entry { key: "instructions".into(), digest: digest(instructions) });
    }
    for (list, kind, name) in [
        ("tools", "tool", "name"),
        ("prompts", "prompt", "name"),
        ("resources", "resource", "uri"),
        ("resourceTemplates", "template", "uriTemplate"),
    ] {
        let listed = result.get(list).and_then(Value::as_array).into_iter().flatten();
        entries.extend(listed.map(|entry| {
            let name = entry.get(name).and_then(Value::as_str).unwrap_or_default();
            Entry { key: format!("{kind} {name}"), digest: digest(entry) }
        }));
    }
    entries
}

/// The pins of a server that announces what stands in `results`. Two entries of one name are pinned as neither.
pub fn pinned_now(command: Option<Digest>, results: &[Value]) -> ServerPins {
    let mut announced = BTreeMap::new();
    for entry in results.iter().flat_map(entries) {
        let other = announced.insert(entry.key.clone(), entry.digest);
        if other.is_some_and(|other| other != entry.digest) {
            announced.insert(entry.key, Digest::of(b""));
        }
    }
    ServerPins { command, announced }
}

/// SHA-256 of the canonical JSON (RFC 8785) of all that is said of an entry. `_meta` is between programs.
pub(super) fn digest(entry: &Value) -> Digest {
    let mut entry = entry.clone();
    if let Some(object) = entry.as_object_mut() {
        object.remove("_meta");
    }
    let text = serde_json_canonicalizer::to_string(&entry).unwrap_or_else(|_| entry.to_string());
    Digest::of(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_that_a_model_could_read_of_a_server_is_pinned() {
        let tool = json!({"name": "t", "title": "T", "description": "d", "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}, "icons": []});
        let hello = json!({"instructions": "Be kind.", "serverInfo": {"name": "s"}});
        let lists = [
            hello,
            json!({"tools": [tool]}),
            json!({"prompts": [{"name": "p", "description": "d"}]}),
            json!({"resources": [{"uri": "file:///a", "name": "a"}]}),
            json!({"resourceTemplates": [{"uriTemplate": "file:///{x}", "name": "x"}]}),
        ];
        let pins = pinned_now(None, &lists);
        let keys: Vec<&str> = pins.announced.keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            ["instructions", "prompt p", "resource file:///a", "template file:///{x}", "tool t"]
        );
        for member in
            ["title", "description", "inputSchema", "outputSchema", "annotations", "icons"]
        {
            let mut changed = tool.clone();
            changed[member] = json!("other");
            let entry = &entries(&json!({"tools": [changed]}))[0];
            assert_eq!(pins.compare(entry), Pinned::Changed, "{member}");
        }
        let mut same = tool.clone();
        same["_meta"] = json!({"at": 1});
        assert_eq!(pins.compare(&entries(&json!({"tools": [same]}))[0]), Pinned::Same);
        let twice = pinned_now(None, &[json!({"tools": [tool, {"name": "t"}]})]);
        assert_eq!(twice.compare(&entries(&json!({"tools": [tool]}))[0]), Pinned::Changed);
    }

    #[test]
    fn pins_that_somebody_wrote_besides_count_only_where_the_owner_signed_them() {
        let [one, other] = [Digest::of(b"1"), Digest::of(b"2")];
        let signed = ServerPins {
            command: Some(one),
            announced: [("tool a".into(), one), ("tool b".into(), one)].into(),
        };
        let file = ServerPins {
            command: Some(other),
            announced: [("tool a".into(), one), ("tool b".into(), other), ("tool c".into(), one)]
                .into(),
        };
        let held = file.tightened(&signed);
        assert_eq!(held, ServerPins { command: None, announced: [("tool a".into(), one)].into() });
    }
}
