//! The table of architectures: one row each, with the facts that metadata and tensors do not contain.
//!
//! Source: the graph builders and converters of llama.cpp (2026) and transformers 5.

use super::rope::Pairing;
use crate::plan::{Gating, Glu, HeadOrder};

/// The norms between attention and the feed-forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FfnNorm {
    /// `ffn_norm` before the feed-forward.
    Plain,
    /// `post_attention_norm` before the feed-forward.
    PostAttention,
    /// `post_attention_norm` on the attention output, `ffn_norm` before and `post_ffw_norm` after the feed-forward.
    Sandwich,
}

impl FfnNorm {
    /// The tensor before the feed-forward.
    pub(super) const fn tensor(self) -> &'static str {
        match self {
            Self::Plain | Self::Sandwich => "ffn_norm",
            Self::PostAttention => "post_attention_norm",
        }
    }
}

/// The layers with a sliding window, if the file has no per-layer array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowPattern {
    /// None.
    Never,
    /// All but every n-th: layer `i` is windowed iff `i % n < n - 1`.
    AllButEvery(u32),
}

/// Linear attention of a family's recurrent layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrence {
    /// Which key head a value head reads.
    pub order: HeadOrder,
    /// One tensor of betas and alphas, `ssm_ba`, instead of `ssm_beta` and `ssm_alpha`.
    pub fused_gates: bool,
}

/// Expert routing of a family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routing {
    /// Products to probabilities.
    pub gating: Gating,
    /// True if the chosen weights are divided by their sum.
    pub renormalize: bool,
}

/// A row of the architecture table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    /// `general.architecture`.
    pub name: &'static str,
    /// The elements that a rotation pairs.
    pub pairing: Pairing,
    /// Non-linearity of the feed-forward.
    pub glu: Glu,
    /// True if embeddings are multiplied by sqrt(width).
    pub scaled_embedding: bool,
    /// Norms around the feed-forward.
    pub ffn_norm: FfnNorm,
    /// True if q and k norms are required. They are used whenever they are present.
    pub head_norms: bool,
    /// Windowed layers.
    pub window: WindowPattern,
    /// Rotary base of windowed layers; `None` = that of the others. Windowed layers with their own base have no scaling.
    pub window_rope_base: Option<f32>,
    /// Models with this many layers scale scores by 1/sqrt(width/heads), not 1/sqrt(head size).
    pub width_scaled_layers: Option<u32>,
    /// True if `final_logit_softcapping` applies.
    pub logit_cap: bool,
    /// Routing, for models with experts.
    pub routing: Routing,
    /// Each head of `attn_q` is followed by an output gate.
    pub gated_attention: bool,
    /// Layers with a recurrent state instead of keys and values.
    pub recurrence: Option<Recurrence>,
    /// The differences of Gemma 4 to Gemma 3.
    pub gemma4: bool,
}

const SOFTMAX_NORM: Routing = Routing { gating: Gating::Softmax, renormalize: true };

const LLAMA: Family = Family {
    name: "llama",
    pairing: Pairing::Adjacent,
    glu: Glu::Silu,
    scaled_embedding: false,
    ffn_norm: FfnNorm::Plain,
    head_norms: false,
    window: WindowPattern::Never,
    window_rope_base: None,
    width_scaled_layers: None,
    logit_cap: false,
    routing: SOFTMAX_NORM,
    gated_attention: false,
    recurrence: None,
    gemma4: false,
};

const QWEN35: Family = Family {
    name: "qwen35",
    pairing: Pairing::Halves,
    ffn_norm: FfnNorm::PostAttention,
    head_norms: true,
    gated_attention: true,
    recurrence: Some(Recurrence { order: HeadOrder::Tiled, fused_gates: false }),
    ..LLAMA
};

const GEMMA3: Family = Family {
    name: "gemma3",
    pairing: Pairing::Halves,
    glu: Glu::Gelu,
    scaled_embedding: true,
    ffn_norm: FfnNorm::Sandwich,
    head_norms: true,
    window: WindowPattern::AllButEvery(6),
    window_rope_base: Some(10_000.0),
    width_scaled_layers: Some(62),
    logit_cap: true,
    ..LLAMA
};

const FAMILIES: [Family; 11] = [
    LLAMA,
    Family { name: "qwen2", pairing: Pairing::Halves, ..LLAMA },
    Family {
        name: "qwen2moe",
        pairing: Pairing::Halves,
        routing: Routing { gating: Gating::Softmax, renormalize: false },
        ..LLAMA
    },
    Family { name: "qwen3", pairing: Pairing::Halves, head_norms: true, ..LLAMA },
    Family { name: "qwen3moe", pairing: Pairing::Halves, head_norms: true, ..LLAMA },
    GEMMA3,
    Family { name: "gemma4", width_scaled_layers: None, gemma4: true, ..GEMMA3 },
    Family {
        name: "gpt-oss",
        pairing: Pairing::Halves,
        glu: Glu::Oai { alpha: 1.702, limit: 7.0 },
        ffn_norm: FfnNorm::PostAttention,
        window: WindowPattern::AllButEvery(2),
        routing: Routing { gating: Gating::SoftmaxOfChosen, renormalize: false },
        ..LLAMA
    },
    Family {
        name: "qwen3next",
        recurrence: Some(Recurrence { order: HeadOrder::Grouped, fused_gates: true }),
        ..QWEN35
    },
    QWEN35,
    Family { name: "qwen35moe", ..QWEN35 },
];

impl Family {
    /// All rows.
    pub fn all() -> &'static [Self] {
        &FAMILIES
    }

    /// The row of an architecture name.
    pub fn named(name: &[u8]) -> Option<&'static Self> {
        FAMILIES.iter().find(|family| family.name.as_bytes() == name)
    }
}
