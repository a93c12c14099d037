//! Small kernels that exercise the compiler: golden files and command-line tools use them.
//!
//! Not here: the kernels of the product (`kernels/library`).

mod matrix;
mod norm;
mod quant;
mod vector;

use crate::ir::Function;
use core::fmt;
use doorbell_isa::Target;

/// A kernel by name; built for a target because tiles may differ.
pub struct Sample {
    /// Name.
    pub name: &'static str,
    /// Builds the function.
    pub build: fn(Target) -> Function,
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn sample(name: &'static str, build: fn(Target) -> Function) -> Sample {
    Sample { name, build }
}

/// All samples.
pub static SAMPLES: &[Sample] = &[
    sample("vector_add", vector::add),
    sample("axpy4", vector::axpy4),
    sample("clamp_positive", vector::clamp_positive),
    sample("reduce_sum", norm::reduce_sum),
    sample("softmax_row", norm::softmax_row),
    sample("rms_norm", norm::rms_norm),
    sample("histogram", vector::histogram),
    sample("q4k_dequantize", quant::dequantize),
    sample("q4k_q8_gemv", quant::gemv),
    sample("q4k_q8_gemv_ahead", quant::gemv_ahead),
    sample("byte_shift", vector::byte_shift),
    sample("wmma_f16_tile", matrix::half_tile),
    sample("wmma_f16_tile_ahead", matrix::half_tile_ahead),
    sample("wmma_iu8_tile", matrix::byte_tile),
];
