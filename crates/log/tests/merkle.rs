//! The Merkle tree against `ct-merkle`, an independent implementation of the same RFC.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ct_merkle::mem_backed_tree::MemoryBackedTree;
use ct_merkle::{ConsistencyProof, InclusionProof, RootHash};
use custody_log::{
    Frontier, Hash, MerkleTree, consistency_proof, empty_root, inclusion_proof, leaf_hash, root_of,
    verify_consistency, verify_inclusion,
};
use proptest::prelude::*;
use sha2::Sha256;

/// Sizes checked exhaustively: two complete trees of 64, and the uneven ones on either side.
const LARGEST: u64 = 130;

/// Uneven, complete and just-over-complete trees, for what is too slow to try at every size.
const SHAPES: [u64; 8] = [1, 2, 3, 7, 8, 13, 33, 100];

/// One log as both implementations hold it.
struct Log {
    records: Vec<Vec<u8>>,
    leaves: Vec<Hash>,
    tree: MerkleTree,
    theirs: MemoryBackedTree<Sha256, Vec<u8>>,
}

impl Log {
    fn of(records: Vec<Vec<u8>>) -> Log {
        let mut theirs = MemoryBackedTree::new();
        for record in &records {
            theirs.push(record.clone());
        }
        let leaves: Vec<Hash> = records.iter().map(|record| leaf_hash(record)).collect();
        Log { tree: MerkleTree::new(leaves.clone()), leaves, records, theirs }
    }

    fn numbered(size: u64) -> Log {
        Log::of((0..size).map(|number| number.to_be_bytes().to_vec()).collect())
    }

    fn size(&self) -> u64 {
        self.records.len() as u64
    }

    fn root(&self, size: u64) -> Hash {
        root_of(&self.leaves[..at(size)])
    }

    fn they_accept_inclusion(&self, index: u64, proof: &[Hash]) -> bool {
        let proof = InclusionProof::try_from_bytes(proof.concat()).unwrap();
        let root = RootHash::<Sha256>::new(self.root(self.size()).into(), self.size());
        root.verify_inclusion(&self.records[at(index)], index, &proof).is_ok()
    }

    fn they_accept_consistency(&self, old: u64, proof: &[Hash]) -> bool {
        let proof = ConsistencyProof::try_from_bytes(proof.concat()).unwrap();
        let old_root = RootHash::<Sha256>::new(self.root(old).into(), old);
        let new_root = RootHash::<Sha256>::new(self.root(self.size()).into(), self.size());
        new_root.verify_consistency(&old_root, &proof).is_ok()
    }

    fn we_accept_inclusion(&self, index: u64, proof: &[Hash]) -> bool {
        let (leaf, root) = (&self.leaves[at(index)], self.root(self.size()));
        verify_inclusion(leaf, index, self.size(), proof, &root).is_ok()
    }

    fn we_accept_consistency(&self, old: u64, proof: &[Hash]) -> bool {
        let (old_root, new_root) = (self.root(old), self.root(self.size()));
        verify_consistency(old, self.size(), proof, &old_root, &new_root).is_ok()
    }

    /// Both implementations make the same proof that leaf `index` is there, and both accept it.
    fn agrees_on_inclusion(&self, index: u64) {
        let ours = inclusion_proof(&self.leaves, index, self.size()).unwrap();
        let theirs = hashes(self.theirs.prove_inclusion(at(index)).as_bytes());
        assert_eq!(ours, theirs, "leaf {index} of {}", self.size());
        assert_eq!(self.tree.inclusion_proof(at(index)), Some(theirs.clone()), "leaf {index}");
        assert!(self.they_accept_inclusion(index, &ours), "leaf {index} of {}", self.size());
        assert!(self.we_accept_inclusion(index, &theirs), "leaf {index} of {}", self.size());
    }

    /// Both implementations make the same proof of growth from `old`, and both accept it.
    fn agrees_on_consistency(&self, old: u64) {
        let ours = consistency_proof(&self.leaves, old, self.size()).unwrap();
        let added = at(self.size() - old);
        let theirs = hashes(self.theirs.prove_consistency(added).as_bytes());
        assert_eq!(ours, theirs, "from {old} to {}", self.size());
        assert!(self.they_accept_consistency(old, &ours), "from {old} to {}", self.size());
        assert!(self.we_accept_consistency(old, &theirs), "from {old} to {}", self.size());
    }
}

/// A count of leaves as a place in memory.
fn at(leaf: u64) -> usize {
    usize::try_from(leaf).unwrap()
}

fn hashes(proof: &[u8]) -> Vec<Hash> {
    proof.as_chunks().0.to_vec()
}

/// Every copy of these hashes in which one byte differs.
fn corruptions(of: &[Hash]) -> impl Iterator<Item = Vec<Hash>> {
    (0..of.len() * 32).map(move |byte| {
        let mut copy = of.to_vec();
        copy[byte / 32][byte % 32] ^= 1 << (byte % 8);
        copy
    })
}

#[test]
fn every_root_up_to_130_leaves_is_theirs() {
    let mut frontier = Frontier::new();
    for size in 0..=LARGEST {
        let log = Log::numbered(size);
        assert_eq!(log.root(size), <Hash>::from(*log.theirs.root().as_bytes()), "size {size}");
        assert_eq!(frontier.root(), log.root(size), "size {size}");
        assert_eq!(log.tree.root(), log.root(size), "size {size}");
        assert_eq!(log.tree.inclusion_proof(at(size)), None, "size {size}");
        let resumed = Frontier::from_parts(frontier.size(), frontier.edge().to_vec());
        assert_eq!(resumed.as_ref(), Some(&frontier), "size {size}");
        frontier.push(leaf_hash(&size.to_be_bytes()));
    }
}

