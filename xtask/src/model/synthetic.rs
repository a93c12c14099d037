//! Writes models of a true shape with random valid Q4_K and Q6_K blocks, tensor by tensor: as fast as the disk
//! takes them, for measurements where only the shape counts.

use super::tokenizer;
use anyhow::{Context as _, bail};
use doorbell_core::quant::Type;
use doorbell_tests::blocks;
use doorbell_tests::gguf_writer::{GgufStream, TensorInfo, Value};
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

/// The sizes of a qwen3moe model.
pub(super) struct Shape {
    layers: usize,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    experts: usize,
    experts_used: usize,
    expert_ff: usize,
    /// The dense width, which files state but no operation uses.
    ff: usize,
    /// Tokens of the vocabulary, or with `base` the byte-pair tokens it is cut down to.
    vocab: usize,
    base: Option<usize>,
}

const HEAD_DIM: usize = 128;

pub(super) const FULL: Shape = Shape {
    layers: 48,
    hidden: 2048,
    heads: 32,
    kv_heads: 4,
    experts: 128,
    experts_used: 8,
    expert_ff: 768,
    ff: 6144,
    vocab: 151_936,
    base: None,
};

pub(super) const FOUR_LAYERS: Shape = Shape { layers: 4, ..FULL };

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
};

/// A tensor to write: its description and the deviation of its weights; `None` means all ones.
type Job = (TensorInfo, Option<f32>);

