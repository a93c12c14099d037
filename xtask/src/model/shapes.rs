//! The sizes of synthetic models, with their metadata and their tensors.

use doorbell_core::quant::Type;
use doorbell_tests::gguf_writer::{TensorInfo, Value};

/// The values of a tensor.
#[derive(Clone, Copy)]
pub(super) enum Fill {
    /// Random, with this deviation.
    Random(f32),
    /// The same value everywhere.
    Constant(f32),
    /// Rotary divisors: 1 for this many pairs, which are rotated, and a very large one for the others.
    Rotated(usize),
}

/// A tensor to write.
pub(super) type Job = (TensorInfo, Fill);

/// The sizes of a model with experts.
pub(super) struct Shape {
    family: &'static str,
    layers: usize,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    experts: usize,
    experts_used: usize,
    expert_ff: usize,
    /// The shared expert's width; 0 = none.
    shared_ff: usize,
    /// The dense width, which the files of other families than gemma4 state but no operation uses.
    ff: usize,
    /// Tokens of the vocabulary, or with `base` the byte-pair tokens it is cut down to.
    pub(super) vocab: usize,
    pub(super) base: Option<usize>,
    /// Layers other than full attention.
    others: Others,
}

/// Layers other than full attention. Every n-th layer is full attention.
#[derive(Clone, Copy)]
enum Others {
    None,
    /// Delta nets of key heads and value heads with 128 elements.
    Delta {
        every: usize,
        keys: usize,
        values: usize,
    },
    /// Windowed layers; those of full attention have KV heads and head sizes of their own.
    Windowed {
        every: usize,
        window: usize,
        full_kv_heads: usize,
        full_head_dim: usize,
    },
}

const QWEN3_30B: Shape = Shape {
    family: "qwen3moe",
    layers: 48,
    hidden: 2048,
    heads: 32,
    kv_heads: 4,
    head_dim: 128,
    experts: 128,
    experts_used: 8,
    expert_ff: 768,
    shared_ff: 0,
    ff: 6144,
    vocab: 151_936,
    base: None,
    others: Others::None,
};

pub(super) const FULL: Shape = QWEN3_30B;

pub(super) const FOUR_LAYERS: Shape = Shape { layers: 4, ..QWEN3_30B };

pub(super) const TINY: Shape = Shape {
    layers: 4,
    hidden: 256,
    heads: 4,
    kv_heads: 2,
    experts: 16,
    experts_used: 4,
    expert_ff: 256,
    ff: 768,
    vocab: 0,
    base: Some(16_384),
    ..QWEN3_30B
};

pub(super) const QWEN35_FULL: Shape = Shape {
    family: "qwen35moe",
    layers: 40,
    heads: 16,
    kv_heads: 2,
    head_dim: 256,
    experts: 256,
    expert_ff: 512,
    shared_ff: 512,
    ff: 5632,
    vocab: 248_320,
    others: Others::Delta { every: 4, keys: 16, values: 32 },
    ..QWEN3_30B
};

pub(super) const QWEN35_FOUR_LAYERS: Shape = Shape { layers: 4, ..QWEN35_FULL };

pub(super) const QWEN3NEXT_FOUR_LAYERS: Shape = Shape {
    family: "qwen3next",
    layers: 4,
    experts: 512,
    experts_used: 10,
    ff: 5120,
    vocab: 151_936,
    ..QWEN35_FULL
};

/// Three windowed layers and a full one, where the whole model has five and one.
pub(super) const GEMMA4_FOUR_LAYERS: Shape = Shape {
    family: "gemma4",
    layers: 4,
    hidden: 2816,
    heads: 16,
    kv_heads: 8,
    head_dim: 256,
    expert_ff: 704,
    ff: 2112,
    vocab: 262_144,
    others: Others::Windowed { every: 4, window: 1024, full_kv_heads: 2, full_head_dim: 512 },
    ..QWEN3_30B
};

/// Elements of a head of a delta net, and taps of its convolution.
const DELTA_DIM: usize = 128;
const TAPS: usize = 4;

/// Deviations of matrices and of routers.
const STD: f32 = 0.02;
const ROUTER_STD: f32 = 0.05;

/// True if a layer's `attn_v` and `ffn_down` get more bits in the Q4_K_M mixture
/// (`use_more_bits` of llama.cpp's `llama-quant.cpp`).
fn more_bits(layer: usize, layers: usize) -> bool {
    layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
}

