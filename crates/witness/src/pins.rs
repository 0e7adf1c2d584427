//! The witnesses that a store's owner pinned, signed with the owner's key.
//!
//! A file of the key folder, as a signed note:
//!
//! ```text
//! custody.witnesses/v1
//! log custody.log/store-…
//! head 42 xcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcU=
//! witness notary http://127.0.0.1:7780 witness.example/w1+24b5d9fe+BP0XJDha…
//!
//! — custody-owner Az3grlgt…
//! ```
//!
//! `head` is the size and root of the log when the owner signed. It shows a log that was rolled back to before
//! that, and a set of pins that belongs to another history.
//!
//! The pins belong into the record, where they could not be exchanged for an older set: decision 0021.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use custody_log::{Checkpoint, CosignerKey, Hash, LogName, open_note, sign_note};
use ed25519_dalek::{SigningKey, VerifyingKey};

use crate::client::WitnessUrl;
use crate::submission::parse_size;

/// The first line.
const KIND: &str = "custody.witnesses/v1";

/// The name under which the owner signs.
const OWNER: &str = "custody-owner";

/// The most witnesses of one store.
pub const MAX_PINS: usize = 16;

/// A witness whose key the owner pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessPin {
    name: String,
    /// Where it is asked.
    pub url: WitnessUrl,
    /// What its signatures verify with.
    pub key: CosignerKey,
}

/// Why a pin or a set of pins is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WitnessPinsError {
    /// The name of a pin names a file too.
    #[error("`{}` is no name of a witness; use 1 to 64 of a-z, 0-9 and `-`", .0.escape_debug())]
    Name(String),
    /// The name or the key is pinned already.
    #[error("the name or the key of `{0}` is pinned already")]
    Twice(String),
    /// There are too many.
    #[error("a store has at most `{MAX_PINS}` witnesses")]
    TooMany,
    /// The owner did not sign the file as it is.
    #[error("the pinned witnesses are not as the owner signed them")]
    NotSigned,
    /// The file is of another log.
    #[error("the pinned witnesses are those of `{0}`")]
    OtherLog(LogName),
    /// The owner signed something, and not pins.
    #[error("what the owner signed are no pinned witnesses")]
    Malformed,
}

impl WitnessPin {
    /// A pin of this name.
    ///
    /// # Errors
    /// [`WitnessPinsError::Name`].
    pub fn new(name: &str, url: WitnessUrl, key: CosignerKey) -> Result<Self, WitnessPinsError> {
        let is_name = (1..=64).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !is_name {
            return Err(WitnessPinsError::Name(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), url, key })
    }

    /// What the owner calls it: 1 to 64 of a-z, 0-9 and `-`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The pinned witnesses of one log, in the order in which they were pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessPins {
    /// The log, with its size and root when the owner signed.
    pub head: Checkpoint,
    pins: Vec<WitnessPin>,
}

impl WitnessPins {
    /// No witnesses, of a log that has this head.
    pub const fn new(head: Checkpoint) -> Self {
        Self { head, pins: Vec::new() }
    }

    /// The pins.
    pub fn iter(&self) -> impl Iterator<Item = &WitnessPin> {
        self.pins.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    /// Adds a pin.
    ///
    /// # Errors
    /// [`WitnessPinsError::Twice`] or [`WitnessPinsError::TooMany`].
    pub fn add(&mut self, pin: WitnessPin) -> Result<(), WitnessPinsError> {
        if self.pins.iter().any(|known| known.name == pin.name || known.key.key == pin.key.key) {
            return Err(WitnessPinsError::Twice(pin.name));
        }
        if self.pins.len() >= MAX_PINS {
            return Err(WitnessPinsError::TooMany);
        }
        self.pins.push(pin);
        Ok(())
    }

    /// Removes a pin. Returns whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.pins.len();
        self.pins.retain(|pin| pin.name != name);
        self.pins.len() < before
    }

