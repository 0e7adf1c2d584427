//! The decoder against the formulas in double precision, and its adapters.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "common/gguf.rs"]
mod gguf;
#[path = "common/tiny_decoder.rs"]
mod tiny_decoder;

use std::sync::Arc;

use custody_models::decoder::{Decoder, LoraAdapter, Token, TokenVocabulary};
use custody_models::error::ModelError;
use custody_models::gguf::Gguf;
use gguf::File;
use tiny_decoder::{CONTEXT, adapter, model, reference};

/// How far a logit may be off, of the greatest.
const CLOSE: f64 = 1e-3;
const IDS: [u32; 9] = [1, 70, 105, 3, 258, 2, 262, 33, 128];

fn open(file: &File) -> Result<Decoder, ModelError> {
    let bytes = file.bytes();
    Decoder::from_gguf(&Gguf::parse(&bytes)?)
}

/// The error of the file or of the model.
fn message(error: &ModelError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The maximum difference.
fn difference(found: &[f32], wanted: &[f64]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let differences =
        found.iter().zip(wanted).map(|(found, wanted)| (f64::from(*found) - wanted).abs());
    differences.fold(0.0, f64::max)
}

#[test]
fn logits_match_the_reference() {
    for architecture in ["llama", "qwen2"] {
        for tied in [true, false] {
            let (file, weights) = model(architecture, tied);
            let decoder = open(&file).unwrap();
            let wanted = reference(architecture, &weights, &IDS);
            let spread = wanted.iter().fold(0.0_f64, |most, logit| most.max(logit.abs()));
            let found = decoder.start().read(&IDS).unwrap();
            let off = difference(&found, &wanted);
            assert!(off < CLOSE * spread, "{architecture}: {off} of {spread}");

            let mut reading = decoder.start();
            let one_by_one = IDS.map(|id| reading.read(&[id]).unwrap());
            let off = difference(&one_by_one[8], &wanted);
            assert!(off < CLOSE * spread, "{architecture}, one by one: {off} of {spread}");
            assert_eq!(reading.tokens(), IDS.len());

            let mut reading = decoder.start();
            reading.read(&IDS[..4]).unwrap();
            let off = difference(&reading.read(&IDS[4..]).unwrap(), &wanted);
            assert!(off < CLOSE * spread, "{architecture}, in two parts: {off} of {spread}");
        }
    }
}

/// Longer than one batch of tokens and one attention block.
#[test]
fn logits_of_a_long_text_match_the_reference() {
    let (file, weights) = model("llama", true);
    let longer = file.without("llama.context_length").number("llama.context_length", 700);
    let ids: Vec<u32> = (0..600).map(|at| at * 31 % 260).collect();
    let wanted = reference("llama", &weights, &ids);
    let spread = wanted.iter().fold(0.0_f64, |most, logit| most.max(logit.abs()));
    let found = open(&longer).unwrap().start().read(&ids).unwrap();
    assert!(difference(&found, &wanted) < CLOSE * spread);
}

#[test]
fn logits_do_not_depend_on_the_number_of_threads() {
    let (file, _) = model("llama", true);
    let decoder = open(&file).unwrap();
    let ids: Vec<u32> = (0..150).map(|at| at * 31 % 260).collect();
    let [one, again, two, three] = [1, 1, 2, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut reading = decoder.start();
            let prompt = reading.read(&ids).unwrap();
            bits(&[prompt, reading.read(&[5]).unwrap(), reading.read(&[6]).unwrap()].concat())
        })
    });
    for (threads, logits) in [(1, again), (2, two), (3, three)] {
        assert_eq!(logits, one, "{threads} threads");
    }
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

/// The logits after [`IDS`] and after one more token.
fn logits_of(decoder: &Decoder) -> [Vec<f32>; 2] {
    let mut reading = decoder.start();
    [reading.read(&IDS).unwrap(), reading.read(&[40]).unwrap()]
}

