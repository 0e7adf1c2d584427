//! An object of JSON in which no name stands twice. Readers differ in which of two values they take.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

/// The members of such an object, by their names.
pub(crate) struct UniqueKeys<V>(pub(crate) BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueKeys<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

struct Members<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Members<V> {
    type Value = UniqueKeys<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<UniqueKeys<V>, M::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, V>()? {
            if members.contains_key(&name) {
                return Err(M::Error::custom(format!("`{name}` stands twice")));
            }
            members.insert(name, value);
        }
        Ok(UniqueKeys(members))
    }
}
