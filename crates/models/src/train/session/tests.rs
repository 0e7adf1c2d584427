//! The gradient of every tensor beside differences of the loss.

use std::collections::BTreeMap;

use super::*;
use crate::weights::{TensorData, WeightTensor, write};

const CONFIG: &str = r#"{"model_type":"bert","hidden_act":"gelu","vocab_size":23,"max_position_embeddings":80,
"type_vocab_size":2,"hidden_size":16,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":24,
"layer_norm_eps":1e-12}"#;

fn tiny() -> Encoder {
    let config = crate::encoder::EncoderConfig::from_json(CONFIG.as_bytes()).unwrap();
    let mut random = Random::new(11, &[]);
    let mut fields = embedding_fields(&config);
    fields.extend((0..config.layers).flat_map(|layer| layer_fields(&config, layer)));
    let mut tensors = Vec::new();
    for field in fields {
        let offset = if field.name.ends_with("LayerNorm.weight") { 1.0 } else { 0.0 };
        let numbers: Vec<f32> =
            (0..field.len()).map(|_| offset + 0.3 * random.signed_unit()).collect();
        tensors.push(WeightTensor {
            name: field.name,
            shape: field.shape,
            data: TensorData::Full(numbers.into()),
        });
    }
    Encoder::from_bytes(CONFIG.as_bytes(), &write(&tensors, &BTreeMap::new()).unwrap()).unwrap()
}

fn example(ids: &[u32], targets: &[Option<f32>], weight: f32) -> Example {
    Example { ids: ids.to_vec(), targets: targets.to_vec(), weight }
}

fn examples() -> Vec<Example> {
    vec![
        example(&[2, 5, 7, 9, 3], &[Some(1.0), None], 1.0),
        example(&[2, 3], &[Some(0.0), Some(0.25)], 2.0),
        example(&[2, 22, 1, 1, 8, 15, 4, 4, 17, 20, 11, 3], &[None, Some(1.0)], 0.5),
    ]
}

/// Loss and gradients of `blocks` over [`examples`], in one part.
fn run(base: &Encoder, blocks: &Blocks, rate: f32) -> Workspace {
    let gradients = blocks.iter().map(|block| vec![0.0; block.len()]).collect();
    let mut workspace = Workspace { gradients, ..Workspace::default() };
    run_part(base, blocks, &examples(), &[0, 1, 2], 0.3, Dropout::new(rate, 99), &mut workspace);
    workspace
}

#[test]
fn every_gradient_is_the_slope_of_the_loss() {
    let base = tiny();
    let options = TrainOptions { heads: 2, seed: 4, ..TrainOptions::default() };
    let mut blocks = first_blocks(&base, &options);
    // A larger head than a real one, so that its slopes stand out of the rounding.
    blocks[3].iter_mut().for_each(|number| *number *= 20.0);
    let mut random = Random::new(3, &[]);
    for rate in [0.0, 0.3] {
        let gradients = run(&base, &blocks, rate).gradients;
        for (index, block) in gradients.iter().enumerate() {
            for (name, range) in tensors(&base, index) {
                let gradient = &block[range.clone()];
                let any: Vec<f32> = gradient.iter().map(|_| random.signed_unit()).collect();
                for direction in [gradient.to_vec(), any] {
                    let length = direction.iter().map(|number| number * number).sum::<f32>().sqrt();
                    let expected: f32 =
                        gradient.iter().zip(&direction).map(|(a, b)| a * b / length).sum();
                    // A key's bias cannot change a softmax: its slope is zero, and its gradient is only rounding.
                    if name.contains("key.bias") {
                        assert!(expected.abs() < 1e-6, "{name}: {expected}");
                        continue;
                    }
                    assert!(length > 1e-4, "{name} has no gradient at all");
                    let [up, down] = [1e-2, -1e-2].map(|step: f32| {
                        let mut moved = blocks.clone();
                        let numbers = moved[index][range.clone()].iter_mut();
                        numbers.zip(&direction).for_each(|(number, along)| {
                            *number += step * along / length;
                        });
                        run(&base, &moved, rate).loss
                    });
                    let slope = (up - down) / 2e-2;
                    let error = (slope - f64::from(expected)).abs();
                    assert!(
                        error < 1e-4 + 0.02 * slope.abs(),
                        "{name}, dropout {rate}: {slope} {expected}"
                    );
                }
            }
        }
    }
}

fn tensors(base: &Encoder, index: usize) -> Vec<(String, Range<usize>)> {
    let config = base.config();
    let fields = match index {
        0 => embedding_fields(config),
        3 => vec![
            Field { name: "head.weight".to_owned(), shape: vec![2, config.width] },
            Field { name: "head.bias".to_owned(), shape: vec![2] },
        ],
        _ => layer_fields(config, index - 1),
    };
    let mut start = 0;
    fields
        .into_iter()
        .map(|field| {
            let range = start..start + field.len();
            start = range.end;
            (field.name, range)
        })
        .collect()
}

#[test]
fn the_recorded_forward_pass_is_the_one_that_classifies() {
    let base = tiny();
    let blocks = first_blocks(&base, &TrainOptions { heads: 2, ..TrainOptions::default() });
    // The last one is long enough that inference shares its heads among threads.
    let texts: [Vec<u32>; 4] =
        [1, 2, 12, 80].map(|count| (0..count).map(|id| (id * 5 + count) % 23).collect());
    let ids: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    let batch = Batch::new(ids.iter().copied());
    let dropout = Dropout::new(0.0, 1);
    let run = Run { config: base.config(), blocks: &blocks, batch: &batch, dropout };
    let (_, means) = record(run, &mut Tape::default());
    let vectors = base.mean_vectors(&ids).unwrap();
    for (one, other) in means.concat().iter().zip(&vectors.concat()) {
        assert!((one - other).abs() < 1e-5, "{one} {other}");
    }
}

#[test]
fn shards_and_parts_hold_every_sample_once() {
    let examples: Vec<Example> = (0..97)
        .map(|n: usize| Example { ids: vec![0; 1 + n * n % 400], targets: vec![], weight: 1.0 })
        .collect();
    let batch: Vec<usize> = (0..97).rev().collect();
    for count in [1, 2, 3, 7, 64] {
        let cuts = cut_evenly(&batch, &examples, count);
        assert_eq!((cuts.len(), cuts.concat()), (count, batch.clone()));
        let parts: Vec<&[usize]> = cuts.iter().flat_map(|cut| parts(cut, &examples)).collect();
        assert_eq!(parts.concat(), batch);
        for part in parts {
            let tokens: usize = part.iter().map(|index| examples[*index].ids.len()).sum();
            assert!(tokens <= PART_TOKENS || part.len() == 1, "{tokens}");
        }
    }
    assert_eq!(cut_evenly(&[], &examples, 2), [&[] as &[usize], &[]]);
}

#[test]
fn cross_entropy_keeps_its_digits_far_out() {
    for (logit, target, expected) in [
        (0.0, 1.0, std::f32::consts::LN_2),
        (200.0, 1.0, 0.0),
        (-200.0, 1.0, 200.0),
        (200.0, 0.5, 100.0),
        (2.0, 0.0, 2.126_928),
    ] {
        assert!((cross_entropy(logit, target) - expected).abs() < 1e-5, "{logit} {target}");
    }
}
