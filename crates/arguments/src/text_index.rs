//! What a session has heard: an index of its texts, by which each argument of a call is traced.
//!
//! Two questions, asked in two ways. *Did the user say this value?* decides, and is answered strictly: the
//! value itself, whole, at one place. *Which untrusted text holds it?* explains, and is answered broadly:
//! any case, any encoding, any parts. An error of the second can name a wrong entry, never allow a call.
//!
//! Grows with each text, linear in its length; a lookup does not scan texts.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use custody_log::Seq;
use custody_text::{Said, encoded_copies};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::manifest::{Sink, ToolEffect, ToolManifest};
use crate::parties::Parties;
use crate::spelling::{self, Spelled};
use crate::words::{compatible, folded_words, stands_whole, tidy};

/// How many places of a word are tried. A user who repeats a word more often is asked.
const MAX_PLACES: usize = 4_096;
/// How many entries a word is remembered of: the first ones, which every later text repeats.
const MAX_ENTRIES: usize = 16;
/// How far from a short value its noun is looked for, in bytes: a text without an end would else be read for
/// each of its words.
const NOUN_REACH: usize = 256;
/// Words on either side of a short value among which its noun must stand.
const NOUN_DISTANCE: usize = 3;
/// The longest value that needs its noun, in characters.
const SHORT: usize = 3;

/// The words that may stand beside a short value. Few values are short, so they are found when they are needed.
pub(crate) type Nouns<'a> = LazyCell<Vec<String>, &'a dyn Fn() -> Vec<String>>;

/// The texts of one session.
#[derive(Debug, Clone, Default)]
pub struct TextIndex {
    /// What the user said.
    user_texts: Vec<UserText>,
    /// Where each folded word stands in it.
    places: HashMap<String, Vec<Place>>,
    /// Numbers and dates in it, by their one form.
    spelled: HashMap<String, Vec<(usize, Range<usize>)>>,
    /// Web and e-mail addresses in it, by their one form.
    addresses: HashMap<String, Vec<(usize, Range<usize>)>>,
    /// Values that a server made, by the manifests' word, each with what it names.
    trusted_values: HashSet<(String, String)>,
    /// Which untrusted entries hold a folded word.
    untrusted: HashMap<String, Vec<Seq>>,
    /// Who wrote them, and where they were fetched from.
    parties: Parties,
}

/// Whether two values that differ in case alone are two.
#[derive(Debug, Clone, Copy)]
enum Case {
    Counts(Precision),
    Any,
}

/// One text of the user's.
#[derive(Debug, Clone)]
struct UserText {
    said: Said,
    /// Whether it is as the user typed it, and not only tidied.
    is_exact: bool,
}

/// How closely a value has to be what the user said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precision {
    /// To the character: what runs is this value. Only hosts and numbers have more than one spelling.
    Exact,
    /// But for blanks and composed characters: it decides nothing.
    Tidied,
}

/// What a value is wanted for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Purpose {
    /// What it decides.
    pub(crate) sink: Option<Sink>,
    /// What the call does with it.
    pub(crate) effect: ToolEffect,
}

impl Purpose {
    /// It decides nothing.
    const PLAIN: Self = Self { sink: None, effect: ToolEffect::Reads };

    /// Whether it is a number for an amount that does not say of what: a year, a postcode and a price look alike.
    fn is_bare_amount(self, value: &str) -> bool {
        self.sink == Some(Sink::Amount)
            && value.chars().all(|c| c.is_numeric() || ".,- ".contains(c))
    }

    /// Whether something is done with what it names. What a person only asks about is not ordered by it; of places and
    /// accounts, named parties say that.
    const fn acts(self) -> bool {
        matches!(self.sink, Some(Sink::Recipient | Sink::Path | Sink::Id | Sink::Other))
            && matches!(self.effect, ToolEffect::Writes)
    }

    /// Whether it names something that can be sent.
    const fn can_be_sent(self) -> bool {
        matches!(self.sink, Some(Sink::Path | Sink::Id))
    }

