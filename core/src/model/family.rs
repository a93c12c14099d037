//! The table of architectures: one row each, with the facts that metadata and tensors do not contain.
//!
//! Source: the graph builders and converters of llama.cpp (2026) and transformers 5.

use super::rope::Pairing;
use crate::plan::{Activation, Gating, Glu, HeadOrder, NormKind};

/// The norms around the feed-forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FfnNorm {
    /// `ffn_norm` before the feed-forward.
    Plain,
    /// `post_attention_norm` before the feed-forward.
    PostAttention,
    /// `post_attention_norm` on the attention output, `ffn_norm` before and `post_ffw_norm` after the feed-forward.
    Sandwich,
    /// `post_attention_norm` on the attention output and `post_ffw_norm` after the feed-forward; none before them.
    After,
    /// None: the feed-forward reads what attention reads, and both are added to the same stream.
    Parallel,
}

impl FfnNorm {
    /// The tensor before the feed-forward.
    pub(super) const fn tensor(self) -> Option<&'static str> {
        match self {
            Self::Plain | Self::Sandwich => Some("ffn_norm"),
            Self::PostAttention => Some("post_attention_norm"),
            Self::After | Self::Parallel => None,
        }
    }
}

/// The norms of queries and keys, where the file has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadNorms {
    /// Per head, before the rotation.
    BeforeRotation,
    /// Per head, behind the rotation.
    AfterRotation,
    /// Over all heads together, before the rotation.
    AllHeads,
}

/// The layers whose queries and keys are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotatedLayers {
    /// All.
    All,
    /// All but every n-th: layer `i` is not rotated if `(i + 1) % n == 0`.
    AllButEvery(u32),
    /// Those with a window, in models that have some.
    Windowed,
}

/// The rotary embedding of windowed layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WindowRope {
    /// That of the others.
    Same,
    /// A base of its own, without scaling.
    Base(f32),
    /// The same base, without scaling.
    Unscaled,
}

/// The use of `logit_scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogitScale {
    /// None.
    Ignored,
    /// Logits are multiplied by it.
    Multiplies,
    /// Logits are divided by it.
    Divides,
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
    /// True if `expert_gating_func` and `expert_weights_norm` of the file come first.
    pub by_key: bool,
    /// True if a shared expert has a gate of its own, `ffn_gate_inp_shexp`.
    pub gated_shared: bool,
}

/// A row of the architecture table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    /// `general.architecture`.
    pub name: &'static str,
    /// The norms of the stream.
    pub norm: NormKind,
    /// The elements that a rotation pairs.
    pub pairing: Pairing,
    /// Layers whose queries and keys are rotated.
    pub rotated: RotatedLayers,
    /// Non-linearity of the feed-forward.
    pub glu: Glu,
    /// Non-linearity of a feed-forward without a gate; `None` = it has one.
    pub ungated: Option<Activation>,
    /// True if embeddings are multiplied by sqrt(width).
    pub scaled_embedding: bool,
    /// True if `embedding_scale`, `residual_scale` and `attention.scale` apply.
    pub scale_keys: bool,
    /// The use of `logit_scale`.
    pub logit_scale: LogitScale,
    /// Norms around the feed-forward.
    pub ffn_norm: FfnNorm,
    /// True if q and k norms are required. They are used whenever they are present.
    pub requires_head_norms: bool,
    /// Where q and k norms are.
    pub head_norms: HeadNorms,
    /// Windowed layers.
    pub window: WindowPattern,
    /// True if `attention.sliding_window` may be 0, which means that no layer has a window.
    pub optional_window: bool,
    /// Only models with this many layers have windows; `None` = all.
    pub window_layers: Option<u32>,
    /// Rotary embedding of windowed layers.
    pub window_rope: WindowRope,
    /// Models with this many layers scale scores by 1/sqrt(width/heads), not 1/sqrt(head size).
    pub width_scaled_layers: Option<u32>,
    /// True if `attn_logit_softcapping` applies.
    pub score_cap: bool,
    /// True if `final_logit_softcapping` applies.
    pub logit_cap: bool,
    /// True if `attention.temperature_scale` applies to all layers.
    pub temperature: bool,
    /// Routing, for models with experts.
    pub routing: Routing,
    /// Each head of `attn_q` is followed by an output gate.
    pub gated_attention: bool,
    /// `attn_gate` has the output gates of attention.
    pub gate_tensor: bool,
    /// Layers with a recurrent state instead of keys and values.
    pub recurrence: Option<Recurrence>,
    /// The differences of Gemma 4 to Gemma 3.
    pub gemma4: bool,
}

