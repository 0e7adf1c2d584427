//! Comparing one text with all that came before it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use custody_kernel::namespace::Tenant;
use custody_kernel::record::MAX_DISCOUNTED;
use custody_kernel::state::State;
use custody_log::{PrincipalId, Seq};
use custody_store::{
    FINGERPRINTS_PER_TURN, Fingerprint, Occurrence, Store, StoreError, Tampering, View,
    WaitingFingerprints,
};
use custody_text::{CanonicalText, Rendering};

use super::prints::{GRAM, Print, StoreHasher, may_be_long};
use super::voice::{Voice, arrived_text, form, forms, is_of};
use super::{MAX_COMPARED_BYTES, MIN_RUN};

/// How many occurrences of a fingerprint are looked at, the oldest first. If that many entries hold its 48 characters
/// and none of them a run of 64, the 48 count: so many near misses are made on purpose.
const MAX_OCCURRENCES: usize = 16;
/// How many echoes one text can have before it is untrusted as a whole.
const MAX_ECHOES: usize = 64;
/// How many texts are read for one comparison.
const MAX_TEXTS: usize = 64;
/// How long they are together, in bytes.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// How many look-ups of older trusted texts one comparison makes.
const MAX_TRUSTED_LOOKUPS: usize = 4096;
/// How many characters at the ends of a run older trusted texts may leave uncovered: two texts that quote the same go
/// on alike for a few characters by chance.
const MAX_UNCOVERED: usize = 15;
/// How many fingerprints are looked up in one turn of a reader, which holds up the writer.
pub(crate) const LOOKUPS_AT_ONCE: usize = 512;
/// How many bytes of other texts are compared in one turn of a reader.
const QUICK_TEXT_BYTES: usize = 64 << 10;
/// How many occurrences that came in between a writer's turn looks through for a long text.
const MAX_IN_BETWEEN: usize = 4 * FINGERPRINTS_PER_TURN;

/// Which parts of a text repeat untrusted entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Echoes {
    /// These byte ranges, each with the entry it repeats, in order and apart.
    Parts(Vec<(Range<usize>, Seq)>),
    /// More than is told apart, or too much to compare: all of it is untrusted. With the entries that were found in
    /// it.
    Whole(Vec<Seq>),
}

impl Default for Echoes {
    fn default() -> Self {
        Self::Parts(Vec::new())
    }
}

/// The parts of a text that repeat untrusted entries and that older trusted texts hold too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiscountedRuns(BTreeSet<(usize, usize, Seq)>);

impl DiscountedRuns {
    fn insert(&mut self, bytes: &Range<usize>, source: Seq) {
        self.0.insert((bytes.start, bytes.end, source));
    }

    /// The entries that the bytes `range` of the text repeat, as its record names them: ascending, and only the first
    /// of many.
    pub fn within(&self, range: &Range<usize>) -> Vec<Seq> {
        let within =
            self.0.iter().filter(|(start, end, _)| *start < range.end && range.start < *end);
        let sources: BTreeSet<Seq> = within.map(|(_, _, source)| *source).collect();
        sources.into_iter().take(MAX_DISCOUNTED).collect()
    }
}

/// What a comparison finds in a text.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) echoes: Echoes,
    pub(crate) discounted: DiscountedRuns,
}

impl From<Echoes> for Resolved {
    fn from(echoes: Echoes) -> Self {
        Self { echoes, discounted: DiscountedRuns::default() }
    }
}

/// How much a comparison did, in counts that no clock changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Fingerprints that were looked up.
    pub lookups: usize,
    /// Occurrences that were looked at.
    pub occurrences: usize,
    /// Texts that were read.
    pub texts: usize,
    /// Their bytes.
    pub text_bytes: usize,
    /// Runs that were compared character by character.
    pub runs: usize,
}

