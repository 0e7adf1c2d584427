//! The file of entries beside a certificate: one leaf a line, each its canonical JSON and a newline.
//!
//! Nothing in it is signed, and nothing needs to be: its lines are the leaves under the root in the certificate.

use custody_log::{Digest, Frontier, Seq, leaf_hash};

use crate::certificate::Verified;
use crate::error::{CertificateError, LineFault};
use crate::format::MAX_LINE_BYTES;
use crate::leaf::{Leaf, Lists, leaves};
use crate::recovery::Recovery;

/// The lines of the file of entries of a whole recovery, each with its newline.
///
/// # Errors
/// Never for a recovery that was certified: it holds text and whole numbers only.
pub fn entry_lines(recovery: &Recovery) -> impl Iterator<Item = serde_json::Result<Vec<u8>>> + '_ {
    leaves(recovery).map(|leaf| {
        let mut line = serde_json::to_vec(&leaf)?;
        line.push(b'\n');
        Ok(line)
    })
}

/// Reads the file of entries of a certificate, one line at a time.
///
/// Every line must be a leaf in its one form and its one place, and together they must have the root that was signed
/// and make the certificate: each rule that holds where all entries stand inside is checked, and that its counts and
/// lists are theirs.
#[derive(Debug)]
pub struct EntryReader {
    verified: Verified,
    lists: Lists,
    tree: Frontier,
    before: Option<Seq>,
}

impl EntryReader {
    /// For the entries of a certificate that verified.
    pub fn new(verified: Verified) -> Self {
        let lists = Lists::new(&verified.certificate().recovery);
        Self { verified, lists, tree: Frontier::new(), before: None }
    }

    /// Takes the next line, with its newline. One that is longer than [`MAX_LINE_BYTES`] need not be whole.
    ///
    /// # Errors
    /// [`CertificateError::EntryLine`] when it is not the next leaf.
    pub fn push(&mut self, line: &[u8]) -> Result<(), CertificateError> {
        let leaf = self.next_leaf(line);
        let leaf = leaf.map_err(|fault| {
            let line = self.tree.size() + 1;
            CertificateError::EntryLine { line, fault }
        })?;
        self.lists.push(leaf);
        Ok(())
    }

    fn next_leaf(&mut self, line: &[u8]) -> Result<Leaf<'static>, LineFault> {
        if line.len() > MAX_LINE_BYTES {
            return Err(LineFault::TooLong);
        }
        let line = line.strip_suffix(b"\n").ok_or(LineFault::Unterminated)?;
        if self.tree.size() == self.verified.certificate().entries.leaves() {
            return Err(LineFault::Surplus);
        }
        let leaf: Option<Leaf<'static>> = serde_json::from_slice(line).ok();
        let leaf = leaf.filter(|leaf| serde_json::to_vec(leaf).is_ok_and(|form| form == line));
        let leaf = leaf.ok_or(LineFault::NotCanonical)?;
        if self.before.is_some_and(|before| leaf.entry() <= before) {
            return Err(LineFault::Order);
        }
        self.before = Some(leaf.entry());
        self.tree.push(leaf_hash(line));
        Ok(leaf)
    }

    /// Compares the entries with the certificate, which is [whole](crate::Certificate::is_whole) then.
    ///
    /// # Errors
    /// [`CertificateError`] naming what does not follow from the entries.
    pub fn finish(self) -> Result<Verified, CertificateError> {
        let stated = &self.verified.certificate().entries;
        let (lines, found, expected) = (self.tree.size(), Digest(self.tree.root()), stated.root);
        if lines != stated.leaves() || found != expected {
            return Err(CertificateError::EntriesRoot { lines, found, expected });
        }
        self.verified.completed(self.lists.finish())
    }
}
