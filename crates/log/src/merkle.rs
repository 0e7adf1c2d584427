//! The Merkle tree of RFC 9162: roots, inclusion proofs and consistency proofs.
//!
//! Sizes and indices count leaves. A root says nothing of the size it was made at, and one proof
//! can fit several sizes: take both from the same [`Checkpoint`](super::Checkpoint).

use sha2::{Digest, Sha256};

/// The SHA-256 hash of a leaf, of an inner node or of a whole tree.
pub type Hash = [u8; 32];

/// The right edge of a tree: what appending needs to know of all the leaves before.
///
/// Holds one hash per set bit of the size, so at most 64 however long the log is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    /// Roots of the maximal complete subtrees, left to right; one per set bit of `size`.
    edge: Vec<Hash>,
}

impl Frontier {
    /// The frontier of the empty tree.
    pub fn new() -> Frontier {
        Frontier::default()
    }

    /// The frontier that had this [`size`](Frontier::size) and [`edge`](Frontier::edge), to go on
    /// from where a log stopped.
    ///
    /// `None` when the edge does not have one hash per set bit of the size, or when the size is
    /// 2⁶³ or more. The hashes are taken on trust: compare [`root`](Frontier::root) with a
    /// verified checkpoint.
    pub fn from_parts(size: u64, edge: Vec<Hash>) -> Option<Frontier> {
        // The bound keeps `push` from ever reaching the end of `u64`.
        let one_per_bit = edge.len() == size.count_ones() as usize;
        (one_per_bit && size < 1 << 63).then_some(Frontier { size, edge })
    }

    /// How many leaves the tree has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Roots of the maximal complete subtrees, left to right, largest first.
    pub fn edge(&self) -> &[Hash] {
        &self.edge
    }

    /// Appends one leaf. Amortised constant time.
    pub fn push(&mut self, leaf: Hash) {
        // The leaf completes one subtree for each trailing one of the size, as a carry does when
        // one is added to the number.
        let kept = self.edge.len() - self.size.trailing_ones() as usize;
        let completed =
            self.edge.drain(kept..).rev().fold(leaf, |right, left| node_hash(&left, &right));
        self.edge.push(completed);
        self.size += 1;
    }

    /// The root of the tree, in logarithmic time.
    ///
    /// Source: RFC 9162 §2.1.2.
    pub fn root(&self) -> Hash {
        let smallest_first = self.edge.iter().rev().copied();
        smallest_first.reduce(|right, left| node_hash(&left, &right)).unwrap_or_else(empty_root)
    }
}

/// Why a proof was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The leaf is not among those the tree has.
    #[error("leaf `{index}` is outside a tree of `{size}`; use a later checkpoint")]
    Outside {
        /// The leaf asked for, counted from 0.
        index: u64,
        /// How many leaves the tree has.
        size: u64,
    },
    /// The tree called newer is the smaller one.
    #[error(
        "the log shrank from `{old}` to `{new}` records; keep the older checkpoint as evidence"
    )]
    Shrunk {
        /// The size of the tree called older.
        old: u64,
        /// The size of the tree called newer.
        new: u64,
    },
    /// Too few or too many hashes for these sizes.
    #[error("the proof has `{hashes}` hashes, the wrong number for these sizes; request it again")]
    Length {
        /// How many hashes the proof has.
        hashes: usize,
    },
    /// The proof leads to another root.
    #[error("the proof does not lead to the given root; do not trust the record or the log")]
    Root,
}

/// The hash of one record as a leaf: `SHA-256(0x00 ‖ record)`.
///
/// Source: RFC 9162 §2.1.1.
pub fn leaf_hash(record: &[u8]) -> Hash {
    Sha256::new().chain_update([0x00]).chain_update(record).finalize().into()
}

/// The hash of an inner node: `SHA-256(0x01 ‖ left ‖ right)`.
///
/// Source: RFC 9162 §2.1.1.
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Sha256::new().chain_update([0x01]).chain_update(left).chain_update(right).finalize().into()
}

/// The root of a tree without leaves: the SHA-256 of nothing.
///
/// Source: RFC 9162 §2.1.1.
pub fn empty_root() -> Hash {
    Sha256::digest([]).into()
}

/// The root of the tree over these leaf hashes.
///
/// Source: RFC 9162 §2.1.1.
pub fn root_of(leaves: &[Hash]) -> Hash {
    let mut frontier = Frontier::new();
    for leaf in leaves {
        frontier.push(*leaf);
    }
    frontier.root()
}

