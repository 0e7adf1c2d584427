//! What a log sends to a witness: the size it last cosigned, a consistency proof from there, and a checkpoint.
//!
//! ```text
//! old 20852014
//! PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
//! jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
//!
//! example.com/behind-the-sofa
//! 20852163
//! CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=
//!
//! — example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q…
//! ```
//!
//! Source: C2SP tlog-witness, `add-checkpoint`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use custody_log::Hash;

/// The most hashes that a proof may have: the tree has no more than 2⁶³ leaves.
pub const MAX_PROOF_HASHES: usize = 63;

/// The body of a request to cosign a checkpoint. What it holds is well-formed and not yet verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The size of the checkpoint that the witness cosigned last; 0 if it never did.
    pub old: u64,
    /// Proves that the tree of that size is a prefix of the one in the checkpoint.
    pub proof: Vec<Hash>,
    /// A signed note.
    pub checkpoint: String,
}

/// The body is not written as the protocol says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the {part} of the request is not as C2SP tlog-witness writes it")]
pub struct MalformedSubmission {
    part: &'static str,
}

impl Submission {
    /// Reads the body of a request, which must be exactly what [`fmt::Display`] writes.
    ///
    /// # Errors
    /// [`MalformedSubmission`] naming the first part that is wrong.
    pub fn parse(body: &[u8]) -> Result<Self, MalformedSubmission> {
        let body = str::from_utf8(body).map_err(|_| MalformedSubmission { part: "encoding" })?;
        let (head, checkpoint) =
            body.split_once("\n\n").ok_or(MalformedSubmission { part: "empty line" })?;
        let mut lines = head.split('\n');
        let old = lines.next().and_then(parse_old);
        let old = old.ok_or(MalformedSubmission { part: "old size" })?;
        let proof: Option<Vec<Hash>> = lines.map(parse_hash).collect();
        let proof = proof.filter(|proof| proof.len() <= MAX_PROOF_HASHES);
        let proof = proof.ok_or(MalformedSubmission { part: "consistency proof" })?;
        Ok(Self { old, proof, checkpoint: checkpoint.to_owned() })
    }
}

impl fmt::Display for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old)?;
        self.proof.iter().try_for_each(|hash| writeln!(f, "{}", STANDARD.encode(hash)))?;
        write!(f, "\n{}", self.checkpoint)
    }
}

fn parse_old(line: &str) -> Option<u64> {
    parse_size(line.strip_prefix("old ")?)
}

/// A size in decimal, with no sign and no leading zero.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    text.parse().ok().filter(|size: &u64| size.to_string() == text)
}

fn parse_hash(line: &str) -> Option<Hash> {
    STANDARD.decode(line).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_submission_is_written_as_the_protocol_says_and_reads_back() {
        let submission =
            Submission { old: 3, proof: vec![[0xC5; 32]], checkpoint: "log\n4\nroot\n".into() };
        let body = "old 3\nxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcU=\n\nlog\n4\nroot\n";
        assert_eq!(submission.to_string(), body);
        assert_eq!(Submission::parse(body.as_bytes()), Ok(submission));
        let first = Submission { old: 0, proof: Vec::new(), checkpoint: "x\n".into() };
        assert_eq!(first.to_string(), "old 0\n\nx\n");
        assert_eq!(Submission::parse(b"old 0\n\nx\n"), Ok(first));
    }

    #[test]
    fn anything_else_is_refused_with_the_part_that_is_wrong() {
        let hash = "xcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcXFxcU=\n";
        let cases: [(Vec<u8>, &str); 13] = [
            (b"".to_vec(), "empty line"),
            (b"old 0\nx\n".to_vec(), "empty line"),
            (b"old 0\n\n\xff".to_vec(), "encoding"),
            (b"\n\nx\n".to_vec(), "old size"),
            (b"old\n\nx\n".to_vec(), "old size"),
            (b"old 00\n\nx\n".to_vec(), "old size"),
            (b"old +1\n\nx\n".to_vec(), "old size"),
            (b"old -1\n\nx\n".to_vec(), "old size"),
            (b"old 18446744073709551616\n\nx\n".to_vec(), "old size"),
            (b"old  1\n\nx\n".to_vec(), "old size"),
            (b"old 1\r\n\r\n\n\nx\n".to_vec(), "old size"),
            (b"old 1\nxcXF\n\nx\n".to_vec(), "consistency proof"),
            (format!("old 1\n{}\nx\n", hash.repeat(64)).into_bytes(), "consistency proof"),
        ];
        for (body, part) in cases {
            let text = String::from_utf8_lossy(&body).into_owned();
            assert_eq!(Submission::parse(&body), Err(MalformedSubmission { part }), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_in_one_way(body in "(old [0-9]{1,3}|[a-z ]{0,8})\n([A-Za-z0-9+/=]{44}\n){0,3}\n?[\\PC\n]{0,40}") {
            if let Ok(submission) = Submission::parse(body.as_bytes()) {
                prop_assert_eq!(submission.to_string(), body);
            }
        }
    }
}