    /// Whether it counts only where a negation would have been recognised: where something goes, what is
    /// destroyed, what is executed.
    const fn needs_language(self) -> bool {
        match self.sink {
            None | Some(Sink::Amount | Sink::Other) => false,
            Some(Sink::Recipient | Sink::Command) => true,
            Some(Sink::Url | Sink::Account | Sink::Path | Sink::Id) => {
                matches!(self.effect, ToolEffect::Writes)
            }
        }
    }
}

/// A word in what the user said.
#[derive(Debug, Clone, Copy)]
struct Place {
    text: usize,
    at: usize,
}

impl TextIndex {
    /// The user said `text`, in a message that is trusted and clean.
    pub fn add_user_text(&mut self, text: &str) {
        let index = self.add_words(text, true);
        let tidied = tidy(text);
        if tidied != text {
            self.add_words(&tidied, false);
        }
        let values = spelling::numbers(text).into_iter().chain(spelling::dates(text));
        // What is cut off at a bracket or sign was said as part of something longer.
        for Spelled { form, at } in values.filter(|spelled| stands_whole(text, &spelled.at)) {
            self.spelled.entry(form).or_default().push((index, at));
        }
        for at in spelling::words(text).into_iter().filter(|at| stands_whole(text, at)) {
            let word = text.get(at.clone()).unwrap_or_default();
            let url = spelling::url(word);
            let full = url.as_deref().map(spelling::with_scheme);
            for form in spelling::address(word).or(url).into_iter().chain(full) {
                self.addresses.entry(form).or_default().push((index, at.clone()));
            }
        }
    }

    /// Indexes the words of `text`, and returns its number.
    fn add_words(&mut self, text: &str, is_exact: bool) -> usize {
        let index = self.user_texts.len();
        for (at, word) in folded_words(text) {
            with_list(&mut self.places, word, |places| {
                if places.len() < MAX_PLACES {
                    places.push(Place { text: index, at });
                }
            });
        }
        self.user_texts.push(UserText { said: Said::of(text), is_exact });
        index
    }

    /// A value that the server itself made came back in a field that its manifest trusts, as the name of a `noun`.
    pub fn add_trusted_value(&mut self, value: &str, noun: &str) {
        self.trusted_values.insert((tidy(value).into_owned(), noun.to_lowercase()));
    }

    /// `entry` is not trusted, and says `text`.
    pub fn add_untrusted_text(&mut self, entry: Seq, text: &str) {
        self.parties.add_text(entry, text);
        self.remember(entry, text);
        for copy in encoded_copies(text) {
            self.remember(entry, &copy);
        }
    }

    /// `authors`, and nobody else, wrote the untrusted `texts`.
    pub fn add_authors(&mut self, texts: &[Seq], authors: &[String]) {
        self.parties.add_authors(texts, authors);
    }

