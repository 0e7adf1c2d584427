//! The written form of a request: the name of its action, whichever kind of request that is.

use std::fmt;

use serde::de::value::EnumAccessDeserializer;
use serde::de::{DeserializeSeed, EnumAccess, IntoDeserializer, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{AdminRequest, Request, SessionRequest};

const CALL: &str = "call";

/// The names of the actions that a session asks for, calls aside.
const IN_SESSION: [&str; 13] = [
    "close_session",
    "observe",
    "read",
    "list",
    "write",
    "delete",
    "promote",
    "route",
    "withhold",
    "extract",
    "declare_intents",
    "join_context",
    "record_basis",
];

impl Serialize for Request {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Session(request) => request.serialize(serializer),
            Self::Call(call) => serializer.serialize_newtype_variant("Request", 0, CALL, call),
            Self::Admin(request) => request.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Request {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum("Request", &[], RequestVisitor)
    }
}

struct RequestVisitor;

impl<'de> Visitor<'de> for RequestVisitor {
    type Value = Request;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request under the name of its action")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Request, A::Error> {
        let (name, content) = access.variant::<String>()?;
        if name == CALL {
            return Ok(Request::Call(content.newtype_variant()?));
        }
        let is_in_session = IN_SESSION.contains(&name.as_str());
        let named = EnumAccessDeserializer::new(Named { name, content });
        if is_in_session {
            SessionRequest::deserialize(named).map(Request::Session)
        } else {
            AdminRequest::deserialize(named).map(Request::Admin)
        }
    }
}

/// A variant whose name was read already.
struct Named<V> {
    name: String,
    content: V,
}

impl<'de, V: VariantAccess<'de>> EnumAccess<'de> for Named<V> {
    type Error = V::Error;
    type Variant = V;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, V), V::Error> {
        let name = seed.deserialize(self.name.into_deserializer())?;
        Ok((name, self.content))
    }
}
