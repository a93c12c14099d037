//! Products against core's f64 evaluation of the same quantized operands, and against themselves beside other rows.

use super::{Products, Scratch, Selection, Weights, activation};
use crate::activations::{Layout, Quantize};
use crate::features::Isa;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_core::heap;
use doorbell_core::quant::{self, Activation, Half, Type};

/// Types under test, with the offsets of half-precision fields in a block.
const TYPES: [(Type, &[usize]); 28] = [
    (Type::F32, &[]),
    (Type::F16, &[]),
    (Type::BF16, &[]),
    (Type::Q4_0, &[0]),
    (Type::Q4_1, &[0, 2]),
    (Type::Q5_0, &[0]),
    (Type::Q5_1, &[0, 2]),
    (Type::Q8_0, &[0]),
    (Type::IQ4_NL, &[0]),
    (Type::MXFP4, &[]),
    (Type::Q2_K, &[80, 82]),
    (Type::Q3_K, &[108]),
    (Type::Q4_K, &[0, 2]),
    (Type::Q5_K, &[0, 2]),
    (Type::Q6_K, &[208]),
    (Type::IQ4_XS, &[0]),
    (Type::IQ1_S, &[0]),
    (Type::IQ1_M, &[]),
    (Type::IQ2_XXS, &[0]),
    (Type::IQ2_XS, &[0]),
    (Type::IQ2_S, &[0]),
    (Type::IQ3_XXS, &[0]),
    (Type::IQ3_S, &[0]),
    (Type::TQ1_0, &[52]),
    (Type::TQ2_0, &[64]),
    (Type::NVFP4, &[]),
    (Type::Q1_0, &[0]),
    (Type::Q2_0, &[0]),
];

#[test]
fn every_type_with_arithmetic_is_under_test() {
    let missing = |ty: &Type| ty.activation().is_some() && TYPES.iter().all(|(known, _)| known != ty);
    assert_eq!(Type::all().find(missing), None);
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    fn uniform(&mut self) -> f32 {
        self.next() as f32 / (1u32 << 30) as f32 - 1.0
    }
}

/// The content of a block.
#[derive(Clone, Copy, Debug)]
enum Fill {
    Random,
    /// Every byte the same.
    Byte(u8),
    /// Random codes under one given scale.
    Scale(f32),
}

fn weights(ty: Type, halves: &[usize], cols: usize, rows: usize, fill: Fill, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0u8; ty.row_bytes(cols).unwrap() * rows];
    for block in bytes.chunks_exact_mut(ty.block_bytes()) {
        for byte in block.iter_mut() {
            *byte = if let Fill::Byte(byte) = fill { byte } else { random.next() as u8 };
        }
        for &at in halves {
            let scale = if let Fill::Scale(scale) = fill { scale } else { random.uniform() * 0.1 };
            block[at..at + 2].copy_from_slice(&Half::new(scale).0);
        }
        match ty {
            Type::MXFP4 => block[0] = 100 + block[0] % 40,
            // The block's scale is the upper nibbles of four words.
            Type::IQ1_M => {
                let scale = if let Fill::Scale(scale) = fill { scale } else { random.uniform() * 0.1 };
                let scale = u16::from_le_bytes(Half::new(scale).0);
                for (i, word) in block[48..].as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    word[1] = word[1] & 0x0f | ((scale >> (4 * i) & 0x0f) << 4) as u8;
                }
            }
            Type::F16 => block.copy_from_slice(&Half::new(random.uniform()).0),
            Type::F32 => block.copy_from_slice(&random.uniform().to_le_bytes()),
            Type::BF16 => block.copy_from_slice(&random.uniform().to_le_bytes()[2..]),
            _ => {}
        }
    }
    bytes
}

struct Case {
    ty: Type,
    cols: usize,
    rows: usize,
    bytes: Vec<u8>,
    values: Vec<f32>,
    tokens: usize,
}

impl Case {
    fn new(ty: Type, halves: &[usize], (cols, rows, tokens): (usize, usize, usize), fill: Fill) -> Self {
        let mut random = Random(cols as u64 + 7 * tokens as u64);
        let bytes = weights(ty, halves, cols, rows, fill, &mut random);
        // Blocks of one byte meet activations whose codes are all extremes, of one sign or of alternating ones.
        let extreme = |at: usize| match (at / cols) % 3 {
            0 => 1.0,
            1 => -1.0,
            _ => [1.0, -1.0][at % 2],
        };
        let value = |at| if matches!(fill, Fill::Byte(_)) { extreme(at) } else { random.uniform() * 3.0 };
        let values = (0..cols * tokens).map(value).collect();
        Self { ty, cols, rows, bytes, values, tokens }
    }