/// Writes the model to `target`.
pub(super) fn write(shape: &Shape, target: &Path) -> Result<(), anyhow::Error> {
    let tokenizer = tokenizer::qwen3(shape.base, shape.vocab)?;
    let mut metadata = metadata(shape);
    metadata.extend(tokenizer.metadata);
    let metadata: Vec<(Vec<u8>, Value)> =
        metadata.into_iter().map(|(key, value)| (key.into_bytes(), value)).collect();
    let jobs = jobs(shape, tokenizer.len);
    let infos: Vec<TensorInfo> = jobs.iter().map(|(info, _)| info.clone()).collect();
    let start = Instant::now();
    let file = File::create(target).with_context(|| format!("create {}", target.display()))?;
    let mut stream = GgufStream::begin(file, &metadata, &infos)?;
    // One thread makes pieces while the other writes them; two in flight keep both busy.
    let bytes = std::thread::scope(|scope| -> Result<usize, anyhow::Error> {
        let (sender, receiver) = sync_channel::<Vec<u8>>(2);
        scope.spawn(move || pieces(&jobs, |piece| sender.send(piece).is_ok()));
        let mut bytes = 0;
        for piece in receiver {
            stream.write(&piece)?;
            bytes += piece.len();
        }
        stream.finish()?.flush()?;
        Ok(bytes)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let megabytes = bytes as f64 / 1e6;
    eprintln!("wrote {megabytes:.0} MB of tensors in {seconds:.1} s, {:.0} MB/s", megabytes / seconds);
    Ok(())
}

/// Makes the data of all tensors in pieces of about 4 MB, whole blocks each, until `take` refuses one.
fn pieces(jobs: &[Job], mut take: impl FnMut(Vec<u8>) -> bool) {
    let mut random = Random::new(1);
    for (info, std) in jobs {
        let mut left = info.bytes();
        let unit = info.ty.block_bytes();
        while left > 0 {
            let mut piece = vec![0; left.min((1 << 22) / unit * unit)];
            left -= piece.len();
            match std {
                Some(std) => blocks::fill(info.ty, *std, &mut random, &mut piece),
                None => piece.as_chunks_mut().0.iter_mut().for_each(|word| *word = 1_f32.to_le_bytes()),
            }
            if !take(piece) {
                return;
            }
        }
    }
}

fn metadata(shape: &Shape) -> Vec<(String, Value)> {
    let number = |key: &str, value: usize| (format!("qwen3moe.{key}"), Value::U32(value as u32));
    vec![
        ("general.architecture".into(), "qwen3moe".into()),
        ("general.name".into(), format!("Synthetic Qwen3-MoE {}L", shape.layers).as_str().into()),
        ("general.type".into(), "model".into()),
        number("context_length", 262_144),
        number("embedding_length", shape.hidden),
        number("block_count", shape.layers),
        number("feed_forward_length", shape.ff),
        number("attention.head_count", shape.heads),
        number("attention.head_count_kv", shape.kv_heads),
        number("attention.key_length", HEAD_DIM),
        number("attention.value_length", HEAD_DIM),
        ("qwen3moe.rope.freq_base".into(), Value::F32(1e7)),
        ("qwen3moe.attention.layer_norm_rms_epsilon".into(), Value::F32(1e-6)),
        number("expert_count", shape.experts),
        number("expert_used_count", shape.experts_used),
        number("expert_feed_forward_length", shape.expert_ff),
        // 15 is Q4_K_M.
        ("general.file_type".into(), Value::U32(15)),
        ("general.quantization_version".into(), Value::U32(2)),
    ]
}

/// True if a layer's `attn_v` and `ffn_down` get more bits in the Q4_K_M mixture
/// (`use_more_bits` of llama.cpp's `llama-quant.cpp`).
fn more_bits(layer: usize, layers: usize) -> bool {
    layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
}

fn jobs(shape: &Shape, vocab: usize) -> Vec<Job> {
    const STD: f32 = 0.02;
    let (hidden, ff, experts) = (shape.hidden, shape.expert_ff, shape.experts);
    let (queries, keys) = (shape.heads * HEAD_DIM, shape.kv_heads * HEAD_DIM);
    let mut jobs = Vec::new();
    let mut add = |name: String, dims: &[usize], kind: Type, std: Option<f32>| {
        let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
        jobs.push((TensorInfo::new(name, &dims, kind), std));
    };
    add("token_embd.weight".into(), &[hidden, vocab], Type::Q4_K, Some(0.05));
    for layer in 0..shape.layers {
        let mixed = if more_bits(layer, shape.layers) { Type::Q6_K } else { Type::Q4_K };
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        add(name("attn_norm"), &[hidden], Type::F32, None);
        add(name("attn_q"), &[hidden, queries], Type::Q4_K, Some(STD));
        add(name("attn_k"), &[hidden, keys], Type::Q4_K, Some(STD));
        add(name("attn_v"), &[hidden, keys], mixed, Some(STD));
        add(name("attn_q_norm"), &[HEAD_DIM], Type::F32, None);
        add(name("attn_k_norm"), &[HEAD_DIM], Type::F32, None);
        add(name("attn_output"), &[queries, hidden], Type::Q4_K, Some(STD));
        add(name("ffn_norm"), &[hidden], Type::F32, None);
        add(name("ffn_gate_inp"), &[hidden, experts], Type::F32, Some(0.05));
        add(name("ffn_gate_exps"), &[hidden, ff, experts], Type::Q4_K, Some(STD));
        add(name("ffn_up_exps"), &[hidden, ff, experts], Type::Q4_K, Some(STD));
        add(name("ffn_down_exps"), &[ff, hidden, experts], mixed, Some(STD));
    }
    add("output_norm.weight".into(), &[hidden], Type::F32, None);
    add("output.weight".into(), &[hidden, vocab], Type::Q6_K, Some(STD));
    jobs
}

/// Writes a tiny model, `FAMILY` or `FAMILY:TYPE`.
pub(super) fn tiny(what: &str, target: &Path) -> Result<(), anyhow::Error> {
    let (family, kind) = what.split_once(':').unwrap_or((what, "F32"));
    let Some(family) = Family::ALL.into_iter().find(|known| known.name() == family) else {
        bail!("unknown family {family:?}; known: {}", Family::ALL.map(Family::name).join(", "));
    };
    let Some(kind) = blocks::TYPES.into_iter().find(|known| known.name() == kind) else {
        bail!("unknown type {kind:?}; known: {}", blocks::TYPES.map(Type::name).join(", "));
    };
    let shape = if kind.block_len() > 32 { tiny::Shape::WIDE } else { tiny::Shape::NARROW };
    std::fs::write(target, tiny::model(family, shape, kind, 1).to_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published Q4_K_M file of this shape has 30 532 122 624 parameters in 18 550 716 416 bytes of tensors.
    #[test]
    fn the_full_shape_has_the_published_size() {
        let jobs = jobs(&FULL, FULL.vocab);
        let bytes: usize = jobs.iter().map(|(info, _)| info.bytes()).sum();
        let parameters: u64 = jobs.iter().map(|(info, _)| info.dims.iter().product::<u64>()).sum();
        assert_eq!((bytes, parameters), (18_550_716_416, 30_532_122_624));
    }
}
