//! A decoder of two layers with invented weights, and the same in double precision as the papers write it.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "tests; each uses a part")]

use std::collections::BTreeMap;

use super::gguf::{File, Q8_0, q8};

pub const WIDTH: usize = 64;
pub const INNER: usize = 96;
pub const HEADS: usize = 4;
pub const SHARED: usize = 2;
pub const EACH: usize = 16;
pub const LAYERS: usize = 2;
pub const CONTEXT: usize = 160;
const EPSILON: f64 = 1e-5;
const BASE: f64 = 1000.0;

/// The marks, by id.
pub const MARKS: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

/// As small instruction models have it, with a system turn of its own.
pub const TEMPLATE: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
{{ '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}{% endif %}\
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// The character that stands for each byte in a vocabulary.
pub fn alphabet() -> Vec<char> {
    let mut others = 256..;
    (0..256)
        .map(|byte: u32| match byte {
            33..=126 | 161..=172 | 174..=255 => byte,
            _ => others.next().unwrap(),
        })
        .map(|code| char::from_u32(code).unwrap())
        .collect()
}

/// The marks, every byte, and a few pairs.
pub fn vocabulary() -> (Vec<String>, Vec<String>) {
    let merges = ["h e", "l l", "he ll", "hell o", "Ġ t", "Ġt he", "< |", "| >"];
    let mut tokens: Vec<String> = MARKS.map(str::to_owned).into();
    tokens.extend(alphabet().iter().map(char::to_string));
    tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    (tokens, merges.map(str::to_owned).into())
}

/// The weights in double precision, by their names.
pub type Weights = BTreeMap<String, Vec<f64>>;

/// The file of a model, and its weights.
pub fn model(architecture: &str, tied: bool) -> (File, Weights) {
    let (tokens, merges) = vocabulary();
    let count = tokens.len();
    let kinds: Vec<i32> = (0..count).map(|id| if id < MARKS.len() { 3 } else { 1 }).collect();
    let mut file = File::default().text("general.architecture", architecture);
    for (key, value) in [
        ("block_count", LAYERS),
        ("context_length", CONTEXT),
        ("embedding_length", WIDTH),
        ("feed_forward_length", INNER),
        ("attention.head_count", HEADS),
        ("attention.head_count_kv", SHARED),
    ] {
        file = file.number(&format!("{architecture}.{key}"), u32::try_from(value).unwrap());
    }
    #[expect(clippy::cast_possible_truncation, reason = "as files have it")]
    let mut file = file
        .float(&format!("{architecture}.rope.freq_base"), BASE as f32)
        .float(&format!("{architecture}.attention.layer_norm_rms_epsilon"), EPSILON as f32)
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", if architecture == "llama" { "smollm" } else { "qwen2" })
        .texts("tokenizer.ggml.tokens", &tokens)
        .integers("tokenizer.ggml.token_type", &kinds)
        .texts("tokenizer.ggml.merges", &merges)
        .number("tokenizer.ggml.bos_token_id", 1)
        .number("tokenizer.ggml.eos_token_id", 2)
        .text("tokenizer.chat_template", TEMPLATE);
    let mut weights = Weights::new();
    let mut state = 11_u32;
    for (name, shape) in shapes(architecture, count, tied) {
        let numbers: usize = shape.iter().product();
        let levels: Vec<i8> = (0..numbers)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                i8::from_le_bytes([state.to_le_bytes()[3]])
            })
            .collect();
        let name = format!("{name}.weight").replace(".bias.weight", ".bias");
        if shape.len() == 1 {
            let offset = if name.ends_with("norm.weight") { 1.0 } else { 0.0 };
            let numbers: Vec<f32> =
                levels.iter().map(|level| offset + f32::from(*level) / 512.0).collect();
            file = file.floats(&name, &shape, &numbers);
            weights.insert(name, numbers.into_iter().map(f64::from).collect());
        } else {
            let (bytes, numbers) = q8(&levels, 9);
            file = file.tensor(&name, &shape, Q8_0, bytes);
            weights.insert(name, numbers);
        }
    }
    (file, weights)
}

fn shapes(architecture: &str, count: usize, tied: bool) -> Vec<(String, Vec<usize>)> {
    let (queries, keys) = (HEADS * EACH, SHARED * EACH);
    let mut shapes = vec![
        ("token_embd".to_owned(), vec![count, WIDTH]),
        ("output_norm".to_owned(), vec![WIDTH]),
    ];
    if !tied {
        shapes.push(("output".to_owned(), vec![count, WIDTH]));
    }
    for layer in 0..LAYERS {
        let biases = [("attn_q.bias", queries), ("attn_k.bias", keys), ("attn_v.bias", keys)];
        let mut parts = vec![
            ("attn_norm", vec![WIDTH]),
            ("attn_q", vec![queries, WIDTH]),
            ("attn_k", vec![keys, WIDTH]),
            ("attn_v", vec![keys, WIDTH]),
        ];
        if architecture == "qwen2" {
            parts.extend(biases.map(|(name, size)| (name, vec![size])));
        }
        parts.extend([
            ("attn_output", vec![WIDTH, queries]),
            ("ffn_norm", vec![WIDTH]),
            ("ffn_gate", vec![INNER, WIDTH]),
            ("ffn_up", vec![INNER, WIDTH]),
            ("ffn_down", vec![WIDTH, INNER]),
        ]);
        shapes
            .extend(parts.into_iter().map(|(name, shape)| (format!("blk.{layer}.{name}"), shape)));
    }
    shapes
}

