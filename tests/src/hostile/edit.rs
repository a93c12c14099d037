//! Turns any bytes into a valid file with a few faults, so that most files get past the reader.

use crate::gguf_writer::{GgufFile, Value};
use crate::tiny::{self, Family, Shape};
use arbitrary::{Result, Unstructured};
use doorbell_core::quant::Type;
use std::sync::LazyLock;

/// The valid files: every family, plain and quantized.
static FILES: LazyLock<Vec<GgufFile>> = LazyLock::new(|| {
    let kinds = [Type::F32, Type::Q8_0, Type::Q4_0];
    let families = Family::ALL.into_iter().zip(kinds.into_iter().cycle());
    families.map(|(family, kind)| tiny::model(family, Shape::TINY, kind, 9)).collect()
});

/// The file that the bytes describe.
pub fn edited(bytes: &[u8]) -> Vec<u8> {
    let mut source = Unstructured::new(bytes);
    let mut file = FILES[source.choose_index(FILES.len()).unwrap_or(0)].clone();
    // Few, so that the first fault that is found varies.
    for _ in 0..source.int_in_range(1..=3_u8).unwrap_or(0) {
        if source.is_empty() || edit(&mut file, &mut source).is_err() {
            break;
        }
    }
    let mut out = file.to_bytes();
    // The remaining input damages bytes.
    if source.ratio(1, 8).unwrap_or(false)
        && let (Ok(position), Ok(byte)) = (source.choose_index(out.len()), source.arbitrary())
    {
        out[position] = byte;
    }
    out
}

fn edit(file: &mut GgufFile, source: &mut Unstructured<'_>) -> Result<()> {
    match source.int_in_range(0..=9_u8)? {
        0..=4 => {
            let position = source.choose_index(file.metadata.len())?;
            change(&mut file.metadata[position].1, source)?;
        }
        5 => {
            let position = source.choose_index(file.metadata.len())?;
            let pair = file.metadata.remove(position);
            if source.arbitrary()? {
                let position = source.choose_index(file.metadata.len() + 1)?;
                file.metadata.insert(position, pair);
            }
        }
        6 => {
            let architecture = match &file.metadata[0].1 {
                Value::String(name) => String::from_utf8_lossy(name).into_owned(),
                _ => String::from("llama"),
            };
            let key = source.choose(&KEYS)?.replace("ARCH", &architecture);
            let value = value(source)?;
            file.metadata.retain(|(known, _)| *known != key.as_bytes());
            file.meta(key, value);
        }
        7 => {
            let position = source.choose_index(file.tensors.len())?;
            file.tensors.remove(position);
        }
        8 => {
            let position = source.choose_index(file.tensors.len())?;
            let (info, data) = &mut file.tensors[position];
            if source.arbitrary()? && !info.dims.is_empty() {
                let axis = source.choose_index(info.dims.len())?;
                info.dims[axis] = number(source)?;
            } else {
                info.ty = *source.choose(&TYPES)?;
            }
            // Mostly with data of the right length, so that binding has to find the fault.
            if source.int_in_range(0..=7_u8)? > 0 {
                let elements = info.dims.iter().fold(1_u64, |all, dim| all.saturating_mul(*dim));
                let bytes = usize::try_from(elements).ok().and_then(|count| info.ty.row_bytes(count));
                data.resize(bytes.filter(|bytes| *bytes < 1 << 20).unwrap_or(data.len()), 0x41);
            }
        }
        _ => {
            let position = source.choose_index(file.tensors.len())?;
            let data = &mut file.tensors[position].1;
            if !data.is_empty() {
                let start = source.choose_index(data.len())?;
                let end = (start + source.int_in_range(1..=64_usize)?).min(data.len());
                data[start..end].fill(source.arbitrary()?);
            }
        }
    }
    Ok(())
}