    /// `[token][row]` by the kernels; `group` activation rows at a time.
    fn products(&self, isa: Isa, group: usize) -> Vec<f32> {
        let weights = Weights::new(self.ty, self.cols, &self.bytes).unwrap();
        let layout = Layout::new(weights.activation(), self.cols).unwrap();
        let mut activations = vec![0; layout.stride * self.tokens];
        for (row, values) in
            activations.chunks_exact_mut(layout.stride).zip(self.values.chunks_exact(self.cols))
        {
            isa.run(Quantize::new(&layout, values, row));
        }
        let mut scratch = Scratch::new(&heap::Global);
        scratch.reserve(self.cols, weights.row_bytes()).unwrap();
        let mut all = vec![f32::NAN; self.tokens * self.rows];
        for first in (0..self.tokens).step_by(group) {
            let count = group.min(self.tokens - first);
            let products = Products::new(isa, &layout, &activations, Selection::Range { first, count });
            for strip in (0..weights.strips()).step_by(2) {
                let right = (strip + 1 < weights.strips()).then(|| weights.strip(strip + 1));
                let mut out = vec![f32::NAN; 32 * count];
                products.pair(weights.strip(strip), right, &mut scratch, &mut out);
                for (token, out) in out.chunks_exact(32).enumerate() {
                    for (row, &x) in (16 * strip..self.rows.min(16 * strip + 32)).zip(out) {
                        all[(first + token) * self.rows + row] = x;
                    }
                }
            }
        }
        all
    }

    /// `[token][row]` by core: exact integers, then f64; of formats that expand, the values of both in f64.
    fn expected(&self) -> Vec<f32> {
        let format = activation(self.ty).unwrap();
        let mut all = Vec::new();
        for values in self.values.chunks_exact(self.cols) {
            let mut first = vec![0; format.row_bytes(self.cols).unwrap()];
            let mut second = first.clone();
            format.quantize(values, &mut first).unwrap();
            let left = left_over(format, values, &first);
            format.quantize(&left, &mut second).unwrap();
            let dot = |row: &[u8], term: &[u8]| match self.ty.expands() {
                true => dot_of_values(self.ty, row, term),
                false => f64::from(quant::dot(self.ty, row, term).unwrap()),
            };
            let rows = self.bytes.chunks_exact(self.ty.row_bytes(self.cols).unwrap());
            let second = |row| if format == Activation::F32 { 0.0 } else { dot(row, &second) };
            all.extend(rows.map(|row| (dot(row, &first) + second(row)) as f32));
        }
        all
    }

    /// `[token][row]` of the activations as they are, in f64.
    fn exact(&self) -> Vec<f32> {
        let mut row_values = vec![0.0; self.cols];
        let mut all = vec![0.0; self.tokens * self.rows];
        for (index, row) in self.bytes.chunks_exact(self.ty.row_bytes(self.cols).unwrap()).enumerate() {
            quant::dequantize(self.ty, row, &mut row_values).unwrap();
            for (token, values) in self.values.chunks_exact(self.cols).enumerate() {
                let products = row_values.iter().zip(values).map(|(&w, &x)| f64::from(w) * f64::from(x));
                all[token * self.rows + index] = products.sum::<f64>() as f32;
            }
        }
        all
    }
}

/// A row's dot product with Q8_K blocks, by values.
fn dot_of_values(ty: Type, row: &[u8], term: &[u8]) -> f64 {
    let blocks = row.chunks_exact(ty.block_bytes()).zip(term.chunks_exact(Activation::Q8_K.block_bytes()));
    let sums = blocks.map(|(block, input)| {
        let mut values = [0.0; 256];
        quant::dequantize(ty, block, &mut values).unwrap();
        let codes = values.iter().zip(&input[4..260]);
        let sum: f64 = codes.map(|(&x, &code)| f64::from(x) * f64::from(code.cast_signed())).sum();
        sum * f64::from(f32::from_le_bytes(input[..4].try_into().unwrap()))
    });
    sums.sum()
}

