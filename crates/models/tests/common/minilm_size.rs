//! Random weights with the shapes of all-MiniLM-L6-v2, for what only depends on shapes.

use std::collections::BTreeMap;

use custody_models::weights::{TensorData, WeightTensor, write};

pub const CONFIG: &str = r#"{"model_type":"bert","hidden_act":"gelu","vocab_size":30522,"max_position_embeddings":512,
"type_vocab_size":2,"hidden_size":384,"num_hidden_layers":6,"num_attention_heads":12,"intermediate_size":1536,
"layer_norm_eps":1e-12}"#;

pub fn weights() -> Vec<u8> {
    let mut shapes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (name, rows) in [("word", 30522), ("position", 512), ("token_type", 2)] {
        shapes.insert(format!("embeddings.{name}_embeddings.weight"), vec![rows, 384]);
    }
    let mut norms = vec!["embeddings.LayerNorm".to_owned()];
    for layer in (0..6).map(|layer| format!("encoder.layer.{layer}")) {
        for (name, outputs, inputs) in [
            ("attention.self.query", 384, 384),
            ("attention.self.key", 384, 384),
            ("attention.self.value", 384, 384),
            ("attention.output.dense", 384, 384),
            ("intermediate.dense", 1536, 384),
            ("output.dense", 384, 1536),
        ] {
            shapes.insert(format!("{layer}.{name}.weight"), vec![outputs, inputs]);
            shapes.insert(format!("{layer}.{name}.bias"), vec![outputs]);
        }
        norms.extend([
            format!("{layer}.attention.output.LayerNorm"),
            format!("{layer}.output.LayerNorm"),
        ]);
    }
    for name in norms {
        shapes.insert(format!("{name}.weight"), vec![384]);
        shapes.insert(format!("{name}.bias"), vec![384]);
    }
    let mut state = 7_u32;
    let mut tensors = Vec::new();
    for (name, shape) in shapes {
        let offset = if name.ends_with("LayerNorm.weight") { 1.0 } else { 0.0 };
        let numbers: Vec<f32> = (0..shape.iter().product())
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                offset + 0.05 * (f32::from(u16::try_from(state >> 16).unwrap()) / 32768.0 - 1.0)
            })
            .collect();
        tensors.push(WeightTensor { name, shape, data: TensorData::Full(numbers.into()) });
    }
    write(&tensors, &BTreeMap::new()).unwrap()
}
