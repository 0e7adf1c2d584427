//! Statements as JSON that keeps its order and its spelling, to be changed in any way; and their envelopes, made
//! without the code under test.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use custody_certificate::{PAYLOAD_TYPE, key_id, signing_bytes};
use ed25519_dalek::{Signer, SigningKey};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A JSON value with the order of its members, and scalars as they are spelled.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    Scalar(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    pub(crate) fn parse(json: &str) -> Self {
        serde_json::from_str(json).expect("JSON")
    }

    /// Every node, as the steps that lead to it.
    pub(crate) fn paths(&self) -> Vec<Vec<usize>> {
        let mut paths = vec![Vec::new()];
        for (step, child) in self.children().into_iter().enumerate() {
            let below = child.paths().into_iter();
            paths.extend(below.map(|path| [vec![step], path].concat()));
        }
        paths
    }

    pub(crate) fn at(&mut self, path: &[usize]) -> &mut Self {
        path.iter().fold(self, |node, step| match node {
            Self::List(items) => &mut items[*step],
            Self::Object(members) => &mut members[*step].1,
            Self::Scalar(_) => unreachable!("a path ends at a scalar"),
        })
    }

    fn children(&self) -> Vec<&Self> {
        match self {
            Self::Scalar(_) => Vec::new(),
            Self::List(items) => items.iter().collect(),
            Self::Object(members) => members.iter().map(|(_, value)| value).collect(),
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comma = |at: usize| if at > 0 { "," } else { "" };
        match self {
            Self::Scalar(text) => f.write_str(text),
            Self::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", comma(at))?;
                }
                f.write_str("]")
            }
            Self::Object(members) => {
                f.write_str("{")?;
                for (at, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}{}:{value}", comma(at), Value::from(name.as_str()))?;
                }
                f.write_str("}")
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON of a certificate")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar("null".into()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::from(value).to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Tree::Object(object))
    }
}

/// The payload of a file.
pub(crate) fn payload(file: &[u8]) -> String {
    let envelope: Value = serde_json::from_slice(file).expect("an envelope");
    let payload = envelope["payload"].as_str().expect("a payload");
    String::from_utf8(STANDARD.decode(payload).expect("base64")).expect("text")
}

/// A file with this payload, signed by `signer` under the name of `named`.
pub(crate) fn envelope(payload: &[u8], signer: &SigningKey, named: &SigningKey) -> Vec<u8> {
    let signature = signer.sign(&signing_bytes(payload)).to_bytes();
    format!(
        r#"{{"payload":"{}","payloadType":"{PAYLOAD_TYPE}","signatures":[{{"keyid":"{}","sig":"{}"}}]}}"#,
        STANDARD.encode(payload),
        key_id(&named.verifying_key()),
        STANDARD.encode(signature),
    )
    .into_bytes()
}

/// The statement with values replaced where the pointers lead in its predicate, canonical and with a new digest.
pub(crate) fn edited(statement: &str, edits: &[(&str, Value)]) -> String {
    let mut root: Value = serde_json::from_str(statement).expect("JSON");
    for (pointer, value) in edits {
        let found = root["predicate"].pointer_mut(pointer);
        *found.unwrap_or_else(|| unreachable!("nothing at `{pointer}`")) = value.clone();
    }
    if let Some(predicate) = root["predicate"].as_object_mut() {
        predicate.remove("manifest_digest");
        let digest = Sha256::digest(python(&Value::Object(predicate.clone())).as_bytes());
        predicate.insert("manifest_digest".into(), hex::encode(digest).into());
    }
    serde_json_canonicalizer::to_string(&root).expect("JSON")
}

/// `json.dumps(value, sort_keys=True)`.
pub(crate) fn python(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(python).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            let member = |(name, value): (&String, &Value)| {
                format!("{}: {}", python(&Value::from(name.as_str())), python(value))
            };
            let members: Vec<String> = members.into_iter().map(member).collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let escape = |c: char| match c {
                ' '..='~' => c.to_string(),
                _ => c
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect(),
            };
            value.to_string().chars().map(escape).collect()
        }
    }
}
