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

/// What is wrong, with the file or else.
fn told(error: &ModelError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The greatest difference.
fn difference(found: &[f32], wanted: &[f64]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let each = found.iter().zip(wanted).map(|(found, wanted)| (f64::from(*found) - wanted).abs());
    each.fold(0.0, f64::max)
}

#[test]
fn logits_are_those_of_the_formulas() {
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

/// Longer than what is read together, and than what is attended to together.
#[test]
fn a_long_text_is_as_its_formulas_too() {
    let (file, weights) = model("llama", true);
    let longer = file.without("llama.context_length").number("llama.context_length", 700);
    let ids: Vec<u32> = (0..600).map(|at| at * 31 % 260).collect();
    let wanted = reference("llama", &weights, &ids);
    let spread = wanted.iter().fold(0.0_f64, |most, logit| most.max(logit.abs()));
    let found = open(&longer).unwrap().start().read(&ids).unwrap();
    assert!(difference(&found, &wanted) < CLOSE * spread);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let (file, _) = model("llama", true);
    let decoder = open(&file).unwrap();
    let ids: Vec<u32> = (0..150).map(|at| at * 31 % 260).collect();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut reading = decoder.start();
            let prompt = reading.read(&ids).unwrap();
            [prompt, reading.read(&[5]).unwrap(), reading.read(&[6]).unwrap()].concat()
        })
    };
    let bits = |logits: Vec<f32>| logits.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    let one = bits(run(1));
    for threads in [1, 2, 3] {
        assert_eq!(bits(run(threads)), one, "{threads} threads");
    }
}

