//! What becomes of a product: factor, bias, non-linearity, where it goes.

use crate::builder_ext::BuilderExt;
use crate::gemv::spec::{MatrixArguments, OutputMode, PartArguments, PartSpec};
use doorbell_compiler::ir::{Builder, Value};

/// A product with factor and bias.
pub(crate) fn weighted(k: &mut Builder, y: Value, arguments: &MatrixArguments, column: Value) -> Value {
    let mut y = y;
    if let Some(scale) = arguments.scale {
        let zero = k.int(0);
        let scale = k.read(scale, zero);
        y = k.fmul(y, scale);
    }
    if let Some(bias) = arguments.bias {
        let place = k.left(column, 2);
        let bias = k.read(bias, place);
        y = k.fadd(y, bias);
    }
    y
}

/// `[y, up]` of output `column` of batch row `row`.
pub(crate) fn epilogue(
    k: &mut Builder,
    part: &PartSpec,
    arguments: &PartArguments,
    [y, up]: [Value; 2],
    [row, column]: [Value; 2],
) {
    let mut y = weighted(k, y, &arguments.matrix, column);
    if let (Some((_, glu)), Some(own)) = (part.up, &arguments.up) {
        let up = weighted(k, up, own, column);
        y = glu.apply(k, y, up);
    }
    let start = k.times(row, part.rows);
    let place = k.add(start, column);
    let place = k.left(place, 2);
    match part.finish {
        OutputMode::Store => {}
        OutputMode::Add => {
            let old = k.read(arguments.out, place);
            y = k.fadd(old, y);
        }
        OutputMode::AddGated => {
            if let Some(gate) = arguments.gate {
                let own = k.left(row, 2);
                let gate = k.read(gate, own);
                let share = k.sigmoid(gate, 1.0);
                let old = k.read(arguments.out, place);
                y = k.fma(share, y, old);
            }
        }
        OutputMode::Cap { scale, cap } => {
            let (scale, cap) = (f32::from_bits(scale), f32::from_bits(cap));
            if scale != 1.0 {
                y = k.scaled(y, scale);
            }
            if cap != 0.0 {
                y = k.soft_cap(y, cap);
            }
        }
    }
    k.write(arguments.out, place, y);
}