/// The type for rows of `columns`: those that are no whole blocks get the type that llama.cpp takes instead.
fn fitting(kind: Type, columns: usize) -> Type {
    match kind {
        _ if columns.is_multiple_of(kind.block_len()) => kind,
        Type::Q6_K => Type::Q8_0,
        _ => Type::Q5_0,
    }
}

impl Shape {
    fn full_attention(&self, layer: usize) -> bool {
        match self.others {
            Others::None => true,
            Others::Delta { every, .. } | Others::Windowed { every, .. } => (layer + 1).is_multiple_of(every),
        }
    }

    /// KV heads and elements of a head.
    fn heads(&self, layer: usize) -> (usize, usize) {
        match self.others {
            Others::Windowed { full_kv_heads, full_head_dim, .. } if self.full_attention(layer) => {
                (full_kv_heads, full_head_dim)
            }
            _ => (self.kv_heads, self.head_dim),
        }
    }

    pub(super) fn metadata(&self) -> Vec<(String, Value)> {
        let family = self.family;
        let number = |key: &str, value: usize| (format!("{family}.{key}"), Value::U32(value as u32));
        let mut metadata = vec![
            ("general.architecture".into(), family.into()),
            ("general.name".into(), format!("Synthetic {family} {}L", self.layers).as_str().into()),
            ("general.type".into(), "model".into()),
            number("context_length", 262_144),
            number("embedding_length", self.hidden),
            number("block_count", self.layers),
            number("feed_forward_length", self.ff),
            number("attention.head_count", self.heads),
            (format!("{family}.attention.layer_norm_rms_epsilon"), Value::F32(1e-6)),
            number("expert_count", self.experts),
            number("expert_used_count", self.experts_used),
            number("expert_feed_forward_length", self.expert_ff),
            // 15 is Q4_K_M.
            ("general.file_type".into(), Value::U32(15)),
            ("general.quantization_version".into(), Value::U32(2)),
        ];
        if let Others::Windowed { window, full_head_dim, .. } = self.others {
            metadata.extend(self.windowed(window, full_head_dim));
            return metadata;
        }
        metadata.extend([
            number("attention.head_count_kv", self.kv_heads),
            number("attention.key_length", self.head_dim),
            number("attention.value_length", self.head_dim),
            (format!("{family}.rope.freq_base"), Value::F32(1e7)),
        ]);
        if let Others::Delta { every, keys, values } = self.others {
            metadata.extend([
                number("expert_shared_feed_forward_length", self.shared_ff),
                number("rope.dimension_count", self.head_dim / 4),
                number("full_attention_interval", every),
                number("ssm.conv_kernel", TAPS),
                number("ssm.state_size", DELTA_DIM),
                number("ssm.group_count", keys),
                number("ssm.time_step_rank", values),
                number("ssm.inner_size", values * DELTA_DIM),
            ]);
            if family == "qwen35moe" {
                let sections = (format!("{family}.rope.dimension_sections"), Value::i32s([11, 11, 10, 0]));
                metadata.push(sections);
            }
        }
        metadata
    }

    /// The keys that only models with windowed layers have.
    fn windowed(&self, window: usize, full_head_dim: usize) -> [(String, Value); 14] {
        let family = self.family;
        let number = |key: &str, value: usize| (format!("{family}.{key}"), Value::U32(value as u32));
        let kv_heads = (0..self.layers).map(|layer| self.heads(layer).0 as i32);
        let windowed = (0..self.layers).map(|layer| i32::from(!self.full_attention(layer)));
        [
            (format!("{family}.attention.head_count_kv"), Value::i32s(kv_heads)),
            (format!("{family}.attention.sliding_window_pattern"), Value::i32s(windowed)),
            number("attention.sliding_window", window),
            number("attention.key_length", full_head_dim),
            number("attention.value_length", full_head_dim),
            number("attention.key_length_swa", self.head_dim),
            number("attention.value_length_swa", self.head_dim),
            number("rope.dimension_count", full_head_dim),
            number("rope.dimension_count_swa", self.head_dim),
            number("embedding_length_per_layer_input", 0),
            number("attention.shared_kv_layers", 0),
            (format!("{family}.rope.freq_base"), Value::F32(1e6)),
            (format!("{family}.rope.freq_base_swa"), Value::F32(1e4)),
            (format!("{family}.final_logit_softcapping"), Value::F32(30.0)),
        ]
    }