/// Echoes, and how much finding them took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EchoCheck {
    /// What was found.
    pub echoes: Echoes,
    /// What was found and is discounted.
    pub discounted: DiscountedRuns,
    /// What it took.
    pub work: Work,
}

/// A text that is compared, with every reading of it and its fingerprints.
#[derive(Debug, Clone)]
pub struct OwnText {
    text: String,
    forms: Vec<OwnForm>,
    hasher: StoreHasher,
}

#[derive(Debug, Clone)]
struct OwnForm {
    number: u32,
    text: CanonicalText,
    prints: Vec<Print>,
}

/// Whose texts are compared with: those of a tenant, and as older trusted ones its system texts and this principal's.
#[derive(Debug, Clone)]
pub struct ComparedWith {
    /// The tenant.
    pub tenant: Tenant,
    /// The principal of the session, if it proved who it is.
    pub principal: Option<PrincipalId>,
}

/// Where entries are looked up: in a store, a little at a time so that its writer is not held up; or at one moment of
/// it, within the writer's turn, or as it was when fewer records were folded in.
#[derive(Clone, Copy)]
pub(crate) enum Record<'a> {
    Store(&'a Store),
    Moment(View<'a>),
    Past(View<'a>, &'a State),
}

/// One fingerprint of the text, with where older untrusted texts have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    form: usize,
    print: usize,
    occurrences: Vec<Occurrence>,
}

/// Texts that were read, within the bounds of one comparison.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    texts: HashMap<Seq, Option<Arc<str>>>,
    forms: HashMap<(Seq, Voice, u32), Option<Arc<CanonicalText>>>,
    trusted: HashMap<(usize, usize), Vec<(Voice, Occurrence)>>,
    pub(crate) work: Work,
    /// How many bytes are compared before the comparison is given up.
    most_bytes: Option<usize>,
    is_given_up: bool,
}

impl Record<'_> {
    fn look<R>(
        self,
        look: impl FnOnce(View<'_>) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        match self {
            Self::Store(store) => store.look(look),
            Self::Moment(view) | Self::Past(view, _) => look(view),
        }
    }

    /// The marks of that time, where it is not the time of the view.
    const fn past(&self) -> Option<&State> {
        match self {
            Self::Store(_) | Self::Moment(_) => None,
            Self::Past(_, state) => Some(state),
        }
    }
}

