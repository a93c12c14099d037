//! The end of a product: factor, bias, non-linearity, and the store or addition of the result.

use super::spec::{MatrixArguments, OutputMode, PartArguments, PartSpec};
use crate::builder_ext::BuilderExt;
use doorbell_compiler::ir::{Builder, Value};

/// An output of a part.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    /// Row of the batch.
    pub(crate) row: Value,
    /// Output row of the part.
    pub(crate) column: Value,
}

/// A product with factor and bias.
pub(crate) fn weighted(k: &mut Builder, y: Value, arguments: &MatrixArguments, column: Value) -> Value {
    let mut y = y;
    if let Some(scale) = arguments.scale {
        let factor = k.read(scale, 0);
        y = k.fmul(y, factor);
    }
    if let Some(bias) = arguments.bias {
        let addend = k.read(bias, column << 2);
        y = k.fadd(y, addend);
    }
    y
}

/// Finishes the products `[y, up]` of an output and writes it.
pub(crate) fn epilogue(
    k: &mut Builder,
    part: &PartSpec,
    arguments: &PartArguments,
    [y, up]: [Value; 2],
    Output { row, column }: Output,
) {
    let mut y = weighted(k, y, &arguments.matrix, column);
    if let (Some((_, glu)), Some(own)) = (part.up, &arguments.up) {
        let up = weighted(k, up, own, column);
        y = glu.apply(k, y, up);
    }
    let offset = k.eval((row * part.rows + column) << 2);
    match part.output {
        OutputMode::Store => {}
        OutputMode::GateBy { glu, stride } => {
            if let Some(by) = arguments.second {
                let by = k.read(by, (row * stride + column) << 2);
                y = glu.apply(k, y, by);
            }
        }
        OutputMode::Split { dim } => {
            return split(k, part.rows / 2, dim, arguments, y, Output { row, column });
        }
        OutputMode::Add => {
            let old = k.read(arguments.out, offset);
            y = k.fadd(old, y);
        }
        OutputMode::AddGated => {
            if let Some(gate) = arguments.second {
                let gate = k.read(gate, row << 2);
                let share = k.sigmoid(gate, 1.0);
                let old = k.read(arguments.out, offset);
                y = k.fma(share, y, old);
            }
        }
        OutputMode::Cap { scale, cap } => {
            let (scale, cap) = (f32::from_bits(scale), f32::from_bits(cap));
            if scale != 1.0 {
                y = k.eval(y * scale);
            }
            if cap != 0.0 {
                y = k.soft_cap(y, cap);
            }
        }
    }
    k.write(arguments.out, offset, y);
}

/// Writes a value of a head of `dim` elements, or of the gate behind it, to rows of `width` heads' elements.
fn split(k: &mut Builder, width: u32, dim: u32, arguments: &PartArguments, y: Value, at: Output) {
    let head = k.eval(at.column / (2 * dim));
    let within = k.eval(at.column - head * (2 * dim));
    let start = k.eval(at.row * width + head * dim);
    k.when(within.lt(dim), |k| k.write(arguments.out, (start + within) << 2, y));
    if let Some(gates) = arguments.second {
        k.when(within.ge(dim), |k| k.write(gates, (start + (within - dim)) << 2, y));
    }
}
