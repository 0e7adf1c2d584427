//! Making the indexes of a store anew from its records and contents.

use custody_kernel::state::State;
use custody_log::Seq;
use custody_runtime::Store;
use custody_runtime::echo::{Fingerprints, StoreHasher, Voice, voice_of};
use custody_runtime::store::{Fingerprint, Signatures, StoreError, Tampering, View, content_of};

use crate::VerifyError;
use crate::echoes::rows;

/// How many texts have their fingerprints compared in one turn of a reader.
const TEXTS_PER_TURN: usize = 256;

/// What was made anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct RebuiltIndexes {
    /// Steps in which texts and hashes were indexed.
    pub text_steps: u64,
    /// Edges of the provenance graph.
    pub edges: u64,
    /// Texts whose fingerprints were not theirs.
    pub fingerprinted: u64,
}

/// Makes the indexes of texts, hashes, edges and fingerprints anew, and takes out vectors of no text. In steps, between
/// which others can write. What the indexes held before is not read.
///
/// # Errors
/// When the records themselves do not verify, or the store cannot be written.
pub fn rebuild_indexes(
    store: &Store,
    mut progress: impl FnMut(u64),
) -> Result<RebuiltIndexes, VerifyError> {
    let mut rebuilt = RebuiltIndexes::default();
    let mut from = Some(Seq(0));
    while let Some(start) = from {
        from = store.run::<_, StoreError, _>(move |step| step.rebuild_edges(start)).wait()?;
    }
    store.run::<_, StoreError, _>(|step| step.clear_search_index()).wait()?;
    while store.run(|step| step.index_texts()).wait()? {
        rebuilt.text_steps += 1;
        progress(rebuilt.text_steps);
    }
    rebuilt.fingerprinted = rebuild_fingerprints(store)?;
    rebuilt.edges = store.look(|view| Ok::<_, StoreError>(view.row_counts()?.edges))?;
    Ok(rebuilt)
}

/// Compares the fingerprints of every text with those that the index has, and puts the right ones in their place. A
/// trusted text may have none, because the parts of a message that was cut speak for nothing; whether it was cut is not
/// known any more, so that none are added to it.
fn rebuild_fingerprints(store: &Store) -> Result<u64, VerifyError> {
    let mut state = State::default();
    let (mut next, mut changed) = (Seq(0), 0);
    loop {
        let wrong = store.look(|view| wrong_fingerprints(view, &mut state, &mut next))?;
        changed += wrong.len() as u64;
        for (arrival, fingerprints) in wrong {
            let replacing = store.run::<_, StoreError, _>(move |step| {
                step.replace_fingerprints(arrival, &fingerprints)
            });
            replacing.wait()?;
        }
        if store.look(|view| Ok::<_, StoreError>(next.0 >= view.len()))? {
            break;
        }
    }
    while store.run::<_, StoreError, _>(|step| step.insert_waiting_fingerprints()).wait()? {}
    Ok(changed)
}

/// The next texts whose fingerprints are not theirs, with those that are. Folds the records in as it goes.
fn wrong_fingerprints(
    view: View<'_>,
    state: &mut State,
    next: &mut Seq,
) -> Result<Vec<(Seq, Vec<Fingerprint>)>, VerifyError> {
    let hasher = StoreHasher::new(view.fingerprint_key()?);
    let (mut wrong, mut signatures) = (Vec::new(), Signatures::default());
    for (seq, leaf) in
        (0..view.len()).map(Seq).zip(view.leaves()).skip(position(*next)).take(TEXTS_PER_TURN)
    {
        let record = view.record(seq)?;
        let content = content_of(&record).filter(|content| content.arrival == seq);
        let text = content.map(|content| view.any_content(content)).transpose()?.flatten();
        let found = view.fingerprints_of(seq)?;
        let expected = match (voice_of(state, &record), text) {
            (Some((tenant, voice)), Some(text)) => {
                let text = String::from_utf8_lossy(&text);
                let may_be_absent = voice != Voice::Untrusted;
                let made = Fingerprints::of(&hasher, tenant, voice, &text).into_rows();
                if found.is_empty() && may_be_absent { Vec::new() } else { made }
            }
            (_, _) => Vec::new(),
        };
        if rows(&found) != rows(&expected) {
            wrong.push((seq, expected));
        }
        let signature = state.recount_stored(&record, *leaf);
        signatures
            .push(signature.map_err(|cause| Tampering::Inconsistent(seq.0, cause.into()))?)?;
        *next = Seq(seq.0 + 1);
    }
    signatures.check()?;
    Ok(wrong)
}

fn position(seq: Seq) -> usize {
    usize::try_from(seq.0).unwrap_or(usize::MAX)
}
