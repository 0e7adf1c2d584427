//! What the shipped detectors are trained and calibrated on, put together from the rows.

use custody_log::Digest;

use super::buried::{Planted, PlantedPosition, pick};
use super::parts::of_training_row;
use super::sources::{Payload, Sources, TEMPLATE_MARKER};
use super::written::{self, MARKER, WrittenForm, is_document};
use crate::data::{DataError, DataFolder};
use crate::random::Generator;
use crate::report::DataFile;
use crate::sets::parts::{SetPart, part_of};

pub use super::sources::Held;

/// The seed of the shipped weights.
pub const SEED: u64 = 20_261_121;

/// How many requests of the two large sources are taken as prompts, and how many are planted as requests
/// that do not belong where they stand.
const REQUESTS: usize = 900;
const TOOL_REQUESTS: usize = 200;
const PLANTED_REQUESTS: usize = 600;
/// Longer requests are not planted: few attackers write essays, and they would crowd out their document.
const PLANTED_REQUEST_BYTES: usize = 220;
/// How much a written prompt counts, beside a request at 1.
const WRITTEN_WEIGHT: f64 = 2.0;
/// How often each payload is planted in some document.
const ROUNDS: usize = 3;
/// How many harmless sentences stand in each template's field.
const FILLED: usize = 20;
/// How many harmless sentences stand alone, as the fields of structured output do.
const ALONE: usize = 300;

/// Words to an assistant, and whether they are an attack.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Whether it is an attack.
    pub is_attack: bool,
    /// How much it counts.
    pub weight: f64,
    /// Where it comes from; thresholds hold in every group.
    pub group: String,
}

/// A document, and what is planted in it.
#[derive(Debug, Clone, PartialEq)]
pub struct CorpusDocument {
    /// The document.
    pub planted: Planted,
    /// Where it, or what is planted in it, comes from.
    pub group: String,
}

/// Everything the recipes use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Corpus {
    /// Prompts to train on.
    pub prompts: Vec<Prompt>,
    /// Documents to train on.
    pub documents: Vec<CorpusDocument>,
    /// Prompts to calibrate on.
    pub calibration_prompts: Vec<Prompt>,
    /// Documents to calibrate on.
    pub calibration_documents: Vec<CorpusDocument>,
    /// The files it was made from.
    pub files: Vec<DataFile>,
}

/// Builds the corpus from `data` without the attacks in `held`. The same seed draws the same corpus.
///
/// # Errors
/// [`DataError`] when a file is missing or not as documented.
pub fn build(data: &DataFolder, held: &Held, seed: u64) -> Result<Corpus, DataError> {
    let mut sources = Sources::read(data, held)?;
    let mut builder = Builder { corpus: Corpus::default(), draw: Generator::new(seed) };
    builder.shuffle(&mut sources.requests);
    builder.shuffle(&mut sources.tool_requests);
    builder.prompts(&sources);
    builder.training_documents(&sources);
    builder.calibration_documents(&sources);
    builder.corpus.files = files(sources.files);
    Ok(builder.corpus)
}

/// What was read, each file once, with the texts written for this project.
fn files(mut read: Vec<DataFile>) -> Vec<DataFile> {
    read.extend(written::files().into_iter().map(|(name, bytes)| DataFile {
        file: name.to_owned(),
        sha256: Digest::of(bytes).to_string(),
        rows: bytes.iter().filter(|byte| **byte == b'\n').count() as u64,
    }));
    read.sort_by(|a, b| a.file.cmp(&b.file));
    read.dedup_by(|a, b| a.file == b.file);
    read
}

/// The documents of one part.
struct Shelf {
    /// Whole documents and their groups.
    documents: Vec<(String, String)>,
    /// Documents with a place for something.
    carriers: Vec<String>,
    /// Harmless sentences from these documents and for their places.
    fillers: Vec<String>,
    /// What is planted.
    payloads: Vec<Payload>,
}

