//! `adapter_config.json`: what it claims, and which of its keys change what the adapter does.
//!
//! Tensors do not tell everything: the scale of a low-rank change, for instance, is in the configuration alone. So what
//! is read here is a claim of its author. An unknown key might change the effect, so an adapter with one is refused.
//!
//! Source: PEFT 0.21.2, the dataclasses of its configurations.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use regex_automata::meta::Regex;
use serde_json::Value;

use crate::error::AdapterError;
use crate::kind::AdapterKind;
use crate::unique_keys::UniqueKeys;

/// The longest configuration that is read.
const MAX_BYTES: u64 = 16 << 20;

/// Keys that change what an adapter does with given tensors, and that are understood here.
const UNDERSTOOD: [&str; 25] = [
    "alpha",
    "alpha_pattern",
    "block_share",
    "boft_block_num",
    "boft_block_size",
    "boft_n_butterfly_factor",
    "coft",
    "decompose_both",
    "decompose_factor",
    "eps",
    "fan_in_fan_out",
    "init_lora_weights",
    "lora_alpha",
    "num_cayley_neumann_terms",
    "num_transformer_submodules",
    "num_virtual_tokens",
    "oft_block_size",
    "peft_type",
    "projection_prng_key",
    "r",
    "rank_pattern",
    "save_projection",
    "use_cayley_neumann",
    "use_dora",
    "use_rslora",
];

/// Keys that, unless empty, let an adapter act outside what its tensors show.
const HIDDEN_EFFECTS: [(&str, &str); 13] = [
    ("alora_invocation_tokens", "it acts only after given tokens, which is a trigger"),
    ("arrow_config", "it chooses among other adapters"),
    ("bias", "it brings biases of the base model along"),
    ("ensure_weight_tying", "it acts on layers that are tied to its own, too"),
    ("kasa_config", "it changes singular values of the base model"),
    ("layer_replication", "it runs layers of the base model several times"),
    ("lora_bias", "it adds a bias besides its matrices"),
    ("modules_to_save", "it brings whole layers along in place of the base model's"),
    ("monteclora_config", "its weights are drawn at random"),
    ("target_parameters", "it changes parameters that are no layers"),
    ("trainable_token_indices", "it brings embeddings of tokens along"),
    ("use_bdlora", "its matrices are made of blocks"),
    ("use_qalora", "its inputs are pooled"),
];

/// Keys that say how it was trained or where it goes.
const NO_EFFECT: [&str; 51] = [
    "auto_mapping",
    "base_model_name_or_path",
    "beta1",
    "beta2",
    "boft_dropout",
    "corda_config",
    "d_initial",
    "deltaT",
    "encoder_dropout",
    "encoder_hidden_size",
    "encoder_num_layers",
    "encoder_reparameterization_type",
    "eva_config",
    "exclude_modules",
    "feedforward_modules",
    "inference_mode",
    "init_ia3_weights",
    "init_r",
    "init_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_dropout",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "module_dropout",
    "num_attention_heads",
    "num_layers",
    "orth_reg_weight",
    "peft_version",
    "prefix_projection",
    "prompt_tuning_init",
    "prompt_tuning_init_text",
    "qalora_group_size",
    "rank_dropout",
    "rank_dropout_scale",
    "revision",
    "runtime_config",
    "target_modules",
    "target_r",
    "task_type",
    "tfinal",
    "tinit",
    "token_dim",
    "tokenizer_kwargs",
    "tokenizer_name_or_path",
    "total_step",
    "use_effective_conv2d",
    "velora_config",
    "vera_dropout",
];

/// Starts that change the base model when the adapter is loaded, so that its tensors overstate the change.
const ALTERING_STARTS: [&str; 7] =
    ["pissa", "olora", "corda", "loftq", "eva", "lora_ga", "orthogonal"];

/// What the configuration of an adapter claims.
#[derive(Debug, Clone)]
pub(crate) struct Configuration {
    /// What PEFT calls the kind, known here or not.
    pub(crate) peft_type: String,
    /// The kind, with what other keys make of it.
    pub(crate) kind: Option<AdapterKind>,
    /// The base model, by its name.
    pub(crate) base_model: Option<String>,
    /// The commit of the base model.
    pub(crate) base_revision: Option<String>,
    rank: Option<u64>,
    alpha: Option<f64>,
    ranks: Patterns,
    alphas: Patterns,
    /// The start that alters the base model, so that the change needs it.
    pub(crate) altered_base: Option<&'static str>,
    /// Hidden effects: the key, and what it does.
    pub(crate) hidden: Vec<(&'static str, &'static str)>,
    /// Whether a library is imported by name when the adapter is loaded.
    pub(crate) has_auto_mapping: bool,
    /// Keys that are not known.
    pub(crate) unknown: Vec<String>,
    /// Exactly what changes the effect, for the identity.
    pub(crate) effects: BTreeMap<String, Value>,
}

