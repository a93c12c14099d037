//! Dense matrix instructions: layouts of both generations, products summed in double precision and rounded once.
//!
//! Layouts: AMD's matrix instruction calculator (RDNA3, RDNA4). Accumulation order inside an instruction is not
//! documented, so float results are the nearest ones. Not here: sparse matrices (`sparse.rs`).

use doorbell_isa::{Op, op};

use super::super::context::Context;
use super::super::fault::Cause;
use super::super::float::{BF8, BF16, F16, FP8, Format, f16_to_f32, round32};
use super::super::handler::Run;
use super::super::mode::Round;
use super::super::registers::Lanes;
use super::super::step::{Next, Source, Step};
use super::super::wave::Wave;
use super::dot::element;

/// Type of an input element.
#[derive(Clone, Copy, Debug)]
pub(super) enum Element {
    /// A short float.
    Float(Format),
    /// An integer of this many bits, signed or not by neg_lo.
    Int(u32),
}

impl Element {
    pub(super) const fn bits(self) -> u32 {
        match self {
            Self::Float(format) => format.bits(),
            Self::Int(bits) => bits,
        }
    }
}

/// Type of the accumulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Output {
    /// Single precision.
    Single,
    /// 32-bit integer.
    Int,
    /// Half precision.
    Half,
    /// bfloat16.
    Brain,
}

/// Shape and types of a matrix instruction on 16 by 16 results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) a: Element,
    pub(super) b: Element,
    pub(super) depth: usize,
    pub(super) output: Output,
    /// RDNA4 layouts.
    pub(super) gfx12: bool,
}

/// Position of a matrix element in the registers of a wave.
#[derive(Clone, Copy)]
pub(super) struct Location {
    pub(super) register: usize,
    pub(super) lane: usize,
    /// Number of the element in the register.
    pub(super) part: u32,
}

/// Location of an element of A (row, k) or B (column, k).
fn input_location(shape: Shape, element: Element, line: usize, k: usize) -> Location {
    let per = 32 / element.bits() as usize;
    let (index, half) = match (shape.gfx12, element.bits()) {
        (false, _) => (k, 0),
        // Lanes 0 to 15 hold K 0 to 3 and 8 to 11.
        (true, 16) => ((k & 3) + (k >> 3) * 4, k >> 2 & 1),
        (true, _) => (k % (shape.depth / 2), k / (shape.depth / 2)),
    };
    Location { register: index / per, lane: line + 16 * half, part: (index % per) as u32 }
}

/// Location of an element of C or D.
pub(super) fn output_location(shape: Shape, row: usize, column: usize, high: bool) -> Location {
    let half_size = matches!(shape.output, Output::Half | Output::Brain);
    let (register, lane, part) = match (shape.gfx12, half_size) {
        (false, _) => (row / 2, column + 16 * (row & 1), u32::from(high)),
        (true, false) => (row & 7, column + 16 * (row >> 3), 0),
        (true, true) => ((row & 7) / 2, column + 16 * (row >> 3), (row & 1) as u32),
    };
    Location { register, lane, part }
}

/// A register of a matrix operand, or an inline constant in every element.
pub(super) fn register(wave: &Wave, source: Source, index: usize) -> Lanes {
    match source {
        Source::Vgpr(first) => wave.vgpr[usize::from(first) + index],
        Source::Const(value) => [value as u32; 32],
        Source::Scalar(number) | Source::Mask(number) => [wave.scalar(usize::from(number)); 32],
        Source::Scc => [0; 32],
    }
}

/// One element as an exact double; integers included.
pub(super) fn value(element_kind: Element, bits: u32, at: u32, signed: bool) -> f64 {
    match element_kind {
        Element::Int(width) => element(bits, at, width, signed) as f64,
        Element::Float(format) => {
            let width = format.bits();
            format.decode(bits >> (width * at) & ((1 << width) - 1))
        }
    }
}

/// Accumulator input as an exact double.
pub(super) fn accumulator(shape: Shape, bits: u32, half: u32, negative: bool, absolute: bool) -> f64 {
    let value = match shape.output {
        Output::Single => f64::from(f32::from_bits(bits)),
        Output::Int => return f64::from(bits.cast_signed()),
        Output::Half => F16.decode(bits >> (16 * half) & 0xffff),
        Output::Brain => BF16.decode(bits >> (16 * half) & 0xffff),
    };
    let value = if absolute { value.abs() } else { value };
    if negative { -value } else { value }
}