impl Shelf {
    fn of(sources: &Sources, part: SetPart) -> Self {
        let mails = sources.mails.iter().filter(|(text, _)| part_of(text) == part);
        let mut documents: Vec<(String, String)> =
            mails.map(|(text, group)| (text.clone(), (*group).to_owned())).collect();
        let written = written::benign()
            .into_iter()
            .filter(|row| is_document(row) && of_training_row(&row.text) == part);
        documents.extend(written.map(|row| (row.text, row.kind)));
        documents.sort();
        documents.dedup();
        let carriers: Vec<String> = written::carriers()
            .into_iter()
            .map(|row| row.text)
            .filter(|text| of_training_row(text) == part)
            .collect();
        let mut fillers: Vec<String> =
            documents.iter().flat_map(|(text, _)| sentences(text)).chain(asides(part)).collect();
        fillers.sort();
        fillers.dedup();
        Self { documents, carriers, fillers, payloads: payloads(sources, part) }
    }
}

/// How much a row of a labelled set counts. deepset's are few, and of a sort that no other source holds:
/// assistants with a task of their own that are pushed out of it.
fn weight_of_set(set: &str) -> f64 {
    if set == "deepset" { 4.0 } else { 1.5 }
}

fn asides(part: SetPart) -> impl Iterator<Item = String> {
    written::asides()
        .into_iter()
        .map(|row| row.text)
        .filter(move |text| of_training_row(text) == part)
}

fn payloads(sources: &Sources, part: SetPart) -> Vec<Payload> {
    let written = written::attacks().into_iter().map(|row| Payload {
        text: row.text,
        group: if row.form == Some(WrittenForm::Buried) {
            "written_buried"
        } else {
            "written_direct"
        },
    });
    let all = sources.payloads.iter().cloned().chain(written);
    all.filter(|payload| of_training_row(&payload.text) == part).collect()
}

/// The sentences of a document that are long enough to say something.
fn sentences(text: &str) -> Vec<String> {
    let pieces = custody_detect::segments::segments(text).into_iter().map(|range| &text[range]);
    pieces.filter(|piece| (8..260).contains(&piece.len())).map(str::to_owned).collect()
}

struct Builder {
    corpus: Corpus,
    draw: Generator,
}

impl Builder {
    fn prompts(&mut self, sources: &Sources) {
        for (text, is_attack, set) in &sources.labelled {
            self.prompt(text, *is_attack, weight_of_set(set), set);
        }
        let ordinary = sources.personas.iter().map(|text| (text, "personas"));
        let ordinary = ordinary
            .chain(sources.requests.iter().take(REQUESTS).map(|text| (text, "requests")))
            .chain(sources.tool_requests.iter().take(TOOL_REQUESTS).map(|text| (text, "requests")))
            .chain(sources.questions.iter().map(|text| (text, "spikee")));
        for (text, group) in ordinary {
            self.prompt(text, false, 1.0, group);
        }
        for text in &sources.jailbreaks {
            self.prompt(text, true, 1.0, "spikee");
        }
        for row in written::benign().iter().filter(|row| !is_document(row)) {
            // One group: its kinds are too small to show a rate each.
            self.prompt(&row.text, false, WRITTEN_WEIGHT, "written");
        }
        for row in written::attacks().iter().filter(|row| row.form == Some(WrittenForm::Direct)) {
            self.prompt(&row.text, true, WRITTEN_WEIGHT, &row.kind);
        }
    }

    fn prompt(&mut self, text: &str, is_attack: bool, weight: f64, group: &str) {
        let prompt = Prompt { text: text.to_owned(), is_attack, weight, group: group.to_owned() };
        match of_training_row(text) {
            SetPart::Train => self.corpus.prompts.push(prompt),
            SetPart::Calibration | SetPart::Test => self.corpus.calibration_prompts.push(prompt),
        }
    }

    fn training_documents(&mut self, sources: &Sources) {
        let shelf = Shelf::of(sources, SetPart::Train);
        let requests = sources.requests.iter().skip(REQUESTS);
        let requests: Vec<Payload> = requests
            .filter(|text| text.len() < PLANTED_REQUEST_BYTES)
            .take(PLANTED_REQUESTS)
            .map(|text| Payload { text: text.clone(), group: "requests" })
            .collect();
        let rounds = std::iter::repeat_n(&shelf.payloads, ROUNDS).flatten();
        for payload in rounds.chain(&requests) {
            let planted = self.plant(&shelf, &payload.text);
            self.train(planted, payload.group);
        }
        for payload in shelf.payloads.iter().filter(|payload| is_for_fields(payload)) {
            self.plant_in_fields(&shelf, &sources.templates, payload);
        }
        for _ in 0..2 {
            for (text, group) in &shelf.documents {
                self.train(Planted::clean(text), group);
            }
        }
        for carrier in &shelf.carriers {
            self.train(Planted::clean(carrier.replacen(MARKER, "", 1)), "carrier");
            let filled = carrier.replacen(MARKER, &self.any(&shelf.fillers), 1);
            self.train(Planted::clean(filled), "carrier");
        }
        for template in &sources.templates {
            for _ in 0..FILLED {
                let filled = template.replacen(TEMPLATE_MARKER, &self.any(&shelf.fillers), 1);
                self.train(Planted::clean(filled), "template");
            }
        }
        for _ in 0..ALONE {
            let alone = Planted::clean(self.any(&shelf.fillers));
            self.train(alone, "field");
        }
    }