/// The remainders of a quantized row.
fn left_over(format: Activation, values: &[f32], bytes: &[u8]) -> Vec<f32> {
    let half = |bytes: &[u8]| Half([bytes[0], bytes[1]]).get();
    let mut left = Vec::new();
    for (block, bytes) in values.chunks(format.block_len()).zip(bytes.chunks(format.block_bytes())) {
        let (scale, codes) = match format {
            Activation::F32 => (0.0, bytes),
            Activation::Q8_0 => (half(bytes), &bytes[2..]),
            Activation::Q8_1 => (half(bytes), &bytes[4..]),
            Activation::Q8_K => (f32::from_le_bytes(bytes[..4].try_into().unwrap()), &bytes[4..260]),
        };
        left.extend(block.iter().zip(codes).map(|(x, code)| x - scale * f32::from(code.cast_signed())));
    }
    left
}

fn nmse(found: &[f32], expected: &[f32]) -> f64 {
    let pairs = || found.iter().zip(expected).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    let error: f64 = pairs().map(|(a, b)| (a - b) * (a - b)).sum();
    let power: f64 = pairs().map(|(_, b)| b * b).sum();
    if error == 0.0 { 0.0 } else { error / power }
}

#[test]
fn products_equal_cores_f64_evaluation() {
    for (ty, halves) in TYPES {
        for shape in [(256, 16, 1), (512, 48, 7), (2048, 32, 13), (16384, 16, 2)] {
            for fill in [
                Fill::Random,
                Fill::Byte(0xff),
                Fill::Byte(0x80),
                Fill::Byte(0),
                Fill::Scale(-0.25),
                Fill::Scale(6e-8),
            ] {
                let case = Case::new(ty, halves, shape, fill);
                let expected = case.expected();
                // Equal blocks round to one side at each addition; random ones do not.
                let rounding = f64::from(f32::EPSILON) / 2.0 * (shape.0 / 32) as f64;
                let limit = if matches!(fill, Fill::Byte(_)) { rounding * rounding } else { 0.0 };
                for isa in Isa::available() {
                    let error = nmse(&case.products(isa, case.tokens), &expected);
                    assert!(
                        error <= limit.max(1e-12),
                        "{} {shape:?} {fill:?} {}: NMSE {error:e}",
                        ty.name(),
                        isa.name()
                    );
                }
            }
        }
    }
}

#[test]
fn two_terms_come_close_to_exact_activations() {
    for (ty, halves) in TYPES {
        let case = Case::new(ty, halves, (2048, 32, 4), Fill::Random);
        let exact = case.exact();
        for isa in Isa::available() {
            let error = nmse(&case.products(isa, 4), &exact);
            assert!(error <= 1e-8, "{} {}: NMSE {error:e}", ty.name(), isa.name());
        }
    }
}

