//! Tiny models of every family with random weights, as GGUF bytes.
//!
//! They load and compute like real ones; their answers have no meaning.

use crate::blocks;
use crate::gguf_writer::{GgufFile, Value};
use crate::random::Random;
use crate::vocabulary::{self, Vocabulary};
use doorbell_core::quant::Type;

/// A model family, named as in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Plain pre-norm transformer, interleaved rope.
    Llama,
    /// Biases on q, k and v.
    Qwen2,
    /// Norms on the heads of q and k.
    Qwen3,
    /// As [`Family::Qwen3`], with routed experts.
    Qwen3Moe,
    /// Four norms per layer, sliding windows, tied head, SPM vocabulary.
    Gemma3,
    /// Delta nets whose value heads are grouped, gated attention, routed and shared experts.
    Qwen3Next,
    /// Delta nets whose value heads are tiled, gated attention.
    Qwen35,
    /// As [`Family::Qwen35`], with routed and shared experts.
    Qwen35Moe,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 8] = [
        Self::Llama,
        Self::Qwen2,
        Self::Qwen3,
        Self::Qwen3Moe,
        Self::Gemma3,
        Self::Qwen3Next,
        Self::Qwen35,
        Self::Qwen35Moe,
    ];

    /// The value of `general.architecture`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Qwen3Moe => "qwen3moe",
            Self::Gemma3 => "gemma3",
            Self::Qwen3Next => "qwen3next",
            Self::Qwen35 => "qwen35",
            Self::Qwen35Moe => "qwen35moe",
        }
    }

    /// Every other layer has a recurrent state; attention has an output gate.
    pub fn is_hybrid(self) -> bool {
        matches!(self, Self::Qwen3Next | Self::Qwen35 | Self::Qwen35Moe)
    }

    /// Its feed-forwards are routed experts.
    pub fn has_experts(self) -> bool {
        matches!(self, Self::Qwen3Moe | Self::Qwen3Next | Self::Qwen35Moe)
    }
}

/// Sizes of the delta nets of hybrid families.
const TAPS: usize = 4;
const KEY_HEADS: usize = 2;
const VALUE_HEADS: usize = 4;
const DELTA_DIM: usize = 32;

/// The sizes of a tiny model, in elements, heads, layers or tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the field's standard terms")]
pub struct Shape {
    pub layers: usize,
    pub hidden: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub ff: usize,
    pub experts: usize,
    pub experts_used: usize,
    pub expert_ff: usize,
    pub vocab: usize,
    pub context: usize,
}

impl Shape {
    /// Rows of 64 and 96: for F32, F16, BF16 and the formats with blocks of 32.
    pub const NARROW: Self = Self {
        layers: 2,
        hidden: 64,
        heads: 4,
        kv_heads: 2,
        head_dim: 32,
        ff: 96,
        experts: 8,
        experts_used: 3,
        expert_ff: 32,
        vocab: 512,
        context: 256,
    };
    /// As small as a model can be: for tests that load thousands of them.
    pub const TINY: Self = Self {
        layers: 1,
        hidden: 32,
        heads: 2,
        kv_heads: 1,
        head_dim: 16,
        ff: 32,
        experts: 4,
        experts_used: 2,
        expert_ff: 32,
        vocab: 384,
        context: 64,
    };
    /// Rows of 256 and 512: for K-quants too.
    pub const WIDE: Self =
        Self { hidden: 256, head_dim: 64, ff: 512, expert_ff: 256, context: 512, ..Self::NARROW };
    /// No width is a whole number of the kernels' tiles: 16, 32, 64 or 128 rows, outputs or items.
    pub const RAGGED: Self = Self {
        layers: 2,
        hidden: 96,
        heads: 6,
        kv_heads: 2,
        head_dim: 32,
        ff: 160,
        experts: 7,
        experts_used: 3,
        expert_ff: 96,
        vocab: 401,
        context: 8192,
    };
    /// The same for types with blocks of 256.
    const RAGGED_WIDE: Self =
        Self { hidden: 256, head_dim: 80, ff: 768, expert_ff: 256, layers: 1, ..Self::RAGGED };

    /// [`Self::RAGGED`] with rows that are whole blocks of a type.
    pub fn ragged(ty: Type) -> Self {
        if ty.block_len() == 256 { Self::RAGGED_WIDE } else { Self::RAGGED }
    }
}

/// The file of a tiny model, which a test may change before `to_bytes`: remove a tensor, alter a key.
///
/// Matrices are of type `ty`; norms, biases and the router are F32 as in real files. A matrix whose rows
/// are not whole blocks of `ty` is F32. The same arguments give the same bytes.
pub fn model(family: Family, shape: Shape, ty: Type, seed: u64) -> GgufFile {
    let mut builder = Builder { file: GgufFile::new(), random: Random::new(seed), ty };
    let vocabulary = match family {
        Family::Gemma3 => vocabulary::spm(shape.vocab),
        Family::Llama => vocabulary::bpe(shape.vocab, "smollm"),
        _ => vocabulary::bpe(shape.vocab, "qwen2"),
    };
    builder.metadata(family, &shape, vocabulary);
    builder.tensors(family, &shape);
    builder.file
}

