//! The index of one session, in memory: its texts, its pending approvals and its finished calls. It can be rebuilt from
//! the record.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use custody_arguments::TextIndex;
use custody_kernel::label::Channel;
use custody_log::EntryId;
use custody_store::Receipt;
use serde_json::Value;

/// The single element of a list, in a path of a manifest.
const ONLY: &str = "only";
/// Replaces untrusted passages that were cut out of a text. It is not a blank, so the words beside it are no whole
/// words.
const SEAM: &str = "\u{2060}";

/// The index of one session.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    pub(crate) texts: TextIndex,
    /// The proposal of each call that a human was asked about, by tool and canonical arguments.
    pub(crate) asked: HashMap<(String, String), EntryId>,
    /// The calls whose result is known.
    pub(crate) answered: HashSet<EntryId>,
}

impl Traced {
    /// Indexes a recorded part of `text`.
    pub(crate) fn index_text(&mut self, receipt: &Receipt, text: &str, part: &Range<usize>) {
        let words = text.get(part.clone()).unwrap_or_default();
        let channel = receipt.label.channel();
        // The texts that a model repeats are indexed already.
        if matches!(channel, Channel::Model | Channel::System) {
            return;
        }
        if receipt.label.is_tainted() {
            self.texts.add_untrusted_text(receipt.seq, words);
        } else if channel == Channel::User {
            let before = if part.start == 0 { "" } else { SEAM };
            let after = if part.end == text.len() { "" } else { SEAM };
            self.texts.add_user_text(&format!("{before}{words}{after}"));
        }
    }

    /// Indexes the values of the trusted `fields` of an `output`. `asked` states whether every argument of the call
    /// came from the user.
    pub(crate) fn add_trusted_output(
        &mut self,
        output: &Value,
        fields: &BTreeMap<String, String>,
        asked: bool,
    ) {
        for (field, noun) in fields {
            let steps: Vec<&str> = field.split('.').collect();
            // If a search could have had several results, an attacker who wrote one of them could choose which is
            // returned.
            if asked || !steps.contains(&ONLY) {
                self.add_trusted_field(output, &steps, noun);
            }
        }
    }

    fn add_trusted_field(&mut self, value: &Value, steps: &[&str], noun: &str) {
        match (steps.split_first(), value) {
            (None, Value::String(text)) => self.texts.add_trusted_value(text, noun),
            (None, Value::Number(number)) => {
                self.texts.add_trusted_value(&number.to_string(), noun);
            }
            // `only` applies to lists and not to the members of an object, whose names an attacker could choose.
            (Some((&ONLY, rest)), _) => {
                if let Some([item]) = value.as_array().map(Vec::as_slice) {
                    self.add_trusted_field(item, rest, noun);
                }
            }
            (Some((&"*", rest)), Value::Array(items)) => {
                items.iter().for_each(|item| self.add_trusted_field(item, rest, noun));
            }
            (Some((&"*", rest)), Value::Object(members)) => {
                members.values().for_each(|member| self.add_trusted_field(member, rest, noun));
            }
            (Some((name, rest)), Value::Object(members)) => {
                if let Some(member) = members.get(*name) {
                    self.add_trusted_field(member, rest, noun);
                }
            }
            _ => {}
        }
    }
}