const SOFTMAX_NORM: Routing =
    Routing { gating: Gating::Softmax, renormalize: true, by_key: false, gated_shared: false };

/// Sigmoid probabilities, or what the file says.
const SIGMOID: Routing =
    Routing { gating: Gating::Sigmoid, renormalize: false, by_key: true, ..SOFTMAX_NORM };

const LLAMA: Family = Family {
    name: "llama",
    norm: NormKind::Rms,
    pairing: Pairing::Adjacent,
    rotated: RotatedLayers::All,
    glu: Glu::Silu,
    ungated: None,
    scaled_embedding: false,
    scale_keys: false,
    logit_scale: LogitScale::Ignored,
    ffn_norm: FfnNorm::Plain,
    requires_head_norms: false,
    head_norms: HeadNorms::BeforeRotation,
    window: WindowPattern::Never,
    optional_window: false,
    window_layers: None,
    window_rope: WindowRope::Same,
    width_scaled_layers: None,
    score_cap: false,
    logit_cap: false,
    temperature: false,
    routing: SOFTMAX_NORM,
    gated_attention: false,
    gate_tensor: false,
    recurrence: None,
    gemma4: false,
};

/// As llama, but rotations pair the halves of a head.
const QWEN2: Family = Family { name: "qwen2", pairing: Pairing::Halves, ..LLAMA };

const QWEN3: Family = Family { name: "qwen3", requires_head_norms: true, ..QWEN2 };

const QWEN35: Family = Family {
    name: "qwen35",
    ffn_norm: FfnNorm::PostAttention,
    gated_attention: true,
    routing: Routing { gated_shared: true, ..SOFTMAX_NORM },
    recurrence: Some(Recurrence { order: HeadOrder::Tiled, fused_gates: false }),
    ..QWEN3
};

const GEMMA: Family =
    Family { name: "gemma", glu: Glu::Gelu, scaled_embedding: true, logit_cap: true, ..QWEN2 };

const GEMMA3: Family = Family {
    name: "gemma3",
    ffn_norm: FfnNorm::Sandwich,
    requires_head_norms: true,
    window: WindowPattern::AllButEvery(6),
    window_rope: WindowRope::Base(10_000.0),
    width_scaled_layers: Some(62),
    ..GEMMA
};

const GRANITE: Family =
    Family { name: "granite", scale_keys: true, logit_scale: LogitScale::Divides, ..LLAMA };

/// Layer norms without a bias, attention and feed-forward side by side.
const COMMAND_R: Family = Family {
    name: "command-r",
    norm: NormKind::Layer,
    ffn_norm: FfnNorm::Parallel,
    logit_scale: LogitScale::Multiplies,
    ..LLAMA
};

const STARCODER2: Family =
    Family { name: "starcoder2", norm: NormKind::Layer, ungated: Some(Activation::Gelu), ..QWEN2 };

const OLMO2: Family = Family {
    name: "olmo2",
    ffn_norm: FfnNorm::After,
    requires_head_norms: true,
    head_norms: HeadNorms::AllHeads,
    window: WindowPattern::AllButEvery(4),
    optional_window: true,
    window_rope: WindowRope::Unscaled,
    ..QWEN2
};

const HUNYUAN: Family = Family {
    name: "hunyuan-dense",
    requires_head_norms: true,
    head_norms: HeadNorms::AfterRotation,
    ..QWEN2
};