/// The bytes of a narrow F32 model of this family.
pub fn f32_model(family: Family, seed: u64) -> Vec<u8> {
    model(family, Shape::NARROW, Type::F32, seed).to_bytes()
}

/// The model that the program without an operating system (`tests/nostd`) embeds.
pub fn embedded() -> Vec<u8> {
    model(Family::Qwen3Moe, Shape::NARROW, Type::Q8_0, 3).to_bytes()
}

struct Builder {
    file: GgufFile,
    random: Random,
    ty: Type,
}

impl Builder {
    fn metadata(&mut self, family: Family, shape: &Shape, vocabulary: Vocabulary) {
        let arch = family.name();
        self.file.meta("general.architecture", arch.into());
        self.file.meta("general.name", format!("tiny {arch}").as_str().into());
        let mut number = |key: &str, value: usize| {
            self.file.meta(format!("{arch}.{key}"), Value::U32(value as u32));
        };
        number("context_length", shape.context);
        number("embedding_length", shape.hidden);
        number("block_count", shape.layers);
        number("feed_forward_length", shape.ff);
        number("attention.head_count", shape.heads);
        number("attention.head_count_kv", shape.kv_heads);
        number("attention.key_length", shape.head_dim);
        number("attention.value_length", shape.head_dim);
        // hybrids rotate half of each head
        number("rope.dimension_count", shape.head_dim / if family.is_hybrid() { 2 } else { 1 });
        number("vocab_size", shape.vocab);
        if family.is_hybrid() {
            number("full_attention_interval", 2);
            number("ssm.conv_kernel", TAPS);
            number("ssm.state_size", DELTA_DIM);
            number("ssm.group_count", KEY_HEADS);
            number("ssm.time_step_rank", VALUE_HEADS);
            number("ssm.inner_size", VALUE_HEADS * DELTA_DIM);
            number("expert_shared_feed_forward_length", shape.expert_ff);
        }
        if family.has_experts() {
            number("expert_count", shape.experts);
            number("expert_used_count", shape.experts_used);
            number("expert_feed_forward_length", shape.expert_ff);
        }
        if family == Family::Gemma3 {
            number("attention.sliding_window", 8);
        }
        self.file.meta(format!("{arch}.rope.freq_base"), Value::F32(10_000.0));
        self.file.meta(format!("{arch}.attention.layer_norm_rms_epsilon"), Value::F32(1e-6));
        for (key, value) in vocabulary.metadata {
            self.file.meta(key, value);
        }
    }

    fn tensors(&mut self, family: Family, shape: &Shape) {
        let hidden = shape.hidden;
        self.matrix("token_embd.weight", &[hidden, shape.vocab], 1.0);
        for layer in 0..shape.layers {
            if family.is_hybrid() && layer % 2 == 0 {
                self.delta_net(family, shape, layer);
            } else {
                self.attention(family, shape, layer);
            }
            self.feed_forward(family, shape, layer);
        }
        self.norm("output_norm.weight", hidden);
        if family != Family::Gemma3 {
            self.matrix("output.weight", &[hidden, shape.vocab], weight_std(hidden));
        }
    }

    fn delta_net(&mut self, family: Family, shape: &Shape, layer: usize) {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let (hidden, values) = (shape.hidden, VALUE_HEADS * DELTA_DIM);
        let channels = 2 * KEY_HEADS * DELTA_DIM + values;
        let std = weight_std(hidden);
        self.norm(&name("attn_norm.weight"), hidden);
        self.matrix(&name("attn_qkv.weight"), &[hidden, channels], std);
        self.matrix(&name("attn_gate.weight"), &[hidden, values], std);
        if family == Family::Qwen3Next {
            self.matrix(&name("ssm_ba.weight"), &[hidden, 2 * VALUE_HEADS], std);
        } else {
            self.matrix(&name("ssm_beta.weight"), &[hidden, VALUE_HEADS], std);
            self.matrix(&name("ssm_alpha.weight"), &[hidden, VALUE_HEADS], std);
        }
        self.float_matrix(&name("ssm_conv1d.weight"), &[TAPS, channels], 0.5);
        self.vector(&name("ssm_dt.bias"), VALUE_HEADS, 0.0, 0.5);
        self.vector(&name("ssm_a"), VALUE_HEADS, -1.0, 0.2);
        self.norm(&name("ssm_norm.weight"), DELTA_DIM);
        self.matrix(&name("ssm_out.weight"), &[values, hidden], weight_std(values));
    }