    /// The tensors of a model with this vocabulary.
    pub(super) fn jobs(&self, vocab: usize) -> Vec<Job> {
        let mut jobs = Jobs { jobs: Vec::new(), prefix: String::new() };
        let tied = matches!(self.others, Others::Windowed { .. });
        let kind = if tied { Type::Q6_K } else { Type::Q4_K };
        jobs.add("token_embd.weight", &[self.hidden, vocab], kind, Fill::Random(0.05));
        for layer in 0..self.layers {
            jobs.prefix = format!("blk.{layer}.");
            jobs.ones("attn_norm", self.hidden);
            match self.others {
                Others::Delta { keys, values, .. } if !self.full_attention(layer) => {
                    self.delta_net(&mut jobs, keys, values);
                }
                _ => self.attention(&mut jobs, layer),
            }
            self.feed_forward(&mut jobs, layer);
        }
        jobs.prefix.clear();
        if let Others::Windowed { full_head_dim, .. } = self.others {
            // a quarter of the pairs
            jobs.add("rope_freqs.weight", &[full_head_dim / 2], Type::F32, Fill::Rotated(full_head_dim / 8));
        }
        jobs.ones("output_norm", self.hidden);
        if !tied {
            jobs.matrix("output", &[self.hidden, vocab], Type::Q6_K);
        }
        jobs.jobs
    }

    fn mixed(&self, layer: usize) -> Type {
        if more_bits(layer, self.layers) { Type::Q6_K } else { Type::Q4_K }
    }

    fn attention(&self, jobs: &mut Jobs, layer: usize) {
        let (hidden, (kv_heads, head_dim)) = (self.hidden, self.heads(layer));
        let (queries, keys) = (self.heads * head_dim, kv_heads * head_dim);
        let gated = if matches!(self.others, Others::Delta { .. }) { 2 } else { 1 };
        jobs.matrix("attn_q", &[hidden, gated * queries], Type::Q4_K);
        jobs.matrix("attn_k", &[hidden, keys], Type::Q4_K);
        // in the full layers of gemma4 values are the keys
        if !(matches!(self.others, Others::Windowed { .. }) && self.full_attention(layer)) {
            jobs.matrix("attn_v", &[hidden, keys], self.mixed(layer));
        }
        jobs.ones("attn_q_norm", head_dim);
        jobs.ones("attn_k_norm", head_dim);
        jobs.matrix("attn_output", &[queries, hidden], Type::Q4_K);
    }

    fn delta_net(&self, jobs: &mut Jobs, keys: usize, values: usize) {
        let (hidden, width) = (self.hidden, values * DELTA_DIM);
        let channels = 2 * keys * DELTA_DIM + width;
        jobs.matrix("attn_qkv", &[hidden, channels], Type::Q5_K);
        jobs.matrix("attn_gate", &[hidden, width], Type::Q4_K);
        if self.family == "qwen3next" {
            jobs.matrix("ssm_ba", &[hidden, 2 * values], Type::Q4_K);
        } else {
            jobs.matrix("ssm_beta", &[hidden, values], Type::Q4_K);
            jobs.matrix("ssm_alpha", &[hidden, values], Type::Q4_K);
        }
        jobs.add("ssm_conv1d.weight", &[TAPS, channels], Type::F32, Fill::Random(0.5));
        jobs.add("ssm_dt.bias", &[values], Type::F32, Fill::Random(0.5));
        jobs.add("ssm_a", &[values], Type::F32, Fill::Constant(-1.0));
        jobs.ones("ssm_norm", DELTA_DIM);
        jobs.matrix("ssm_out", &[width, hidden], Type::Q4_K);
    }

    fn feed_forward(&self, jobs: &mut Jobs, layer: usize) {
        let (hidden, ff, experts, mixed) = (self.hidden, self.expert_ff, self.experts, self.mixed(layer));
        jobs.add("ffn_gate_inp.weight", &[hidden, experts], Type::F32, Fill::Random(ROUTER_STD));
        if matches!(self.others, Others::Windowed { .. }) {
            for norm in ["post_attention_norm", "ffn_norm", "post_ffw_norm"] {
                jobs.ones(norm, hidden);
            }
            for norm in ["post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"] {
                jobs.ones(norm, hidden);
            }
            jobs.matrix("ffn_gate", &[hidden, self.ff], Type::Q4_K);
            jobs.matrix("ffn_up", &[hidden, self.ff], Type::Q4_K);
            jobs.matrix("ffn_down", &[self.ff, hidden], mixed);
            jobs.add("ffn_gate_inp.scale", &[hidden], Type::F32, Fill::Constant(1.0));
            jobs.matrix("ffn_gate_up_exps", &[hidden, 2 * ff, experts], Type::Q4_K);
            jobs.matrix("ffn_down_exps", &[ff, hidden, experts], mixed);
            jobs.add("ffn_down_exps.scale", &[experts], Type::F32, Fill::Constant(1.0));
            jobs.ones("layer_output_scale", 1);
            return;
        }
        let hybrid = matches!(self.others, Others::Delta { .. });
        jobs.ones(if hybrid { "post_attention_norm" } else { "ffn_norm" }, hidden);
        jobs.matrix("ffn_gate_exps", &[hidden, ff, experts], Type::Q4_K);
        jobs.matrix("ffn_up_exps", &[hidden, ff, experts], Type::Q4_K);
        jobs.matrix("ffn_down_exps", &[ff, hidden, experts], mixed);
        if self.shared_ff > 0 {
            jobs.add("ffn_gate_inp_shexp.weight", &[hidden], Type::F32, Fill::Random(ROUTER_STD));
            jobs.matrix("ffn_gate_shexp", &[hidden, self.shared_ff], Type::Q4_K);
            jobs.matrix("ffn_up_shexp", &[hidden, self.shared_ff], Type::Q4_K);
            jobs.matrix("ffn_down_shexp", &[self.shared_ff, hidden], mixed);
        }
    }
}