/// The logits after the last of `ids`, one number at a time.
pub fn reference(architecture: &str, weights: &Weights, ids: &[u32]) -> Vec<f64> {
    let embeddings = &weights["token_embd.weight"];
    let mut hidden: Vec<Vec<f64>> = ids
        .iter()
        .map(|id| embeddings[usize::try_from(*id).unwrap() * WIDTH..][..WIDTH].to_vec())
        .collect();
    for layer in 0..LAYERS {
        let layer = ReferenceLayer { weights, layer };
        let (mut queries, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (place, token) in hidden.iter().enumerate() {
            let normed = norm(token, layer.gain("attn_norm"));
            queries.push(rotate(architecture, &layer.times("attn_q", &normed), place));
            keys.push(rotate(architecture, &layer.times("attn_k", &normed), place));
            values.push(layer.times("attn_v", &normed));
        }
        for place in 0..ids.len() {
            let mut context = Vec::new();
            for head in 0..HEADS {
                let shared = head / (HEADS / SHARED) * EACH;
                let query = &queries[place][head * EACH..][..EACH];
                let scores: Vec<f64> = keys[..=place]
                    .iter()
                    .map(|key| dot(query, &key[shared..][..EACH]) / (EACH as f64).sqrt())
                    .collect();
                let shares = softmax(&scores);
                for at in 0..EACH {
                    let parts = shares.iter().zip(&values);
                    context.push(parts.map(|(share, value)| share * value[shared + at]).sum());
                }
            }
            let token = &mut hidden[place];
            add(token, &layer.times("attn_output", &context));
            let normed = norm(token, layer.gain("ffn_norm"));
            let gate = layer.times("ffn_gate", &normed).into_iter().map(|x| x / (1.0 + (-x).exp()));
            let inner: Vec<f64> =
                gate.zip(layer.times("ffn_up", &normed)).map(|(gate, up)| gate * up).collect();
            add(token, &layer.times("ffn_down", &inner));
        }
    }
    let output = weights.get("output.weight").unwrap_or(embeddings);
    product(output, &norm(hidden.last().unwrap(), &weights["output_norm.weight"]))
}

/// One layer of the reference model.
struct ReferenceLayer<'w> {
    weights: &'w Weights,
    layer: usize,
}

impl ReferenceLayer<'_> {
    fn get(&self, name: &str) -> Option<&Vec<f64>> {
        self.weights.get(&format!("blk.{}.{name}", self.layer))
    }

    fn gain(&self, name: &str) -> &[f64] {
        self.get(&format!("{name}.weight")).unwrap()
    }

    /// The product of a matrix and `input`, plus the bias if there is one.
    fn times(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let mut out = product(self.gain(name), input);
        if let Some(bias) = self.get(&format!("{name}.bias")) {
            out.iter_mut().zip(bias).for_each(|(out, bias)| *out += bias);
        }
        out
    }
}

/// `count` samples of a sine wave.
fn wave(count: usize, step: f32) -> Vec<f32> {
    (0..count).map(|at| (at as f32 * step).sin() * 0.25).collect()
}

pub fn product(matrix: &[f64], input: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(input.len()).map(|row| dot(row, input)).collect()
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

fn add(to: &mut [f64], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

fn norm(token: &[f64], gain: &[f64]) -> Vec<f64> {
    let root = (dot(token, token) / token.len() as f64 + EPSILON).sqrt();
    token.iter().zip(gain).map(|(number, gain)| number / root * gain).collect()
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let all: f64 = scores.iter().map(|score| score.exp()).sum();
    scores.iter().map(|score| score.exp() / all).collect()
}

/// Every pair of a head as a complex number, turned.
fn rotate(architecture: &str, heads: &[f64], place: usize) -> Vec<f64> {
    let mut out = heads.to_vec();
    for (out, head) in out.chunks_exact_mut(EACH).zip(heads.chunks_exact(EACH)) {
        for pair in 0..EACH / 2 {
            let angle = place as f64 / BASE.powf(2.0 * pair as f64 / EACH as f64);
            let (real, imaginary) = match architecture {
                "llama" => (2 * pair, 2 * pair + 1),
                _ => (pair, pair + EACH / 2),
            };
            out[real] = head[real] * angle.cos() - head[imaginary] * angle.sin();
            out[imaginary] = head[real] * angle.sin() + head[imaginary] * angle.cos();
        }
    }
    out
}

/// An adapter of rank 2 for two matrices, and what it adds to their weights.
pub fn adapter(alpha: f32) -> (File, BTreeMap<String, Vec<f64>>) {
    let rank = 2;
    let mut file = File::default()
        .text("general.type", "adapter")
        .text("general.architecture", "llama")
        .text("adapter.type", "lora")
        .float("adapter.lora.alpha", alpha);
    let mut added = BTreeMap::new();
    for (name, outputs, inputs) in
        [("blk.0.attn_k.weight", SHARED * EACH, WIDTH), ("blk.1.ffn_down.weight", WIDTH, INNER)]
    {
        let (down, up) = (wave(rank * inputs, 0.37), wave(outputs * rank, 0.81));
        file = file.floats(&format!("{name}.lora_a"), &[rank, inputs], &down);
        file = file.floats(&format!("{name}.lora_b"), &[outputs, rank], &up);
        let strength = f64::from(alpha) / rank as f64;
        let elements = (0..outputs * inputs).map(|place| {
            let (output, input) = (place / inputs, place % inputs);
            let parts = (0..rank)
                .map(|at| f64::from(up[output * rank + at]) * f64::from(down[at * inputs + input]));
            parts.sum::<f64>() * strength
        });
        added.insert(name.to_owned(), elements.collect());
    }
    (file, added)
}