#[test]
fn invalid_tokens_are_rejected() {
    let (file, _) = model("llama", true);
    let decoder = open(&file).unwrap();
    let too_many = vec![5; CONTEXT + 1];
    let unknown = [u32::try_from(decoder.config().vocabulary).unwrap()];
    for ids in [&[][..], &unknown, &too_many] {
        assert!(matches!(decoder.start().read(ids), Err(ModelError::Tokens { .. })));
    }
    let mut reading = decoder.start();
    reading.read(&too_many[1..]).unwrap();
    assert!(matches!(reading.read(&[5]), Err(ModelError::Tokens { .. })));
}

#[test]
fn unsupported_models_are_rejected() {
    let (file, _) = model("llama", true);
    let cases = [
        (
            file.clone().without("general.architecture").text("general.architecture", "gemma"),
            "is not supported; use `llama` or `qwen2`",
        ),
        (file.clone().without("llama.block_count"), "does not say `llama.block_count`"),
        (
            file.clone().without("llama.block_count").number("llama.block_count", 3),
            "`blk.2.attn_norm.weight`",
        ),
        (
            file.clone().without("llama.block_count").number("llama.block_count", 1),
            "is not supported",
        ),
        (file.clone().without("blk.1.ffn_up.weight"), "`blk.1.ffn_up.weight` is missing"),
        (
            file.clone()
                .without("llama.attention.head_count")
                .number("llama.attention.head_count", 0),
            "between 1",
        ),
        (
            file.clone()
                .without("llama.attention.head_count")
                .number("llama.attention.head_count", 3),
            "divide",
        ),
        (
            file.clone().without("llama.context_length").number("llama.context_length", u32::MAX),
            "between 1",
        ),
        (
            file.clone().without("llama.embedding_length").number("llama.embedding_length", 96),
            "shape",
        ),
        (file.clone().number("llama.expert_count", 8), "mixture of experts"),
        (file.clone().text("llama.rope.scaling.type", "yarn"), "`yarn`"),
        (file.clone().floats("blk.0.attn_q_norm.weight", &[16], &[1.0; 16]), "is not supported"),
        (file.clone().number("llama.attention.value_length", 8), "different widths"),
        (
            file.clone().without("output_norm.weight").floats(
                "output_norm.weight",
                &[64],
                &[f32::NAN; 64],
            ),
            "finite",
        ),
    ];
    for (file, expected) in cases {
        let error = open(&file).unwrap_err();
        let message = message(&error);
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn an_adapter_adds_its_product_and_can_be_detached() {
    let (file, mut weights) = model("llama", true);
    let mut decoder = open(&file).unwrap();
    let (adapter_file, added) = adapter(6.0);
    let adapter = Arc::new(LoraAdapter::from_bytes(&adapter_file.bytes()).unwrap());
    let before = logits_of(&decoder);

    decoder.attach("taught", Arc::clone(&adapter), 0.5).unwrap();
    for (name, added) in added {
        let weight = weights.get_mut(&name).unwrap();
        weight.iter_mut().zip(added).for_each(|(weight, added)| *weight += 0.5 * added);
    }
    let wanted = reference("llama", &weights, &IDS);
    let spread = wanted.iter().fold(0.0_f64, |most, logit| most.max(logit.abs()));
    let [found, after_one] = logits_of(&decoder);
    let off = difference(&found, &wanted);
    assert!(off < CLOSE * spread, "{off} of {spread}");
    let moved = difference(&before[0], &wanted);
    assert!(moved > 0.1 * spread, "the adapter moved the logits by {moved} of {spread} only");
    let next = reference("llama", &weights, &[&IDS[..], &[40]].concat());
    assert!(difference(&after_one, &next) < CLOSE * spread);

    // Attached again under its name, it does not count twice.
    decoder.attach("taught", Arc::clone(&adapter), 0.5).unwrap();
    assert_eq!(logits_of(&decoder), [found, after_one]);
    decoder.attach("other", adapter, 1.0).unwrap();
    assert_eq!(decoder.adapters().collect::<Vec<_>>(), ["taught", "other"]);
    assert!(decoder.detach("other") && decoder.detach("taught") && !decoder.detach("taught"));
    assert_eq!(bits(&logits_of(&decoder).concat()), bits(&before.concat()));
}

/// `good` with another pair of matrices in place of its first.
fn with_pair(good: &File, name: &str, rank: usize, up_rank: usize) -> File {
    good.clone()
        .without("blk.0.attn_k.weight.lora_a")
        .without("blk.0.attn_k.weight.lora_b")
        .floats(&format!("{name}.lora_a"), &[rank, 64], &vec![0.0; rank * 64])
        .floats(&format!("{name}.lora_b"), &[64, up_rank], &vec![0.0; 64 * up_rank])
}

#[test]
fn mismatched_adapters_are_rejected() {
    let (file, _) = model("llama", true);
    let (good, _) = adapter(6.0);
    let cases = [
        (good.clone().without("adapter.type").text("adapter.type", "other"), "`adapter.type`"),
        (good.clone().without("adapter.lora.alpha"), "`adapter.lora.alpha`"),
        (good.clone().without("blk.0.attn_k.weight.lora_b"), "lora_b` is missing"),
        (good.clone().without("blk.0.attn_k.weight.lora_a"), "lora_a` is missing"),
        (good.clone().floats("token_embd.weight", &[1], &[0.0]), "no part of an adapter"),
        (
            good.clone().without("general.architecture").text("general.architecture", "qwen2"),
            "`qwen2`",
        ),
        (with_pair(&good, "blk.0.attn_q.weight", 2, 3), "ranks 2 and 3"),
        (with_pair(&good, "blk.0.attn_k.weight", 2, 2), "`blk.0.attn_k`"),
        (with_pair(&good, "blk.2.attn_q.weight", 2, 2), "`blk.2.attn_q`"),
        (with_pair(&good, "token_embd.weight", 2, 2), "`token_embd`"),
    ];
    for (adapter, expected) in cases {
        let mut decoder = open(&file).unwrap();
        let attached = LoraAdapter::from_bytes(&adapter.bytes())
            .and_then(|adapter| decoder.attach("bad", Arc::new(adapter), 1.0));
        let message = message(&attached.unwrap_err());
        assert!(message.contains(expected), "{expected}: {message}");
        assert_eq!(decoder.adapters().count(), 0);
    }
    let adapter = Arc::new(LoraAdapter::from_bytes(&good.bytes()).unwrap());
    assert!(open(&file).unwrap().attach("endless", adapter, f32::INFINITY).is_err());
}

fn vocabulary(file: &File) -> Result<TokenVocabulary, ModelError> {
    let bytes = file.bytes();
    TokenVocabulary::from_gguf(&Gguf::parse(&bytes)?)
}

/// The bytes of one token.
fn token_bytes(vocabulary: &TokenVocabulary, id: u32) -> Vec<u8> {
    match vocabulary.token(id) {
        Some(Token::Text(bytes)) => bytes.to_vec(),
        other => panic!("{id} is {other:?}"),
    }
}

/// The text of each token.
fn spelt(vocabulary: &TokenVocabulary, ids: &[u32]) -> Vec<String> {
    ids.iter()
        .map(|id| String::from_utf8_lossy(&token_bytes(vocabulary, *id)).into_owned())
        .collect()
}

#[test]
fn texts_are_split_and_merged_as_the_file_specifies() {
    let cases: [(&str, &str, &[&str]); 5] = [
        ("llama", "hello the 12", &["hello", " the", " ", "1", "2"]),
        ("qwen2", "hello the 12", &["hello", " the", " ", "1", "2"]),
        ("llama", "é", &["\u{fffd}", "\u{fffd}"]),
        ("llama", "", &[]),
        ("llama", "hell o", &["hell", " ", "o"]),
    ];
    for (architecture, text, expected) in cases {
        let vocabulary = vocabulary(&model(architecture, true).0).unwrap();
        let ids = vocabulary.encode(text).unwrap();
        assert_eq!(spelt(&vocabulary, &ids), expected, "{architecture}: {text}");
    }
}

#[test]
fn text_never_becomes_a_special_token() {
    for architecture in ["llama", "qwen2"] {
        let vocabulary = vocabulary(&model(architecture, true).0).unwrap();
        for text in ["<|im_end|>", "<|im_start|>system", "a<|endoftext|>b", "<|im_end|><|im_end|>"]
        {
            let ids = vocabulary.encode(text).unwrap();
            assert_eq!(spelt(&vocabulary, &ids).concat(), text);
        }
    }
}

fn with_tokens(file: &File, tokens: &[String]) -> File {
    file.clone().without("tokenizer.ggml.tokens").texts("tokenizer.ggml.tokens", tokens)
}

fn with_merge(file: &File, merges: &[String], merge: &str) -> File {
    let merges = [merges, &[merge.to_owned()]].concat();
    file.clone().without("tokenizer.ggml.merges").texts("tokenizer.ggml.merges", &merges)
}

#[test]
fn inconsistent_vocabularies_are_rejected() {
    let (file, _) = model("llama", true);
    let (tokens, merges) = tiny_decoder::vocabulary();
    let mut twice = tokens.clone();
    twice[20] = twice[21].clone();
    let mut strange = tokens.clone();
    strange[20] = "☃".to_owned();
    let cases = [
        (with_tokens(&file, &tokens[1..]), "kinds of tokens"),
        (with_tokens(&file, &twice), "there twice"),
        (with_tokens(&file, &strange), "no text of bytes"),
        (with_merge(&file, &merges, "hello hello"), "no two tokens that make a third"),
        (with_merge(&file, &merges, "a zzz"), "no two tokens that make a third"),
        (with_merge(&file, &merges, "none"), "no two tokens that make a third"),
        (with_merge(&file, &merges, "<|im_ end|>"), "no two tokens that make a third"),
        (
            file.clone().without("tokenizer.ggml.model").text("tokenizer.ggml.model", "llama"),
            "`llama`",
        ),
        (file.clone().without("tokenizer.ggml.pre").text("tokenizer.ggml.pre", "odd"), "`odd`"),
        (
            file.clone()
                .without("tokenizer.ggml.eos_token_id")
                .number("tokenizer.ggml.eos_token_id", 9999),
            "9999",
        ),
        (file.clone().flag("tokenizer.ggml.add_space_prefix", true), "space"),
    ];
    for (file, expected) in cases {
        let message = vocabulary(&file).unwrap_err().to_string();
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn missing_bytes_are_replaced() {
    let (tokens, _) = tiny_decoder::vocabulary();
    // Vocabularies without the letter `q` and without U+FFFD's first byte.
    let (file, _) = model("llama", true);
    for (bytes, expected) in
        [(&b""[..], "aqua é"), (b"q", "a\u{fffd}ua é"), (&[b'q', 0xef], "aua é")]
    {
        let names: Vec<String> = bytes
            .iter()
            .map(|byte| tiny_decoder::alphabet()[usize::from(*byte)].to_string())
            .collect();
        let kinds: Vec<i32> = (0..tokens.len())
            .map(|id| if id < 3 || names.contains(&tokens[id]) { 3 } else { 1 })
            .collect();
        let file = file.clone().without("tokenizer.ggml.token_type");
        let vocabulary = vocabulary(&file.integers("tokenizer.ggml.token_type", &kinds)).unwrap();
        let ids = vocabulary.encode("aqua é").unwrap();
        let bytes: Vec<u8> = ids.iter().flat_map(|id| token_bytes(&vocabulary, *id)).collect();
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
