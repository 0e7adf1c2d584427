//! Free text: the places, people and numbers in it that decide where something goes.
//!
//! A text that leaves the machine can carry an address or an account as well as an argument can. It is searched as it
//! is written and as a reader would understand it: decoded, in compatibility form, with spelled-out signs. What only
//! a reading shows was written in a disguise, and is never the user's. The search is broad: a file of an unknown kind
//! is taken for a host, and a row of measurements for a number, because the cost of an error is a question to a
//! human.
//!
//! In reading order: `reading` (what a text says in another spelling), `host` (people and places), `number`.
//!
//! Source: docs/design.md §5.3 (G14).

mod host;
mod number;
mod reading;

use std::borrow::Cow;
use std::collections::HashSet;

use crate::manifest::Sink;
use crate::spelling::words;

/// Something in a text that decides where something goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TextSink {
    /// What it is.
    pub sink: Sink,
    /// What people call it: `address`, `link`, `number` or `key`.
    pub what: &'static str,
    /// As it is written; as it is read, if that is not how it is written.
    pub value: String,
    /// Whether it is written like this. What is written in another way is nobody's word.
    pub is_plain: bool,
}

impl TextSink {
    /// What `text` holds, in the order of the text, each value once; then what only another reading of it shows.
    ///
    /// Linear in the text.
    pub fn find(text: &str) -> Vec<Self> {
        let mut found = in_text(text);
        let mut known: HashSet<String> =
            found.iter().map(|sink| reading::decoded(&sink.value).into_owned()).collect();
        for read in reading::readings(text) {
            for sink in in_text(&read) {
                if known.insert(sink.value.clone()) {
                    found.push(Self { is_plain: false, ..sink });
                }
            }
        }
        found
    }
}

/// What stands in `text` as it is, each value once.
pub(crate) fn in_text(text: &str) -> Vec<TextSink> {
    let in_words = words(text).into_iter().filter_map(|at| {
        let word = text.get(at)?;
        let (sink, what) = host::of_word(word)?;
        Some((sink, what, Cow::Borrowed(word)))
    });
    let addresses = host::ip_v6(text).into_iter().map(|at| (Sink::Url, "link", Cow::Borrowed(at)));
    let numbers = number::long_numbers(text)
        .into_iter()
        .map(|at| (Sink::Account, "number", Cow::Borrowed(at)));
    let mut known = HashSet::new();
    in_words
        .chain(addresses)
        .chain(numbers)
        .filter(|(sink, _, value)| known.insert((*sink, value.clone())))
        .map(|(sink, what, value)| TextSink {
            sink,
            what,
            value: value.into_owned(),
            is_plain: true,
        })
        .collect()
}
