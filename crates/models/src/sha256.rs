//! The SHA-256 digest of a file: parsed once on input, compared as bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

/// A SHA-256 digest; displayed as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256([u8; 32]);

/// A text that is not a SHA-256 digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SHA-256 digest; it must have 64 hexadecimal digits")]
pub struct ParseSha256Error(String);

impl Sha256 {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Its 32 bytes.
    pub const fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// The digest of a running hash.
    pub(crate) fn finish(running: sha2::Sha256) -> Self {
        Self(running.finalize().into())
    }
}

impl FromStr for Sha256 {
    type Err = ParseSha256Error;

    fn from_str(text: &str) -> Result<Self, ParseSha256Error> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes)
            .map_err(|_| ParseSha256Error(text.chars().take(80).collect()))?;
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Sha256 {
    type Error = ParseSha256Error;

    fn try_from(text: String) -> Result<Self, ParseSha256Error> {
        text.parse()
    }
}

impl From<Sha256> for String {
    fn from(sha256: Sha256) -> Self {
        sha256.to_string()
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sha256({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_four_hexadecimal_digits_are_a_hash_and_nothing_else_is() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(empty.parse(), Ok(Sha256::of(b"")));
        assert_eq!(empty.to_uppercase().parse(), Ok(Sha256::of(b"")));
        assert_eq!(Sha256::of(b"").to_string(), empty);
        for wrong in ["", "e3b0", &empty[1..], &format!("{empty}0"), &empty.replace('e', "g")] {
            assert!(wrong.parse::<Sha256>().is_err(), "{wrong}");
        }
    }
}