#[test]
fn every_inclusion_proof_up_to_130_leaves_is_theirs() {
    for size in 0..=LARGEST {
        let log = Log::numbered(size);
        (0..size).for_each(|index| log.agrees_on_inclusion(index));
    }
}

#[test]
fn every_consistency_proof_up_to_130_leaves_is_theirs() {
    for size in 0..=LARGEST {
        let log = Log::numbered(size);
        (1..=size).for_each(|old| log.agrees_on_consistency(old));
        assert_eq!(consistency_proof(&log.leaves, 0, size), Some(Vec::new()));
        assert!(verify_consistency(0, size, &[], &empty_root(), &log.root(size)).is_ok());
    }
}

#[test]
fn every_corruption_of_an_inclusion_claim_is_refused() {
    for size in SHAPES {
        let log = Log::numbered(size);
        let root = log.root(size);
        for (index, leaf) in (0..).zip(&log.leaves) {
            let proof = inclusion_proof(&log.leaves, index, size).unwrap();
            let refused = |leaf: &Hash, index, proof: &[Hash], root: &Hash| {
                let verdict = verify_inclusion(leaf, index, size, proof, root);
                assert!(verdict.is_err(), "leaf {index} of {size}");
            };
            corruptions(&[*leaf]).for_each(|other| refused(&other[0], index, &proof, &root));
            corruptions(&[root]).for_each(|other| refused(leaf, index, &proof, &other[0]));
            corruptions(&proof).for_each(|other| refused(leaf, index, &other, &root));
            (0..=size).filter(|other| *other != index).for_each(|other| {
                refused(leaf, other, &proof, &root);
            });
            refused(leaf, u64::MAX, &proof, &root);
            refused(leaf, index, &[proof.as_slice(), &[*leaf]].concat(), &root);
            (0..proof.len()).for_each(|kept| refused(leaf, index, &proof[..kept], &root));
        }
    }
}

#[test]
fn every_corruption_of_a_consistency_claim_is_refused() {
    for new in SHAPES {
        let log = Log::numbered(new);
        let new_root = log.root(new);
        for old in 1..=new {
            let old_root = log.root(old);
            let proof = consistency_proof(&log.leaves, old, new).unwrap();
            let refused = |proof: &[Hash], old_root: &Hash, new_root: &Hash| {
                let verdict = verify_consistency(old, new, proof, old_root, new_root);
                assert!(verdict.is_err(), "from {old} to {new}");
            };
            corruptions(&[old_root]).for_each(|other| refused(&proof, &other[0], &new_root));
            corruptions(&[new_root]).for_each(|other| refused(&proof, &old_root, &other[0]));
            corruptions(&proof).for_each(|other| refused(&other, &old_root, &new_root));
            refused(&[proof.as_slice(), &[old_root]].concat(), &old_root, &new_root);
            (0..proof.len()).for_each(|kept| refused(&proof[..kept], &old_root, &new_root));
        }
    }
}

/// A log of up to 300 records, and the place of one of them.
fn log_and_index() -> impl Strategy<Value = (Vec<Vec<u8>>, u64)> {
    let record = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::vec(record, 1..300).prop_flat_map(|records| {
        let size = records.len() as u64;
        (Just(records), 0..size)
    })
}

proptest! {
    #[test]
    fn any_log_has_their_root_and_their_proofs((records, index) in log_and_index()) {
        let log = Log::of(records);
        prop_assert_eq!(log.root(log.size()), <Hash>::from(*log.theirs.root().as_bytes()));
        log.agrees_on_inclusion(index);
        log.agrees_on_consistency(index + 1);
    }

    /// Up to two edits; some leave the proof right, such as a swap of a hash with itself.
    #[test]
    fn any_proof_gets_their_verdict(
        (records, index) in log_and_index(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8), 0..3),
    ) {
        let log = Log::of(records);
        let mut inclusion = inclusion_proof(&log.leaves, index, log.size()).unwrap();
        let mut consistency = consistency_proof(&log.leaves, index + 1, log.size()).unwrap();
        for (place, edit) in edits {
            for proof in [&mut inclusion, &mut consistency] {
                match (edit, proof.len()) {
                    (0, length) => proof.insert(place.index(length + 1), log.leaves[0]),
                    (_, 0) => {}
                    (1, length) => drop(proof.remove(place.index(length))),
                    (_, length) => proof.swap(place.index(length), 0),
                }
            }
        }
        prop_assert_eq!(
            log.we_accept_inclusion(index, &inclusion),
            log.they_accept_inclusion(index, &inclusion)
        );
        prop_assert_eq!(
            log.we_accept_consistency(index + 1, &consistency),
            log.they_accept_consistency(index + 1, &consistency)
        );
    }

    #[test]
    fn hostile_sizes_and_proofs_are_answered_without_a_panic(
        (first, second) in any::<(u64, u64)>(),
        proof in prop::collection::vec(any::<Hash>(), 0..70),
        root: Hash,
    ) {
        for (small, large) in [(first, second), (first, u64::MAX), (0, first), (first, first)] {
            let included = verify_inclusion(&root, small, large, &proof, &root).is_ok();
            prop_assert!(!included || large == 1);
            let extends = verify_consistency(small, large, &proof, &root, &root).is_ok();
            prop_assert!(!extends || small == large);
        }
    }
}
