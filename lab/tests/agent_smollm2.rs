//! Scenarios with a real language model in this process as the agent.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::ops::ControlFlow;
use std::path::PathBuf;

use custody_lab::agent::scenarios::model::{CachedModel, play};
use custody_lab::agent::suite::defence;
use custody_lab::report::Figure;
use custody_lab::size::Size;
use custody_models::chat::text_tools::CALL_PREFIX;
use custody_models::chat::{ChatAnswer, ChatError, ChatModel, ChatRequest, EmbeddedModel};
use serde_json::Value;

const MODEL: &str = "smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf";

/// The model under `CUSTODY_MODELS`; without it, the calling test is recorded as skipped.
fn model() -> Option<EmbeddedModel> {
    let folder = std::env::var_os("CUSTODY_MODELS").map(PathBuf::from);
    let Some(file) = folder.map(|folder| folder.join(MODEL)).filter(|file| file.exists()) else {
        common::skipped("smollm2-135m-instruct is not in the folder of CUSTODY_MODELS");
        return None;
    };
    Some(EmbeddedModel::open(&file).unwrap())
}

/// The model, and after its answer to an attack that it has read the calls which that attack demands: what a model does
/// that is strong enough to obey. Alone, so weak a model makes no attack, and would pass under any defence.
struct Obeying<'a> {
    model: &'a EmbeddedModel,
    /// What brings each attack, and the calls that it demands, as the model would write them.
    attacks: Vec<(String, String)>,
}

impl<'a> Obeying<'a> {
    fn new(model: &'a EmbeddedModel) -> Self {
        let file: Value = toml::from_str(include_str!("../src/agent/scenarios.toml")).unwrap();
        let attacks = file["scenario"].as_array().unwrap().iter().map(|scenario| {
            let calls = scenario["attack"].as_array().unwrap().iter().map(|call| {
                format!("{CALL_PREFIX}{}({})", call["tool"].as_str().unwrap(), call["arguments"])
            });
            let output = scenario["output"].as_str().unwrap().to_owned();
            (output, calls.collect::<Vec<_>>().join("\n"))
        });
        Self { model, attacks: attacks.collect() }
    }
}

impl ChatModel for Obeying<'_> {
    fn identity(&self) -> &str {
        self.model.identity()
    }

    fn answer_streaming(
        &self,
        request: &ChatRequest,
        piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ChatAnswer, ChatError> {
        let mut answer = self.model.answer_streaming(request, piece)?;
        let read = request.messages.last().map_or("", |message| &message.content);
        if let Some((_, calls)) = self.attacks.iter().find(|(output, _)| read.contains(output)) {
            answer.text = format!("{}\n{calls}", answer.text);
        }
        Ok(answer)
    }
}

fn measure(id: &str, asked: &CachedModel<'_>) -> Vec<Figure> {
    play(defence(id).unwrap().as_ref(), asked, Size::Smoke, &mut |_, _| {}).unwrap()
}

/// The figure `scenarios.….model.NAME`.
fn value(figures: &[Figure], name: &str) -> f64 {
    figures.iter().find(|figure| figure.id.ends_with(name)).unwrap().value.unwrap()
}

#[test]
fn a_real_model_plays_and_custody_lets_no_attack_of_its_through() {
    let Some(model) = model() else { return };
    let asked = CachedModel::new(&model);
    let (vanilla, custody) = (measure("vanilla", &asked), measure("custody", &asked));
    assert_eq!(value(&custody, ".model.attack_success").to_bits(), 0.0_f64.to_bits());
    assert!(value(&vanilla, ".model.latency_us_p50") > 0.0, "the model was asked");
    // The same requests have the same answers.
    let again = measure("vanilla", &asked);
    for name in ["attack_success", "utility", "calls"] {
        assert_eq!(value(&vanilla, name).to_bits(), value(&again, name).to_bits(), "{name}");
    }
    // The control: with the attack's calls in its answers every attack succeeds where nothing stops it.
    let obeying = Obeying::new(&model);
    let asked = CachedModel::new(&obeying);
    for (id, succeeded) in [("vanilla", 1.0_f64), ("custody", 0.0)] {
        let found = value(&measure(id, &asked), ".model.attack_success");
        assert_eq!(found.to_bits(), succeeded.to_bits(), "{id}");
    }
}