/// A whole tree in memory: every inclusion proof in logarithmic time, where [`inclusion_proof`]
/// hashes every leaf again.
///
/// Holds at most two hashes per leaf.
#[derive(Clone, Debug)]
pub struct MerkleTree {
    /// The leaves, and above them one level per halving, up to the root. None is empty.
    levels: Vec<Vec<Hash>>,
}

impl MerkleTree {
    /// The tree over these leaf hashes.
    pub fn new(leaves: Vec<Hash>) -> MerkleTree {
        let mut levels = Vec::new();
        let mut level = leaves;
        while level.len() > 1 {
            // The last node of an odd level has no sibling and moves up as it is.
            let above = level.chunks(2).map(|pair| match pair {
                [left, right] => node_hash(left, right),
                [alone, ..] => *alone,
                [] => empty_root(),
            });
            let above = above.collect();
            levels.push(std::mem::replace(&mut level, above));
        }
        levels.push(level);
        MerkleTree { levels }
    }

    /// The root of the tree.
    ///
    /// Source: RFC 9162 §2.1.2.
    pub fn root(&self) -> Hash {
        let top = self.levels.last().and_then(|level| level.first());
        top.copied().unwrap_or_else(empty_root)
    }

    /// Proves that leaf `index` is in the tree: the siblings on the way up, the lowest first. `None` when there is no
    /// such leaf.
    ///
    /// Source: RFC 9162 §2.1.3.1.
    pub fn inclusion_proof(&self, index: usize) -> Option<Vec<Hash>> {
        self.levels.first()?.get(index)?;
        let siblings = self.levels.iter().enumerate().filter_map(|(height, level)| {
            let node = index >> height;
            level.get(node ^ 1).copied()
        });
        Some(siblings.collect())
    }
}

/// Proves that leaf `index` is in the tree over the first `size` of these leaf hashes.
///
/// Returns the siblings on the way up, the lowest first; `None` when `index` is not below `size`
/// or `size` exceeds the leaves.
///
/// Source: RFC 9162 §2.1.3.1.
pub fn inclusion_proof(leaves: &[Hash], index: u64, size: u64) -> Option<Vec<Hash>> {
    let mut tree = leaves.get(..usize::try_from(size).ok()?)?;
    let mut index = usize::try_from(index).ok().filter(|index| *index < tree.len())?;
    let mut proof = Vec::new();
    while let Some((left, right)) = halves(tree) {
        if index < left.len() {
            proof.push(root_of(right));
            tree = left;
        } else {
            proof.push(root_of(left));
            index -= left.len();
            tree = right;
        }
    }
    proof.reverse();
    Some(proof)
}

/// Proves that the first `old` of these leaf hashes are a prefix of the first `new`.
///
/// The proof is empty when the sizes are equal or `old` is 0; `None` when `old` exceeds `new` or
/// `new` exceeds the leaves.
///
/// Source: RFC 9162 §2.1.4.1, which leaves out the two empty cases.
pub fn consistency_proof(leaves: &[Hash], old: u64, new: u64) -> Option<Vec<Hash>> {
    let mut tree = leaves.get(..usize::try_from(new).ok()?)?;
    let mut old = usize::try_from(old).ok().filter(|old| *old <= tree.len())?;
    let mut proof = Vec::new();
    if old == 0 {
        return Some(proof);
    }
    // Until the walk turns right, `tree` starts at leaf 0, so it ends as the old tree itself, whose
    // root the verifier has.
    let mut verifier_has_root = true;
    while old < tree.len()
        && let Some((left, right)) = halves(tree)
    {
        if old <= left.len() {
            proof.push(root_of(right));
            tree = left;
        } else {
            proof.push(root_of(left));
            old -= left.len();
            tree = right;
            verifier_has_root = false;
        }
    }
    if !verifier_has_root {
        proof.push(root_of(tree));
    }
    proof.reverse();
    Some(proof)
}

/// Checks that a leaf hash is leaf `index` of the tree with this size and root.
///
/// # Errors
/// [`ProofError`] naming what does not fit.
///
/// Source: RFC 9162 §2.1.3.2.
pub fn verify_inclusion(
    leaf: &Hash,
    index: u64,
    size: u64,
    proof: &[Hash],
    root: &Hash,
) -> Result<(), ProofError> {
    if index >= size {
        return Err(ProofError::Outside { index, size });
    }
    let wrong_length = ProofError::Length { hashes: proof.len() };
    let mut climb = Climb { node: index, last: size - 1 };
    let mut reached = *leaf;
    for sibling in proof {
        reached = match climb.step().ok_or(wrong_length)? {
            Side::Left => node_hash(sibling, &reached),
            Side::Right => node_hash(&reached, sibling),
        };
    }
    if climb.last != 0 {
        return Err(wrong_length);
    }
    if reached != *root {
        return Err(ProofError::Root);
    }
    Ok(())
}

