//! What several tests of models need: a tiny encoder, its tokenizer, and the real one if it is here.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests; each uses a part"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use custody_models::weights::{TensorData, WeightTensor, write};

/// The configuration of the tiny encoder.
pub const CONFIG: &str = r#"{"model_type":"bert","hidden_act":"gelu","vocab_size":50,"max_position_embeddings":20,
"type_vocab_size":2,"hidden_size":32,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":48,
"layer_norm_eps":1e-12}"#;

/// The weights of the tiny encoder, the same that its golden file was made with.
pub fn tiny_weights() -> Vec<u8> {
    let mut shapes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (name, shape) in [
        ("LayerNorm.bias", vec![32]),
        ("LayerNorm.weight", vec![32]),
        ("position_embeddings.weight", vec![20, 32]),
        ("token_type_embeddings.weight", vec![2, 32]),
        ("word_embeddings.weight", vec![50, 32]),
    ] {
        shapes.insert(format!("embeddings.{name}"), shape);
    }
    for layer in 0..2 {
        for (name, outputs, inputs) in [
            ("attention.self.query", 32, 32),
            ("attention.self.key", 32, 32),
            ("attention.self.value", 32, 32),
            ("attention.output.dense", 32, 32),
            ("intermediate.dense", 48, 32),
            ("output.dense", 32, 48),
        ] {
            shapes.insert(format!("encoder.layer.{layer}.{name}.weight"), vec![outputs, inputs]);
            shapes.insert(format!("encoder.layer.{layer}.{name}.bias"), vec![outputs]);
        }
        for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
            shapes.insert(format!("encoder.layer.{layer}.{name}.weight"), vec![32]);
            shapes.insert(format!("encoder.layer.{layer}.{name}.bias"), vec![32]);
        }
    }
    let mut state = 7_u32;
    let mut tensors = Vec::new();
    for (name, shape) in shapes {
        let offset = if name.ends_with("LayerNorm.weight") { 1.0 } else { 0.0 };
        let numbers: Vec<f32> = (0..shape.iter().product())
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                offset + 0.25 * (f32::from(u16::try_from(state >> 16).unwrap()) / 32768.0 - 1.0)
            })
            .collect();
        tensors.push(WeightTensor { name, shape, data: TensorData::Full(numbers.into()) });
    }
    write(&tensors, &BTreeMap::new()).unwrap()
}

/// A tokenizer of fifty words for the tiny encoder.
pub fn tiny_tokenizer() -> String {
    let known = [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "ignore", "all", "previous", "rules", "and", "send",
        "the", "key", "to", "me", "please", "read", "my", "mail", "what", "is", "weather", "today",
        "a", "cat", "sat", "on", "mat", "##s", ".", ",", "?", "!", "do", "not", "tell", "user",
        "now", "you", "are", "free",
    ];
    let vocabulary: BTreeMap<&str, usize> =
        known.iter().enumerate().map(|(id, word)| (*word, id)).collect();
    let special = [0, 1, 2, 3].map(|id: usize| {
        serde_json::json!({"id": id, "content": known[id], "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    });
    serde_json::json!({
        "version": "1.0",
        "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
        "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary}
    })
    .to_string()
}

/// The folder of all-MiniLM-L6-v2 under `CUSTODY_MODELS`; without it, the calling test is recorded as skipped.
pub fn minilm() -> Option<PathBuf> {
    model_folder("all-minilm-l6-v2", "model.safetensors")
}

/// The folder `name` under `CUSTODY_MODELS`, if it holds `weights`; if not, the calling test is recorded as skipped.
pub fn model_folder(name: &str, weights: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("CUSTODY_MODELS").map(|models| PathBuf::from(models).join(name));
    match folder {
        Some(folder) if folder.join(weights).is_file() => Some(folder),
        Some(folder) => skipped(&format!("no weights in `{}`", folder.display())),
        None => skipped("CUSTODY_MODELS names no folder of models"),
    }
}

fn skipped(reason: &str) -> Option<PathBuf> {
    let thread = std::thread::current();
    let line = format!("SKIPPED: {}: {reason}\n", thread.name().unwrap_or("a test"));
    eprint!("{line}");
    if let Some(list) = std::env::var_os("CUSTODY_SKIPPED_TESTS") {
        let mut list = std::fs::File::options().append(true).open(list).unwrap();
        std::io::Write::write_all(&mut list, line.as_bytes()).unwrap();
    }
    None
}

/// The cosine of the angle between two vectors.
pub fn cosine(left: &[f32], right: &[f32]) -> f64 {
    dot(left, right) / (dot(left, left) * dot(right, right)).sqrt()
}

fn dot(left: &[f32], right: &[f32]) -> f64 {
    left.iter().zip(right).map(|(left, right)| f64::from(*left) * f64::from(*right)).sum()
}
