//! The texts of one session in which the arguments of its calls are traced. Made as they arrive, and again from the
//! record.

use custody_arguments::{ArgumentOrigin, Arguments, TextIndex, ToolManifest};
use custody_kernel::label::{Channel, Label};
use custody_kernel::record::{Answer, Record, Request, SessionRequest, TextPart};
use custody_kernel::tool::call::Call;
use custody_log::Seq;
use serde_json::Value;

/// The single element of a list, in a path of a manifest.
const ONLY: &str = "only";
/// Replaces untrusted passages that were cut out of a text. It is not a blank, so the words beside it are no whole
/// words.
const SEAM: &str = "\u{2060}";

/// The texts of one session in which the arguments of its calls are traced.
#[derive(Debug, Default)]
pub struct SessionTexts(TextIndex);

impl SessionTexts {
    /// What arguments are traced in.
    pub(crate) const fn index(&self) -> &TextIndex {
        &self.0
    }

    /// Whether arguments are traced in a text with this label. The texts that a model repeats are indexed already.
    pub(crate) fn has(label: Label) -> bool {
        !matches!(label.channel(), Channel::Model | Channel::System)
    }

    /// Adds what the model read with `entry`: a text, or one part of it.
    pub(crate) fn add(&mut self, entry: Seq, label: Label, text: &str, part: Option<TextPart>) {
        if !Self::has(label) {
            return;
        }
        let channel = label.channel();
        if label.is_tainted() {
            self.0.add_untrusted_text(entry, text);
        } else if channel == Channel::User {
            let is_cut_before = part.is_some_and(|part| part.start > 0);
            let is_cut_after =
                part.is_some_and(|part| part.start.saturating_add(text.len() as u64) < part.whole);
            let before = if is_cut_before { SEAM } else { "" };
            let after = if is_cut_after { SEAM } else { "" };
            self.0.add_user_text(&format!("{before}{text}{after}"));
        }
    }

    /// Adds a value that was extracted from `output`. As an argument it is still what the tool said.
    pub(crate) fn add_extracted(&mut self, output: Seq, value: &str) {
        self.0.add_untrusted_text(output, value);
    }

    /// Adds what the manifest of `call` says of its `output`, which the entries `texts` hold as text: the values that
    /// it trusts, and who wrote them.
    pub fn add_output(&mut self, output: &Value, tool: &ToolManifest, call: &Call, texts: &[Seq]) {
        let is_users = call.leaves.iter().all(|leaf| leaf.origin == ArgumentOrigin::User);
        let was_asked_for = is_users && !call.leaves.is_empty();
        for (field, noun) in &tool.trusted_output {
            let steps: Vec<&str> = field.split('.').collect();
            // If a search could have had several results, an attacker who wrote one of them could choose which is
            // returned.
            if was_asked_for || !steps.contains(&ONLY) {
                for value in values_at(output, &steps) {
                    self.0.add_trusted_value(&value, noun);
                }
            }
        }
        if let Some(fields) = &tool.authors {
            let steps = fields.iter().map(|field| field.split('.').collect::<Vec<_>>());
            let authors: Vec<String> = steps.flat_map(|steps| values_at(output, &steps)).collect();
            // An output of another form than the manifest says has authors that are not known.
            if fields.is_empty() || !authors.is_empty() {
                self.0.add_authors(texts, &authors);
            }
        }
    }

    /// Adds that `call` of `tool` with `arguments` runs.
    pub fn add_call(&mut self, call: Seq, tool: &ToolManifest, arguments: &Arguments) {
        self.0.add_call(call, tool, arguments);
    }

    /// Adds the key of an item that a listing showed the model.
    pub fn add_listed(&mut self, listing: &Record, key: &str) {
        self.add(listing.seq, listing.label, key, None);
    }

    /// Adds what the model read with a record of its session; `text` is the content that the record names.
    pub fn add_recorded(&mut self, record: &Record, text: &str) {
        let Request::Session(request) = &record.request else { return };
        match request {
            SessionRequest::Observe { part, .. } => {
                self.add(record.seq, record.label, text, *part);
            }
            SessionRequest::Read { .. } => self.add(record.seq, record.label, text, None),
            SessionRequest::Extract(extract) if record.answer == Answer::Done => {
                self.add_extracted(extract.output, text);
            }
            SessionRequest::Extract(_)
            | SessionRequest::CloseSession
            | SessionRequest::List { .. }
            | SessionRequest::Write { .. }
            | SessionRequest::Delete { .. }
            | SessionRequest::Promote { .. }
            | SessionRequest::Route(_)
            | SessionRequest::Withhold { .. }
            | SessionRequest::DeclareIntents(_)
            | SessionRequest::JoinContext
            | SessionRequest::RecordBasis(_) => {}
        }
    }
}

/// The strings and numbers at a path of a manifest.
fn values_at(value: &Value, steps: &[&str]) -> Vec<String> {
    match (steps.split_first(), value) {
        (None, Value::String(text)) => vec![text.clone()],
        (None, Value::Number(number)) => vec![number.to_string()],
        // `only` applies to lists and not to the members of an object, whose names an attacker could choose.
        (Some((&ONLY, rest)), _) => match value.as_array().map(Vec::as_slice) {
            Some([item]) => values_at(item, rest),
            Some(_) | None => Vec::new(),
        },
        (Some((&"*", rest)), Value::Array(items)) => {
            items.iter().flat_map(|item| values_at(item, rest)).collect()
        }
        (Some((&"*", rest)), Value::Object(members)) => {
            members.values().flat_map(|member| values_at(member, rest)).collect()
        }
        (Some((name, rest)), Value::Object(members)) => {
            members.get(*name).map(|member| values_at(member, rest)).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}
