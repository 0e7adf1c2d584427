//! The files that are compiled in: weights, thresholds and rules.
//!
//! `custody train` reproduces the weights and thresholds from data sets whose hashes they record.

// `static`, not `const`: the compiler stores a constant's bytes again wherever it is used.
pub(crate) static RULES: &str = include_str!("../rules/rules.toml");
pub(crate) static ANSWER_RULES: &str = include_str!("../rules/answers.toml");
pub(crate) static INTENT_RULES: &str = include_str!("../rules/intents.toml");
pub(crate) static REFUSAL_RULES: &str = include_str!("../rules/refusals.toml");

pub(crate) static PROMPT_NGRAMS: &[u8] = include_bytes!("../weights/prompts.safetensors");
pub(crate) static CONTENT_NGRAMS: &[u8] = include_bytes!("../weights/contents.safetensors");
pub(crate) static NGRAM_THRESHOLDS: &str = include_str!("../weights/ngrams.json");
pub(crate) static TRANSFORMER_OVERLAY: &[u8] = include_bytes!("../weights/full.safetensors");
pub(crate) static TRANSFORMER_BLENDS: &[u8] = include_bytes!("../weights/full.json");
pub(crate) static PREFILTER: &[u8] = include_bytes!("../weights/prefilter.json");
pub(crate) static BEHAVIOUR: &[u8] = include_bytes!("../weights/behaviour.json");

/// The bytes of a compiled-in file by its name in the repository, to compare with a newly trained one. `None` for an
/// unknown name.
#[must_use]
pub fn built_in_file(name: &str) -> Option<&'static [u8]> {
    match name {
        "prompts.safetensors" => Some(PROMPT_NGRAMS),
        "contents.safetensors" => Some(CONTENT_NGRAMS),
        "rules.toml" => Some(RULES.as_bytes()),
        "ngrams.json" => Some(NGRAM_THRESHOLDS.as_bytes()),
        "full.safetensors" => Some(TRANSFORMER_OVERLAY),
        "full.json" => Some(TRANSFORMER_BLENDS),
        "prefilter.json" => Some(PREFILTER),
        "behaviour.json" => Some(BEHAVIOUR),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transformer_stays_small_enough_to_compile_in() {
        let bytes = TRANSFORMER_OVERLAY.len();
        assert!((1 << 20..5_000_000).contains(&bytes), "{bytes} bytes");
    }
}
