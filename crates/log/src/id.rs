//! Identifiers: 128 random bits each, made by the runtime and never by a caller.
//!
//! A caller's own name for a thing is an alias inside its credential; two callers
//! can therefore never meet in one id (closes the guessable, 32-bit session ids of
//! M17).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not an id of this kind; expected `{prefix}-` and 32 hexadecimal digits")]
pub struct IdError {
    given: String,
    prefix: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// Wraps 16 bytes that the runtime drew from the operating system.
            pub const fn from_random(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// The raw bytes, for storage.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "-{}"), hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let mut bytes = [0; 16];
                let digits = text.strip_prefix(concat!($prefix, "-"));
                let decoded = digits.map(|digits| hex::decode_to_slice(digits, &mut bytes));
                if let Some(Ok(())) = decoded {
                    return Ok(Self(bytes));
                }
                Err(IdError { given: text.chars().take(60).collect(), prefix: $prefix })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// One entry of the record. A decision is an entry, so this is also its decision id.
    EntryId,
    "e"
);
id!(
    /// One session: a context that grows, under one credential.
    SessionId,
    "s"
);
id!(
    /// One registered principal.
    PrincipalId,
    "p"
);
id!(
    /// One store. Part of the origin of every checkpoint, so heads cannot be swapped between stores.
    StoreId,
    "store"
);
id!(
    /// One incident: from its indicators to its certificate.
    IncidentId,
    "incident"
);
id!(
    /// One recovery certificate.
    CertificateId,
    "cert"
);

/// The position of an entry in the record, counted from 0. Parents are named by it, so an
/// entry can only ever point backwards and the graph cannot have a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text_form_and_another_kind_is_refused() {
        let session = SessionId::from_random([7; 16]);
        assert_eq!(session.to_string().parse(), Ok(session));
        assert!(session.to_string().parse::<EntryId>().is_err());
        for bad in ["", "s-", "s-07", "s-zz070707070707070707070707070707"] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        }
    }
}