/// The result's bits.
pub(super) fn finish(shape: Shape, sum: f64, clamp: bool) -> u32 {
    match shape.output {
        Output::Single => round32(sum, Round::Nearest).to_bits(),
        Output::Half => F16.encode(sum, Round::Nearest),
        Output::Brain => BF16.encode(sum, Round::Nearest),
        // Sums of at most 64 products of 8 bits and a 32-bit value are exact.
        Output::Int if clamp => (sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32).cast_unsigned(),
        Output::Int => (sum as i64) as u32,
    }
}

/// All elements of A (or B): `[k][line]`.
type Elements = [[f64; 16]; 32];

fn load(wave: &Wave, step: &Step, index: usize, kind: Element, shape: Shape) -> Elements {
    let modifiers = step.inst.modifiers;
    let (neg_low, neg_high) = (modifiers.neg >> index & 1 != 0, modifiers.abs >> index & 1 != 0);
    let mut out = [[0.0; 16]; 32];
    let mut image = ([0; 32], usize::MAX);
    for (k, row) in out.iter_mut().enumerate().take(shape.depth) {
        let Location { register: number, lane: first, part: at } = input_location(shape, kind, 0, k);
        if image.1 != number {
            image = (register(wave, step.src[index], number), number);
        }
        let negated = if at & 1 == 0 { neg_low } else { neg_high };
        let lanes = image.0.iter().skip(first);
        match kind {
            Element::Float(F16) => {
                let flip = if negated { 0x8000 } else { 0 };
                for (slot, bits) in row.iter_mut().zip(lanes) {
                    *slot = f64::from(f16_to_f32(bits >> (16 * at) & 0xffff ^ flip));
                }
            }
            Element::Float(_) => {
                for (slot, bits) in row.iter_mut().zip(lanes) {
                    let found = value(kind, *bits, at, neg_low);
                    *slot = if negated { -found } else { found };
                }
            }
            Element::Int(width) => {
                for (slot, bits) in row.iter_mut().zip(lanes) {
                    *slot = element(*bits, at, width, neg_low) as f64;
                }
            }
        }
    }
    out
}

/// Writes a result into its register image, keeping the other half where only half is written.
pub(super) fn write_element(shape: Shape, out: &mut [Lanes; 8], at: Location, bits: u32) {
    let slot = &mut out[at.register][at.lane];
    *slot = match shape.output {
        Output::Single | Output::Int => bits,
        _ if at.part == 0 => *slot & 0xffff_0000 | bits,
        _ => *slot & 0xffff | bits << 16,
    };
}

/// Adds one row of A times B to sixteen sums, in the order of K. Products of these formats are exact in double precision.
#[inline(always)]
fn accumulate(left: &[f64; 32], b: &Elements, depth: usize, out: &mut [f64; 16]) {
    let mut sums = *out;
    let mut k = 0;
    while k < depth {
        let mut column = 0;
        while column < 16 {
            sums[column] += left[k & 31] * b[k & 31][column];
            column += 1;
        }
        k += 1;
    }
    *out = sums;
}