/// Checks that the tree with the new size and root extends the one with the old size and root.
///
/// # Errors
/// [`ProofError`] naming what does not fit.
///
/// Source: RFC 9162 §2.1.4.2. That asks for 0 < `old` < `new`; at equal sizes the roots must be
/// equal too, and every tree extends the empty one. Both take an empty proof only.
pub fn verify_consistency(
    old: u64,
    new: u64,
    proof: &[Hash],
    old_root: &Hash,
    new_root: &Hash,
) -> Result<(), ProofError> {
    if old > new {
        return Err(ProofError::Shrunk { old, new });
    }
    let wrong_length = ProofError::Length { hashes: proof.len() };
    if old == 0 || old == new {
        let same_root = old != new || old_root == new_root;
        let empty_is_empty = old != 0 || *old_root == empty_root();
        return match (proof, same_root && empty_is_empty) {
            ([], true) => Ok(()),
            ([], false) => Err(ProofError::Root),
            ([_, ..], _) => Err(wrong_length),
        };
    }
    // The walk starts at the largest subtree that ends both at the old edge and in a node of the
    // new tree. When that is the whole old tree, the proof leaves its root out.
    let (start, siblings) = if old.is_power_of_two() {
        (old_root, proof)
    } else {
        proof.split_first().ok_or(wrong_length)?
    };
    let below = (old - 1).trailing_ones();
    let mut climb = Climb { node: (old - 1) >> below, last: (new - 1) >> below };
    let (mut old_reached, mut new_reached) = (*start, *start);
    for sibling in siblings {
        match climb.step().ok_or(wrong_length)? {
            Side::Left => {
                old_reached = node_hash(sibling, &old_reached);
                new_reached = node_hash(sibling, &new_reached);
            }
            // What joins from the right came after the old tree.
            Side::Right => new_reached = node_hash(&new_reached, sibling),
        }
    }
    if climb.last != 0 {
        return Err(wrong_length);
    }
    if old_reached != *old_root || new_reached != *new_root {
        return Err(ProofError::Root);
    }
    Ok(())
}

/// A walk from a node to the root. The RFC calls the fields `fn` and `sn`.
struct Climb {
    /// The node's position in its level.
    node: u64,
    /// The position of the last node in that level; 0 at the root.
    last: u64,
}

/// Where the next hash of a proof joins.
enum Side {
    Left,
    Right,
}

impl Climb {
    /// Goes up to the next node that has a sibling and joins it; `None` at the root.
    ///
    /// Source: step 4 of RFC 9162 §2.1.3.2, which is step 6 of §2.1.4.2.
    fn step(&mut self) -> Option<Side> {
        if self.last == 0 {
            return None;
        }
        let side = if self.node & 1 == 1 || self.node == self.last {
            // The last node of a level has no sibling while its position is even: it is its own
            // parent. `node` is not 0, being odd or equal to `last`.
            let alone = self.node.trailing_zeros();
            self.node >>= alone;
            self.last >>= alone;
            Side::Left
        } else {
            Side::Right
        };
        self.node >>= 1;
        self.last >>= 1;
        Some(side)
    }
}

