//! The sample kernels, each against what its description says.

use crate::machine::{Arg, Outcome, Random, TARGETS, bytes, clean, sample};
use doorbell_compiler::Kernel;
use doorbell_isa::Target;
use half::f16;

/// Runs a sample on every chip.
fn on_all(name: &str, groups: [u32; 2], args: impl Fn() -> Vec<Arg>, check: impl Fn(Target, Outcome)) {
    for target in TARGETS {
        let kernel: Kernel = sample(name, target);
        check(target, clean(&kernel, groups, &args()));
    }
}

fn close(found: &[f32], expected: &[f64], relative: f64, label: &str) {
    assert_eq!(found.len(), expected.len(), "{label}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= relative * expected.abs(), "{label} [{index}]: {found}, {expected} expected");
    }
}

#[test]
fn vector_add() {
    let mut random = Random(1);
    let (a, b) = (random.floats(300), random.floats(300));
    let args = || vec![Arg::Buffer(bytes(&a)), Arg::Buffer(bytes(&b)), Arg::Fresh(1200), Arg::Scalar(300)];
    on_all("vector_add", [2, 1], args, |target, outcome| {
        let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(outcome.floats(2), expected, "{target}");
    });
}

#[test]
fn axpy4() {
    let mut random = Random(2);
    let (x, y) = (random.floats(2048), random.floats(2048));
    let args = || vec![Arg::Buffer(bytes(&x)), Arg::Buffer(bytes(&y)), Arg::Scalar(3f32.to_bits())];
    on_all("axpy4", [2, 1], args, |target, outcome| {
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0 * x + y).collect();
        assert_eq!(outcome.floats(1), expected, "{target}");
    });
}

#[test]
fn clamp_positive() {
    let x = Random(3).floats(128);
    let args = || vec![Arg::Buffer(bytes(&x)), Arg::Scalar(0.25f32.to_bits())];
    on_all("clamp_positive", [2, 1], args, |target, outcome| {
        let expected: Vec<f32> = x.iter().map(|x| if *x > 0.0 { *x } else { 0.25 * x }).collect();
        assert_eq!(outcome.floats(0), expected, "{target}");
    });
}

const ROWS: usize = 2;
const COLUMNS: usize = 512;

fn rows(x: &[f32]) -> impl Iterator<Item = &[f32]> {
    x.chunks(COLUMNS)
}

#[test]
fn reduce_sum() {
    let x = Random(4).floats(ROWS * COLUMNS);
    let args = || vec![Arg::Buffer(bytes(&x)), Arg::Fresh(4 * ROWS), Arg::Scalar(COLUMNS as u32)];
    on_all("reduce_sum", [ROWS as u32, 1], args, |target, outcome| {
        let expected: Vec<f32> = rows(&x).map(|row| row.iter().sum()).collect();
        assert_eq!(outcome.floats(1), expected, "{target}");
    });
}

#[test]
fn softmax() {
    let x = Random(5).floats(ROWS * COLUMNS);
    let args = || vec![Arg::Buffer(bytes(&x)), Arg::Fresh(4 * ROWS * COLUMNS), Arg::Scalar(COLUMNS as u32)];
    on_all("softmax_row", [ROWS as u32, 1], args, |target, outcome| {
        let expected: Vec<f64> = rows(&x)
            .flat_map(|row| {
                let powers: Vec<f64> = row.iter().map(|x| f64::from(*x).exp()).collect();
                let sum: f64 = powers.iter().sum();
                powers.into_iter().map(move |power| power / sum)
            })
            .collect();
        // Rounding of exponents up to 32 before exp2.
        close(&outcome.floats(1), &expected, 1e-5, &target.to_string());
    });
}

#[test]
fn rms_norm() {
    let mut random = Random(6);
    let (x, weight) = (random.floats(ROWS * COLUMNS), random.floats(COLUMNS));
    let args = || {
        vec![
            Arg::Buffer(bytes(&x)),
            Arg::Buffer(bytes(&weight)),
            Arg::Fresh(4 * ROWS * COLUMNS),
            Arg::Scalar(COLUMNS as u32),
            Arg::Scalar(1e-5f32.to_bits()),
        ]
    };
    on_all("rms_norm", [ROWS as u32, 1], args, |target, outcome| {
        let mut expected = Vec::new();
        for row in rows(&x) {
            let squares: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum();
            let scale = 1.0 / (squares / COLUMNS as f64 + f64::from(1e-5f32)).sqrt();
            expected.extend(row.iter().zip(&weight).map(|(x, w)| f64::from(*x) * f64::from(*w) * scale));
        }
        close(&outcome.floats(2), &expected, 1e-6, &target.to_string());
    });
}

