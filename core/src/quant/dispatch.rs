//! From a tensor type to its arithmetic: one table of function pointers.

use super::activation::{Activation, ActivationBlock};
use super::block::{self, Block, IntegerDot, Partials};
use super::error::{Buffer, QuantError};
use super::expand::{Expand, Expanded, expand_block};
use super::tensor_type::Type;
use super::{
    float, iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs, iq4_nl, iq4_xs, mxfp4, nvfp4, q1_0, q2_0,
    q2_k, q3_k, q4_0, q4_1, q4_k, q5_0, q5_1, q5_k, q6_k, q8_0, tq1_0, tq2_0,
};

/// The integer sums of a row, for formats that have them.
type PartialsRow = fn(&[u8], &[u8], &mut [Partials]);

/// The arithmetic of one type over rows whose lengths have been checked.
struct Format {
    activation: Activation,
    dequantize: fn(&[u8], &mut [f32]),
    dot: fn(&[u8], &[u8]) -> f32,
    partials: Option<PartialsRow>,
    expand: Option<fn(&[u8], &mut Expanded)>,
}

const fn float<B: Block>() -> Format {
    Format {
        activation: Activation::F32,
        dequantize: block::dequantize_row::<B>,
        dot: block::float_dot_row::<B>,
        partials: None,
        expand: None,
    }
}

const fn integer<B: IntegerDot>() -> Format {
    Format {
        activation: B::Activation::FORMAT,
        dequantize: block::dequantize_row::<B>,
        dot: block::integer_dot_row::<B>,
        partials: Some(block::partials_row::<B>),
        expand: None,
    }
}

const fn expanding<B: Expand>() -> Format {
    Format { expand: Some(expand_block::<B>), ..float::<B>() }
}

/// Types with arithmetic; the index in [`FORMATS`] is the id.
const ROWS: [(Type, Format); 28] = [
    (Type::F32, float::<float::F32>()),
    (Type::F16, float::<float::F16>()),
    (Type::BF16, float::<float::BF16>()),
    (Type::Q4_0, integer::<q4_0::Block>()),
    (Type::Q4_1, integer::<q4_1::Block>()),
    (Type::Q5_0, integer::<q5_0::Block>()),
    (Type::Q5_1, integer::<q5_1::Block>()),
    (Type::Q8_0, integer::<q8_0::Block>()),
    (Type::Q2_K, integer::<q2_k::Block>()),
    (Type::Q3_K, integer::<q3_k::Block>()),
    (Type::Q4_K, integer::<q4_k::Block>()),
    (Type::Q5_K, integer::<q5_k::Block>()),
    (Type::Q6_K, integer::<q6_k::Block>()),
    (Type::IQ4_NL, integer::<iq4_nl::Block>()),
    (Type::IQ4_XS, integer::<iq4_xs::Block>()),
    (Type::MXFP4, integer::<mxfp4::Block>()),
    (Type::IQ1_M, expanding::<iq1_m::Block>()),
    (Type::IQ1_S, expanding::<iq1_s::Block>()),
    (Type::IQ2_S, expanding::<iq2_s::Block>()),
    (Type::IQ2_XS, expanding::<iq2_xs::Block>()),
    (Type::IQ2_XXS, expanding::<iq2_xxs::Block>()),
    (Type::IQ3_S, expanding::<iq3_s::Block>()),
    (Type::IQ3_XXS, expanding::<iq3_xxs::Block>()),
    (Type::NVFP4, float::<nvfp4::Block>()),
    (Type::Q1_0, float::<q1_0::Block>()),
    (Type::Q2_0, float::<q2_0::Block>()),
    (Type::TQ1_0, expanding::<tq1_0::Block>()),
    (Type::TQ2_0, expanding::<tq2_0::Block>()),
];

static FORMATS: [Option<Format>; 43] = {
    let mut formats = [const { None }; 43];
    let mut row = 0;
    while row < ROWS.len() {
        let Format { activation, dequantize, dot, partials, expand } = ROWS[row].1;
        formats[ROWS[row].0 as usize] = Some(Format { activation, dequantize, dot, partials, expand });
        row += 1;
    }
    formats
};

fn format(ty: Type) -> Result<&'static Format, QuantError> {
    FORMATS[ty as usize].as_ref().ok_or(QuantError::NotComputable { ty })
}

/// Elements in `bytes` of weights, or the error in the length.
fn elements(ty: Type, bytes: usize) -> Result<usize, QuantError> {
    let (len, size) = (ty.block_len(), ty.block_bytes());
    let count = (bytes / size).saturating_mul(len);
    QuantError::check(Buffer::Weights, ty.row_bytes(count), bytes)?;
    Ok(count)
}

impl Type {
    /// The format that activations take in a dot product with this type; `None` if it has no arithmetic.
    pub fn activation(self) -> Option<Activation> {
        FORMATS[self as usize].as_ref().map(|format| format.activation)
    }
}

impl Type {
    /// True if blocks are small signed codes under integer scales, for [`expand`].
    pub fn expands(self) -> bool {
        FORMATS[self as usize].as_ref().is_some_and(|format| format.expand.is_some())
    }
}

/// Expands one block of `ty` into `out`.
///
/// # Errors
/// If the type does not expand ([`Type::expands`]), or `block` is not one block.
pub fn expand(ty: Type, block: &[u8], out: &mut Expanded) -> Result<(), QuantError> {
    let expand = format(ty)?.expand.ok_or(QuantError::NoPartials { ty })?;
    QuantError::check(Buffer::Weights, Some(ty.block_bytes()), block.len())?;
    expand(block, out);
    Ok(())
}

/// Dequantizes whole blocks of `ty` into `out`, one value per element.
///
/// Values equal ggml's reference bit for bit (except in the payload of NaNs).
pub fn dequantize(ty: Type, blocks: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    let format = format(ty)?;
    QuantError::check(Buffer::Values, Some(elements(ty, blocks.len())?), out.len())?;
    (format.dequantize)(blocks, out);
    Ok(())
}

/// The dot product of a row of weights with a row of activations in `ty.activation()`'s format.
///
/// Integer sums are exact, everything above them is f64, and only the result is rounded.
pub fn dot(ty: Type, weights: &[u8], activation: &[u8]) -> Result<f32, QuantError> {
    let format = format(ty)?;
    let expected = format.activation.row_bytes(elements(ty, weights.len())?);
    QuantError::check(Buffer::Activations, expected, activation.len())?;
    Ok((format.dot)(weights, activation))
}

/// The integer sums of [`dot`], one per block of weights.
pub fn partials(ty: Type, weights: &[u8], activation: &[u8], out: &mut [Partials]) -> Result<(), QuantError> {
    let format = format(ty)?;
    let row = format.partials.ok_or(QuantError::NoPartials { ty })?;
    let count = elements(ty, weights.len())?;
    QuantError::check(Buffer::Activations, format.activation.row_bytes(count), activation.len())?;
    QuantError::check(Buffer::Partials, Some(count / ty.block_len()), out.len())?;
    row(weights, activation, out);
    Ok(())
}
