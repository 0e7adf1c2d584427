//! The signed head of the audit log: a C2SP checkpoint, which is a signed note of three lines.
//!
//! ```text
//! example.com/custody
//! 20852163
//! CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=
//!
//! — example.com/custody Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q…
//! ```
//!
//! Source: C2SP tlog-checkpoint and signed-note, with Ed25519 signatures (type `0x01`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{SigningKey, VerifyingKey};

use crate::Hash;
use crate::note::{CheckpointError, LogName, open_note, sign_note};

/// What a log claims about itself: its name, how many records it has, and their root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which log this is. Readers compare it with the log they expect.
    pub origin: LogName,
    /// How many records the log has.
    pub size: u64,
    /// The root of the Merkle tree over them.
    pub root: Hash,
}

impl Checkpoint {
    /// The checkpoint as a signed note, with one signature under this key name.
    ///
    /// The name is the origin as a rule; they differ when a log outlives its key's name.
    pub fn sign(&self, signer: &SigningKey, key_name: &LogName) -> String {
        sign_note(&self.text(), signer, key_name)
    }

    /// Reads a signed note that must have exactly one signature by this key.
    ///
    /// Well-formed signature lines of other keys are passed over, since witnesses may add theirs.
    /// The text must be exactly what [`sign`](Checkpoint::sign) writes: no extension lines.
    ///
    /// # Errors
    /// [`CheckpointError`] naming the first thing that is wrong. The text is parsed only after its
    /// signature held.
    pub fn verify(
        note: &str,
        key_name: &LogName,
        key: &VerifyingKey,
    ) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::parse(open_note(note, key_name, key)?)
    }

    /// The text that is signed: origin, size and root, a line each.
    pub(crate) fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, STANDARD.encode(self.root))
    }

    /// Reads such a text.
    pub(crate) fn parse(text: &str) -> Result<Checkpoint, CheckpointError> {
        let malformed = |part| CheckpointError::Malformed { part };
        let [origin, size, root, ""] = text.split('\n').collect::<Vec<_>>()[..] else {
            return Err(malformed("text"));
        };
        let decoded = STANDARD.decode(root).ok().and_then(|bytes| bytes.try_into().ok());
        let checkpoint = Checkpoint {
            origin: LogName::new(origin)?,
            size: size.parse().map_err(|_| malformed("size"))?,
            root: decoded.ok_or_else(|| malformed("root"))?,
        };
        // One text per checkpoint: this refuses `+7` and `007`, which parse as numbers.
        if checkpoint.text() == text { Ok(checkpoint) } else { Err(malformed("text")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::note::{MAX_NOTE_BYTES, vkey};

    /// The checkpoint below, signed by the key below in another implementation of Ed25519.
    const GOLDEN: &str = "\
example.com/custody
20852163
xcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcU=

— example.com/custody NSudOcZyEFOXS/kZA7UB4lO4KR1jGCTOgFEmB/fNAszVkgjSiln86ia81b//N4B3ExEgWmti9LyMxXAVEMb6o2G+lgM=
";

    const ROOT: &str = "xcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcU=";

    fn checkpoint() -> Checkpoint {
        Checkpoint { origin: name("example.com/custody"), size: 20_852_163, root: [0xC5; 32] }
    }

    fn name(text: &str) -> LogName {
        LogName::new(text).unwrap()
    }

    fn log_key() -> SigningKey {
        SigningKey::from_bytes(&[7; 32])
    }

    fn verdict(note: &str) -> String {
        let key = log_key().verifying_key();
        match Checkpoint::verify(note, &name("example.com/custody"), &key) {
            Ok(checkpoint) => format!("accepted: {} at {}", checkpoint.origin, checkpoint.size),
            Err(refusal) => format!("refused: {refusal}"),
        }
    }

    /// The verdict on a text that the log key did sign.
    fn verdict_on_signed(text: &str) -> String {
        verdict(&sign_note(text, &log_key(), &name("example.com/custody")))
    }

    /// A well-formed signature line over the golden text.
    fn signature_line(key_name: &str, key: &SigningKey) -> String {
        let note = checkpoint().sign(key, &name(key_name));
        note.rsplit_once("\n\n").unwrap().1.to_owned()
    }

    #[test]
    fn a_checkpoint_is_written_as_the_golden_note_and_read_back() {
        assert_eq!(checkpoint().sign(&log_key(), &name("example.com/custody")), GOLDEN);
        let key = log_key().verifying_key();
        let read = Checkpoint::verify(GOLDEN, &name("example.com/custody"), &key);
        assert_eq!(read, Ok(checkpoint()));
    }

    #[test]
    fn every_size_reads_back_as_written() {
        for size in [0, 1, 9, 10, u64::MAX] {
            let checkpoint = Checkpoint { size, ..checkpoint() };
            let note = checkpoint.sign(&log_key(), &name("log-key-2"));
            let key = log_key().verifying_key();
            assert_eq!(Checkpoint::verify(&note, &name("log-key-2"), &key), Ok(checkpoint));
        }
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        for bit in 0..GOLDEN.len() * 8 {
            let mut note = GOLDEN.as_bytes().to_vec();
            note[bit / 8] ^= 1 << (bit % 8);
            // What is no longer UTF-8 cannot even be asked about.
            if let Ok(note) = str::from_utf8(&note) {
                assert!(verdict(note).starts_with("refused"), "bit {bit}: {note:?}");
            }
        }
    }

    #[test]
    fn every_truncation_and_every_extra_character_is_refused() {
        for (end, _) in GOLDEN.char_indices() {
            assert!(verdict(&GOLDEN[..end]).starts_with("refused"), "first {end} bytes");
            for extra in ["\n", " ", "0", "=", "\r", "\0"] {
                let note = format!("{}{extra}{}", &GOLDEN[..end], &GOLDEN[end..]);
                assert!(verdict(&note).starts_with("refused"), "{extra:?} at byte {end}");
            }
        }
        assert!(verdict(&format!("{GOLDEN}\n")).starts_with("refused"));
    }

    #[test]
    fn only_the_one_way_to_write_a_text_is_accepted_even_when_signed() {
        let malformed = |part: &str| {
            format!(
                "refused: the {part} of the checkpoint is not as C2SP writes it; fetch it again"
            )
        };
        let cases = [
            (format!("log\n7\n{ROOT}\n"), "accepted: log at 7".to_owned()),
            (format!("log\n07\n{ROOT}\n"), malformed("text")),
            (format!("log\n+7\n{ROOT}\n"), malformed("text")),
            (format!("log\n-7\n{ROOT}\n"), malformed("size")),
            (format!("log\n\n{ROOT}\n"), malformed("size")),
            (format!("log\n18446744073709551616\n{ROOT}\n"), malformed("size")),
            (format!("log\n7\n{}\n", ROOT.trim_end_matches('=')), malformed("root")),
            (format!("log\n7\n{}\n", ROOT.replace("cU=", "cV=")), malformed("root")),
            ("log\n7\nxcXF\n".to_owned(), malformed("root")),
            (format!("log\n7\n{ROOT}\nextension\n"), malformed("text")),
            (format!("log\n7\n{ROOT}\n\n"), malformed("text")),
            ("log\n7\n".to_owned(), malformed("text")),
            (
                format!("two words\n7\n{ROOT}\n"),
                "refused: `two words` is no log name; use one visible word without `+`".to_owned(),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(verdict_on_signed(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn other_keys_may_sign_too_but_ours_signs_once() {
        let other_key = SigningKey::from_bytes(&[8; 32]);
        let witness = signature_line("witness.example/w1", &other_key);
        let same_name = signature_line("example.com/custody", &other_key);
        let same_key = signature_line("example.com/other", &log_key());
        let ours = signature_line("example.com/custody", &log_key());
        let text = checkpoint().text();
        let vkey = vkey(&name("example.com/custody"), &log_key().verifying_key());
        let accepted = "accepted: example.com/custody at 20852163".to_owned();
        let unsigned = format!(
            "refused: no signature by `{vkey}`; check which log key this checkpoint belongs to"
        );
        let malformed = "refused: the signature block of the checkpoint is not as C2SP writes it; \
                         fetch it again"
            .to_owned();
        let cases = [
            (format!("{text}\n{ours}{witness}{same_name}"), accepted.clone()),
            (format!("{text}\n{witness}{same_key}{ours}"), accepted.clone()),
            (format!("{text}\n{}{ours}", witness.repeat(16)), accepted),
            (format!("{text}\n{witness}{same_name}{same_key}"), unsigned),
            (
                format!("{text}\n{ours}{ours}"),
                format!("refused: two signatures by `{vkey}`; fetch the checkpoint again"),
            ),
            (
                format!("other{text}\n{ours}"),
                format!(
                    "refused: the signature by `{vkey}` is not of this text; do not trust the \
                     checkpoint"
                ),
            ),
            (format!("{text}\n{ours}not a signature\n"), malformed.clone()),
            (format!("{text}\n{ours}— witness AAAAAA==\n"), malformed.clone()),
            (format!("{text}\n{ours}— a+b AAAAAAA=\n"), malformed.clone()),
            (format!("{text}\n"), malformed),
        ];
        for (note, expected) in cases {
            assert_eq!(verdict(&note), expected, "{note}");
        }
    }

    #[test]
    fn a_note_over_64_kib_is_refused_unread() {
        let witness = signature_line("witness.example/w1", &SigningKey::from_bytes(&[8; 32]));
        let note = format!("{GOLDEN}{}", witness.repeat(MAX_NOTE_BYTES / witness.len()));
        let expected = "over `65536`; fetch it again";
        assert!(verdict(&note).ends_with(expected), "{} bytes", note.len());
    }

    #[test]
    fn a_name_is_one_word_without_plus_or_control_characters() {
        for good in ["example.com/custody", "log", "журнал"] {
            assert_eq!(name(good).as_str(), good);
        }
        for bad in ["", " ", "a b", "a+b", "a\nb", "a\tb", "a\0", "a\u{a0}b", "a\u{2003}b", "a\x7f"]
        {
            let refusal = CheckpointError::Name { name: bad.to_owned() };
            assert_eq!(LogName::new(bad), Err(refusal), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_in_place_of_any_part_is_refused_without_a_panic(
            from: prop::sample::Index,
            to: prop::sample::Index,
            inserted in "[\n— +=0-9A-Za-z/\\PC]{0,80}",
        ) {
            let ends: Vec<usize> = GOLDEN.char_indices().map(|(end, _)| end).collect();
            let (from, to) = (*from.get(&ends), *to.get(&ends));
            let (head, tail) = (&GOLDEN[..from.min(to)], &GOLDEN[from.max(to)..]);
            let note = format!("{head}{inserted}{tail}");
            prop_assert!(note == GOLDEN || verdict(&note).starts_with("refused"));
        }
    }
}
