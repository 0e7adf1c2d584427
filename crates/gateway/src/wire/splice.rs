//! Changing a few places of a JSON text and no other byte of it.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Replacements for ranges of a text that do not overlap.
#[derive(Debug, Default)]
pub(super) struct Splices(Vec<(Range<usize>, String)>);

impl Splices {
    /// Replaces `range` by `text`.
    pub(super) fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.0.push((range, text.into()));
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with the replacements.
    pub(super) fn apply(mut self, text: &str) -> String {
        self.0.sort_unstable_by_key(|(range, _)| range.start);
        let (mut out, mut from) = (String::with_capacity(text.len()), 0);
        for (range, new) in self.0 {
            out.push_str(text.get(from..range.start).unwrap_or_default());
            out.push_str(&new);
            from = range.end;
        }
        out.push_str(text.get(from..).unwrap_or_default());
        out
    }
}

/// Where `part`, which was read out of `whole`, stands in it.
pub(super) fn place(whole: &str, part: &RawValue) -> Range<usize> {
    let start = (part.get().as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.get().len()
}

/// The member `name` of an object, as it is written.
pub(super) fn member<'a>(object: &'a str, name: &str) -> Option<&'a RawValue> {
    let members: std::collections::HashMap<std::borrow::Cow<'a, str>, &'a RawValue> = read(object)?;
    members.get(name).copied()
}

/// The elements of an array, as they are written.
pub(super) fn elements(array: &str) -> Vec<&RawValue> {
    read(array).unwrap_or_default()
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_place_changes() {
        let text = r#"{ "n": 1.50, "a": [ {"x" : 1}, {"y":2} ], "z":"é" }"#;
        let array = member(text, "a").unwrap();
        let second = elements(array.get())[1];
        let mut splices = Splices::default();
        splices.replace(place(text, second), "null");
        splices.replace(place(text, member(text, "n").unwrap()), "2");
        assert_eq!(splices.apply(text), r#"{ "n": 2, "a": [ {"x" : 1}, null ], "z":"é" }"#);
    }
}
