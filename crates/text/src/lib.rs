//! The canonical form of text: what two spellings of one text have in common.
//!
//! [`CanonicalText`] keeps letters and digits only, folds case, compatibility forms, marks and look-alikes, and maps
//! each character back to the bytes it came from. Every character is folded by itself, so the form of a part of a text
//! is that part of its form. [`Rendering`] reads a text as people copy it: JSON and source strings with their escapes
//! decoded, HTML and Markdown as rendered, records without their keys, listings without line numbers.
//!
//! ```
//! use custody_text::{CanonicalText, Phrase, Rendering, own_words};
//!
//! let phrase = CanonicalText::of("Pay the invoice");
//! let mail = "He wrote:\n> p\u{430}y the in-\n> voice, please";
//! let found = CanonicalText::of(mail).find(&phrase).expect("quoting, hyphens and look-alikes do not matter");
//! assert_eq!(&mail[found], "p\u{430}y the in-\n> voice, ");
//!
//! let page = "<p>Pay&nbsp;the <b class=\"big\">invoice</b></p>";
//! assert!(CanonicalText::of(page).find(&phrase).is_none());
//! assert!(Rendering::Shown.of(page).is_some_and(|shown| shown.find(&phrase).is_some()));
//!
//! // What somebody wrote, without what they quoted.
//! assert_eq!(own_words("> Pay now\nNo.\n"), [10..14]);
//!
//! // A search, whatever way the text is spelled.
//! let phrase = Phrase::of("Pay the invoice").expect("three letters or more");
//! assert!(phrase.is_in("Pay%20the%20invoice") && phrase.is_in("PAY\nTHE IN\u{ad}VOICE"));
//! ```
//!
//! [`Said`] reads what a person wrote: what they quoted, what they ruled out, and where a path or command ends.
//!
//! In reading order: `canonical` (the form), `fold` (one character), `view` (texts as they are copied), `phrase` (a
//! search), `quoting` (a person's own words); `said`, which is made of `quotation`, `negation`, `asked`,
//! `destination`, `bound`, `delimit`, `sentence` and `vocabulary`; `encoded` (base64 and the like). Work is linear in
//! the text, and a character becomes at most [`MAX_EXPANSION`] (G29). Why there is one form for ingress, search and
//! probes: decision 0020.

mod asked;
mod bound;
mod canonical;
mod delimit;
mod destination;
mod encoded;
mod fold;
mod negation;
mod phrase;
mod quotation;
mod quoting;
mod said;
mod sentence;
mod view;
mod vocabulary;

pub use canonical::CanonicalText;
pub use encoded::encoded_copies;
pub use fold::MAX_EXPANSION;
pub use phrase::{MIN_PHRASE, Phrase, search_forms};
pub use quoting::own_words;
pub use said::Said;
pub use view::Rendering;
