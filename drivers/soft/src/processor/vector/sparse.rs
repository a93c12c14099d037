//! Matrix instructions with a 4:2 sparse first matrix (RDNA4).
//!
//! Of every four neighbors in K two are stored; four index bits per group say which. Layouts: AMD's matrix
//! instruction calculator. Not here: dense matrices (`matrix.rs`).

use doorbell_isa::{Op, op};

use super::super::context::Context;
use super::super::fault::Cause;
use super::super::float::{BF8, BF16, F16, FP8, add_odd};
use super::super::handler::Run;
use super::super::step::{Next, Step};
use super::super::wave::Wave;
use super::matrix::{
    Element, Output, Shape, accumulator, finish, output_location, register, registers, value, write_element,
};

/// First K of a group of four in this half of the wave.
fn group_base(shape: Shape, group: usize, half: usize) -> usize {
    match shape.a.bits() {
        16 => 16 * (group / 2) + 8 * half + 4 * (group % 2),
        _ => shape.depth / 2 * half + 4 * group,
    }
}

/// K of an element of B in this half of the wave.
fn dense_k(shape: Shape, index: usize, half: usize) -> usize {
    match shape.b.bits() {
        16 => 16 * (index / 8) + 8 * half + index % 8,
        _ => shape.depth / 2 * half + index,
    }
}

/// The first matrix with its zeroes: `[row][k]`.
fn load_sparse(wave: &Wave, step: &Step, shape: Shape) -> [[f64; 64]; 16] {
    let signed = step.inst.modifiers.neg & 1 != 0;
    let per = 32 / shape.a.bits() as usize;
    let groups = shape.depth / 8;
    // With at most four groups per lane the index register holds two sets; op_sel bit 0 chooses.
    let shift = if groups <= 4 && step.inst.modifiers.op_sel & 1 != 0 { 16 } else { 0 };
    let indexes = register(wave, step.src[2], 0);
    let mut out = [[0.0; 64]; 16];
    for (lane, index) in indexes.iter().enumerate() {
        let (row, half) = (lane & 15, lane >> 4);
        for group in 0..groups {
            let choice = index >> shift >> (4 * group) & 15;
            for second in 0..2 {
                let element = group * 2 + second;
                let bits = register(wave, step.src[0], element / per)[lane];
                let k = group_base(shape, group, half) + (choice >> (2 * second) & 3) as usize;
                out[row][k] = value(shape.a, bits, (element % per) as u32, signed);
            }
        }
    }
    out
}

/// The second matrix: `[column][k]`.
fn load_dense(wave: &Wave, step: &Step, shape: Shape) -> [[f64; 64]; 16] {
    let signed = step.inst.modifiers.neg & 2 != 0;
    let per = 32 / shape.b.bits() as usize;
    let mut out = [[0.0; 64]; 16];
    for lane in 0..32 {
        let (column, half) = (lane & 15, lane >> 4);
        for element in 0..shape.depth / 2 {
            let bits = register(wave, step.src[1], element / per)[lane];
            let k = dense_k(shape, element, half);
            out[column][k] = value(shape.b, bits, (element % per) as u32, signed);
        }
    }
    out
}

fn multiply(context: &mut Context<'_>, step: &Step, shape: Shape) -> Result<Next, Cause> {
    let wave = &mut *context.wave;
    let a = load_sparse(wave, step, shape);
    let b = load_dense(wave, step, shape);
    let mut out = [[0; 32]; 8];
    for (index, image) in out.iter_mut().enumerate().take(registers(shape)) {
        *image = wave.vgpr[step.vdst() + index];
    }
    let before = out;
    for (row, left) in a.iter().enumerate() {
        for (column, right) in b.iter().enumerate() {
            let at = output_location(shape, row, column, false);
            let start = accumulator(shape, before[at.register][at.lane], at.part, false, false);
            let products = left.iter().zip(right).take(shape.depth).map(|(a, b)| a * b);
            let sum = products.fold(start, add_odd);
            write_element(shape, &mut out, at, finish(shape, sum, step.inst.modifiers.clamp));
        }
    }
    for (index, image) in out.iter().enumerate().take(registers(shape)) {
        wave.vgpr[step.vdst() + index] = *image;
    }
    Ok(Next::Following)
}

macro_rules! sparse {
    ($a:expr, $b:expr, $depth:literal, $output:ident) => {
        Run::Special(|context, step| {
            let shape = Shape { a: $a, b: $b, depth: $depth, output: Output::$output, gfx12: true };
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
    (op::v_swmmac_f32_16x16x32_f16, sparse!(H, H, 32, Single)),
    (op::v_swmmac_f32_16x16x32_bf16, sparse!(B, B, 32, Single)),
    (op::v_swmmac_f16_16x16x32_f16, sparse!(H, H, 32, Half)),
    (op::v_swmmac_bf16_16x16x32_bf16, sparse!(B, B, 32, Brain)),
    (op::v_swmmac_i32_16x16x32_iu8, sparse!(I8, I8, 32, Int)),
    (op::v_swmmac_i32_16x16x32_iu4, sparse!(I4, I4, 32, Int)),
    (op::v_swmmac_i32_16x16x64_iu4, sparse!(I4, I4, 64, Int)),
    (op::v_swmmac_f32_16x16x32_fp8_fp8, sparse!(F8, F8, 32, Single)),
    (op::v_swmmac_f32_16x16x32_fp8_bf8, sparse!(F8, G8, 32, Single)),
    (op::v_swmmac_f32_16x16x32_bf8_fp8, sparse!(G8, F8, 32, Single)),
    (op::v_swmmac_f32_16x16x32_bf8_bf8, sparse!(G8, G8, 32, Single)),
];