#[test]
fn tokens_that_the_model_cannot_take_are_refused() {
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
fn a_model_that_would_be_computed_wrongly_is_refused() {
    let (file, _) = model("llama", true);
    let again = |key: &str| file.clone().without(key);
    let cases = [
        (again("general.architecture").text("general.architecture", "gemma"), "no architecture"),
        (again("llama.block_count"), "does not say `llama.block_count`"),
        (again("llama.block_count").number("llama.block_count", 3), "`blk.2.attn_norm.weight`"),
        (again("llama.block_count").number("llama.block_count", 1), "has no use"),
        (again("blk.1.ffn_up.weight"), "`blk.1.ffn_up.weight` is missing"),
        (again("llama.attention.head_count").number("llama.attention.head_count", 0), "between 1"),
        (again("llama.attention.head_count").number("llama.attention.head_count", 3), "divide"),
        (again("llama.context_length").number("llama.context_length", u32::MAX), "between 1"),
        (again("llama.embedding_length").number("llama.embedding_length", 96), "shape"),
        (file.clone().number("llama.expert_count", 8), "mixture of experts"),
        (file.clone().text("llama.rope.scaling.type", "yarn"), "`yarn`"),
        (file.clone().floats("blk.0.attn_q_norm.weight", &[16], &[1.0; 16]), "has no use"),
        (file.clone().number("llama.attention.value_length", 8), "different widths"),
        (
            again("output_norm.weight").floats("output_norm.weight", &[64], &[f32::NAN; 64]),
            "finite",
        ),
    ];
    for (file, expected) in cases {
        let error = open(&file).unwrap_err();
        let told = told(&error);
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[test]
fn an_adapter_adds_its_product_and_leaves_without_a_trace() {
    let (file, mut weights) = model("llama", true);
    let mut decoder = open(&file).unwrap();
    let (adapter_file, added) = adapter(6.0);
    let adapter = Arc::new(LoraAdapter::from_bytes(&adapter_file.bytes()).unwrap());
    let run = |decoder: &Decoder| {
        let mut reading = decoder.start();
        [reading.read(&IDS).unwrap(), reading.read(&[40]).unwrap()]
    };
    let before = run(&decoder);

    decoder.attach("taught", Arc::clone(&adapter), 0.5).unwrap();
    for (name, added) in added {
        let weight = weights.get_mut(&name).unwrap();
        weight.iter_mut().zip(added).for_each(|(weight, added)| *weight += 0.5 * added);
    }
    let wanted = reference("llama", &weights, &IDS);
    let spread = wanted.iter().fold(0.0_f64, |most, logit| most.max(logit.abs()));
    let [found, after_one] = run(&decoder);
    let off = difference(&found, &wanted);
    assert!(off < CLOSE * spread, "{off} of {spread}");
    let moved = difference(&before[0], &wanted);
    assert!(moved > 0.1 * spread, "the adapter moved the logits by {moved} of {spread} only");
    let next = reference("llama", &weights, &[&IDS[..], &[40]].concat());
    assert!(difference(&after_one, &next) < CLOSE * spread);

    // Attached again under its name, it does not count twice.
    decoder.attach("taught", Arc::clone(&adapter), 0.5).unwrap();
    assert_eq!(run(&decoder), [found, after_one]);
    decoder.attach("other", adapter, 1.0).unwrap();
    assert_eq!(decoder.adapters().collect::<Vec<_>>(), ["taught", "other"]);
    assert!(decoder.detach("other") && decoder.detach("taught") && !decoder.detach("taught"));
    let bits =
        |logits: [Vec<f32>; 2]| logits.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(run(&decoder)), bits(before));
}

#[test]
fn an_adapter_that_does_not_fit_is_refused() {
    let (file, _) = model("llama", true);
    let (good, _) = adapter(6.0);
    let pair = |name: &str, rank: usize, up_rank: usize| {
        let bare = good
            .clone()
            .without("blk.0.attn_k.weight.lora_a")
            .without("blk.0.attn_k.weight.lora_b");
        bare.floats(&format!("{name}.lora_a"), &[rank, 64], &vec![0.0; rank * 64]).floats(
            &format!("{name}.lora_b"),
            &[64, up_rank],
            &vec![0.0; 64 * up_rank],
        )
    };
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
        (pair("blk.0.attn_q.weight", 2, 3), "ranks 2 and 3"),
        (pair("blk.0.attn_k.weight", 2, 2), "`blk.0.attn_k`"),
        (pair("blk.2.attn_q.weight", 2, 2), "`blk.2.attn_q`"),
        (pair("token_embd.weight", 2, 2), "`token_embd`"),
    ];
    for (adapter, expected) in cases {
        let mut decoder = open(&file).unwrap();
        let attached = LoraAdapter::from_bytes(&adapter.bytes())
            .and_then(|adapter| decoder.attach("bad", Arc::new(adapter), 1.0));
        let told = told(&attached.unwrap_err());
        assert!(told.contains(expected), "{expected}: {told}");
        assert_eq!(decoder.adapters().count(), 0);
    }
    let adapter = Arc::new(LoraAdapter::from_bytes(&good.bytes()).unwrap());
    assert!(open(&file).unwrap().attach("endless", adapter, f32::INFINITY).is_err());
}

fn vocabulary(file: &File) -> Result<TokenVocabulary, ModelError> {
    let bytes = file.bytes();
    TokenVocabulary::from_gguf(&Gguf::parse(&bytes)?)
}

/// What tokens say, each by itself.
fn spelt(vocabulary: &TokenVocabulary, ids: &[u32]) -> Vec<String> {
    let say = |id: &u32| match vocabulary.token(*id) {
        Some(Token::Text(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{id} is {other:?}"),
    };
    ids.iter().map(say).collect()
}

#[test]
fn texts_are_cut_and_paired_as_the_file_says() {
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
fn no_text_becomes_a_mark() {
    for architecture in ["llama", "qwen2"] {
        let vocabulary = vocabulary(&model(architecture, true).0).unwrap();
        for text in ["<|im_end|>", "<|im_start|>system", "a<|endoftext|>b", "<|im_end|><|im_end|>"]
        {
            let ids = vocabulary.encode(text).unwrap();
            assert_eq!(spelt(&vocabulary, &ids).concat(), text);
        }
    }
}

#[test]
fn a_vocabulary_that_contradicts_itself_is_refused() {
    let (file, _) = model("llama", true);
    let (tokens, merges) = tiny_decoder::vocabulary();
    let again = |key: &str| file.clone().without(key);
    let with_tokens =
        |tokens: &[String]| again("tokenizer.ggml.tokens").texts("tokenizer.ggml.tokens", tokens);
    let with_merge = |merge: &str| {
        let merges = [&merges[..], &[merge.to_owned()]].concat();
        again("tokenizer.ggml.merges").texts("tokenizer.ggml.merges", &merges)
    };
    let mut twice = tokens.clone();
    twice[20] = twice[21].clone();
    let mut strange = tokens.clone();
    strange[20] = "☃".to_owned();
    let cases = [
        (with_tokens(&tokens[1..]), "kinds of tokens"),
        (with_tokens(&twice), "there twice"),
        (with_tokens(&strange), "no text of bytes"),
        (with_merge("hello hello"), "no two tokens that make a third"),
        (with_merge("a zzz"), "no two tokens that make a third"),
        (with_merge("none"), "no two tokens that make a third"),
        (with_merge("<|im_ end|>"), "no two tokens that make a third"),
        (again("tokenizer.ggml.model").text("tokenizer.ggml.model", "llama"), "`llama`"),
        (again("tokenizer.ggml.pre").text("tokenizer.ggml.pre", "odd"), "`odd`"),
        (again("tokenizer.ggml.eos_token_id").number("tokenizer.ggml.eos_token_id", 9999), "9999"),
        (file.clone().flag("tokenizer.ggml.add_space_prefix", true), "space"),
    ];
    for (file, expected) in cases {
        let told = vocabulary(&file).unwrap_err().to_string();
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[test]
fn what_a_vocabulary_cannot_express_is_replaced() {
    let (tokens, _) = tiny_decoder::vocabulary();
    // A vocabulary without the letter `q` and without U+FFFD's first byte.
    let (file, _) = model("llama", true);
    let without = |bytes: &[u8]| {
        let names: Vec<String> = bytes
            .iter()
            .map(|byte| tiny_decoder::alphabet()[usize::from(*byte)].to_string())
            .collect();
        let kinds: Vec<i32> = (0..tokens.len())
            .map(|id| if id < 3 || names.contains(&tokens[id]) { 3 } else { 1 })
            .collect();
        let file = file.clone().without("tokenizer.ggml.token_type");
        vocabulary(&file.integers("tokenizer.ggml.token_type", &kinds)).unwrap()
    };
    let said = |vocabulary: &TokenVocabulary| {
        let bytes = vocabulary.encode("aqua é").unwrap().into_iter().flat_map(|id| {
            let Some(Token::Text(bytes)) = vocabulary.token(id) else { panic!("{id}") };
            bytes.to_vec()
        });
        String::from_utf8(bytes.collect()).unwrap()
    };
    assert_eq!(said(&without(b"")), "aqua é");
    assert_eq!(said(&without(b"q")), "a\u{fffd}ua é");
    assert_eq!(said(&without(&[b'q', 0xef])), "aua é");
}