impl Configuration {
    /// Reads the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, AdapterError> {
        let failed = AdapterError::file(path);
        let mut text = String::new();
        let file = File::open(path).map_err(&failed)?;
        file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(&failed)?;
        if text.len() as u64 > MAX_BYTES {
            let what = format!("it is longer than {MAX_BYTES} bytes");
            return Err(AdapterError::Configuration(what));
        }
        Self::parse(&text)
    }

    pub(crate) fn parse(text: &str) -> Result<Self, AdapterError> {
        let UniqueKeys(keys) = serde_json::from_str(text)
            .map_err(|cause| AdapterError::Configuration(cause.to_string()))?;
        let peft_type =
            keys.get("peft_type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let start = keys.get("init_lora_weights").and_then(Value::as_str);
        Ok(Self {
            kind: kind(&peft_type, &keys),
            base_model: text_of(&keys, "base_model_name_or_path"),
            base_revision: text_of(&keys, "revision"),
            rank: keys.get("r").and_then(Value::as_u64),
            alpha: ["lora_alpha", "alpha"].iter().find_map(|name| keys.get(*name)?.as_f64()),
            ranks: Patterns::of(keys.get("rank_pattern"))?,
            alphas: Patterns::of(keys.get("alpha_pattern"))?,
            altered_base: start.and_then(altering_start),
            hidden: hidden(&keys),
            has_auto_mapping: keys.get("auto_mapping").is_some_and(|value| !is_empty(value)),
            unknown: keys.keys().filter(|name| !is_known(name)).cloned().collect(),
            effects: effects(&keys),
            peft_type,
        })
    }

    /// The factor of a low-rank change of the module `name`, whose matrices have the rank `rank`; `None` if the
    /// configuration gives none, or more than one.
    pub(crate) fn scale(&self, name: &str, rank: usize) -> Option<f64> {
        let alpha = self.alphas.value(name)?.or(self.alpha);
        let claimed = self.ranks.value(name)?.or(self.rank.map(|rank| rank as f64));
        let rank = rank as f64;
        Some(match self.kind? {
            AdapterKind::Lora | AdapterKind::Dora => alpha? / rank,
            AdapterKind::RsLora => alpha? / rank.sqrt(),
            // Its rank is that of the matrices, not that of the configuration.
            AdapterKind::AdaLora => alpha? / (rank + 1e-5),
            AdapterKind::LoHa | AdapterKind::LoKr => alpha? / claimed?,
            AdapterKind::Vera
            | AdapterKind::Ia3
            | AdapterKind::Oft
            | AdapterKind::Boft
            | AdapterKind::PrefixTuning
            | AdapterKind::PromptTuning
            | AdapterKind::PTuning => 1.0,
        })
    }
}

/// Values of single modules, by patterns of their names.
#[derive(Debug, Clone, Default)]
struct Patterns(Vec<(Regex, f64)>);

impl Patterns {
    fn of(value: Option<&Value>) -> Result<Self, AdapterError> {
        let Some(patterns) = value.and_then(Value::as_object) else { return Ok(Self::default()) };
        let read = patterns.iter().map(|(pattern, value)| {
            // As PEFT does.
            let regex = Regex::new(&format!("^(.*\\.)?({pattern})$")).ok();
            let read = regex.zip(value.as_f64());
            read.ok_or_else(|| {
                AdapterError::Configuration(format!("the pattern `{pattern}` is not understood"))
            })
        });
        read.collect::<Result<_, _>>().map(Self)
    }

    /// The value of the module `name`, if a pattern gives it one; `None` if two patterns differ in it.
    fn value(&self, name: &str) -> Option<Option<f64>> {
        let mut found =
            self.0.iter().filter(|(regex, _)| regex.is_match(name)).map(|(_, value)| *value);
        let first = found.next();
        found.all(|value| Some(value) == first).then_some(first)
    }
}