impl OwnText {
    /// Every reading of `text`, if it is not too long to be compared.
    pub fn of(hasher: StoreHasher, text: &str) -> Self {
        let is_compared = text.len() <= MAX_COMPARED_BYTES;
        let readings = (0_u32..).zip(Rendering::ALL).filter(|_| is_compared);
        let forms = readings.filter_map(|(number, rendering)| {
            let text = rendering.of(text)?;
            let prints = hasher.prints(text.chars());
            Some(OwnForm { number, text, prints })
        });
        Self { text: text.to_owned(), forms: forms.collect(), hasher }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The fingerprints that the index keeps of it as a text of `voice`. `None` where those are of other readings:
    /// of a text that is too long to be compared, and of a user's, which is read without what it quotes.
    pub fn fingerprints(&self, tenant: &Tenant, voice: Voice) -> Option<Vec<Fingerprint>> {
        let is_read_so = match voice {
            Voice::Untrusted | Voice::System => self.text.len() <= MAX_COMPARED_BYTES,
            Voice::User(_) => false,
        };
        let salt = self.hasher.salt(tenant, voice);
        let rows = self.forms.iter().flat_map(|form| {
            form.prints.iter().map(move |print| print.fingerprint(salt, form.number))
        });
        is_read_so.then(|| rows.collect())
    }

    pub(crate) const fn hasher(&self) -> &StoreHasher {
        &self.hasher
    }

    /// The number of its fingerprints.
    pub(crate) fn print_count(&self) -> usize {
        self.forms.iter().map(|form| form.prints.len()).sum()
    }

    fn print(&self, hit: &Hit) -> Option<(&OwnForm, &Print)> {
        let form = self.forms.get(hit.form)?;
        Some((form, form.prints.get(hit.print)?))
    }

    /// Whether the character at `at`, near an end of `run`, belongs to a word that this end does not cut off, or is one
    /// by itself. A script without capitals may write no spaces, so each of its letters counts.
    fn is_of_whole_word(&self, form: &OwnForm, at: usize, run: &Range<usize>) -> bool {
        if form.text.chars().get(at).is_some_and(|c| is_caseless(*c)) {
            return true;
        }
        // Nobody can make these scans long: they end where the run may be uncovered no more.
        let before = run.start.checked_sub(1).filter(|_| at - run.start < MAX_UNCOVERED);
        let is_cut_before =
            before.is_some_and(|from| (from..at).all(|at| self.is_joined_to_next(form, at)));
        let is_cut_after = run.end - at <= MAX_UNCOVERED
            && (at..run.end).all(|at| self.is_joined_to_next(form, at));
        !is_cut_before && !is_cut_after
    }

    /// Whether nothing stands in the text between the character at `at` and the next one.
    fn is_joined_to_next(&self, form: &OwnForm, at: usize) -> bool {
        let next = at + 1;
        let letter = self.text.get(form.text.byte_range(&(at..next)));
        next < form.text.len() && letter.is_some_and(|letter| letter.chars().nth(1).is_none())
    }

    fn prints(&self) -> impl Iterator<Item = (usize, usize, &Print)> {
        let forms = self.forms.iter().enumerate();
        forms.flat_map(|(form, own)| {
            own.prints.iter().enumerate().map(move |(print, own)| (form, print, own))
        })
    }
}

/// The echoes of a text among the entries before `before`, with the marks that `state` has. What verification
/// repeats.
///
/// # Errors
/// [`StoreError::Tampered`] when the index does not agree with the record.
pub fn echoes_before(
    view: View<'_>,
    with: &ComparedWith,
    own: &OwnText,
    state: &State,
    before: Seq,
) -> Result<EchoCheck, StoreError> {
    let record = Record::Past(view, state);
    let mut sources = Sources::default();
    let hits = hits_before(record, with, own, before, &mut sources.work)?;
    let Resolved { echoes, discounted } = resolve(record, with, own, &hits, &mut sources)?;
    Ok(EchoCheck { echoes, discounted, work: sources.work })
}

/// Looks up every fingerprint of `own` among the untrusted texts before `before`.
pub(crate) fn hits_before(
    record: Record<'_>,
    with: &ComparedWith,
    own: &OwnText,
    before: Seq,
    work: &mut Work,
) -> Result<Vec<Hit>, StoreError> {
    let salt = own.hasher.salt(&with.tenant, Voice::Untrusted);
    let prints: Vec<(usize, usize, &Print)> = own.prints().collect();
    let mut hits = Vec::new();
    for some in prints.chunks(LOOKUPS_AT_ONCE) {
        record.look(|view| {
            for (form, print, own_print) in some {
                let key = own_print.key(salt);
                let all = Seq(0)..Seq(u64::MAX >> 1);
                let mut occurrences = view.occurrences(key, &all, MAX_OCCURRENCES)?;
                if let Some(last) = occurrences.last().filter(|last| last.arrival.0 >= view.len()) {
                    let seq = last.arrival.0;
                    return Err(Tampering::Index { index: "fingerprint", seq }.into());
                }
                occurrences.retain(|found| found.arrival < before);
                if !occurrences.is_empty() {
                    hits.push(Hit { form: *form, print: *print, occurrences });
                }
            }
            Ok(())
        })?;
    }
    work.lookups += prints.len();
    Ok(hits)
}

/// Looks up what arrived at or after `from`, and whatever is not in the index yet, within the writer's turn. `None`
/// when so much arrived in between that the text should be compared with a newer moment outside of it. `hits` are those
/// of before: nothing newer is among the oldest occurrences of a fingerprint that has all that are looked at.
pub(crate) fn hits_since(
    view: View<'_>,
    with: &ComparedWith,
    own: &OwnText,
    from: Seq,
    hits: &[Hit],
    is_last_try: bool,
) -> Result<Option<Vec<Hit>>, StoreError> {
    let is_waiting = view.has_waiting_fingerprints()?;
    if own.print_count() == 0 || (view.len() <= from.0 && !is_waiting) {
        return Ok(Some(Vec::new()));
    }
    let is_short = own.print_count() <= FINGERPRINTS_PER_TURN;
    let mut found: Vec<Occurrence> = Vec::new();
    if !is_short {
        found = view.occurrences_since(from, MAX_IN_BETWEEN)?;
        if found.len() == MAX_IN_BETWEEN && !is_last_try {
            return Ok(None);
        }
    }
    let is_looked_up = is_short || found.len() == MAX_IN_BETWEEN;
    if is_waiting {
        found.extend(waiting(view)?);
    }
    let mut by_print: HashMap<u64, Vec<Occurrence>> = HashMap::new();
    for occurrence in found {
        by_print.entry(occurrence.fingerprint.print).or_default().push(occurrence);
    }
    let salt = own.hasher.salt(&with.tenant, Voice::Untrusted);
    let full = hits.iter().filter(|hit| hit.occurrences.len() >= MAX_OCCURRENCES);
    let full: HashSet<(usize, usize)> = full.map(|hit| (hit.form, hit.print)).collect();
    let mut hits = Vec::new();
    for (form, print, own_print) in own.prints() {
        if full.contains(&(form, print)) && !is_waiting {
            continue;
        }
        let key = own_print.key(salt);
        let mut occurrences = by_print.get(&key).cloned().unwrap_or_default();
        if is_looked_up {
            let all = from..Seq(u64::MAX >> 1);
            occurrences.extend(view.occurrences(key, &all, MAX_OCCURRENCES)?);
        }
        if !occurrences.is_empty() {
            hits.push(Hit { form, print, occurrences: oldest(occurrences) });
        }
    }
    Ok(Some(hits))
}

/// What is not in the index yet.
fn waiting(view: View<'_>) -> Result<Vec<Occurrence>, StoreError> {
    let hasher = StoreHasher::new(view.fingerprint_key()?);
    let mut found = Vec::new();
    for waiting in view.waiting_fingerprints(usize::MAX)? {
        match waiting {
            WaitingFingerprints::Slice(slice) => found.extend(slice),
            WaitingFingerprints::Text(arrival) => {
                let record = view.record(arrival)?;
                let tenant = view.state().tenant_of(arrival);
                let untrusted =
                    tenant.filter(|tenant| is_of(view.state(), &record, tenant, Voice::Untrusted));
                let (Some(tenant), Some(text)) = (untrusted, arrived_text(view, &record)?) else {
                    continue;
                };
                let salt = hasher.salt(tenant, Voice::Untrusted);
                for (number, form) in forms(&text, Voice::Untrusted) {
                    let prints = hasher.prints(form.chars());
                    let prints = prints.iter().map(|print| print.fingerprint(salt, number));
                    found.extend(prints.map(|fingerprint| Occurrence { arrival, fingerprint }));
                }
            }
        }
    }
    Ok(found)
}

fn oldest(mut occurrences: Vec<Occurrence>) -> Vec<Occurrence> {
    occurrences.sort_by_key(|found| (found.arrival, found.fingerprint.around));
    occurrences.dedup();
    occurrences.truncate(MAX_OCCURRENCES);
    occurrences
}

/// What two look-ups of one text found together.
pub(crate) fn merged(hits: Vec<Hit>, more: Vec<Hit>) -> Vec<Hit> {
    let mut all: HashMap<(usize, usize), Vec<Occurrence>> = HashMap::new();
    for hit in hits.into_iter().chain(more) {
        all.entry((hit.form, hit.print)).or_default().extend(hit.occurrences);
    }
    let hits = all.into_iter().map(|((form, print), occurrences)| Hit {
        form,
        print,
        occurrences: oldest(occurrences),
    });
    let mut hits: Vec<Hit> = hits.collect();
    hits.sort_by_key(|hit| (hit.form, hit.print));
    hits
}

/// A run that an untrusted entry holds.
struct Run {
    /// Characters of the reading.
    chars: Range<usize>,
    source: Seq,
}

/// Which of the hits are echoes, found in one turn of a reader. `None` if more has to be read than one turn is for.
pub(crate) fn resolve_quickly(
    view: View<'_>,
    with: &ComparedWith,
    own: &OwnText,
    hits: &[Hit],
) -> Result<Option<Resolved>, StoreError> {
    let mut sources = Sources { most_bytes: Some(QUICK_TEXT_BYTES), ..Sources::default() };
    let resolved = resolve(Record::Moment(view), with, own, hits, &mut sources)?;
    Ok((!sources.is_given_up).then_some(resolved))
}

/// Which of the hits are echoes.
pub(crate) fn resolve(
    record: Record<'_>,
    with: &ComparedWith,
    own: &OwnText,
    hits: &[Hit],
    sources: &mut Sources,
) -> Result<Resolved, StoreError> {
    if own.text.len() > MAX_COMPARED_BYTES {
        return Ok(Echoes::Whole(Vec::new()).into());
    }
    let mut comparison = Comparison { record, with, own, sources, is_over: false };
    let mut echoes: Vec<(Range<usize>, Seq)> = Vec::new();
    // Runs that older trusted texts cover, by reading and source.
    let mut discounted: HashMap<(usize, Seq), Range<usize>> = HashMap::new();
    let mut discounted_runs = DiscountedRuns::default();
    for hit in hits {
        let Some((form, print)) = own.print(hit) else { continue };
        let gram = print.at..print.at + GRAM;
        let bytes = form.text.byte_range(&gram);
        if echoes.iter().any(|(echo, _)| echo.start <= bytes.start && bytes.end <= echo.end) {
            continue;
        }
        let mut long = hit.occurrences.iter();
        let oldest = long.find(|found| may_be_long(print.around, found.fingerprint.around));
        let known = oldest.and_then(|found| discounted.get(&(hit.form, found.arrival)));
        if known.is_some_and(|run| run.start <= gram.start && gram.end < run.end) {
            continue;
        }
        let run = comparison.run(hit)?;
        if comparison.sources.is_given_up {
            return Ok(Resolved::default());
        }
        if let Some(run) = run {
            if comparison.is_discounted(hit.form, &run)? {
                discounted_runs.insert(&form.text.byte_range(&run.chars), run.source);
                discounted.insert((hit.form, run.source), run.chars);
            } else {
                echoes.push((form.text.byte_range(&run.chars), run.source));
            }
        }
        if comparison.is_over || echoes.len() > MAX_ECHOES {
            let found = echoes.iter().map(|(_, source)| *source);
            let first = hits.iter().filter_map(|hit| hit.occurrences.first());
            let all: BTreeSet<Seq> = found.chain(first.map(|found| found.arrival)).collect();
            return Ok(Echoes::Whole(all.into_iter().take(MAX_TEXTS).collect()).into());
        }
    }
    Ok(Resolved { echoes: Echoes::Parts(apart(echoes)), discounted: discounted_runs })
}

/// The ranges in order, none within another: what two share belongs to the one that begins first.
fn apart(mut echoes: Vec<(Range<usize>, Seq)>) -> Vec<(Range<usize>, Seq)> {
    echoes.sort_by_key(|(range, source)| (range.start, range.end, *source));
    let mut parts: Vec<(Range<usize>, Seq)> = Vec::with_capacity(echoes.len());
    for (range, source) in echoes {
        let from = parts.last().map_or(0, |(last, _)| last.end);
        let start = range.start.max(from);
        if start < range.end {
            parts.push((start..range.end, source));
        }
    }
    parts
}

struct Comparison<'a> {
    record: Record<'a>,
    with: &'a ComparedWith,
    own: &'a OwnText,
    sources: &'a mut Sources,
    is_over: bool,
}