    fn attention(&mut self, family: Family, shape: &Shape, layer: usize) {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let (hidden, queries) = (shape.hidden, shape.heads * shape.head_dim);
        let std = weight_std(hidden);
        self.norm(&name("attn_norm.weight"), hidden);
        for (part, heads) in [("q", shape.heads), ("k", shape.kv_heads), ("v", shape.kv_heads)] {
            let packed = if part == "q" && family.is_hybrid() { 2 } else { 1 };
            let rows = packed * heads * shape.head_dim;
            self.matrix(&name(&format!("attn_{part}.weight")), &[hidden, rows], std);
            if family == Family::Qwen2 {
                self.vector(&name(&format!("attn_{part}.bias")), rows, 0.0, 0.25);
            }
        }
        if !matches!(family, Family::Llama | Family::Qwen2) {
            self.norm(&name("attn_q_norm.weight"), shape.head_dim);
            self.norm(&name("attn_k_norm.weight"), shape.head_dim);
        }
        self.matrix(&name("attn_output.weight"), &[queries, hidden], weight_std(queries));
        if family == Family::Gemma3 {
            self.norm(&name("post_attention_norm.weight"), hidden);
        }
    }

    fn feed_forward(&mut self, family: Family, shape: &Shape, layer: usize) {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let hidden = shape.hidden;
        let std = weight_std(hidden);
        let norm = if family.is_hybrid() { "post_attention_norm.weight" } else { "ffn_norm.weight" };
        self.norm(&name(norm), hidden);
        if family.has_experts() {
            let (ff, experts) = (shape.expert_ff, shape.experts);
            self.float_matrix(&name("ffn_gate_inp.weight"), &[hidden, experts], std);
            self.matrix(&name("ffn_gate_exps.weight"), &[hidden, ff, experts], std);
            self.matrix(&name("ffn_up_exps.weight"), &[hidden, ff, experts], std);
            self.matrix(&name("ffn_down_exps.weight"), &[ff, hidden, experts], weight_std(ff));
            if family.is_hybrid() {
                self.vector(&name("ffn_gate_inp_shexp.weight"), hidden, 0.0, std);
                self.matrix(&name("ffn_gate_shexp.weight"), &[hidden, ff], std);
                self.matrix(&name("ffn_up_shexp.weight"), &[hidden, ff], std);
                self.matrix(&name("ffn_down_shexp.weight"), &[ff, hidden], weight_std(ff));
            }
            return;
        }
        self.matrix(&name("ffn_gate.weight"), &[hidden, shape.ff], std);
        self.matrix(&name("ffn_up.weight"), &[hidden, shape.ff], std);
        self.matrix(&name("ffn_down.weight"), &[shape.ff, hidden], weight_std(shape.ff));
        if family == Family::Gemma3 {
            self.norm(&name("post_ffw_norm.weight"), hidden);
        }
    }

    fn matrix(&mut self, name: &str, dims: &[usize], std: f32) {
        let ty = if self.ty.row_bytes(dims[0]).is_some() { self.ty } else { Type::F32 };
        self.filled(name, dims, ty, std);
    }

    fn float_matrix(&mut self, name: &str, dims: &[usize], std: f32) {
        self.filled(name, dims, Type::F32, std);
    }

    fn filled(&mut self, name: &str, dims: &[usize], ty: Type, std: f32) {
        let rows: usize = dims.iter().skip(1).product();
        let mut data = vec![0; ty.row_bytes(dims[0]).unwrap_or(0) * rows];
        blocks::fill(ty, std, &mut self.random, &mut data);
        let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
        self.file.tensor(name, &dims, ty, data);
    }

    fn norm(&mut self, name: &str, len: usize) {
        self.vector(name, len, 1.0, 0.2);
    }

    fn vector(&mut self, name: &str, len: usize, mean: f32, std: f32) {
        let data: Vec<f32> = (0..len).map(|_| mean + std * self.random.normal()).collect();
        self.file.tensor_f32(name, &[len as u64], &data);
    }
}

/// The deviation that keeps activations of order one: 0.25 for rows of 64.
fn weight_std(columns: usize) -> f32 {
    2.0 / (columns as f32).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_arguments_give_the_same_bytes() {
        for family in Family::ALL {
            assert_eq!(f32_model(family, 1), f32_model(family, 1));
            assert_ne!(f32_model(family, 1), f32_model(family, 2));
        }
    }

    #[test]
    fn quantized_models_have_quantized_matrices_and_float_norms() {
        for ty in blocks::TYPES {
            let file = model(Family::Qwen3Moe, Shape::WIDE, ty, 1);
            for (info, data) in &file.tensors {
                assert_eq!(data.len(), info.bytes());
                let float = info.dims.len() == 1 || info.name.ends_with(b"gate_inp.weight");
                assert_eq!(info.ty, if float { Type::F32 } else { ty });
            }
        }
    }
}
