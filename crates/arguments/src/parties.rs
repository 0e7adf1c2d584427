//! Named parties: who wrote what a session read, and where it was fetched from (G12).
//!
//! "Summarise what eve@evil.example wrote" names Eve and asks for nothing to be sent to her, but her text may ask for
//! it. A value that names a party is therefore not the user's word for where something goes, even if the user said it.

use std::collections::{BTreeSet, HashMap, HashSet};

use custody_log::Seq;
use custody_text::CanonicalText;

use crate::free_text::in_text;
use crate::manifest::Sink;
use crate::spelling;

/// The parties of one session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parties {
    /// The entries that somebody wrote, by the field of an author, and those of the calls that fetched from a place.
    named: HashMap<String, BTreeSet<Seq>>,
    /// The untrusted texts that hold an address.
    in_texts: HashMap<String, BTreeSet<Seq>>,
    /// The texts whose authors are known; the addresses in them are nobody's who wrote.
    authored: HashSet<Seq>,
}

impl Parties {
    /// `entry` is not trusted, and says `text`. Until its authors are known, each address in it may be one.
    pub(crate) fn add_text(&mut self, entry: Seq, text: &str) {
        for sink in in_text(text) {
            self.in_texts.entry(form(&sink.value)).or_default().insert(entry);
        }
    }

    /// `authors`, and nobody else, wrote `texts`.
    pub(crate) fn add_authors(&mut self, texts: &[Seq], authors: &[String]) {
        self.authored.extend(texts);
        for form in authors.iter().flat_map(|author| forms(author)) {
            self.named.entry(form).or_default().extend(texts);
        }
    }

    /// A call that reads fetched from `place`: a web address or a host.
    pub(crate) fn add_fetched(&mut self, call: Seq, place: &str) {
        for form in forms(place).into_iter().chain(spelling::host(place).map(form)) {
            self.named.entry(form).or_default().insert(call);
        }
    }

    /// The entries by which `value` names a party, ascending; none if it names none. Only people, places and accounts
    /// are parties.
    pub(crate) fn named_by(&self, value: &str, sink: Sink) -> Vec<Seq> {
        if !matches!(sink, Sink::Recipient | Sink::Url | Sink::Account) {
            return Vec::new();
        }
        let mut entries = BTreeSet::new();
        for form in forms(value) {
            entries.extend(self.named.get(&form).into_iter().flatten());
            let texts = self.in_texts.get(&form).into_iter().flatten();
            entries.extend(texts.filter(|text| !self.authored.contains(text)));
        }
        entries.into_iter().collect()
    }
}

/// The forms by which a value names somebody: as a whole, and each address in it, as in `Ann <ann@example.com>`.
fn forms(value: &str) -> HashSet<String> {
    let addresses = in_text(value).into_iter().map(|sink| form(&sink.value));
    let mut forms: HashSet<String> = addresses.chain([form(value)]).collect();
    forms.remove("");
    forms
}

/// The one form of a name, an address or an account: letters and digits, without a scheme.
fn form(value: &str) -> String {
    let place = value.rsplit_once("://").or_else(|| {
        let parts = value.split_once(':');
        parts.filter(|(scheme, _)| ["mailto", "tel"].contains(&scheme.to_lowercase().as_str()))
    });
    let place = place.map_or(value, |(_, place)| place);
    CanonicalText::of(place).chars().iter().collect()
}
