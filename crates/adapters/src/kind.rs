//! Which kind an adapter is: by its configuration, and by the names of its tensors, which have to agree.

use std::fmt;

use serde::Serialize;

/// A kind of adapter that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AdapterKind {
    /// Hu et al. 2021: `ΔW = (α/r)·B·A`.
    Lora,
    /// Kalajdzievski 2023, the same scaled by `α/√r`.
    RsLora,
    /// Liu et al. 2024: a new length for each row of `W + ΔW`. Its change needs the base model.
    Dora,
    /// Zhang et al. 2023: `ΔW = B·diag(E)·A·α/r`, with a rank of its own for each matrix.
    AdaLora,
    /// Liu et al. 2022: outputs or inputs of a matrix are multiplied.
    Ia3,
    /// Hyeon-Woo et al. 2022: `ΔW = (α/r)·(B₁A₁)∘(B₂A₂)`.
    LoHa,
    /// Yeh et al. 2023: `ΔW = (α/r)·C⊗D`.
    LoKr,
    /// Kopiczko et al. 2024: `ΔW = diag(b)·B·diag(d)·A`, with `A` and `B` shared by all layers.
    Vera,
    /// Qiu et al. 2023: a rotation of the weights.
    Oft,
    /// Liu et al. 2024: a rotation in butterfly form.
    Boft,
    /// Li and Liang 2021: keys and values before each layer's.
    PrefixTuning,
    /// Lester et al. 2021: embeddings before the prompt.
    PromptTuning,
    /// Liu et al. 2021: the same, made by an encoder that is not saved.
    PTuning,
}

impl AdapterKind {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lora => "LoRA",
            Self::RsLora => "rsLoRA",
            Self::Dora => "DoRA",
            Self::AdaLora => "AdaLoRA",
            Self::Ia3 => "IA3",
            Self::LoHa => "LoHa",
            Self::LoKr => "LoKr",
            Self::Vera => "VeRA",
            Self::Oft => "OFT",
            Self::Boft => "BOFT",
            Self::PrefixTuning => "prefix tuning",
            Self::PromptTuning => "prompt tuning",
            Self::PTuning => "P-tuning",
        }
    }

    /// The kind that PEFT calls `peft_type`, without what other keys of a configuration make of it.
    pub(crate) fn of_peft(peft_type: &str) -> Option<Self> {
        Some(match peft_type {
            "LORA" => Self::Lora,
            "ADALORA" => Self::AdaLora,
            "IA3" => Self::Ia3,
            "LOHA" => Self::LoHa,
            "LOKR" => Self::LoKr,
            "VERA" => Self::Vera,
            "OFT" => Self::Oft,
            "BOFT" => Self::Boft,
            "PREFIX_TUNING" => Self::PrefixTuning,
            "PROMPT_TUNING" => Self::PromptTuning,
            "P_TUNING" => Self::PTuning,
            _ => return None,
        })
    }

    /// How the names of its tensors may end, after the name of a module and a dot, as PEFT writes them.
    pub(crate) const fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Lora | Self::RsLora => {
                &["lora_A.weight", "lora_B.weight", "lora_embedding_A", "lora_embedding_B"]
            }
            Self::Dora => &[
                "lora_A.weight",
                "lora_B.weight",
                "lora_embedding_A",
                "lora_embedding_B",
                "lora_magnitude_vector",
                "lora_magnitude_vector.weight",
            ],
            Self::AdaLora => &["lora_A", "lora_B", "lora_E"],
            Self::Ia3 => &["ia3_l"],
            Self::LoHa => {
                &["hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b", "hada_t1", "hada_t2"]
            }
            Self::LoKr => &[
                "lokr_w1",
                "lokr_w1_a",
                "lokr_w1_b",
                "lokr_w2",
                "lokr_w2_a",
                "lokr_w2_b",
                "lokr_t2",
            ],
            Self::Vera => &["vera_lambda_b", "vera_lambda_d", "vera_A", "vera_B"],
            Self::Oft => &["oft_R.weight"],
            Self::Boft => &["boft_R", "boft_s"],
            Self::PrefixTuning | Self::PromptTuning | Self::PTuning => &["prompt_embeddings"],
        }
    }
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
