//! The rows that may train, read from the data folder and sorted by what they are used for.
//!
//! Rows train only if their stated licence allows it (Apache-2.0, MIT, CC0): the training parts of deepset
//! and jackhhao, spikee, InjecAgent, BIPIA's attacks and e-mails, LLMail-Inject's e-mails, the training part
//! of prompts.chat, and three sources of the prefilter corpus. BIPIA's tables and code (CC BY-SA) calibrate,
//! and train nothing.

use std::collections::BTreeSet;

use crate::data::{DataError, DataFolder, Row};
use crate::report::DataFile;

/// Where InjecAgent's templates take the attack.
pub const TEMPLATE_MARKER: &str = "<Attacker Instruction>";

/// Sources of the prefilter corpus whose licence is stated and allows training.
const REQUESTS_FROM: [&str; 2] = ["gpteacher-roleplay", "self-instruct-seed"];
const TOOL_REQUESTS_FROM: &str = "gpteacher-toolformer";

/// The sources of the prefilter corpus that the recipes take rows from.
pub fn corpus_sources() -> impl Iterator<Item = &'static str> {
    REQUESTS_FROM.into_iter().chain([TOOL_REQUESTS_FROM])
}

/// Attacks that must not be trained on, because they are to be measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// InjecAgent's attacker instructions.
    pub instructions: BTreeSet<String>,
    /// BIPIA's categories.
    pub categories: BTreeSet<String>,
}

/// A text that is planted in documents, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) text: String,
    pub(super) group: &'static str,
}

/// The rows.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// Rows of the training parts of the labelled sets, whether they are attacks, and their set.
    pub(super) labelled: Vec<(String, bool, &'static str)>,
    pub(super) personas: Vec<String>,
    pub(super) requests: Vec<String>,
    pub(super) tool_requests: Vec<String>,
    pub(super) questions: Vec<String>,
    pub(super) jailbreaks: Vec<String>,
    /// Third-party documents that may train, and their group.
    pub(super) mails: Vec<(String, &'static str)>,
    /// Third-party documents that only calibrate.
    pub(super) tables_and_code: Vec<(String, &'static str)>,
    pub(super) payloads: Vec<Payload>,
    pub(super) templates: Vec<String>,
    /// What was read.
    pub(super) files: Vec<DataFile>,
}

impl Sources {
    pub(super) fn read(data: &DataFolder, held: &Held) -> Result<Self, DataError> {
        let mut sources = Self::default();
        sources.read_labelled(data)?;
        sources.read_requests(data)?;
        sources.read_documents(data)?;
        sources.read_injecagent(data, held)?;
        sources.read_bipia_attacks(data, held)?;
        sources.read_spikee(data)?;
        Ok(sources)
    }

    fn rows(&mut self, data: &DataFolder, file: &str) -> Result<Vec<Row>, DataError> {
        let set = data.rows(file)?;
        self.files.push(set.file);
        Ok(set.rows)
    }

    fn read_labelled(&mut self, data: &DataFolder) -> Result<(), DataError> {
        for set in ["deepset", "jackhhao"] {
            let split = data.split(set)?;
            self.files.extend(split.files);
            self.labelled
                .extend(split.train.into_iter().map(|row| (row.text, row.label == Some(1), set)));
        }
        let combined = data.split("combined")?;
        self.files.extend(combined.files);
        let personas = combined.train.into_iter().filter(|row| row.id.starts_with("fka-"));
        self.personas = personas.map(|row| row.text).collect();
        Ok(())
    }

    fn read_requests(&mut self, data: &DataFolder) -> Result<(), DataError> {
        for row in self.rows(data, "prefilter_corpus.jsonl.gz")? {
            let from = row.field("source").unwrap_or_default();
            if REQUESTS_FROM.contains(&from) {
                self.requests.push(row.text);
            } else if from == TOOL_REQUESTS_FROM {
                self.tool_requests.push(row.text);
            }
        }
        Ok(())
    }

    fn read_documents(&mut self, data: &DataFolder) -> Result<(), DataError> {
        for row in self.rows(data, "bipia/contexts.jsonl")? {
            match row.field("task") {
                Some("email") => self.mails.push((row.text, "bipia_email")),
                Some("table") => self.tables_and_code.push((row.text, "bipia_table")),
                Some("code") => self.tables_and_code.push((row.text, "bipia_code")),
                Some(_) | None => {}
            }
        }
        let mails = self.rows(data, "llmail_benign_emails.jsonl")?;
        self.mails.extend(mails.into_iter().map(|row| (row.text, "llmail")));
        Ok(())
    }

    fn read_injecagent(&mut self, data: &DataFolder, held: &Held) -> Result<(), DataError> {
        let cases = self.rows(data, "injecagent/cases_base.jsonl")?;
        let instructions: BTreeSet<&str> =
            cases.iter().filter_map(|row| row.field("attacker_instruction")).collect();
        let kept = instructions.into_iter().filter(|text| !held.instructions.contains(*text));
        self.payloads
            .extend(kept.map(|text| Payload { text: text.to_owned(), group: "injecagent" }));
        let users = self.rows(data, "injecagent/user_cases.jsonl")?;
        let templates = users.iter().filter_map(|row| row.field("tool_response_template"));
        self.templates = templates.map(str::to_owned).collect();
        Ok(())
    }

    fn read_bipia_attacks(&mut self, data: &DataFolder, held: &Held) -> Result<(), DataError> {
        for row in self.rows(data, "bipia/attacks.jsonl")? {
            if !held.categories.contains(row.field("category").unwrap_or_default()) {
                self.payloads.push(Payload { text: row.text, group: "bipia" });
            }
        }
        Ok(())
    }

    /// A template of spikee is no attack before an instruction stands in it; each takes one, in turn.
    fn read_spikee(&mut self, data: &DataFolder) -> Result<(), DataError> {
        let rows = self.rows(data, "spikee_seeds.jsonl")?;
        let part =
            |name: &'static str| rows.iter().filter(move |row| row.field("part") == Some(name));
        let instructions: Vec<&str> = part("instructions").map(|row| row.text.as_str()).collect();
        let templates = part("jailbreaks")
            .filter(|row| row.label == Some(1) && row.text.contains("<INSTRUCTION>"));
        for (row, instruction) in templates.zip(instructions.iter().cycle()) {
            self.jailbreaks
                .push(row.text.replace("<INSTRUCTION>", instruction).replace("<DOCUMENT>", ""));
        }
        let questions = part("standalone_user_inputs").filter(|row| row.label == Some(0));
        self.questions = questions.map(|row| row.text.clone()).collect();
        let planted =
            instructions.into_iter().map(str::to_owned).chain(self.jailbreaks.iter().cloned());
        self.payloads.extend(planted.map(|text| Payload { text, group: "spikee" }));
        Ok(())
    }
}
