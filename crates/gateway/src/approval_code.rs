//! The short code of a call that waits for a human: the same in the agent's window and on the terminal where the
//! human decides, so that both are seen to be about the same call.

use std::fmt;

use custody_log::{Digest, EntryId};

/// Letters that look like no other and spell no words.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";

/// A code like `KXP-DRB`. It grants nothing, and stands for nothing but the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalCode([u8; 6]);

impl ApprovalCode {
    /// The code of the call that was proposed as `proposal`.
    pub fn of(proposal: EntryId) -> Self {
        let digest = Digest::of(format!("custody approval code 1 {proposal}").as_bytes());
        let mut code = [0; 6];
        for (letter, byte) in code.iter_mut().zip(digest.0) {
            *letter = LETTERS[usize::from(byte) % LETTERS.len()];
        }
        Self(code)
    }
}

impl fmt::Display for ApprovalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.0.split_at(3);
        write!(f, "{}-{}", first.escape_ascii(), last.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_the_same_for_the_same_call_and_another_for_another() {
        let [one, other]: [EntryId; 2] =
            ["1", "2"].map(|digit| format!("e-{}", digit.repeat(32)).parse().unwrap());
        let code = ApprovalCode::of(one).to_string();
        assert_eq!((code.len(), code.as_bytes()[3]), (7, b'-'));
        assert_eq!(code, ApprovalCode::of(one).to_string());
        assert_ne!(code, ApprovalCode::of(other).to_string());
    }
}
