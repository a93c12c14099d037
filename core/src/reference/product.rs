//! Matrix-vector products over weights of any block format.

use super::scratch::ProductScratch;
use crate::model::Model;
use crate::plan::Matrix;
use crate::quant::{self, Activation};

/// The treatment of activations in products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Products {
    /// Weights dequantized, activations as they are, sums in f64.
    Exact,
    /// Activations quantized to the format that the weight's type pairs with, as drivers do.
    Quantized,
}

/// `out = scale * (matrix * x) + bias`; of a stack, the matrix of `expert`. `x` is `[cols]`, `out` `[rows]`, and
/// `scratch` was made for at least `cols` elements.
pub fn product(
    model: &Model<'_>,
    matrix: &Matrix,
    expert: usize,
    x: &[f32],
    products: Products,
    out: &mut [f32],
    scratch: &mut ProductScratch<'_>,
) {
    let weight = model.weight(matrix.weight);
    let rows = weight.slice(expert, matrix.first_row as usize, matrix.rows as usize);
    let activation = weight.ty.activation().unwrap_or(Activation::F32);
    let row_values = &mut scratch.row[..x.len()];
    let quantized = &mut scratch.quantized[..activation.row_bytes(x.len()).unwrap_or(0)];
    if products == Products::Quantized {
        // The buffer has the row's size, so this can't fail.
        let _ = activation.quantize(x, quantized);
    }
    let scale = matrix.scale.map_or(1.0, |id| {
        let values = model.vector(id);
        values[expert.min(values.len() - 1)]
    });
    let bias = matrix.bias.map(|id| {
        let rows = matrix.rows as usize;
        &model.vector(id)[expert * rows..(expert + 1) * rows]
    });
    for (index, (row, out)) in rows.chunks_exact(weight.row_bytes()).zip(out.iter_mut()).enumerate() {
        // The binder has checked type and length, so neither call can fail.
        let sum = match products {
            Products::Exact => {
                let _ = quant::dequantize(weight.ty, row, row_values);
                row_values.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum::<f64>() as f32
            }
            Products::Quantized => quant::dot(weight.ty, row, quantized).unwrap_or(f32::NAN),
        };
        *out = sum * scale + bias.map_or(0.0, |bias| bias[index]);
    }
}