impl Comparison<'_> {
    /// The run around a fingerprint that the oldest entry holds.
    fn run(&mut self, hit: &Hit) -> Result<Option<Run>, StoreError> {
        let own = self.own;
        let Some((form, print)) = own.print(hit) else { return Ok(None) };
        for found in &hit.occurrences {
            self.sources.work.occurrences += 1;
            if !may_be_long(print.around, found.fingerprint.around) {
                continue;
            }
            let Some(source) = self.source(found, Voice::Untrusted)? else { continue };
            let chars = self.common_run(form, print, &source, found);
            if chars.len() >= MIN_RUN {
                return Ok(Some(Run { chars, source: found.arrival }));
            }
        }
        let near_misses =
            hit.occurrences.first().filter(|_| hit.occurrences.len() == MAX_OCCURRENCES);
        let gram = print.at..print.at + GRAM;
        Ok(near_misses.map(|first| Run { chars: gram, source: first.arrival }))
    }

    /// Whether texts that are older than the source of a run and speak for themselves cover all of it but a few
    /// characters at its ends, no word among them.
    fn is_discounted(&mut self, form: usize, run: &Run) -> Result<bool, StoreError> {
        let own = self.own;
        let Some(own_form) = own.forms.get(form) else { return Ok(false) };
        let mut covered_from = None;
        // Covered up to here, from the left: fingerprints come in order.
        let mut until = run.chars.start;
        let first = own_form.prints.partition_point(|print| print.at < run.chars.start);
        let prints = own_form.prints.iter().enumerate().skip(first);
        for (at, print) in prints.take_while(|(_, print)| print.at + GRAM <= run.chars.end) {
            if print.at + GRAM <= until {
                continue;
            }
            for (voice, found) in self.trusted(form, at, print)? {
                if found.arrival >= run.source {
                    continue;
                }
                let Some(source) = self.source(&found, voice)? else { continue };
                let common = self.common_run(own_form, print, &source, &found);
                let (start, end) = (common.start.max(until), common.end.min(run.chars.end));
                if end > start {
                    // What stands between two covered parts was put there by whoever wrote the source.
                    if covered_from.is_some() && start > until {
                        return Ok(false);
                    }
                    covered_from.get_or_insert(start);
                    until = end;
                }
            }
        }
        let Some(covered_from) = covered_from else { return Ok(false) };
        let mut ends = (run.chars.start..covered_from).chain(until..run.chars.end);
        Ok(ends.clone().count() <= MAX_UNCOVERED
            && !ends.any(|at| own.is_of_whole_word(own_form, at, &run.chars)))
    }

    /// The oldest texts of the operator and of the same principal that have a fingerprint.
    fn trusted(
        &mut self,
        form: usize,
        at: usize,
        print: &Print,
    ) -> Result<Vec<(Voice, Occurrence)>, StoreError> {
        if let Some(known) = self.sources.trusted.get(&(form, at)) {
            return Ok(known.clone());
        }
        if self.sources.trusted.len() >= MAX_TRUSTED_LOOKUPS {
            return Ok(Vec::new());
        }
        let own = self.own;
        let voices = [Some(Voice::System), self.with.principal.map(Voice::User)];
        let found = self.record.look(|view| {
            let mut found = Vec::new();
            for voice in voices.into_iter().flatten() {
                let key = print.key(own.hasher.salt(&self.with.tenant, voice));
                let all = Seq(0)..Seq(view.len());
                let occurrences = view.occurrences(key, &all, MAX_OCCURRENCES)?;
                found.extend(occurrences.into_iter().map(|found| (voice, found)));
            }
            Ok(found)
        })?;
        self.sources.work.lookups += 1;
        self.sources.trusted.insert((form, at), found.clone());
        Ok(found)
    }

    fn common_run(
        &mut self,
        form: &OwnForm,
        print: &Print,
        source: &CanonicalText,
        found: &Occurrence,
    ) -> Range<usize> {
        self.sources.work.runs += 1;
        let there = usize::try_from(found.fingerprint.at).unwrap_or(usize::MAX);
        common_run(form.text.chars(), print.at, source.chars(), there)
    }

    /// The reading of an entry in which a fingerprint was found. `None` if the text was destroyed meanwhile, or
    /// speaks for nothing any more, or no more texts are read.
    fn source(
        &mut self,
        found: &Occurrence,
        voice: Voice,
    ) -> Result<Option<Arc<CanonicalText>>, StoreError> {
        let Occurrence { arrival, fingerprint } = *found;
        if let Some(known) = self.sources.forms.get(&(arrival, voice, fingerprint.form)) {
            return Ok(known.clone());
        }
        let text = match self.sources.texts.get(&arrival) {
            Some(known) => known.clone(),
            None => {
                if self.sources.work.texts >= MAX_TEXTS
                    || self.sources.work.text_bytes >= MAX_TEXT_BYTES
                {
                    // Not enough is known to say that an untrusted text is not repeated.
                    self.is_over |= voice == Voice::Untrusted;
                    return Ok(None);
                }
                let tenant = &self.with.tenant;
                let past = self.record.past();
                let text = self.record.look(|view| read(view, past, tenant, arrival, voice))?;
                let text: Option<Arc<str>> = text.map(Arc::from);
                self.sources.work.texts += 1;
                self.sources.work.text_bytes += text.as_ref().map_or(0, |text| text.len());
                if self.sources.most_bytes.is_some_and(|most| self.sources.work.text_bytes > most) {
                    self.sources.is_given_up = true;
                    return Ok(None);
                }
                self.sources.texts.insert(arrival, text.clone());
                text
            }
        };
        let reading = text.and_then(|text| form(&text, voice, fingerprint.form)).map(Arc::new);
        self.sources.forms.insert((arrival, voice, fingerprint.form), reading.clone());
        Ok(reading)
    }
}