    /// `call` of `tool` with `arguments` runs. What it fetches is the word of the place that it is fetched from.
    pub fn add_call(&mut self, call: Seq, tool: &ToolManifest, arguments: &Arguments) {
        if tool.effect != ToolEffect::Reads {
            return;
        }
        let places = arguments.object().iter();
        let mut places: Vec<&Value> = places
            .filter(|(name, _)| tool.parameter(name).sink == Some(Sink::Url))
            .map(|(_, value)| value)
            .collect();
        while let Some(place) = places.pop() {
            match place {
                Value::String(place) => self.parties.add_fetched(call, place),
                Value::Array(items) => places.extend(items),
                Value::Object(members) => places.extend(members.values()),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
    }

    /// The entries by which `value` names a party, ascending.
    pub(crate) fn named_party(&self, value: &str, sink: Sink) -> Vec<Seq> {
        self.parties.named_by(value, sink)
    }

    fn remember(&mut self, entry: Seq, text: &str) {
        for (_, word) in folded_words(&compatible(text)) {
            with_list(&mut self.untrusted, word, |entries| {
                if entries.len() < MAX_ENTRIES && entries.last() != Some(&entry) {
                    entries.push(entry);
                }
            });
        }
    }

    /// Whether the user said `value`: whole, at one place; if it is short or an amount, beside one of `nouns`. What a
    /// negation or a quotation holds was not said, what was ruled out last is not said either, and a bound is no
    /// amount.
    ///
    /// Source: docs/design.md §5.3.
    pub(crate) fn is_user_text(&self, value: &str, nouns: &Nouns<'_>, purpose: Purpose) -> bool {
        let tidied = tidy(value);
        let is_exact = purpose.sink.is_some();
        let (sought, precision) =
            if is_exact { (value, Precision::Exact) } else { (tidied.as_ref(), Precision::Tidied) };
        let mut places = self.places(sought, Case::Counts(precision));
        let needs_noun = is_short(sought) || purpose.is_bare_amount(value);
        places.retain(|(text, at)| !needs_noun || self.has_noun(*text, at.clone(), nouns));
        // A number or an address has other spellings, and none of them has blanks around it.
        if !is_exact || tidied == value {
            // However long it is spelled: `13.00` is `13`.
            let (form, spelled) = self.respelled(value);
            let needs_noun = needs_noun || is_short(&form);
            let spelled = spelled.iter().cloned();
            places.extend(
                spelled.filter(|(text, at)| !needs_noun || self.has_noun(*text, at.clone(), nouns)),
            );
            places.extend(self.addresses_said(value).iter().cloned());
        }
        let supporting = places.iter().filter(|place| self.supports(place, purpose));
        let ruled_out = places.iter().filter(|place| self.is_ruled_out(place));
        let said = supporting.map(|(text, at)| (*text, at.start)).max();
        said.is_some() && (!is_exact || said > ruled_out.map(|(text, at)| (*text, at.start)).max())
    }

    fn is_ruled_out(&self, (text, at): &(usize, Range<usize>)) -> bool {
        let said = self.user_texts.get(*text).map(|text| &text.said);
        said.is_some_and(|said| said.is_own(at) && said.is_negated(at))
    }

    /// Whether what stands at a place was said for this purpose.
    fn supports(&self, (text, at): &(usize, Range<usize>), purpose: Purpose) -> bool {
        let Some(UserText { said, .. }) = self.user_texts.get(*text) else { return false };
        let is_whole = match purpose.sink {
            Some(Sink::Path) => said.is_whole_path(at),
            Some(Sink::Command) => said.is_whole_command(at),
            Some(Sink::Amount) => said.is_asked_amount(at),
            Some(_) | None => true,
        };
        said.is_own(at)
            && !said.is_negated(at)
            && is_whole
            && !(purpose.acts() && said.is_only_asked_about(at, purpose.can_be_sent()))
            && (!purpose.needs_language() || said.is_understood(at))
    }

    /// Whether the user asked for something to be sent to `value`.
    pub(crate) fn is_destination(&self, value: &str) -> bool {
        self.places(value, Case::Counts(Precision::Exact)).iter().any(|place| {
            let said = self.user_texts.get(place.0).map(|text| &text.said);
            said.is_some_and(|said| said.is_destination(&place.1))
                && self.supports(place, Purpose::PLAIN)
        })
    }

    /// Whether the user said `value` in any case. Enough for one that decides nothing.
    pub(crate) fn is_mentioned_by_user(&self, value: &str) -> bool {
        let value = tidy(value);
        value.chars().count() > SHORT
            && self
                .places(&value, Case::Any)
                .iter()
                .any(|place| self.supports(place, Purpose::PLAIN))
    }

    /// Whether the user said `word` in any case beside one of `nouns`.
    pub(crate) fn is_chosen_by_user(&self, word: &str, nouns: &Nouns<'_>) -> bool {
        let places = self.places(&tidy(word), Case::Any);
        places.into_iter().any(|place| {
            self.supports(&place, Purpose::PLAIN) && self.has_noun(place.0, place.1, nouns)
        })
    }

    /// Whether a server made `value` as the name of one of `nouns`. The thirteenth event is not the thirteenth file.
    pub(crate) fn is_trusted_value(&self, value: &str, nouns: &Nouns<'_>) -> bool {
        if self.trusted_values.is_empty() {
            return false;
        }
        let value = tidy(value).into_owned();
        nouns.iter().any(|noun| self.trusted_values.contains(&(value.clone(), noun.clone())))
    }

    /// Where `value` stands whole in what the user said.
    fn places(&self, value: &str, case: Case) -> Vec<(usize, Range<usize>)> {
        // A person types few of the values of a long argument: the rarest of its words finds the places.
        let mut rarest: Option<(usize, &Vec<Place>)> = None;
        for (offset, word) in folded_words(value) {
            let Some(places) = self.places.get(word.as_ref()) else { return Vec::new() };
            if rarest.is_none_or(|(_, fewest)| places.len() < fewest.len()) {
                rarest = Some((offset, places));
            }
        }
        let Some((offset, places)) = rarest.filter(|(_, places)| places.len() < MAX_PLACES) else {
            return Vec::new();
        };
        places.iter().filter_map(|place| self.at_place(place, offset, value, case)).collect()
    }

    /// Where `value` stands whole, if one of its words, `offset` bytes into it, stands at `place`.
    fn at_place(
        &self,
        place: &Place,
        offset: usize,
        value: &str,
        case: Case,
    ) -> Option<(usize, Range<usize>)> {
        let UserText { said, is_exact } = self.user_texts.get(place.text)?;
        let said = said.text();
        let start = place.at.checked_sub(offset)?;
        let at = start..start.checked_add(value.len())?;
        let found = said.get(at.clone())?;
        let is_same = match case {
            Case::Counts(Precision::Exact) => *is_exact && found == value,
            Case::Counts(Precision::Tidied) => found == value,
            Case::Any => found.to_lowercase() == value.to_lowercase(),
        };
        (is_same && stands_whole(said, &at)).then_some((place.text, at))
    }

    /// The one form of the number or date `value`, and where the user spelled it in any way.
    fn respelled(&self, value: &str) -> (String, &[(usize, Range<usize>)]) {
        let form = spelling::number(value).or_else(|| spelling::date(value)).unwrap_or_default();
        let places = self.spelled.get(&form).map_or(&[][..], Vec::as_slice);
        (form, places)
    }

    fn addresses_said(&self, value: &str) -> &[(usize, Range<usize>)] {
        // A file name looks like a host, and tells cases apart.
        let is_url = value.contains("://") || value.starts_with("www.");
        let form = spelling::address(value).or_else(|| spelling::url(value).filter(|_| is_url));
        form.and_then(|form| self.addresses.get(&form)).map_or(&[][..], Vec::as_slice)
    }

    /// Whether one of `nouns` stands within a few words of `at`, in the same sentence.
    fn has_noun(&self, text: usize, at: Range<usize>, nouns: &Nouns<'_>) -> bool {
        let Some(UserText { said, .. }) = self.user_texts.get(text) else { return false };
        let (before, after) = around(said.text(), &at);
        let before = before.rsplit(ends_sentence).next().unwrap_or_default();
        let after = after.split(ends_sentence).next().unwrap_or_default();
        // A currency sign touches its number.
        let signs = before.chars().next_back().into_iter().chain(after.chars().next());
        let words_before = spelling::words(before).into_iter().rev().take(NOUN_DISTANCE);
        let words_after = spelling::words(after).into_iter().take(NOUN_DISTANCE);
        signs.into_iter().any(|sign| is_noun(sign.encode_utf8(&mut [0; 4]), nouns))
            || words_before.filter_map(|at| before.get(at)).any(|word| is_noun(word, nouns))
            || words_after.filter_map(|at| after.get(at)).any(|word| is_noun(word, nouns))
    }

    /// The untrusted entries that hold `value` or a decoded copy of it; if none does, those that hold parts
    /// of it. Ascending.
    pub(crate) fn sources(&self, value: &str) -> Vec<Seq> {
        let decoded = encoded_copies(value);
        let copies: Vec<Cow<'_, str>> =
            [value].into_iter().chain(decoded.iter().map(String::as_str)).map(compatible).collect();
        let held: Vec<Vec<(Cow<'_, str>, &[Seq])>> =
            copies.iter().map(|copy| self.held(copy)).collect();
        let mut sources: Vec<Seq> = held.iter().flat_map(|words| whole(words)).collect();
        if sources.is_empty() {
            sources = held.iter().flat_map(|words| parts(words)).collect();
        }
        sources.sort_unstable();
        sources.dedup();
        sources
    }

    /// The words of `text`, each with the untrusted entries that hold it.
    fn held<'a>(&self, text: &'a str) -> Vec<(Cow<'a, str>, &[Seq])> {
        folded_words(text)
            .map(|(_, word)| {
                let entries = self.untrusted.get(word.as_ref()).map_or(&[][..], Vec::as_slice);
                (word, entries)
            })
            .collect()
    }
}

/// Whether a word is so short that it stands in many texts; `true` stands in them as a word like any other.
fn is_short(word: &str) -> bool {
    word.chars().count() <= SHORT || matches!(word, "true" | "false")
}

const fn ends_sentence(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '\n')
}

/// Whether `word` is one of `nouns`, in the singular or the plural.
fn is_noun(word: &str, nouns: &Nouns<'_>) -> bool {
    let word = word.to_lowercase();
    nouns.iter().any(|noun| word == *noun || word.strip_suffix('s') == Some(noun))
}

/// The entries that hold every one of `words`.
fn whole<'a>(words: &'a [(Cow<'_, str>, &[Seq])]) -> impl Iterator<Item = Seq> + 'a {
    let rarest = words.iter().min_by_key(|(_, entries)| entries.len());
    let candidates = rarest.map_or(&[][..], |(_, entries)| *entries);
    let candidates = candidates.iter().copied();
    candidates.filter(|entry| words.iter().all(|(_, entries)| entries.contains(entry)))
}

/// The entries that hold one of `words` that is long enough to mean something.
fn parts<'a>(words: &'a [(Cow<'_, str>, &[Seq])]) -> impl Iterator<Item = Seq> + 'a {
    let long = words.iter().filter(|(word, _)| word.chars().count() > SHORT);
    long.flat_map(|(_, entries)| entries.iter().copied())
}

/// Changes the list of `word`. Most words of a text were heard before: those need no key of their own.
fn with_list<T>(
    lists: &mut HashMap<String, Vec<T>>,
    word: Cow<'_, str>,
    change: impl FnOnce(&mut Vec<T>),
) {
    if let Some(list) = lists.get_mut(word.as_ref()) {
        change(list);
    } else {
        change(lists.entry(word.into_owned()).or_default());
    }
}

/// What stands before and after `at`, as far as a noun may stand. A word that is cut off is left out: the end of one
/// could be another.
fn around<'a>(said: &'a str, at: &Range<usize>) -> (&'a str, &'a str) {
    let before = said.get(..at.start).unwrap_or_default();
    let after = said.get(at.end..).unwrap_or_default();
    let from = before.floor_char_boundary(before.len().saturating_sub(NOUN_REACH));
    let to = after.floor_char_boundary(NOUN_REACH);
    let (_, near_before) = before.split_at(from);
    let (near_after, _) = after.split_at(to);
    let before = if from == 0 {
        near_before
    } else {
        near_before.split_once(char::is_whitespace).map_or("", |cut| cut.1)
    };
    let after = if to == after.len() {
        near_after
    } else {
        near_after.rsplit_once(char::is_whitespace).map_or("", |cut| cut.0)
    };
    (before, after)
}
