//! How strong a passphrase has to be before a key is stored under it.

use zeroize::Zeroizing;
use zxcvbn::zxcvbn;

/// The fewest guesses that have to be needed to find a passphrase. At a second of one core each, half of them take
/// 16,000 years of one core.
const MIN_GUESSES: u64 = 1_000_000_000_000;

/// A passphrase that is strong enough for a key. Wiped when dropped.
///
/// The estimate is zxcvbn's: it knows common passwords, English words, names, dates, repetitions and rows of keys, and
/// takes everything else for random. Words of other languages count as random letters, so their strength is
/// overestimated.
pub struct NewPassphrase(Zeroizing<String>);

/// A passphrase that could be guessed. Holds nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the passphrase could be found in about {guesses} guesses, and must withstand {MIN_GUESSES}; choose four unrelated \
     words, or 12 random characters"
)]
pub struct WeakPassphrase {
    guesses: u64,
}

impl NewPassphrase {
    /// Takes `passphrase` for the key of `name`, which is among the first that anybody would guess.
    ///
    /// # Errors
    /// [`WeakPassphrase`] when fewer than 10¹² guesses would find it.
    pub fn for_key_of(name: &str, passphrase: Zeroizing<String>) -> Result<Self, WeakPassphrase> {
        let guesses = zxcvbn(&passphrase, &[name, "custody"]).guesses();
        if guesses < MIN_GUESSES { Err(WeakPassphrase { guesses }) } else { Ok(Self(passphrase)) }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for NewPassphrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NewPassphrase(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g22_a_passphrase_that_could_be_guessed_is_refused() {
        let weak = [
            "",
            "password1",
            "P@ssw0rd!2026",
            "qwertyuiop123",
            "aaaaaaaaaaaaaaaaaaaaaaaa",
            "abcabcabcabcabcabcabcabc",
            "            ",
            "iloveyou forever",
            "drowssap drowssap",
            "1qaz2wsx3edc",
            "24.12.1989",
            "ada-lovelace",
            "ada ada ada ada",
            "custodycustody1",
            "x7Gq2LmP9",
        ];
        for passphrase in weak {
            let passphrase = Zeroizing::new(passphrase.to_owned());
            let refused = NewPassphrase::for_key_of("ada-lovelace", passphrase.clone());
            assert!(refused.is_err(), "`{}` is accepted", *passphrase);
        }
    }

    #[test]
    fn four_unrelated_words_and_random_characters_are_accepted() {
        let strong = [
            "correct horse battery staple",
            "zebra lamp cedar moon",
            "orbit-lemon-canyon-tulip",
            "q8mz4xk1pwlv",
            "Zx9!kQ2#mB7$w",
        ];
        for passphrase in strong {
            let passphrase = Zeroizing::new(passphrase.to_owned());
            let accepted = NewPassphrase::for_key_of("ada", passphrase.clone());
            assert!(accepted.is_ok(), "`{}`: {accepted:?}", *passphrase);
        }
    }

    #[test]
    fn a_refusal_holds_nothing_of_the_passphrase_and_says_what_would_be_accepted() {
        let weak = NewPassphrase::for_key_of("ada", Zeroizing::new("hunter2".to_owned()));
        let refusal = weak.unwrap_err().to_string();
        assert!(!refusal.contains("hunter2"), "{refusal}");
        assert!(refusal.contains("four unrelated words, or 12 random characters"), "{refusal}");
        let strong = Zeroizing::new("zebra lamp cedar moon".to_owned());
        let shown = format!("{:?}", NewPassphrase::for_key_of("ada", strong).unwrap());
        assert!(!shown.contains("zebra"), "{shown}");
    }
}
