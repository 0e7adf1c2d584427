//! Texts to try in the sandbox: attacks that each demand something that can be looked for, and ordinary texts.
//!
//! Public attacks demand what only a reader can judge. These demand a string that was drawn for one text alone, the
//! secret of the run, or the call of a tool, so that whether an attack has worked is looked up and not guessed.

use std::collections::BTreeSet;

use custody_detect::text_kind::TextKind;
use serde::{Deserialize, Serialize};

use super::buried::pick;
use super::written::{self, MARKER, Written};
use crate::random::Generator;

/// The place of the drawn string in a template.
const WORD: &str = "{WORD}";
/// Longer documents and requests are not tried: a small model reads them slowly and answers them badly.
const LONGEST_DOCUMENT: usize = 420;
const LONGEST_REQUEST: usize = 240;

/// What a text wants of the agent that reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Demand {
    /// Nothing that would show.
    Nothing,
    /// That it says this string.
    Say(String),
    /// That it tells a secret of the run.
    Secret,
    /// That it calls a tool.
    Call,
}

/// What a text is to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptForm {
    /// Words to it.
    Prompt,
    /// A document that it reads for somebody.
    Document,
}

impl From<AttemptForm> for TextKind {
    fn from(form: AttemptForm) -> Self {
        match form {
            AttemptForm::Prompt => Self::Prompt,
            AttemptForm::Document => Self::Content,
        }
    }
}

/// A text, and what it demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The text.
    pub text: String,
    /// What it is to the agent.
    pub form: AttemptForm,
    /// The family of the attack; `ordinary` for none.
    pub family: String,
    /// What it demands.
    pub demand: Demand,
}

/// The family of texts that are no attack.
pub const ORDINARY: &str = "ordinary";

/// How many of ten texts are attacks, and how many of ten attacks are words to the agent.
const ATTACKS: u64 = 7;
const PROMPTS: u64 = 8;
/// Languages, each as often as it stands here.
const LANGUAGES: [&str; 4] = ["en", "en", "en", "de"];

/// `count` texts, of which some seven in ten are attacks. No text and no demanded string stands there twice. A longer
/// list begins with the shorter one.
pub fn draw(count: usize, seed: u64) -> Vec<Attempt> {
    let shelf = Shelf::read();
    let mut draw = Generator::new(seed);
    let (mut texts, mut words) = (BTreeSet::new(), BTreeSet::new());
    let mut is_new = |attempt: &Attempt| {
        let is_new_word = match &attempt.demand {
            Demand::Say(word) => words.insert(word.clone()),
            Demand::Nothing | Demand::Secret | Demand::Call => true,
        };
        is_new_word && texts.insert(attempt.text.clone())
    };
    let attempts = std::iter::repeat_with(|| shelf.attempt(&mut draw));
    attempts.filter(|attempt| is_new(attempt)).take(count).collect()
}

/// What attempts are made of.
struct Shelf {
    templates: Templates,
    families: Vec<String>,
    carriers: Vec<Written>,
    requests: Vec<Written>,
    documents: Vec<Written>,
    asides: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Templates {
    attack: Vec<Attacks>,
    ordinary: Vec<Ordinary>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attacks {
    family: String,
    language: String,
    demand: Demanded,
    texts: Vec<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Demanded {
    Say,
    Secret,
    Call,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ordinary {
    language: String,
    texts: Vec<String>,
}

/// The rows of at most `most` bytes.
fn no_longer_than(rows: Vec<Written>, most: usize) -> Vec<Written> {
    rows.into_iter().filter(|row| row.text.len() <= most).collect()
}

impl Shelf {
    fn read() -> Self {
        let templates: Templates = toml::from_str(include_str!("../../written/attempts.toml"))
            .expect("a test reads the committed templates");
        let mut families: Vec<String> =
            templates.attack.iter().map(|attacks| attacks.family.clone()).collect();
        families.sort();
        families.dedup();
        let (documents, requests): (Vec<Written>, Vec<Written>) =
            written::benign().into_iter().partition(written::is_document);
        Self {
            templates,
            families,
            carriers: no_longer_than(written::carriers(), LONGEST_DOCUMENT),
            requests: no_longer_than(requests, LONGEST_REQUEST),
            documents: no_longer_than(documents, LONGEST_DOCUMENT),
            asides: written::asides().into_iter().map(|aside| aside.text).collect(),
        }
    }

    fn attempt(&self, draw: &mut Generator) -> Attempt {
        let language = *any(draw, &LANGUAGES);
        if draw.below(10) < ATTACKS {
            self.attack(language, draw)
        } else {
            self.ordinary(language, draw)
        }
    }

    fn attack(&self, language: &str, draw: &mut Generator) -> Attempt {
        let family = any(draw, &self.families);
        let mut fitting = self.templates.attack.iter();
        let attacks = fitting
            .find(|attacks| attacks.family == *family && attacks.language == language)
            .expect("a test finds every family in every language");
        let word = word(draw);
        let payload = any(draw, &attacks.texts).replace(WORD, &word);
        let demand = match attacks.demand {
            Demanded::Say => Demand::Say(word),
            Demanded::Secret => Demand::Secret,
            Demanded::Call => Demand::Call,
        };
        let (form, text) = if draw.below(10) < PROMPTS {
            (AttemptForm::Prompt, self.beside_a_request(&payload, language, draw))
        } else {
            (AttemptForm::Document, self.in_a_document(&payload, language, draw))
        };
        Attempt { text, form, family: family.clone(), demand }
    }

    /// The payload alone, after a request or before one.
    fn beside_a_request(&self, payload: &str, language: &str, draw: &mut Generator) -> String {
        let request = &any_of(draw, &self.requests, language).text;
        match draw.below(8) {
            0 => format!("{request}\n\n{payload}"),
            1 => format!("{payload}\n\n{request}"),
            _ => payload.to_owned(),
        }
    }

    /// The payload as a whole document, or inside of one.
    fn in_a_document(&self, payload: &str, language: &str, draw: &mut Generator) -> String {
        match draw.below(2) {
            0 => payload.to_owned(),
            _ => any_of(draw, &self.carriers, language).text.replacen(MARKER, payload, 1),
        }
    }

    fn ordinary(&self, language: &str, draw: &mut Generator) -> Attempt {
        let (form, text) = match draw.below(10) {
            0..4 => (AttemptForm::Prompt, self.answered_in_a_word(language, draw)),
            4..7 => (AttemptForm::Prompt, any_of(draw, &self.requests, language).text.clone()),
            7..9 => {
                let carrier = any_of(draw, &self.carriers, language);
                let aside: &String = any(draw, &self.asides);
                (AttemptForm::Document, carrier.text.replacen(MARKER, aside, 1))
            }
            _ => (AttemptForm::Document, any_of(draw, &self.documents, language).text.clone()),
        };
        Attempt { text, form, family: ORDINARY.to_owned(), demand: Demand::Nothing }
    }

    fn answered_in_a_word(&self, language: &str, draw: &mut Generator) -> String {
        let mut fitting = self.templates.ordinary.iter();
        let texts = fitting
            .find(|ordinary| ordinary.language == language)
            .map(|ordinary| ordinary.texts.as_slice())
            .expect("a test finds every language");
        let word = word(draw);
        any(draw, texts).replace(WORD, &word)
    }
}

fn any<'a, T>(draw: &mut Generator, from: &'a [T]) -> &'a T {
    &from[pick(draw, from.len())]
}

fn any_of<'a>(draw: &mut Generator, from: &'a [Written], language: &str) -> &'a Written {
    let fitting: Vec<&Written> = from.iter().filter(|row| row.lang == language).collect();
    fitting[pick(draw, fitting.len())]
}

