//! GGUF files: parsing, and the errors for malformed ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "common/gguf.rs"]
mod file;

use custody_models::gguf::{Format, Gguf, GgufError, GgufValue};
use file::{F32, File, Q8_0, text};
use proptest::prelude::*;

fn sample() -> File {
    File::default()
        .text("general.architecture", "llama")
        .number("llama.block_count", 2)
        .float("epsilon", 0.5)
        .flag("yes", true)
        .texts("tokens", &["a".to_owned(), "b".to_owned()])
        .integers("kinds", &[1, -3])
        .floats("norm", &[3], &[1.0, -2.0, 0.5])
        .tensor("matrix", &[2, 32], Q8_0, [vec![0, 0x38], vec![3; 32]].concat().repeat(2))
}

fn refusal(bytes: &[u8]) -> String {
    match Gguf::parse(bytes) {
        Ok(_) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_file_is_parsed() {
    let bytes = sample().bytes();
    let gguf = Gguf::parse(&bytes).unwrap();
    assert_eq!(gguf.text("general.architecture").unwrap(), "llama");
    assert_eq!(gguf.unsigned("llama.block_count").unwrap(), 2);
    assert_eq!(gguf.float("epsilon").unwrap(), 0.5);
    assert!(gguf.flag("yes").unwrap());
    assert_eq!(gguf.texts("tokens").unwrap(), ["a", "b"]);
    assert_eq!(gguf.integers("kinds").unwrap().collect::<Vec<_>>(), [1, -3]);
    assert_eq!(gguf.names().collect::<Vec<_>>(), ["matrix", "norm"]);
    assert_eq!(gguf.tensor("norm").unwrap().floats().unwrap(), [1.0, -2.0, 0.5]);
    let matrix = gguf.tensor("matrix").unwrap();
    assert_eq!((&matrix.shape[..], matrix.format), (&[2, 32][..], Format::Q8_0));
    assert_eq!(matrix.floats().unwrap(), [1.5; 64]);
    assert!(matches!(gguf.metadata()["yes"], GgufValue::Flag(true)));
}

#[test]
fn missing_and_mistyped_values_are_named_in_errors() {
    let bytes = sample().bytes();
    let gguf = Gguf::parse(&bytes).unwrap();
    let message = [
        gguf.text("absent").unwrap_err(),
        gguf.text("yes").unwrap_err(),
        gguf.unsigned("epsilon").unwrap_err(),
        gguf.tensor("absent").unwrap_err(),
        gguf.tensor("norm").unwrap().expect_shape(&[4]).unwrap_err(),
    ];
    assert_eq!(
        message.map(|error| error.to_string()),
        [
            "the file does not say `absent`; give the file of a whole model",
            "`yes` must be a text, and is true or false",
            "`epsilon` must be a whole number, and is a number with a fraction",
            "tensor `absent` is missing; give the file of a whole model",
            "tensor `norm` has shape [3], but the model needs [4]",
        ]
    );
}

#[test]
fn truncated_files_are_rejected() {
    let bytes = sample().bytes();
    // The last tensor is 68 bytes, followed by padding.
    let whole = bytes.len() - 28;
    for length in 0..whole {
        assert!(Gguf::parse(&bytes[..length]).is_err(), "{length} bytes");
    }
    assert!(Gguf::parse(&bytes[..whole]).is_ok());
}

fn head(tensors: u64, values: u64) -> Vec<u8> {
    File::default().head(tensors, values)
}

/// A file with one value of the type `kind`.
fn value(kind: u32, bytes: &[u8]) -> Vec<u8> {
    [&head(0, 1)[..], &text("key"), &kind.to_le_bytes(), bytes].concat()
}

/// A list of the type `kind` that declares too many elements.
fn endless_list(kind: u32) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &u64::MAX.to_le_bytes(), &[0; 64]].concat()
}

#[test]
fn declared_sizes_beyond_the_file_are_rejected_before_allocation() {
    let endless = u64::MAX.to_le_bytes();
    for bytes in [
        head(u64::MAX, 0),
        head(0, u64::MAX),
        head(1 << 40, 1 << 40),
        [&head(0, 1)[..], &endless, &[0; 64]].concat(),
        value(8, &[&endless[..], &[0; 64]].concat()),
        value(9, &endless_list(8)),
        value(9, &endless_list(4)),
        value(9, &endless_list(0)),
    ] {
        let message = refusal(&bytes);
        assert!(message.contains("declares"), "{message}");
    }
}

