//! The encoder beside the reference implementation (`transformers` 5), and what it does with bad input.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::sync::Arc;

use common::{CONFIG, cosine, minilm, tiny_tokenizer, tiny_weights};
use custody_models::{Embedder, Encoder, ModelError, SentenceEmbedder, Tokenizer};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    text: String,
    ids: Vec<u32>,
    vector: Vec<f32>,
}

fn tiny() -> Encoder {
    Encoder::from_bytes(CONFIG.as_bytes(), &tiny_weights()).unwrap()
}

#[test]
fn a_tiny_random_encoder_computes_what_the_reference_computes() {
    let golden: Golden = serde_json::from_str(include_str!("golden/tiny_bert.json")).unwrap();
    let encoder = tiny();
    let texts: Vec<&[u32]> = golden.rows.iter().map(|row| row.ids.as_slice()).collect();
    let vectors = encoder.mean_vectors(&texts).unwrap();
    for (row, vector) in golden.rows.iter().zip(&vectors) {
        for (expected, found) in row.vector.iter().zip(vector) {
            assert!((expected - found).abs() < 2e-5, "{:?}: {expected} {found}", row.ids);
        }
    }
}

#[test]
fn the_published_sentence_vectors_come_out() {
    let Some(folder) = minilm() else { return };
    let rows: Vec<Row> = serde_json::from_str(include_str!("golden/minilm.json")).unwrap();
    let tokenizer = Tokenizer::open(&folder.join("tokenizer.json")).unwrap();
    for row in &rows {
        assert_eq!(tokenizer.encode(&row.text, 256).unwrap().ids, row.ids, "{}", row.text);
    }
    let embedder = SentenceEmbedder::open(&folder).unwrap();
    assert_eq!(embedder.dimension(), 384);
    let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
    let vectors = embedder.embed(&texts).unwrap();
    for (row, vector) in rows.iter().zip(&vectors) {
        let likeness = cosine(&row.vector, vector);
        assert!(likeness >= 0.99999, "{likeness}: {}", row.text);
        assert!((cosine(vector, vector).sqrt() - 1.0).abs() < 1e-6);
    }
}

#[test]
fn a_vector_does_not_depend_on_the_texts_beside_it() {
    let encoder = tiny();
    let texts: Vec<Vec<u32>> =
        (1..=60).map(|n: u32| (0..=n % 19).map(|i| (n * 7 + i * i) % 50).collect()).collect();
    let slices: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    let together = encoder.mean_vectors(&slices).unwrap();
    for (text, vector) in slices.iter().zip(&together) {
        let alone = encoder.mean_vectors(&[*text]).unwrap();
        for (one, other) in alone[0].iter().zip(vector) {
            assert!((one - other).abs() < 1e-5, "{text:?}: {one} {other}");
        }
    }
}

#[test]
fn tokens_that_the_model_cannot_take_are_refused() {
    let encoder = tiny();
    let long = [1; 21];
    for ids in [&[][..], &[50], &[u32::MAX], &long] {
        let refused = encoder.mean_vectors(&[&[1, 2], ids]);
        assert!(matches!(refused, Err(ModelError::Tokens { .. })), "{ids:?}");
    }
    assert_eq!(encoder.mean_vectors(&[]).unwrap(), Vec::<Vec<f32>>::new());
}

#[test]
fn a_configuration_of_another_model_is_refused() {
    let weights = tiny_weights();
    let cases = [
        (r#""bert""#, r#""roberta""#),
        (r#""gelu""#, r#""relu""#),
        (r#""num_attention_heads":4"#, r#""num_attention_heads":5"#),
        (r#""num_attention_heads":4"#, r#""num_attention_heads":0"#),
        (r#""hidden_size":32"#, r#""hidden_size":18446744073709551615"#),
        (r#""layer_norm_eps":1e-12"#, r#""layer_norm_eps":-1.0"#),
    ];
    for (from, to) in cases {
        let config = CONFIG.replace(from, to);
        assert_ne!(config, CONFIG, "{from}");
        let refused = Encoder::from_bytes(config.as_bytes(), &weights);
        assert!(matches!(refused, Err(ModelError::Configuration { .. })), "{to}");
    }
    for (from, to) in
        [(r#""intermediate_size":48"#, r#""intermediate_size":49"#), ("layers\":2", "layers\":3")]
    {
        let refused = Encoder::from_bytes(CONFIG.replace(from, to).as_bytes(), &weights);
        assert!(matches!(refused, Err(ModelError::Weights(_))), "{to}");
    }
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let tokenizer = Tokenizer::from_bytes(tiny_tokenizer().as_bytes()).unwrap();
    assert!(SentenceEmbedder::new(Arc::new(tiny()), Arc::new(tokenizer)).is_ok());
    let larger = tiny_tokenizer().replace(
        r#""[PAD]":0"#,
        r#""[PAD]":0,"x":40,"y":41,"z1":42,"z2":43,"z3":44,
        "z4":45,"z5":46,"z6":47,"z7":48,"z8":49,"z9":50"#,
    );
    let larger = Tokenizer::from_bytes(larger.as_bytes()).unwrap();
    assert!(matches!(
        SentenceEmbedder::new(Arc::new(tiny()), Arc::new(larger)),
        Err(ModelError::Tokenizer { .. })
    ));
}