const FAMILIES: &[Family] = &[
    LLAMA,
    QWEN2,
    Family { name: "qwen2vl", ..QWEN2 },
    Family {
        name: "qwen2moe",
        routing: Routing { renormalize: false, gated_shared: true, ..SOFTMAX_NORM },
        ..QWEN2
    },
    QWEN3,
    Family { name: "qwen3moe", ..QWEN3 },
    Family { name: "qwen3vl", ..QWEN3 },
    Family { name: "qwen3vlmoe", ..QWEN3 },
    GEMMA,
    Family {
        name: "gemma2",
        ffn_norm: FfnNorm::Sandwich,
        window: WindowPattern::AllButEvery(2),
        width_scaled_layers: Some(46),
        score_cap: true,
        ..GEMMA
    },
    GEMMA3,
    Family { name: "gemma4", width_scaled_layers: None, gemma4: true, ..GEMMA3 },
    Family {
        name: "gpt-oss",
        glu: Glu::Oai { alpha: 1.702, limit: 7.0 },
        ffn_norm: FfnNorm::PostAttention,
        window: WindowPattern::AllButEvery(2),
        routing: Routing { gating: Gating::SoftmaxOfChosen, renormalize: false, ..SOFTMAX_NORM },
        ..QWEN2
    },
    Family {
        name: "qwen3next",
        recurrence: Some(Recurrence { order: HeadOrder::Grouped, fused_gates: true }),
        ..QWEN35
    },
    QWEN35,
    Family { name: "qwen35moe", ..QWEN35 },
    GRANITE,
    Family { name: "granitemoe", ..GRANITE },
    Family { name: "minicpm", ..GRANITE },
    Family { name: "smollm3", rotated: RotatedLayers::AllButEvery(4), ..LLAMA },
    Family { name: "seed_oss", ffn_norm: FfnNorm::PostAttention, ..QWEN2 },
    Family { name: "internlm2", ..LLAMA },
    Family { name: "mistral3", temperature: true, ..LLAMA },
    Family { name: "arcee", ungated: Some(Activation::ReluSquared), ..LLAMA },
    Family { name: "phi3", ..QWEN2 },
    Family { name: "chatglm", ..LLAMA },
    Family { name: "glm4", ffn_norm: FfnNorm::Sandwich, ..LLAMA },
    Family { name: "glm4moe", ffn_norm: FfnNorm::PostAttention, routing: SIGMOID, ..QWEN2 },
    Family { name: "ernie4_5", ..LLAMA },
    Family { name: "ernie4_5-moe", ..LLAMA },
    Family { name: "deepseek", routing: Routing { renormalize: false, ..SOFTMAX_NORM }, ..LLAMA },
    Family { name: "dots1", routing: SIGMOID, ..QWEN3 },
    Family { name: "hy_v3", routing: SIGMOID, ..QWEN3 },
    Family { name: "bailingmoe2", routing: SIGMOID, ..QWEN3 },
    OLMO2,
    Family {
        name: "olmoe",
        ffn_norm: FfnNorm::Plain,
        window: WindowPattern::Never,
        routing: Routing { renormalize: false, ..SOFTMAX_NORM },
        ..OLMO2
    },
    Family {
        name: "minimax-m2",
        requires_head_norms: true,
        head_norms: HeadNorms::AllHeads,
        routing: Routing { gating: Gating::Sigmoid, ..SOFTMAX_NORM },
        ..QWEN2
    },
    Family {
        name: "exaone4",
        head_norms: HeadNorms::BeforeRotation,
        rotated: RotatedLayers::Windowed,
        window_layers: Some(64),
        window_rope: WindowRope::Same,
        ..OLMO2
    },
    Family {
        name: "exaone-moe",
        rotated: RotatedLayers::Windowed,
        window: WindowPattern::AllButEvery(4),
        routing: SIGMOID,
        ..QWEN3
    },
    Family {
        name: "afmoe",
        scaled_embedding: true,
        ffn_norm: FfnNorm::Sandwich,
        rotated: RotatedLayers::AllButEvery(4),
        window: WindowPattern::AllButEvery(4),
        gate_tensor: true,
        routing: SIGMOID,
        ..QWEN3
    },
    HUNYUAN,
    Family { name: "hunyuan-moe", ..HUNYUAN },
    COMMAND_R,
    Family {
        name: "cohere2",
        rotated: RotatedLayers::Windowed,
        window: WindowPattern::AllButEvery(4),
        ..COMMAND_R
    },
    STARCODER2,
    Family { name: "nemotron", ungated: Some(Activation::ReluSquared), ..STARCODER2 },
    Family { name: "phi2", ffn_norm: FfnNorm::Parallel, ..STARCODER2 },
];

impl Family {
    /// All rows.
    pub fn all() -> &'static [Self] {
        FAMILIES
    }

    /// The row of an architecture name.
    pub fn named(name: &[u8]) -> Option<&'static Self> {
        FAMILIES.iter().find(|family| family.name.as_bytes() == name)
    }
}
