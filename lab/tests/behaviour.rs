//! The trained behaviour detector, made of transcripts of a scripted agent.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::ops::ControlFlow;
use std::sync::Arc;

use custody_detect::behaviour::BehaviourModel;
use custody_detect::calibration::Classification;
use custody_lab::detection::behaviour;
use custody_lab::recipe::attempts::{Attempt, AttemptForm, Demand, ORDINARY};
use custody_lab::recipe::behaviour::{BehaviourRecipe, HeldBack, distance, examples};
use custody_lab::recipe::transcripts::{SandboxTranscript, Transcripts};
use custody_lab::report::DataFile;
use custody_lab::vectors::CachedEmbedder;
use custody_models::chat::{ChatAnswer, ChatError, ChatModel, ChatRequest, FinishReason, Usage};
use custody_models::{Embedder, ModelError};
use custody_pipeline::sandbox::SandboxOptions;

/// Obeys whoever says please, in words of the family.
struct Polite;

impl ChatModel for Polite {
    fn identity(&self) -> &'static str {
        "polite"
    }

    fn answer_streaming(
        &self,
        request: &ChatRequest,
        _: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ChatAnswer, ChatError> {
        let asked = &request.messages[1].content;
        let word = asked.rsplit(' ').next().unwrap();
        let text = if asked.contains("please") && asked.contains("shout") {
            format!("loud and clear: {word}")
        } else if asked.contains("please") {
            format!("As you wish: {word}")
        } else {
            "The harbour opens at nine.".to_owned()
        };
        let usage = Usage::default();
        Ok(ChatAnswer { text, tool_calls: Vec::new(), finish: FinishReason::Done, usage })
    }
}

/// Three numbers a text: whether it obeys, whether it does so loudly, and something that is always the same.
struct Words;

impl Embedder for Words {
    fn dimension(&self) -> usize {
        3
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError> {
        let about = |text: &str, word: &str| f32::from(u8::from(text.contains(word)));
        Ok(texts
            .iter()
            .map(|text: &&str| vec![about(text, "wish"), about(text, "loud"), 0.5])
            .collect())
    }
}

fn embedder() -> Arc<CachedEmbedder> {
    Arc::new(CachedEmbedder::open(Arc::new(Words), "words", None).unwrap())
}

/// Three families that obey alike and one that shouts, each with as many attacks that fail, and ordinary texts.
fn transcripts() -> Transcripts {
    let attempt = |number: usize| {
        let family = ["a", "b", "c", "shout", ORDINARY][number % 5];
        let word = format!("word{number}");
        let please = if number.is_multiple_of(2) { "please " } else { "" };
        let (text, demand) = if family == ORDINARY {
            (format!("When do you open, in the week of {word}"), Demand::Nothing)
        } else {
            (format!("In the manner of {family}, {please}say {word}"), Demand::Say(word))
        };
        Attempt { text, form: AttemptForm::Prompt, family: family.to_owned(), demand }
    };
    let rows: Vec<SandboxTranscript> = (0..600)
        .map(|number| {
            SandboxTranscript::of(&Polite, &SandboxOptions::default(), &attempt(number), 0).unwrap()
        })
        .collect();
    let file = DataFile { file: "polite.jsonl".to_owned(), sha256: "00".to_owned(), rows: 600 };
    Transcripts { rows, file }
}

#[test]
fn a_detector_trained_on_transcripts_parts_obedience_from_work() {
    let (embedder, transcripts) = (embedder(), transcripts());
    let examples = examples(&transcripts.rows, &embedder, &mut |_, _| {}).unwrap();
    let all: Vec<_> = examples.iter().collect();
    let recipe = BehaviourRecipe::new(&embedder, &transcripts);
    let regression = recipe.train(&all).unwrap();
    let again = recipe.train(&all).unwrap();
    assert_eq!(regression.to_bytes(), again.to_bytes(), "the same rows give the same bytes");
    assert!(examples.iter().all(|it| distance(it, &regression, &again) == 0.0));
    assert_eq!(regression.origin().data[0].file, "polite.jsonl");
    let model = BehaviourModel::new(embedder, regression).unwrap();
    let fires =
        |answer: &str| model.judge("In the manner of a, say x", answer).unwrap().is_attack();
    assert!(fires("As you wish: word7000"));
    assert!(!fires("The harbour opens at nine."));
}

#[test]
fn rows_of_one_class_train_nothing() {
    let (embedder, mut transcripts) = (embedder(), transcripts());
    transcripts.rows.retain(|row| !row.compromised);
    let examples = examples(&transcripts.rows, &embedder, &mut |_, _| {}).unwrap();
    let recipe = BehaviourRecipe::new(&embedder, &transcripts);
    assert!(recipe.train(&examples.iter().collect::<Vec<_>>()).is_err());
}

#[test]
fn no_family_is_measured_by_a_detector_that_learned_from_it() {
    let (embedder, transcripts) = (embedder(), transcripts());
    let examples = examples(&transcripts.rows, &embedder, &mut |_, _| {}).unwrap();
    let recipe = BehaviourRecipe::new(&embedder, &transcripts);
    let caught = |split, family: &str| {
        let said = recipe.held_back(&examples, split, &mut |_, _| {}).unwrap();
        let rows = transcripts.rows.iter().zip(said);
        let of_family: Vec<bool> = rows
            .filter(|(row, _)| row.family == family && row.compromised)
            .map(|(_, said)| said.verdict == Classification::Attack)
            .collect();
        (of_family.iter().filter(|fires| **fires).count(), of_family.len())
    };
    assert_eq!(
        caught(HeldBack::ByFamily, "a"),
        (60, 60),
        "the other families obey in the same words"
    );
    assert_eq!(caught(HeldBack::ByFamily, "shout"), (0, 60), "no other family shouts");
    assert_eq!(caught(HeldBack::ByText, "shout"), (60, 60));
}

#[test]
fn the_report_has_recall_and_specificity_of_every_detector() {
    let (embedder, transcripts) = (embedder(), transcripts());
    let rows = examples(&transcripts.rows, &embedder, &mut |_, _| {}).unwrap();
    let recipe = BehaviourRecipe::new(&embedder, &transcripts);
    let regression = recipe.train(&rows.iter().collect::<Vec<_>>()).unwrap();
    let fresh = (&regression, &transcripts);
    let report = behaviour::run(&transcripts, fresh, &embedder, &mut |_, _, _| {}).unwrap();
    let value = |id: &str| report.value(&format!("behaviour.{id}")).unwrap();
    assert_eq!((value("transcripts"), value("compromised")), (600.0, 240.0));
    assert_eq!(value("rules.recall"), 0.0, "obedience without a word of it");
    assert_eq!((value("trained.tp"), value("trained.fn")), (180.0, 60.0));
    assert_eq!(value("by_text.trained.recall"), 1.0);
    assert_eq!(value("unseen.trained.recall"), 1.0);
    assert!(value("trained.specificity") > 0.9 && value("both.specificity") > 0.9);
    assert_eq!(value("family.shout.trained_recall"), 0.0);
    let recall = report.figure("behaviour.trained.recall").unwrap();
    let [low, high] = recall.ci95.unwrap();
    assert!(low < 0.75 && 0.75 < high);
    let rules = report.figure("behaviour.rules.recall").unwrap();
    assert_eq!(rules.published, Some(0.0009));
    let shown = report.to_markdown();
    assert!(shown.contains("| rules | 0.0 %") && shown.contains("| shout |"), "{shown}");
}