fn multiply(context: &mut Context<'_>, step: &Step, shape: Shape) -> Result<Next, Cause> {
    let wave = &mut *context.wave;
    let a = load(wave, step, 0, shape.a, shape);
    let b = load(wave, step, 1, shape.b, shape);
    let modifiers = step.inst.modifiers;
    let high = modifiers.op_sel & 4 != 0;
    let (negative, absolute) = (modifiers.neg & 4 != 0, modifiers.abs & 4 != 0);
    let registers = registers(shape);
    let mut out = [[0; 32]; 8];
    for (index, image) in out.iter_mut().enumerate().take(registers) {
        *image = wave.vgpr[step.vdst() + index];
    }
    let images: [Lanes; 8] = core::array::from_fn(|index| match step.src[2] {
        Source::Vgpr(_) if index >= registers => [0; 32],
        source => register(wave, source, index),
    });
    let constant = matches!(step.src[2], Source::Const(_));
    for row in 0..16 {
        let mut left = [0.0; 32];
        left.iter_mut().zip(&a).for_each(|(slot, line)| *slot = line[row]);
        let mut sums = [0.0; 16];
        if shape.output == Output::Single && !negative && !absolute {
            // A row of singles is half a register.
            let Location { register: number, lane: first, .. } = output_location(shape, row, 0, high);
            let (start, image) = (&images[number][first..][..16], &mut out[number][first..][..16]);
            wave.simd.run(
                #[inline(always)]
                || {
                    for column in 0..16 {
                        sums[column] = f64::from(f32::from_bits(start[column]));
                    }
                    accumulate(&left, &b, shape.depth, &mut sums);
                    for column in 0..16 {
                        image[column] = (sums[column] as f32).to_bits();
                    }
                },
            );
            continue;
        }
        for (column, sum) in sums.iter_mut().enumerate() {
            let Location { register: number, lane, part } = output_location(shape, row, column, high);
            let half = if constant { 0 } else { part };
            *sum = accumulator(shape, images[number][lane], half, negative, absolute);
        }
        wave.simd.run(
            #[inline(always)]
            || accumulate(&left, &b, shape.depth, &mut sums),
        );
        for (column, sum) in sums.into_iter().enumerate() {
            let at = output_location(shape, row, column, high);
            write_element(shape, &mut out, at, finish(shape, sum, modifiers.clamp));
        }
    }
    for (index, image) in out.iter().enumerate().take(registers) {
        wave.vgpr[step.vdst() + index] = *image;
    }
    Ok(Next::Following)
}

/// Registers of C and D.
pub(super) fn registers(shape: Shape) -> usize {
    if shape.gfx12 && matches!(shape.output, Output::Half | Output::Brain) { 4 } else { 8 }
}

macro_rules! dense {
    ($a:expr, $b:expr, $depth:literal, $output:ident, $gfx12:literal) => {
        Run::Special(|context, step| {
            let shape = Shape { a: $a, b: $b, depth: $depth, output: Output::$output, gfx12: $gfx12 };
            multiply(context, step, shape)
        })
    };
}

const H: Element = Element::Float(F16);
const B: Element = Element::Float(BF16);
const F8: Element = Element::Float(FP8);
const G8: Element = Element::Float(BF8);
const I8: Element = Element::Int(8);
const I4: Element = Element::Int(4);

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_wmma_f32_16x16x16_f16, dense!(H, H, 16, Single, false)),
    (op::v_wmma_f32_16x16x16_bf16, dense!(B, B, 16, Single, false)),
    (op::v_wmma_f16_16x16x16_f16, dense!(H, H, 16, Half, false)),
    (op::v_wmma_bf16_16x16x16_bf16, dense!(B, B, 16, Brain, false)),
    (op::v_wmma_i32_16x16x16_iu8, dense!(I8, I8, 16, Int, false)),
    (op::v_wmma_i32_16x16x16_iu4, dense!(I4, I4, 16, Int, false)),
    (op::v_wmma_f32_16x16x16_f16_gfx12, dense!(H, H, 16, Single, true)),
    (op::v_wmma_f32_16x16x16_bf16_gfx12, dense!(B, B, 16, Single, true)),
    (op::v_wmma_f16_16x16x16_f16_gfx12, dense!(H, H, 16, Half, true)),
    (op::v_wmma_bf16_16x16x16_bf16_gfx12, dense!(B, B, 16, Brain, true)),
    (op::v_wmma_i32_16x16x16_iu8_gfx12, dense!(I8, I8, 16, Int, true)),
    (op::v_wmma_i32_16x16x16_iu4_gfx12, dense!(I4, I4, 16, Int, true)),
    (op::v_wmma_f32_16x16x16_fp8_fp8, dense!(F8, F8, 16, Single, true)),
    (op::v_wmma_f32_16x16x16_fp8_bf8, dense!(F8, G8, 16, Single, true)),
    (op::v_wmma_f32_16x16x16_bf8_fp8, dense!(G8, F8, 16, Single, true)),
    (op::v_wmma_f32_16x16x16_bf8_bf8, dense!(G8, G8, 16, Single, true)),
    (op::v_wmma_i32_16x16x32_iu4, dense!(I4, I4, 32, Int, true)),
];