/// Splits a tree where the RFC does, at the largest power of two below its size; `None` for a leaf
/// and for the empty tree.
fn halves(tree: &[Hash]) -> Option<(&[Hash], &[Hash])> {
    let below_size = tree.len().checked_sub(1)?;
    tree.split_at_checked(1 << below_size.checked_ilog2()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The eight records of the Certificate Transparency reference tests.
    const RECORDS: [&str; 8] = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ];

    const ROOTS: [&str; 9] = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];

    fn reference_leaves() -> Vec<Hash> {
        RECORDS.iter().map(|record| leaf_hash(&hex::decode(record).unwrap())).collect()
    }

    fn hash(text: &str) -> Hash {
        hex::decode(text).unwrap().try_into().unwrap()
    }

    #[test]
    fn roots_are_those_of_the_certificate_transparency_reference() {
        let leaves = reference_leaves();
        let mut frontier = Frontier::new();
        for (size, expected) in ROOTS.iter().enumerate() {
            assert_eq!(hex::encode(root_of(&leaves[..size])), *expected, "size {size}");
            assert_eq!(hex::encode(frontier.root()), *expected, "size {size}");
            assert_eq!(frontier.size(), size as u64);
            if let Some(leaf) = leaves.get(size) {
                frontier.push(*leaf);
            }
        }
    }

    #[test]
    fn inclusion_proofs_are_those_of_the_certificate_transparency_reference() {
        let leaves = reference_leaves();
        let cases: [(usize, usize, &[&str]); 4] = [
            (0, 1, &[]),
            (
                0,
                8,
                &[
                    "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                    "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                    "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
                ],
            ),
            (
                5,
                8,
                &[
                    "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
                    "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
                ],
            ),
            (2, 3, &["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
        ];
        for (index, size, expected) in cases {
            let (leaf, root) = (&leaves[index], hash(ROOTS[size]));
            let (index, size) = (index as u64, size as u64);
            let proof = inclusion_proof(&leaves, index, size).unwrap();
            assert_eq!(proof, expected.iter().map(|text| hash(text)).collect::<Vec<_>>());
            assert_eq!(verify_inclusion(leaf, index, size, &proof, &root), Ok(()));
        }
    }

    #[test]
    fn consistency_proofs_are_those_of_the_certificate_transparency_reference() {
        let leaves = reference_leaves();
        let cases: [(usize, usize, &[&str]); 4] = [
            (1, 1, &[]),
            (
                1,
                8,
                &[
                    "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                    "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                    "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
                ],
            ),
            (
                6,
                8,
                &[
                    "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
                    "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
                ],
            ),
            (
                2,
                5,
                &[
                    "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                    "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
                ],
            ),
        ];
        for (old, new, expected) in cases {
            let (old_root, new_root) = (hash(ROOTS[old]), hash(ROOTS[new]));
            let (old, new) = (old as u64, new as u64);
            let proof = consistency_proof(&leaves, old, new).unwrap();
            assert_eq!(proof, expected.iter().map(|text| hash(text)).collect::<Vec<_>>());
            assert_eq!(verify_consistency(old, new, &proof, &old_root, &new_root), Ok(()));
        }
    }

    #[test]
    fn a_frontier_resumes_only_from_one_hash_per_set_bit_of_its_size() {
        let cases = [(0, 0, true), (0, 1, false), (5, 2, true), (5, 1, false), (5, 3, false)];
        for (size, hashes, resumes) in cases {
            let frontier = Frontier::from_parts(size, vec![[7; 32]; hashes]);
            assert_eq!(frontier.is_some(), resumes, "{hashes} hashes at size {size}");
        }
        assert_eq!(Frontier::from_parts(u64::MAX, vec![[7; 32]; 64]), None);
    }

    #[test]
    fn nothing_is_proved_beyond_the_leaves() {
        let leaves = reference_leaves();
        for (index, size) in [(0, 0), (8, 8), (0, 9), (9, 8), (u64::MAX, 8), (0, u64::MAX)] {
            assert_eq!(inclusion_proof(&leaves, index, size), None, "leaf {index} of {size}");
        }
        for (old, new) in [(2, 1), (0, 9), (9, 9), (u64::MAX, 8), (0, u64::MAX)] {
            assert_eq!(consistency_proof(&leaves, old, new), None, "from {old} to {new}");
        }
    }

    #[test]
    fn each_misfit_of_a_consistency_claim_is_named() {
        let (empty, root, other) = (empty_root(), [1; 32], [2; 32]);
        let cases = [
            (0, 0, vec![], empty, empty, Ok(())),
            (0, 4, vec![], empty, root, Ok(())),
            (4, 4, vec![], root, root, Ok(())),
            (0, 0, vec![], root, root, Err(ProofError::Root)),
            (0, 4, vec![], root, root, Err(ProofError::Root)),
            (4, 4, vec![], root, other, Err(ProofError::Root)),
            (4, 4, vec![root], root, root, Err(ProofError::Length { hashes: 1 })),
            (0, 4, vec![root], empty, root, Err(ProofError::Length { hashes: 1 })),
            (3, 4, vec![], root, root, Err(ProofError::Length { hashes: 0 })),
            (4, 3, vec![], root, root, Err(ProofError::Shrunk { old: 4, new: 3 })),
        ];
        for (old, new, proof, old_root, new_root, expected) in cases {
            let verdict = verify_consistency(old, new, &proof, &old_root, &new_root);
            assert_eq!(verdict, expected, "from {old} to {new} with {} hashes", proof.len());
        }
    }
}
