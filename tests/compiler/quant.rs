//! Q4_K kernels against the format's definition.

use crate::machine::{Arg, Random, TARGETS, clean, sample};
use half::f16;

const BLOCK: usize = 144;

fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// Scale and minimum of a sub-block.
fn scales(bytes: &[u8], sub: usize) -> (u8, u8) {
    if sub < 4 {
        (bytes[sub] & 63, bytes[sub + 4] & 63)
    } else {
        let (low, high) = (bytes[sub + 4] & 15, bytes[sub + 4] >> 4);
        (low | ((bytes[sub - 4] >> 6) << 4), high | ((bytes[sub] >> 6) << 4))
    }
}

fn weights(block: &[u8]) -> Vec<f32> {
    let (d, dmin) = (half(block, 0), half(block, 2));
    let mut values = Vec::new();
    for sub in 0..8 {
        let (scale, minimum) = scales(&block[4..16], sub);
        let (scale, minimum) = (f32::from(scale) * d, f32::from(minimum) * dmin);
        for index in 0..32 {
            let byte = block[16 + 32 * (sub / 2) + index];
            let nibble = if sub % 2 == 0 { byte & 15 } else { byte >> 4 };
            values.push(f32::from(nibble) * scale - minimum);
        }
    }
    values
}

/// Random blocks with d 0.0123 and dmin 0.37.
fn blocks(random: &mut Random, count: usize) -> Vec<u8> {
    let mut bytes = random.bytes(BLOCK * count);
    for block in bytes.chunks_mut(BLOCK) {
        block[..4].copy_from_slice(&[0x4c, 0x22, 0xeb, 0x35]);
    }
    bytes
}

#[test]
fn dequantized_weights_are_the_formats() {
    let blocks = blocks(&mut Random(12345), 3);
    let expected: Vec<f32> = blocks.chunks(BLOCK).flat_map(weights).collect();
    for target in TARGETS {
        let args = [Arg::Buffer(blocks.clone()), Arg::Fresh(3 * 1024)];
        let outcome = clean(&sample("q4k_dequantize", target), [3, 1], &args);
        assert_eq!(outcome.floats(1), expected, "{target}");
    }
}

#[test]
fn matrix_rows_times_activations() {
    // One, two, three and five trips: with loads ahead, each pair of trips and the odd one are code of their own.
    for row_blocks in [4, 8, 12, 20] {
        let rows = 3;
        let mut random = Random(99);
        let matrix = blocks(&mut random, rows * row_blocks);
        let mut activations = random.bytes(36 * 8 * row_blocks);
        for block in activations.chunks_mut(36) {
            // 0.1 and a sum that the kernel does not read.
            block[..4].copy_from_slice(&[0x66, 0x2e, 0, 0]);
        }
        for target in TARGETS {
            let args = [
                Arg::Buffer(matrix.clone()),
                Arg::Buffer(activations.clone()),
                Arg::Fresh(4 * rows),
                Arg::Scalar(row_blocks as u32),
            ];
            let outcome = clean(&sample("q4k_q8_gemv", target), [rows as u32, 1], &args);
            let sums = outcome.floats(2);
            near(&sums, &matrix, &activations, row_blocks);
            let ahead = clean(&sample("q4k_q8_gemv_ahead", target), [rows as u32, 1], &args);
            assert_eq!(ahead.floats(2), sums, "{target} {row_blocks} blocks");
        }
    }
}

/// Compares sums with those of the format's definition in f64.
fn near(sums: &[f32], matrix: &[u8], activations: &[u8], row_blocks: usize) {
    for (row, found) in sums.iter().enumerate() {
        let (mut expected, mut magnitude) = (0f64, 0f64);
        let blocks = matrix.chunks(BLOCK).skip(row * row_blocks).take(row_blocks);
        let values = blocks.flat_map(weights);
        let inputs = activations.chunks(36).flat_map(|block| {
            let scale = f64::from(half(block, 0));
            block[4..].iter().map(move |x| f64::from(x.cast_signed()) * scale)
        });
        for (weight, x) in values.zip(inputs) {
            expected += f64::from(weight) * x;
            magnitude += (f64::from(weight) * x).abs();
        }
        let error = (f64::from(*found) - expected).abs();
        assert!(error < 1e-5 * magnitude, "row {row}: {found}, {expected}");
    }
}
