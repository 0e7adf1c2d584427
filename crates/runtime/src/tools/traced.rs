//! What a session heard and asked, in memory: an index that can be made again from the record.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use custody_arguments::TextIndex;
use custody_kernel::label::Channel;
use custody_log::EntryId;
use custody_store::Receipt;
use serde_json::Value;

/// The single element of a list, in a path of a manifest.
const ONLY: &str = "only";
/// Stands where words of others were cut out of a text. It is no blank, so what touches it goes on.
const SEAM: &str = "\u{2060}";

/// The index of one session.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    pub(super) texts: TextIndex,
    /// The proposal of each call that a human was asked about, by tool and canonical arguments.
    pub(super) asked: HashMap<(String, String), EntryId>,
    /// The calls whose result is known.
    pub(super) answered: HashSet<EntryId>,
}

impl Traced {
    /// A part of `text` was recorded.
    pub(crate) fn hears(&mut self, receipt: &Receipt, text: &str, part: &Range<usize>) {
        let said = text.get(part.clone()).unwrap_or_default();
        let channel = receipt.label.channel();
        // What the model repeats of others is theirs already.
        if matches!(channel, Channel::Model | Channel::System) {
            return;
        }
        if receipt.label.is_tainted() {
            self.texts.add_untrusted_text(receipt.seq, said);
        } else if channel == Channel::User {
            let before = if part.start == 0 { "" } else { SEAM };
            let after = if part.end == text.len() { "" } else { SEAM };
            self.texts.add_user_text(&format!("{before}{said}{after}"));
        }
    }

    /// A tool answered with `output`, of which its manifest trusts `fields`; `asked` if the user named all that it was
    /// called with.
    pub(super) fn trusts(
        &mut self,
        output: &Value,
        fields: &BTreeMap<String, String>,
        asked: bool,
    ) {
        for (field, noun) in fields {
            let steps: Vec<&str> = field.split('.').collect();
            // Among several, whoever wrote one of them could say which.
            if asked || !steps.contains(&ONLY) {
                self.made(output, &steps, noun);
            }
        }
    }

    fn made(&mut self, value: &Value, steps: &[&str], noun: &str) {
        match (steps.split_first(), value) {
            (None, Value::String(text)) => self.texts.add_trusted_value(text, noun),
            (None, Value::Number(number)) => {
                self.texts.add_trusted_value(&number.to_string(), noun);
            }
            // Never the name of a member, which whoever named something there could choose.
            (Some((&ONLY, rest)), _) => {
                if let Some([item]) = value.as_array().map(Vec::as_slice) {
                    self.made(item, rest, noun);
                }
            }
            (Some((&"*", rest)), Value::Array(items)) => {
                items.iter().for_each(|item| self.made(item, rest, noun));
            }
            (Some((&"*", rest)), Value::Object(members)) => {
                members.values().for_each(|member| self.made(member, rest, noun));
            }
            (Some((name, rest)), Value::Object(members)) => {
                if let Some(member) = members.get(*name) {
                    self.made(member, rest, noun);
                }
            }
            _ => {}
        }
    }
}
