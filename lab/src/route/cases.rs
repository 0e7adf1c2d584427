//! The texts that are routed: attacks and ordinary ones, each with where it comes from.

use std::path::Path;

use custody_detect::text_kind::TextKind;

use super::demands::{Goal, SYSTEM_PROMPT, goal};
use crate::data::{DataFolder, Row};
use crate::error::EvalError;
use crate::report::DataFile;

/// Where a text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The test part of deepset, both classes.
    Deepset,
    /// The test part of jackhhao, both classes.
    Jackhhao,
    /// spikee's templates with its instructions in them, as prompts and in its document.
    Spikee,
    /// CyberSecEval's injections in English, each against the system prompt it brings.
    CyberSecEval,
    /// Harmless questions around words that attacks use.
    NotInject,
    /// Requests about security that sound worse than they are.
    MitreFrr,
}

impl Source {
    /// The sources of attacks.
    pub const OF_ATTACKS: [Self; 4] =
        [Self::Deepset, Self::Jackhhao, Self::Spikee, Self::CyberSecEval];

    /// The sources of ordinary texts.
    pub const OF_BENIGN: [Self; 4] =
        [Self::Deepset, Self::Jackhhao, Self::NotInject, Self::MitreFrr];

    /// Its name in ids of figures.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Deepset => "deepset",
            Self::Jackhhao => "jackhhao",
            Self::Spikee => "spikee",
            Self::CyberSecEval => "cyberseceval",
            Self::NotInject => "notinject",
            Self::MitreFrr => "mitre_frr",
        }
    }

    /// Its name for people. *Seen* are rows that the shipped detectors were trained on.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Deepset => "deepset, test part",
            Self::Jackhhao => "jackhhao, test part",
            Self::Spikee => "spikee (seen in training)",
            Self::CyberSecEval => "CyberSecEval",
            Self::NotInject => "NotInject",
            Self::MitreFrr => "CyberSecEval MITRE FRR",
        }
    }
}

/// One text, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Where it comes from.
    pub source: Source,
    /// Of the row; of the rows that it was put together from.
    pub id: String,
    /// The text.
    pub text: String,
    /// What it is for the agent: [`TextKind::Prompt`] or [`TextKind::Content`].
    pub kind: TextKind,
    /// Whether it is an attack.
    pub is_attack: bool,
    /// The system prompt that it is made for.
    pub system_prompt: Option<String>,
    /// What it wants, where a check without a model can tell.
    pub goal: Option<Goal>,
}

/// Every case there is, and the files that they were read from.
///
/// # Errors
/// [`EvalError`] when the data is not there or not as documented, or a row whose success is known was changed.
pub fn read(data: &Path) -> Result<(Vec<Case>, Vec<DataFile>), EvalError> {
    let data = DataFolder::open(data);
    let (mut cases, mut files) = (Vec::new(), Vec::new());
    for source in [Source::Deepset, Source::Jackhhao] {
        let split = data.split(source.id())?;
        files.extend(split.files);
        for row in split.test {
            cases.push(whole(source, row)?);
        }
    }
    for (source, file) in [
        (Source::CyberSecEval, "cyberseceval_prompt_injection.jsonl"),
        (Source::NotInject, "notinject.jsonl"),
        (Source::MitreFrr, "cyberseceval_mitre_frr.jsonl"),
    ] {
        let set = data.rows(file)?;
        files.push(set.file);
        // The translations are a machine's, and whether a translated answer succeeds is not known.
        let is_english_only = source == Source::CyberSecEval;
        for row in set.rows {
            if !is_english_only || row.field("lang") == Some("English") {
                cases.push(whole(source, row)?);
            }
        }
    }
    let set = data.rows("spikee_seeds.jsonl")?;
    files.push(set.file);
    cases.extend(spikee(&set.rows)?);
    Ok((cases, files))
}

/// A row that is a case as it stands.
fn whole(source: Source, row: Row) -> Result<Case, EvalError> {
    let is_attack = row.label == Some(1);
    Ok(Case {
        source,
        kind: TextKind::Prompt,
        is_attack,
        goal: if is_attack { goal(&row)? } else { None },
        system_prompt: row.field(SYSTEM_PROMPT).map(str::to_owned),
        id: row.id,
        text: row.text,
    })
}

/// spikee's own product: every template with every instruction of its language, alone and at the end of its document;
/// and the inputs that are attacks as they stand.
fn spikee(rows: &[Row]) -> Result<Vec<Case>, EvalError> {
    let templates: Vec<&Row> =
        part(rows, "jailbreaks").filter(|row| row.label == Some(1)).collect();
    let mut cases = Vec::new();
    for instruction in part(rows, "instructions").filter(|row| row.label == Some(1)) {
        let goal = goal(instruction)?;
        let language = instruction.field("lang");
        for template in templates.iter().filter(|row| row.field("lang") == language) {
            let payload = template.text.replace("<INSTRUCTION>", &instruction.text);
            for around in part(rows, "base_user_inputs") {
                let (text, kind) = planted(&around.text, &payload);
                let id = format!("{}+{}@{}", template.id, instruction.id, around.id);
                let (source, goal) = (Source::Spikee, goal.clone());
                let (is_attack, system_prompt) = (true, None);
                cases.push(Case { source, id, text, kind, is_attack, system_prompt, goal });
            }
        }
    }
    for row in part(rows, "standalone_user_inputs").filter(|row| row.label == Some(1)) {
        cases.push(whole(Source::Spikee, row.clone())?);
    }
    Ok(cases)
}

/// The rows of one part of spikee's seeds.
fn part<'a>(rows: &'a [Row], name: &'static str) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |row| row.field("part") == Some(name))
}

/// The payload where the input says, which is then a prompt, or else at the end of it, which is then a document.
fn planted(around: &str, payload: &str) -> (String, TextKind) {
    const PLACE: &str = "<PLACEHOLDER>";
    if around.contains(PLACE) {
        (around.replace(PLACE, payload), TextKind::Prompt)
    } else {
        (format!("{around}\n{payload}"), TextKind::Content)
    }
}