fn text_of(keys: &BTreeMap<String, Value>, name: &str) -> Option<String> {
    keys.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn kind(peft_type: &str, keys: &BTreeMap<String, Value>) -> Option<AdapterKind> {
    let kind = AdapterKind::of_peft(peft_type)?;
    if kind != AdapterKind::Lora {
        return Some(kind);
    }
    Some(match (is_set(keys, "use_dora"), is_set(keys, "use_rslora")) {
        (true, _) => AdapterKind::Dora,
        (false, true) => AdapterKind::RsLora,
        (false, false) => AdapterKind::Lora,
    })
}

fn is_set(keys: &BTreeMap<String, Value>, name: &str) -> bool {
    keys.get(name).and_then(Value::as_bool) == Some(true)
}

/// The hidden effects that a configuration asks for.
fn hidden(keys: &BTreeMap<String, Value>) -> Vec<(&'static str, &'static str)> {
    let set = HIDDEN_EFFECTS
        .into_iter()
        .filter(|(name, _)| keys.get(*name).is_some_and(|value| !is_default(name, value)));
    set.collect()
}

/// What changes the effect. What changes nothing is left out: it is the same not to name it.
fn effects(keys: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let changes = keys.iter().filter(|(name, value)| {
        let is_hidden = HIDDEN_EFFECTS.iter().any(|(hidden, _)| hidden == name);
        (is_hidden || UNDERSTOOD.contains(&name.as_str())) && !is_default(name, value)
    });
    changes.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn is_known(name: &str) -> bool {
    let is_hidden = HIDDEN_EFFECTS.iter().any(|(hidden, _)| *hidden == name);
    is_hidden || UNDERSTOOD.contains(&name) || NO_EFFECT.contains(&name)
}

/// Whether a value of the key `name` changes nothing.
fn is_default(name: &str, value: &Value) -> bool {
    match name {
        "bias" => is_empty(value) || value == "none",
        "init_lora_weights" => value.as_str().and_then(altering_start).is_none(),
        _ => is_empty(value),
    }
}

/// The start that alters the base model, if it is one.
fn altering_start(start: &str) -> Option<&'static str> {
    let start = start.to_ascii_lowercase();
    ALTERING_STARTS.into_iter().find(|name| start.starts_with(name))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Configuration {
        Configuration::parse(text).unwrap()
    }

    #[test]
    fn the_scale_of_each_kind_is_that_of_peft() {
        let base = r#""r": 8, "lora_alpha": 16, "alpha": 16"#;
        for (kind, more, expected) in [
            ("LORA", "", 4.0),
            ("LORA", r#","use_rslora": true"#, 8.0),
            ("LORA", r#","use_dora": true"#, 4.0),
            ("LOHA", "", 2.0),
            ("LOKR", "", 2.0),
            ("ADALORA", "", 16.0 / (4.0 + 1e-5)),
            ("VERA", "", 1.0),
        ] {
            let text = format!(r#"{{"peft_type": "{kind}", {base}{more}}}"#);
            assert_eq!(parsed(&text).scale("m.q_proj", 4), Some(expected), "{text}");
        }
        assert_eq!(parsed(r#"{"peft_type": "LORA", "r": 8}"#).scale("m", 4), None);
    }

    #[test]
    fn patterns_hold_for_the_modules_that_they_name_and_two_that_differ_for_none() {
        let text = r#"{"peft_type": "LORA", "lora_alpha": 8, "alpha_pattern":
            {"layers.0.q_proj": 32, "(k|v)_proj": 2, "v_proj": 3}}"#;
        let scale = |name: &str| parsed(text).scale(name, 1);
        assert_eq!(scale("model.layers.0.q_proj"), Some(32.0));
        assert_eq!(scale("model.layers.10.q_proj"), Some(8.0));
        assert_eq!(scale("model.layers.1.k_proj"), Some(2.0));
        assert_eq!(scale("model.layers.1.v_proj"), None);
        let broken = r#"{"peft_type": "LORA", "rank_pattern": {"(": 1}}"#;
        Configuration::parse(broken).unwrap_err();
    }

    #[test]
    fn what_changes_the_effect_is_told_from_what_does_not_and_from_what_is_not_known() {
        let text = r#"{"peft_type": "LORA", "r": 8, "lora_dropout": 0.1, "modules_to_save": null,
            "layer_replication": [[0, 4]], "bias": "none", "new_key": 1, "auto_mapping": null}"#;
        let read = parsed(text);
        assert_eq!(
            read.effects.keys().collect::<Vec<_>>(),
            ["layer_replication", "peft_type", "r"]
        );
        assert_eq!(
            read.hidden.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            ["layer_replication"]
        );
        assert_eq!(read.unknown, ["new_key"]);
        assert!(!read.has_auto_mapping);
        for broken in ["", "[]", "7", r#"{"r": 1, "r": 2}"#] {
            assert!(Configuration::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_start_that_alters_the_base_is_noticed() {
        for (start, is_altered) in [
            (r#""pissa_niter_4""#, true),
            (r#""olora""#, true),
            ("true", false),
            (r#""gaussian""#, false),
        ] {
            let text = format!(r#"{{"peft_type": "LORA", "init_lora_weights": {start}}}"#);
            assert_eq!(parsed(&text).altered_base.is_some(), is_altered, "{start}");
        }
    }
}