#[test]
fn a_result_does_not_depend_on_the_other_rows() {
    for (ty, halves) in TYPES {
        for (cols, rows, tokens) in [(768, 40, 14), (2560, 16, 5)] {
            let case = Case::new(ty, halves, (cols, rows, tokens), Fill::Random);
            for isa in Isa::available() {
                let bits = |group| case.products(isa, group).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                let single = bits(1);
                for group in [2, 3, 4, 5, tokens] {
                    assert!(
                        bits(group) == single,
                        "{} {cols} {} in groups of {group}",
                        ty.name(),
                        isa.name()
                    );
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn both_vector_widths_give_the_same_bits() {
    let (Some(narrow), Some(wide)) = (Isa::avx2(), Isa::avx512()) else { return };
    for (ty, halves) in TYPES {
        let case = Case::new(ty, halves, (1280, 24, 9), Fill::Random);
        assert_eq!(case.products(narrow, 9), case.products(wide, 9), "{}", ty.name());
    }
}

/// MXFP4's scales at both ends of f32: subnormal ones (with activations that bring results back), and the largest.
#[test]
fn exponents_at_the_limits_are_powers_like_the_others() {
    for (exponent, scale) in [(0, 1e3), (1, 1e3), (2, 1e3), (254, 1e-6), (255, 1e-6)] {
        let mut case = Case::new(Type::MXFP4, &[], (512, 32, 4), Fill::Random);
        case.bytes.as_chunks_mut::<17>().0.iter_mut().for_each(|block| block[0] = exponent);
        case.values.iter_mut().for_each(|x| *x *= scale);
        for isa in Isa::available() {
            for group in [1, 4] {
                let error = nmse(&case.products(isa, group), &case.expected());
                assert!(error <= 1e-12, "{exponent} {}: NMSE {error:e}", isa.name());
            }
        }
    }
}

/// An infinite or undefined scale in one row's block spoils that row as it does in core, and no other.
#[test]
fn scales_that_are_not_numbers_stay_in_their_row() {
    for (ty, halves) in TYPES {
        for (&at, scale) in halves.iter().flat_map(|at| [f32::INFINITY, f32::NAN].map(|scale| (at, scale))) {
            let mut case = Case::new(ty, halves, (512, 32, 3), Fill::Random);
            let spoilt = 5 * ty.row_bytes(512).unwrap() + at;
            case.bytes[spoilt..spoilt + 2].copy_from_slice(&Half::new(scale).0);
            // A sum of values is no number where a sum of codes, times infinity, is infinite.
            let class = |x: &f32| match x.is_finite() {
                true => 0.0,
                false if ty.expands() => f32::NAN,
                false => *x,
            };
            let same = |a: f32, b: f32| a == b || a.is_nan() && b.is_nan();
            let expected = case.expected();
            assert!(expected.iter().enumerate().all(|(at, x)| x.is_finite() == (at % 32 != 5)));
            for isa in Isa::available() {
                for group in [1, 3] {
                    let found = case.products(isa, group);
                    let classes = found.iter().map(class).zip(expected.iter().map(class));
                    for (index, (a, b)) in classes.enumerate() {
                        assert!(same(a, b), "{} {} {index}: {a} for {b}", ty.name(), isa.name());
                    }
                }
            }
        }
    }
}

#[test]
fn ragged_shapes_are_padded() {
    for (ty, cols, rows) in [(Type::F32, 7, 3), (Type::F16, 13, 17), (Type::BF16, 33, 1), (Type::Q8_0, 96, 5)]
    {
        let case = Case::new(ty, &[0][..usize::from(ty == Type::Q8_0)], (cols, rows, 4), Fill::Random);
        for isa in Isa::available() {
            for group in [1, 4] {
                assert!(
                    nmse(&case.products(isa, group), &case.expected()) <= 1e-12,
                    "{} {}",
                    ty.name(),
                    isa.name()
                );
            }
        }
    }
}

#[test]
fn strips_of_two_types_make_a_pair() {
    let a = Case::new(Type::Q8_0, &[0], (256, 16, 3), Fill::Random);
    let b = Case::new(Type::Q5_0, &[0], (256, 16, 3), Fill::Random);
    let [left, right] = [&a, &b].map(|case| Weights::new(case.ty, 256, &case.bytes).unwrap());
    let layout = Layout::new(left.activation(), 256).unwrap();
    let mut activations = vec![0; layout.stride * 3];
    for (row, values) in activations.chunks_exact_mut(layout.stride).zip(b.values.chunks_exact(256)) {
        Isa::best().run(Quantize::new(&layout, values, row));
    }
    let mut scratch = Scratch::new(&heap::Global);
    scratch.reserve(256, 0).unwrap();
    for count in [1, 3] {
        let products =
            Products::new(Isa::best(), &layout, &activations, Selection::Range { first: 0, count });
        let mut run = |a, b| {
            let mut out = vec![0.0; 32 * count];
            products.pair(a, b, &mut scratch, &mut out);
            out
        };
        let both = run(left.strip(0), Some(right.strip(0)));
        let (first, second) = (run(left.strip(0), None), run(right.strip(0), None));
        for token in 0..count {
            let at = 32 * token;
            assert_eq!(both[at..at + 16], first[at..at + 16]);
            assert_eq!(both[at + 16..at + 32], second[at..at + 16]);
        }
    }
}

#[test]
fn rows_that_are_not_a_matrix_are_refused() {
    use super::WeightsError;
    assert!(matches!(Weights::new(Type::I8, 256, &[]), Err(WeightsError::Type(Type::I8))));
    assert!(matches!(Weights::new(Type::Q4_K, 128, &[]), Err(WeightsError::Columns { cols: 128, .. })));
    assert!(matches!(
        Weights::new(Type::Q8_0, 32, &[0; 35]),
        Err(WeightsError::Bytes { row_bytes: 34, found: 35 })
    ));
}