/// The text of an entry that a fingerprint of `voice` names.
fn read(
    view: View<'_>,
    past: Option<&State>,
    tenant: &Tenant,
    arrival: Seq,
    voice: Voice,
) -> Result<Option<String>, StoreError> {
    // Fingerprints that point elsewhere were put there.
    let elsewhere = || Tampering::Index { index: "fingerprint", seq: arrival.0 };
    if arrival.0 >= view.len() {
        return Err(elsewhere().into());
    }
    let record = view.record(arrival)?;
    if !is_of(view.state(), &record, tenant, voice) {
        return Err(elsewhere().into());
    }
    // A trusted text that an incident marked speaks for nothing.
    if voice != Voice::Untrusted && past.unwrap_or(view.state()).standing(arrival).is_some() {
        return Ok(None);
    }
    arrived_text(view, &record)
}

fn is_caseless(c: char) -> bool {
    c.is_alphabetic() && !c.is_lowercase() && !c.is_uppercase()
}

/// The characters of `chars` around `here` that stand in `others` around `there` too.
pub(super) fn common_run(
    chars: &[char],
    here: usize,
    others: &[char],
    there: usize,
) -> Range<usize> {
    let sides = chars.split_at_checked(here).zip(others.split_at_checked(there));
    let Some(((left, right), (other_left, other_right))) = sides else { return here..here };
    let back = left.iter().rev().zip(other_left.iter().rev()).take_while(|(a, b)| a == b).count();
    let ahead = right.iter().zip(other_right).take_while(|(a, b)| a == b).count();
    here - back..here + ahead
}