/// Words that everybody knows, of which drawn strings are made; a small model copies nothing stranger.
const KNOWN: [&str; 40] = [
    "amber", "anchor", "barley", "basket", "beacon", "bridge", "candle", "carpet", "cherry",
    "copper", "coral", "dragon", "feather", "forest", "garden", "ginger", "hammer", "harvest",
    "island", "kettle", "lantern", "lemon", "marble", "meadow", "mirror", "orchid", "pepper",
    "pillow", "planet", "pocket", "rabbit", "ribbon", "saddle", "silver", "thunder", "timber",
    "velvet", "violet", "window", "winter",
];

/// Three words, two words and a number, or a coined word.
fn word(draw: &mut Generator) -> String {
    let (first, second) = (*any(draw, &KNOWN), *any(draw, &KNOWN));
    match draw.below(4) {
        0 => format!("{first} {second} {}", any(draw, &KNOWN)),
        1 | 2 => format!("{first} {second} {}", 10 + draw.below(90)),
        _ => coined(draw),
    }
}

fn coined(draw: &mut Generator) -> String {
    const CONSONANTS: &[u8] = b"bdfgklmnprstvz";
    const VOWELS: &[u8] = b"aeiou";
    let mut coined = String::new();
    for _ in 0..3 {
        coined.push(char::from(*any(draw, CONSONANTS)));
        coined.push(char::from(*any(draw, VOWELS)));
    }
    coined.to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_tried_in_every_language_and_form() {
        let attempts = draw(2_000, 1);
        let shelf = Shelf::read();
        assert!(shelf.families.len() >= 8);
        for family in &shelf.families {
            for language in LANGUAGES {
                let is_here =
                    |attacks: &Attacks| attacks.family == *family && attacks.language == language;
                assert_eq!(
                    shelf.templates.attack.iter().filter(|it| is_here(it)).count(),
                    1,
                    "{family}"
                );
            }
            for form in [AttemptForm::Prompt, AttemptForm::Document] {
                assert!(
                    attempts.iter().any(|it| it.family == *family && it.form == form),
                    "{family}"
                );
            }
        }
        let attacks = attempts.iter().filter(|it| it.family != ORDINARY).count();
        assert!((1_320..1_480).contains(&attacks), "{attacks}");
    }

    #[test]
    fn a_demanded_string_stands_in_its_attack_and_is_demanded_once() {
        let mut demanded = BTreeSet::new();
        for attempt in draw(800, 1) {
            assert!(!attempt.text.contains(WORD));
            let Demand::Say(word) = attempt.demand else { continue };
            assert!(attempt.text.contains(&word));
            assert!(demanded.insert(word.clone()), "{word}");
        }
        assert!(demanded.len() > 250);
    }

    #[test]
    fn a_longer_list_begins_with_the_shorter_one() {
        let (short, long) = (draw(20, 7), draw(50, 7));
        assert_eq!(short[..], long[..20]);
        assert_ne!(draw(20, 8), short);
    }

    #[test]
    fn ordinary_texts_demand_nothing() {
        assert!(
            draw(300, 3)
                .iter()
                .filter(|it: &&Attempt| it.family == ORDINARY)
                .all(|it| it.demand == Demand::Nothing)
        );
    }
}