#[test]
fn histogram() {
    let bins = Random(7).bytes(1024);
    let args = || vec![Arg::Buffer(bins.clone()), Arg::Buffer(vec![0; 1024])];
    on_all("histogram", [4, 1], args, |target, outcome| {
        let mut expected = vec![0u32; 256];
        for bin in &bins {
            expected[usize::from(*bin)] += 1;
        }
        assert_eq!(outcome.words(1), expected, "{target}");
    });
}

#[test]
fn byte_shift() {
    let mut random = Random(8);
    let (small, wide) = (random.bytes(64), random.bytes(128));
    for mode in [0, 1] {
        let args = || {
            vec![Arg::Buffer(small.clone()), Arg::Buffer(wide.clone()), Arg::Fresh(128), Arg::Scalar(mode)]
        };
        on_all("byte_shift", [2, 1], args, |target, outcome| {
            let mut expected = Vec::new();
            for (byte, word) in small.iter().zip(wide.as_chunks::<2>().0) {
                let byte = i32::from(byte.cast_signed());
                let sum = i32::from(u16::from_le_bytes(*word)) + (byte << 4);
                let result = if mode == 1 { sum ^ byte } else { sum };
                expected.extend((result as u16).to_le_bytes());
            }
            assert_eq!(outcome.buffers[2], expected, "{target} mode {mode}");
        });
    }
}

/// Rows, columns and depth of the matrix products.
const SHAPE: [usize; 3] = [32, 48, 64];

/// `out[row][column]` of a product of whole numbers, A by rows, B by columns.
fn product(a: &[i32], b: &[i32]) -> Vec<i32> {
    let [rows, columns, depth] = SHAPE;
    let mut out = Vec::new();
    for row in 0..rows {
        for column in 0..columns {
            let (a, b) = (&a[row * depth..][..depth], &b[column * depth..][..depth]);
            out.push(a.iter().zip(b).map(|(a, b)| a * b).sum());
        }
    }
    out
}

fn tiles(name: &str, inputs: [Vec<i32>; 2], encode: impl Fn(i32) -> Vec<u8>, decode: impl Fn(u32) -> i32) {
    let [rows, columns, depth] = SHAPE;
    let [a, b] = inputs;
    let row_bytes = depth * encode(0).len();
    let args = || {
        vec![
            Arg::Buffer(a.iter().flat_map(|x| encode(*x)).collect()),
            Arg::Buffer(b.iter().flat_map(|x| encode(*x)).collect()),
            Arg::Fresh(4 * rows * columns),
            Arg::Scalar(row_bytes as u32),
            Arg::Scalar(columns as u32),
        ]
    };
    on_all(name, [rows as u32 / 16, columns as u32 / 16], args, |target, outcome| {
        let found: Vec<i32> = outcome.words(2).into_iter().map(&decode).collect();
        assert_eq!(found, product(&a, &b), "{target}");
    });
}

fn whole(random: &mut Random, count: usize, most: u16) -> Vec<i32> {
    (0..count).map(|_| i32::from(random.next() % (2 * most)) - i32::from(most)).collect()
}

#[test]
fn half_matrix_tiles() {
    let [rows, columns, depth] = SHAPE;
    let mut random = Random(9);
    let inputs = [whole(&mut random, rows * depth, 64), whole(&mut random, columns * depth, 64)];
    let encode = |x: i32| f16::from_f32(x as f32).to_le_bytes().to_vec();
    for name in ["wmma_f16_tile", "wmma_f16_tile_ahead"] {
        tiles(name, inputs.clone(), encode, |bits| f32::from_bits(bits) as i32);
    }
}

#[test]
fn byte_matrix_tiles() {
    let [rows, columns, depth] = SHAPE;
    let mut random = Random(10);
    let inputs = [whole(&mut random, rows * depth, 128), whole(&mut random, columns * depth, 128)];
    tiles("wmma_iu8_tile", inputs, |x| vec![x as u8], u32::cast_signed);
}