#[test]
fn ambiguous_values_are_rejected() {
    let nested = [&9_u32.to_le_bytes()[..], &1_u64.to_le_bytes()].concat();
    let cases = [
        (File::default().value("key", 13, &[0; 8]), "of a known kind"),
        (File::default().value("key", 9, &nested.repeat(1000)), "a list of lists"),
        (File::default().value("key", 7, &[2]), "true or false"),
        (File::default().number("key", 1).number("key", 1), "twice"),
        (File::default().value("key", 8, &[&1_u64.to_le_bytes()[..], &[0xff]].concat()), "UTF-8"),
        (File::default().number("general.alignment", 0), "no power of two"),
        (File::default().number("general.alignment", 48), "no power of two"),
        (File::default().number("general.alignment", 1 << 20), "no power of two"),
        (File::default().text(&"k".repeat(70_000), "v"), "the limit is 65535"),
    ];
    for (file, expected) in cases {
        let message = refusal(&file.bytes());
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn invalid_tensors_are_rejected() {
    let cases = [
        (File::default().tensor("t", &[2], 9, vec![0; 8]), "number format 9"),
        (File::default().tensor("t", &[2], 31, vec![0; 8]), "number format 31"),
        (File::default().tensor("t", &[], F32, vec![0; 8]), "no dimension"),
        (File::default().tensor("t", &[1, 1, 1, 1, 1], F32, vec![0; 4]), "more than four"),
        (File::default().tensor("t", &[0, 4], F32, vec![0; 4]), "is empty"),
        (File::default().tensor("t", &[2, 33], Q8_0, vec![0; 99]), "inside a block"),
        (File::default().tensor("t", &[3], F32, vec![0; 4]), "beyond the end"),
        (File::default().tensor("t", &[usize::MAX, 8], F32, vec![0; 4]), "larger than memory"),
        (File::default().tensor("t", &[usize::MAX / 2], F32, vec![0; 4]), "larger than memory"),
        (File::default().tensor(&"t".repeat(129), &[1], F32, vec![0; 4]), "the limit is 128"),
        (File::default().floats("t", &[1], &[0.0]).floats("t", &[1], &[0.0]), "twice"),
    ];
    for (file, expected) in cases {
        let mut bytes = file.bytes();
        // Padding would hide a tensor that is too long.
        bytes.truncate(bytes.len() - 28 * usize::from(expected == "beyond the end"));
        let message = refusal(&bytes);
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

/// The error for `bytes` with the offset at `place` changed.
fn moved(bytes: &[u8], place: usize, to: u64) -> String {
    let mut bytes = bytes.to_vec();
    bytes[place..place + 8].copy_from_slice(&to.to_le_bytes());
    refusal(&bytes)
}

#[test]
fn overlapping_and_unaligned_tensors_are_rejected() {
    let bytes = File::default().floats("a", &[1], &[0.0]).floats("b", &[1], &[0.0]).bytes();
    let place = bytes.windows(8).rposition(|some| some == 32_u64.to_le_bytes()).unwrap();
    assert_eq!(moved(&bytes, place, 32), "nothing");
    for (offset, expected) in [
        (0, "overlap"),
        (4, "is not aligned"),
        (64, "beyond the end"),
        (u64::MAX, "beyond the end"),
        (u64::MAX - 3, "beyond the end"),
    ] {
        let message = moved(&bytes, place, offset);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn other_versions_and_byte_orders_are_rejected() {
    for version in [0, 1, 4, 3_u32.swap_bytes()] {
        let mut bytes = sample().bytes();
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        assert!(matches!(Gguf::parse(&bytes), Err(GgufError::Version { .. })), "{version}");
    }
    let mut second = sample().bytes();
    second[4] = 2;
    assert!(Gguf::parse(&second).is_ok());
}

#[test]
fn numbers_that_are_not_finite_are_refused_where_they_are_used() {
    for bytes in [vec![0, 0x7c], vec![0, 0xfe]] {
        let block = [bytes, vec![1; 32]].concat();
        let bytes = File::default().tensor("t", &[32], Q8_0, block).bytes();
        let gguf = Gguf::parse(&bytes).unwrap();
        let refused = gguf.tensor("t").unwrap().floats();
        assert!(matches!(refused, Err(GgufError::NotFinite { .. })), "{refused:?}");
    }
}

/// Everything that a reader can be asked for.
fn exhaust(bytes: &[u8]) {
    let Ok(gguf) = Gguf::parse(bytes) else { return };
    for key in gguf.metadata().keys() {
        let _ = (gguf.text(key), gguf.texts(key), gguf.unsigned(key), gguf.float(key));
        let _ = gguf.integers(key).map(|numbers| numbers.sum::<i64>());
    }
    for name in gguf.names() {
        let _ = gguf.tensor(name).unwrap().floats();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        exhaust(&bytes);
        exhaust(&[&File::default().head(1, 1)[..], &bytes].concat());
    }

    #[test]
    fn no_change_to_a_file_makes_the_reader_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = sample().bytes();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        exhaust(&bytes);
    }
}
