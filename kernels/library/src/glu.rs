//! The non-linearity of gated feed-forwards, in f32.

use crate::builder_ext::BuilderExt;
use alloc::format;
use alloc::string::{String, ToString};
use doorbell_compiler::ir::{Builder, Value};
use doorbell_core::plan::Glu;

/// A non-linearity as part of a kernel's spec: floats by their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GluSpec {
    /// `silu(gate) * up`
    Silu,
    /// `gelu_tanh(gate) * up`
    Gelu,
    /// The one of gpt-oss.
    Oai {
        /// Bits of the slope inside the sigmoid.
        alpha: u32,
        /// Bits of the clamp.
        limit: u32,
    },
}

impl From<Glu> for GluSpec {
    fn from(glu: Glu) -> Self {
        match glu {
            Glu::Silu => Self::Silu,
            Glu::Gelu => Self::Gelu,
            Glu::Oai { alpha, limit } => Self::Oai { alpha: alpha.to_bits(), limit: limit.to_bits() },
        }
    }
}

impl GluSpec {
    /// The part of kernels' names for it.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Silu => "silu".to_string(),
            Self::Gelu => "gelu".to_string(),
            Self::Oai { alpha, limit } => format!("oai{alpha:x}_{limit:x}"),
        }
    }

    /// The gated value.
    pub(crate) fn apply(self, k: &mut Builder, gate: Value, up: Value) -> Value {
        match self {
            Self::Silu => {
                let share = k.sigmoid(gate, 1.0);
                k.eval(gate * share * up)
            }
            Self::Gelu => {
                // 0.5 * (1 + tanh(z)) is sigmoid(2 z), z = sqrt(2 / pi) * g * (1 + 0.044715 g^2).
                let inner = (gate * gate).mul_add(0.044_715, 1.0) * gate;
                let share = k.sigmoid(inner, 2.0 * 0.797_884_6);
                k.eval(gate * share * up)
            }
            Self::Oai { alpha, limit } => {
                let limit = f32::from_bits(limit);
                let (high, low, one) = (k.float(limit), k.float(-limit), k.float(1.0));
                let clamped = k.fmin(gate, high);
                let share = k.sigmoid(clamped, f32::from_bits(alpha));
                k.eval(clamped * share * (up.min(high).max(low) + one))
            }
        }
    }
}