    /// The file: a note that the owner signs.
    pub fn sign(&self, owner: &SigningKey) -> String {
        sign_note(&self.text(), owner, &owner_name())
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// [`WitnessPinsError`]: not signed by this owner, of another log than `origin`, or malformed.
    pub fn verify(
        note: &str,
        origin: &LogName,
        owner: &VerifyingKey,
    ) -> Result<Self, WitnessPinsError> {
        let text =
            open_note(note, &owner_name(), owner).map_err(|_| WitnessPinsError::NotSigned)?;
        let pins = Self::parse(text).ok_or(WitnessPinsError::Malformed)?;
        if pins.head.origin != *origin {
            return Err(WitnessPinsError::OtherLog(pins.head.origin));
        }
        Ok(pins)
    }

    fn text(&self) -> String {
        let Checkpoint { origin, size, root } = &self.head;
        let head = format!("{KIND}\nlog {origin}\nhead {size} {}\n", STANDARD.encode(root));
        let pins = self.pins.iter();
        head + &pins
            .map(|pin| format!("witness {} {} {}\n", pin.name, pin.url, pin.key))
            .collect::<String>()
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        lines.next().filter(|kind| *kind == KIND)?;
        let origin = LogName::new(lines.next()?.strip_prefix("log ")?).ok()?;
        let (size, root) = lines.next()?.strip_prefix("head ")?.split_once(' ')?;
        let root: Hash = STANDARD.decode(root).ok()?.try_into().ok()?;
        let mut pins = Self::new(Checkpoint { origin, size: parse_size(size)?, root });
        for line in lines {
            let [name, url, key] =
                line.strip_prefix("witness ")?.split(' ').collect::<Vec<_>>()[..]
            else {
                return None;
            };
            let pin = WitnessPin::new(name, url.parse().ok()?, key.parse().ok()?).ok()?;
            pins.add(pin).ok()?;
        }
        (pins.text() == text).then_some(pins)
    }
}

fn owner_name() -> LogName {
    LogName::new(OWNER).expect("a fixed name")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "custody.log/store-07070707070707070707070707070707";

    fn origin() -> LogName {
        LogName::new(ORIGIN).unwrap()
    }

    fn pins() -> WitnessPins {
        let head = Checkpoint { origin: origin(), size: 42, root: [0xC5; 32] };
        let mut pins = WitnessPins::new(head);
        for seed in 1..=2 {
            let key = SigningKey::from_bytes(&[seed; 32]).verifying_key();
            let name = LogName::new(format!("witness.example/w{seed}")).unwrap();
            let url = "http://127.0.0.1:7780/w/".parse().unwrap();
            let pin = WitnessPin::new(&format!("notary-{seed}"), url, CosignerKey { name, key });
            pins.add(pin.unwrap()).unwrap();
        }
        pins
    }

    #[test]
    fn g3_pins_are_read_only_as_the_owner_signed_them() {
        let owner = SigningKey::from_bytes(&[7; 32]);
        let note = pins().sign(&owner);
        assert_eq!(WitnessPins::verify(&note, &origin(), &owner.verifying_key()), Ok(pins()));
        for bit in 0..note.len() * 8 {
            let mut changed = note.clone().into_bytes();
            changed[bit / 8] ^= 1 << (bit % 8);
            if let Ok(changed) = str::from_utf8(&changed) {
                let read = WitnessPins::verify(changed, &origin(), &owner.verifying_key());
                assert_eq!(read, Err(WitnessPinsError::NotSigned), "bit {bit}: {changed}");
            }
        }
        let log_key = SigningKey::from_bytes(&[8; 32]);
        let forged = pins().sign(&log_key);
        let read = WitnessPins::verify(&forged, &origin(), &owner.verifying_key());
        assert_eq!(read, Err(WitnessPinsError::NotSigned));
        let elsewhere = LogName::new("custody.log/store-other").unwrap();
        let read = WitnessPins::verify(&note, &elsewhere, &owner.verifying_key());
        assert_eq!(read, Err(WitnessPinsError::OtherLog(origin())));
    }

    #[test]
    fn one_text_is_one_set_of_pins_even_when_signed() {
        let owner = SigningKey::from_bytes(&[7; 32]);
        let text = pins().text();
        let line = text.lines().last().unwrap().to_owned();
        let cases = [
            String::new(),
            "\n".to_owned(),
            text.replace("/v1", "/v2"),
            text.replace("head 42", "head 042"),
            text.replace("notary-1", "Notary"),
            text.replace("notary-1", "../head"),
            text.replace("7780/w ", "7780/w/ "),
            text.replace("http:", "file:"),
            format!("{text}{line}\n"),
            format!("{text}\n"),
            format!("{text}more\n"),
        ];
        for text in cases {
            let note = sign_note(&text, &owner, &owner_name());
            let read = WitnessPins::verify(&note, &origin(), &owner.verifying_key());
            assert!(
                matches!(read, Err(WitnessPinsError::Malformed | WitnessPinsError::NotSigned)),
                "{text:?}: {read:?}"
            );
        }
    }

    #[test]
    fn a_url_names_a_host_and_nothing_secret() {
        for good in ["http://127.0.0.1:1", "https://witness.example/prefix", "http://[::1]:80/"] {
            assert!(good.parse::<WitnessUrl>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "witness.example",
            "ftp://x",
            "file:///x",
            "http://",
            "http://x/?q",
            "http://x/#f",
            "http://user:word@x",
            "http://x/a b",
            "http://x/\n",
        ] {
            assert!(bad.parse::<WitnessUrl>().is_err(), "{bad}");
        }
    }
}