/// Changes a value a little or a lot.
fn change(value: &mut Value, source: &mut Unstructured<'_>) -> Result<()> {
    match value {
        Value::U32(number) if source.arbitrary()? => *number = self::number(source)? as u32,
        Value::F32(number) if source.arbitrary()? => *number = f32::from_bits(source.arbitrary()?),
        Value::Array(_, items) if !items.is_empty() && source.arbitrary()? => {
            let position = source.choose_index(items.len())?;
            match source.int_in_range(0..=3_u8)? {
                0 => items.truncate(position),
                1 => items[position] = items[source.choose_index(items.len())?].clone(),
                2 => {
                    if let Value::String(text) = &mut items[position] {
                        *text = source.bytes(source.len().min(position % 9))?.to_vec();
                    }
                }
                _ => change_number(&mut items[position], source)?,
            }
        }
        Value::String(text) if source.arbitrary()? => {
            *text = source.choose(&NAMES)?.as_bytes().to_vec();
        }
        other => *other = self::value(source)?,
    }
    Ok(())
}

fn change_number(value: &mut Value, source: &mut Unstructured<'_>) -> Result<()> {
    match value {
        Value::I32(number) => *number = self::number(source)? as i32,
        Value::F32(number) => *number = f32::from_bits(source.arbitrary()?),
        _ => {}
    }
    Ok(())
}

/// Numbers near the limits of anything.
fn number(source: &mut Unstructured<'_>) -> Result<u64> {
    let near =
        *source.choose(&[0_u64, 1, 32, 64, 256, 512, 1024, 1 << 20, 1 << 31, 1 << 32, 1 << 42, 1 << 63])?;
    Ok(near.wrapping_add_signed(source.int_in_range(-2..=2_i64)?))
}

fn value(source: &mut Unstructured<'_>) -> Result<Value> {
    let number = number(source)?;
    Ok(match source.int_in_range(0..=12_u8)? {
        0 => Value::U8(number as u8),
        1 => Value::I8(number as i8),
        2 => Value::U16(number as u16),
        3 => Value::I16(number as i16),
        4 => Value::U32(number as u32),
        5 => Value::I32(number as i32),
        6 => Value::F32(f32::from_bits(source.arbitrary()?)),
        7 => Value::Bool(number & 1 == 1),
        8 => Value::String(source.choose(&NAMES)?.as_bytes().to_vec()),
        9 => Value::Array(5, (0..number % 5).map(|item| Value::I32(item as i32 - 1)).collect()),
        10 => Value::U64(number),
        11 => Value::I64(number as i64),
        _ => Value::F64(f64::from_bits(source.arbitrary()?)),
    })
}

/// Tensor names of various families, and some that none has.
const NAMES: [&str; 16] = [
    "llama",
    "qwen2",
    "qwen2moe",
    "qwen3",
    "qwen3moe",
    "gemma3",
    "gpt-oss",
    "gpt2",
    "default",
    "llama-bpe",
    "smollm",
    "gemma4",
    "none",
    "yarn",
    "linear",
    "\u{1b}[31m\nx",
];

/// Keys that change the expected tensors.
const KEYS: [&str; 22] = [
    "ARCH.rope.scaling.type",
    "ARCH.rope.scaling.factor",
    "ARCH.rope.scaling.original_context_length",
    "ARCH.rope.scaling.yarn_log_multiplier",
    "ARCH.attention.sliding_window",
    "ARCH.attention.sliding_window_pattern",
    "ARCH.attention.scale",
    "ARCH.expert_count",
    "ARCH.expert_used_count",
    "ARCH.expert_shared_count",
    "ARCH.leading_dense_block_count",
    "ARCH.final_logit_softcapping",
    "ARCH.rope.freq_base_swa",
    "general.alignment",
    "split.count",
    "split.no",
    "tokenizer.ggml.add_space_prefix",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.ggml.eos_token_ids",
    "tokenizer.ggml.suppress_tokens",
    "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.eot_token_id",
];

/// Every type, computable or not.
const TYPES: [Type; 20] = [
    Type::F32,
    Type::F16,
    Type::BF16,
    Type::F64,
    Type::I8,
    Type::I32,
    Type::Q4_0,
    Type::Q4_1,
    Type::Q5_0,
    Type::Q5_1,
    Type::Q8_0,
    Type::Q8_1,
    Type::Q2_K,
    Type::Q6_K,
    Type::Q8_K,
    Type::IQ4_NL,
    Type::IQ1_S,
    Type::MXFP4,
    Type::NVFP4,
    Type::Q2_0,
];