/// The tensors so far, in the file's order.
struct Jobs {
    jobs: Vec<Job>,
    /// The beginning of names.
    prefix: String,
}

impl Jobs {
    fn add(&mut self, name: &str, dims: &[usize], kind: Type, fill: Fill) {
        let name = format!("{}{name}", self.prefix);
        let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
        self.jobs.push((TensorInfo::new(name, &dims, kind), fill));
    }

    fn matrix(&mut self, part: &str, dims: &[usize], kind: Type) {
        self.add(&format!("{part}.weight"), dims, fitting(kind, dims[0]), Fill::Random(STD));
    }

    fn ones(&mut self, part: &str, len: usize) {
        self.add(&format!("{part}.weight"), &[len], Type::F32, Fill::Constant(1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(shape: &Shape) -> (usize, u64) {
        let jobs = shape.jobs(shape.vocab);
        let bytes = jobs.iter().map(|(info, _)| info.bytes()).sum();
        (bytes, jobs.iter().map(|(info, _)| info.dims.iter().product::<u64>()).sum())
    }

    /// The published Q4_K_M file of this shape has 30 532 122 624 parameters in 18 550 716 416 bytes of tensors.
    #[test]
    fn the_full_shape_has_the_published_size() {
        assert_eq!(sums(&FULL), (18_550_716_416, 30_532_122_624));
    }

    /// The names of the models say how many parameters they have, and how many of them a token uses.
    #[test]
    fn shapes_have_the_parameters_of_their_names() {
        let whole = |shape: Shape| sums(&shape).1 as f64 / 1e9;
        assert_eq!(whole(QWEN35_FULL).round(), 35.0);
        assert_eq!(whole(Shape { layers: 48, ..QWEN3NEXT_FOUR_LAYERS }).round(), 80.0);
        let every_sixth = Others::Windowed { every: 6, window: 1024, full_kv_heads: 2, full_head_dim: 512 };
        let gemma = whole(Shape { layers: 30, others: every_sixth, ..GEMMA4_FOUR_LAYERS });
        assert!((25.0..26.0).contains(&gemma), "{gemma}");
    }

    /// The model reads every tensor and misses none.
    #[test]
    fn small_models_of_each_kind_are_bound() {
        use doorbell_core::gguf::Gguf;
        use doorbell_core::heap::{Global, Heap};
        use doorbell_core::model::Model;
        const HEAP: Heap<'static> = &Global;
        for shape in [QWEN35_FOUR_LAYERS, QWEN3NEXT_FOUR_LAYERS, GEMMA4_FOUR_LAYERS, TINY] {
            let family = shape.family;
            let shape = Shape { hidden: 256, experts: 16, ff: 288, expert_ff: 32, ..shape };
            let mut file = doorbell_tests::gguf_writer::GgufFile::new();
            for (key, value) in shape.metadata() {
                file.meta(key, value);
            }
            for (info, _) in shape.jobs(512) {
                let bytes = info.bytes();
                let name = String::from_utf8(info.name).unwrap();
                let data = match info.ty {
                    Type::F32 => 1_f32.to_le_bytes().repeat(bytes / 4),
                    _ => vec![0; bytes],
                };
                file.tensor(&name, &info.dims, info.ty, data);
            }
            let bytes = file.to_bytes();
            let gguf = Gguf::parse(&bytes, HEAP).unwrap();
            let model = Model::new(&gguf, HEAP).unwrap_or_else(|error| panic!("{family}: {error}"));
            assert_eq!(model.layers.len(), 4, "{family}");
        }
    }
}