    /// In the field of a template, alone and beside something harmless; and as the field by itself.
    fn plant_in_fields(&mut self, shelf: &Shelf, templates: &[String], payload: &Payload) {
        let template = self.any(templates);
        self.train(Planted::instead_of(&template, TEMPLATE_MARKER, &payload.text), payload.group);
        let (template, filler) = (self.any(templates), self.any(&shelf.fillers));
        let beside = if self.draw.below(2) == 0 {
            template.replacen(TEMPLATE_MARKER, &format!("{filler} {TEMPLATE_MARKER}"), 1)
        } else {
            template.replacen(TEMPLATE_MARKER, &format!("{TEMPLATE_MARKER} {filler}"), 1)
        };
        self.train(Planted::instead_of(&beside, TEMPLATE_MARKER, &payload.text), payload.group);
        if self.draw.below(2) == 0 {
            self.train(
                Planted { text: payload.text.clone(), span: Some(0..payload.text.len()) },
                payload.group,
            );
        }
    }

    fn train(&mut self, planted: Planted, group: &str) {
        self.corpus.documents.push(CorpusDocument { planted, group: group.to_owned() });
    }

    fn calibration_documents(&mut self, sources: &Sources) {
        let shelf = Shelf::of(sources, SetPart::Calibration);
        for payload in &shelf.payloads {
            let planted = self.plant(&shelf, &payload.text);
            self.calibrate(planted, payload.group);
        }
        for (text, group) in &shelf.documents {
            self.calibrate(Planted::clean(text), group);
        }
        // They train nothing, so what is not measured calibrates.
        for (text, group) in &sources.tables_and_code {
            if part_of(text) != SetPart::Test {
                self.calibrate(Planted::clean(text), group);
            }
        }
        for carrier in &shelf.carriers {
            self.calibrate(Planted::clean(carrier.replacen(MARKER, "", 1)), "carrier");
        }
        for filler in &shelf.fillers {
            let template = self.any(&sources.templates);
            self.calibrate(
                Planted::clean(template.replacen(TEMPLATE_MARKER, filler, 1)),
                "template",
            );
        }
    }

    fn calibrate(&mut self, planted: Planted, group: &str) {
        self.corpus.calibration_documents.push(CorpusDocument { planted, group: group.to_owned() });
    }

    /// In the place of a carrier, or anywhere in a document.
    fn plant(&mut self, shelf: &Shelf, payload: &str) -> Planted {
        if self.draw.below(10) < 3 && !shelf.carriers.is_empty() {
            return Planted::instead_of(&self.any(&shelf.carriers), MARKER, payload);
        }
        let place = pick(&mut self.draw, shelf.documents.len());
        let position = [
            PlantedPosition::Start,
            PlantedPosition::Middle,
            PlantedPosition::Middle,
            PlantedPosition::End,
        ][pick(&mut self.draw, 4)];
        let document = shelf.documents.get(place).map_or("", |(text, _)| text.as_str());
        Planted::at(document, payload, position, &mut self.draw)
    }

    fn any(&mut self, from: &[String]) -> String {
        let place = pick(&mut self.draw, from.len());
        from.get(place).cloned().unwrap_or_default()
    }

    /// Fisher and Yates.
    fn shuffle(&mut self, texts: &mut [String]) {
        for last in (1..texts.len()).rev() {
            texts.swap(last, pick(&mut self.draw, last + 1));
        }
    }
}

/// What is planted in fields besides: requests to act. A category of BIPIA names what is done to an answer.
fn is_for_fields(payload: &Payload) -> bool {
    matches!(payload.group, "injecagent" | "written_buried" | "spikee")
}
