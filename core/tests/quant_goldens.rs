//! Block formats against ggml: values and activation codes bit for bit, dot products within rounding.
//!
//! The files come from `tests/goldens/quant/make.py`, which says what they hold.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use doorbell_core::quant::{self, Activation, Type};
use std::path::PathBuf;

/// Elements at the end of each weight file that are ordinary.
const ORDINARY: usize = 512;

/// Blocks behind each hash.
const MANY: usize = 2048;

fn golden(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens/quant");
    std::fs::read(folder.join(name)).unwrap()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn computable() -> impl Iterator<Item = Type> {
    Type::all().filter(|ty| ty.activation().is_some())
}

/// The blocks of a weight file and their values.
fn weights(ty: Type) -> (Vec<u8>, Vec<f32>) {
    let mut blocks = golden(&format!("{ty}.bin"));
    let count = blocks.len() / (ty.block_bytes() + 4 * ty.block_len());
    let values = floats(&blocks.split_off(count * ty.block_bytes()));
    assert_eq!(values.len(), count * ty.block_len());
    (blocks, values)
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

#[test]
fn values_equal_ggml_bit_for_bit() {
    for ty in computable() {
        let (blocks, expected) = weights(ty);
        assert!(expected.iter().any(|value| value.is_nan()) || ty == Type::MXFP4 || ty == Type::NVFP4);
        let mut values = vec![0.0; expected.len()];
        quant::dequantize(ty, &blocks, &mut values).unwrap();
        for (index, (value, expected)) in values.iter().zip(&expected).enumerate() {
            assert!(same(*value, *expected), "{ty} {index}: {value:e} instead of {expected:e}");
        }
    }
}

/// The stream of SplitMix64 from seed 0.
fn random_bytes(count: usize) -> Vec<u8> {
    let words = (1..=count as u64 / 8 + 1).flat_map(|index| {
        let mut z = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ z >> 31).to_le_bytes()
    });
    words.take(count).collect()
}

/// Sum of bits times odd index numbers; all NaNs count as one.
fn hash(values: &[f32]) -> u64 {
    values.iter().zip(0u64..).fold(0, |sum: u64, (value, index)| {
        let bits = if value.is_nan() { 0x7FC0_0000 } else { value.to_bits() };
        sum.wrapping_add(u64::from(bits).wrapping_mul(2 * index + 1))
    })
}

#[test]
fn values_of_many_blocks_equal_ggml() {
    let golden = String::from_utf8(golden("hashes.txt")).unwrap();
    assert_eq!(golden.lines().count(), computable().count());
    for line in golden.lines() {
        let (name, expected) = line.split_once(' ').unwrap();
        let ty = computable().find(|ty| ty.name() == name).unwrap();
        let blocks = random_bytes(MANY * ty.block_bytes());
        let mut values = vec![0.0; MANY * ty.block_len()];
        quant::dequantize(ty, &blocks, &mut values).unwrap();
        assert_eq!(format!("{:016x}", hash(&values)), expected, "{ty}");
    }
}

#[test]
fn activation_codes_equal_ggml() {
    let inputs = floats(&golden("activations.f32"));
    for format in [Activation::Q8_0, Activation::Q8_1, Activation::Q8_K] {
        let expected = golden(&format!("{format}.activation"));
        let mut codes = vec![0; expected.len()];
        format.quantize(&inputs, &mut codes).unwrap();
        let blocks = codes.chunks(format.block_bytes()).zip(expected.chunks(format.block_bytes()));
        for (index, (block, expected)) in blocks.enumerate() {
            assert_eq!(block, expected, "{format} block {index}");
        }
    }
}

/// (exact, ggml's kernel) by type.
fn golden_dots() -> Vec<(String, f64, f64)> {
    let text = String::from_utf8(golden("dots.txt")).unwrap();
    let rows = text.lines().map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        (fields[0].into(), fields[1].parse().unwrap(), fields[2].parse().unwrap())
    });
    rows.collect()
}

/// Tolerated error of ggml's kernel, relative to the sum of magnitudes.
fn kernel_tolerance(ty: Type) -> f64 {
    match ty {
        // It takes the minima times a half-precision sum.
        Type::Q4_1 | Type::Q5_1 => 5e-5,
        // It quantizes activations, which we keep.
        _ if ty.activation() == Some(Activation::F32) => 1e-2,
        _ => 1e-6,
    }
}

#[test]
fn dot_products_equal_ggml() {
    let inputs = floats(&golden("activations.f32")[..4 * ORDINARY]);
    let dots = golden_dots();
    assert_eq!(dots.len(), computable().count());
    for ty in computable() {
        let (blocks, values) = weights(ty);
        let row = &blocks[blocks.len() - ty.row_bytes(ORDINARY).unwrap()..];
        let format = ty.activation().unwrap();
        let mut activation = vec![0; format.row_bytes(ORDINARY).unwrap()];
        format.quantize(&inputs, &mut activation).unwrap();
        let dot = f64::from(quant::dot(ty, row, &activation).unwrap());

        let terms = values[values.len() - ORDINARY..].iter().zip(&inputs);
        let magnitude: f64 = terms.map(|(weight, input)| f64::from((weight * input).abs())).sum();
        let (_, exact, kernel) = dots.iter().find(|row| row.0 == ty.name()).unwrap();
        assert!((dot - exact).abs() <= 1e-7 * magnitude, "{ty}: {dot} instead of {exact}, of {magnitude}");
        let tolerance = kernel_tolerance(ty);
        assert!((dot - kernel).abs() <= tolerance * magnitude, "{ty}: {dot}, ggml {kernel}, of {magnitude}");
    }
}
