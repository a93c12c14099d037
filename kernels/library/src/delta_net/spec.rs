//! The shape of a delta net, its division among lanes and waves, and its arguments.
//!
//! A workgroup has one value head of a sequence. Columns of a head's state do not depend on each other, so a wave takes
//! some of them with all of their rows, in registers: sums over rows stay within the wave.

use crate::builder_ext::BuilderExt;
use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Builder, Elem, Value};
use doorbell_core::plan::{DeltaShape, HeadOrder};

/// Columns of the state that a lane has: 16 bytes of a row.
pub(crate) const COLUMNS: u32 = 4;
/// Most lanes that share a row.
const SHARING: u32 = 4;
/// Most rows of the state that a lane has: its part then takes 64 registers.
const MOST_ROWS: u32 = 16;
/// Most waves of a workgroup.
const MOST_WAVES: u32 = 8;
/// Tokens between two barriers of a step of many rows.
pub(crate) const TOGETHER: u32 = 8;
/// Floats of a token's factors in LDS.
pub(crate) const FACTORS: u32 = 8;

/// A delta net of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeltaNetSpec {
    /// Heads and their sizes.
    pub shape: DeltaShape,
    /// True if betas and alphas lie in one tensor, by key head.
    pub fused_gates: bool,
    /// Tokens between two barriers: 1 where every sequence has one row.
    pub tokens: u32,
}

/// The rows of a sequence in the batch; all uniform.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// First row.
    pub(crate) first: Value,
    /// Rows.
    pub(crate) rows: Value,
    /// Position of the first row.
    pub(crate) position: Value,
    /// The sequence's state in this layer.
    pub(crate) state: Value,
    /// True if the state is empty: the sequence begins.
    pub(crate) empty: Value,
}

/// Arguments for the runs of a batch.
#[derive(Clone, Copy)]
pub(crate) struct RunArguments {
    /// The runs: their number, then first row, rows and state of each.
    pub(crate) runs: Value,
    /// Positions of rows.
    positions: Value,
    /// The layer's part of the first state.
    states: Value,
    /// Bytes from one state to the next.
    stride: Value,
}

impl RunArguments {
    /// Declares them.
    pub(crate) fn new(k: &mut Builder) -> Self {
        let [runs, positions, states] = ["runs", "positions", "states"].map(|name| k.buffer(name));
        Self { runs, positions, states, stride: k.scalar("stride", Elem::Int) }
    }

    /// The run with a uniform number.
    pub(crate) fn run(&self, k: &mut Builder, number: Value) -> Run {
        let entry = k.eval(number * 12);
        let [first, rows, state] = [4u32, 8, 12].map(|ahead| k.read_uniform(self.runs, entry + ahead));
        let position = k.read_uniform(self.positions, first << 2);
        let offset = k.wide_mul(state, self.stride);
        let state = k.wide_add(self.states, offset);
        let empty = k.eq(position, 0);
        Run { first, rows, position, state, empty }
    }
}

/// Arguments of the kernel.
pub(crate) struct DeltaArguments {
    pub(crate) runs: RunArguments,
    pub(crate) mixed: Value,
    pub(crate) gate: Value,
    pub(crate) beta: Value,
    pub(crate) alpha: Value,
    pub(crate) convolution: Value,
    pub(crate) decay: Value,
    pub(crate) step_bias: Value,
    pub(crate) norm: Value,
    pub(crate) out: Value,
    pub(crate) eps: Value,
    /// Workgroups along Y.
    pub(crate) groups: Value,
}

/// LDS of the kernel: first bytes.
#[derive(Clone, Copy)]
pub(crate) struct DeltaLds {
    /// `[tokens, channels of the head]`
    pub(crate) mixed: u32,
    /// `[tokens, FACTORS]`
    pub(crate) factors: u32,
    /// `[tokens, value_dim]`
    pub(crate) out: u32,
}

impl DeltaNetSpec {
    /// True if there is a kernel for a shape.
    pub(crate) fn fits(shape: &DeltaShape) -> bool {
        let spec = Self { shape: *shape, fused_gates: false, tokens: 1 };
        let whole = |number: u32, of: u32| of != 0 && number != 0 && number.is_multiple_of(of);
        let columns = whole(shape.value_dim, COLUMNS) && whole(shape.value_dim, COLUMNS * spec.row_lanes());
        let lanes = spec.row_lanes().is_power_of_two() && spec.waves() <= MOST_WAVES;
        let rows = whole(shape.key_dim, spec.key_lanes()) && spec.rows() <= MOST_ROWS;
        let groups = spec.rows() < 4 && spec.rows() != 3 || whole(spec.rows(), 4);
        let heads = whole(shape.value_heads, shape.key_heads) && shape.value_heads < 1 << 16;
        columns && lanes && rows && groups && heads && shape.taps.is_power_of_two() && shape.taps > 1
    }

    /// True if every run is one row.
    pub(crate) fn is_single(&self) -> bool {
        self.tokens == 1
    }

    /// Lanes that share a row of the state.
    pub(crate) fn row_lanes(&self) -> u32 {
        (self.shape.value_dim / COLUMNS).clamp(1, SHARING)
    }

    /// Lanes of a wave that share columns.
    pub(crate) fn key_lanes(&self) -> u32 {
        32 / self.row_lanes()
    }

    /// Rows of the state that a lane has.
    pub(crate) fn rows(&self) -> u32 {
        self.shape.key_dim / self.key_lanes()
    }

    /// Neighboring rows among them.
    pub(crate) fn neighbors(&self) -> u32 {
        self.rows().min(4)
    }

    /// Waves of a workgroup.
    pub(crate) fn waves(&self) -> u32 {
        (self.shape.value_dim / (COLUMNS * self.row_lanes())).max(1)
    }

    /// Work items of a workgroup.
    pub(crate) fn items(&self) -> u32 {
        32 * self.waves()
    }

    /// Channels of a head: query, key, value.
    pub(crate) fn channels(&self) -> u32 {
        2 * self.shape.key_dim + self.shape.value_dim
    }

    /// The name of its kernel.
    pub(crate) fn symbol(&self) -> String {
        let DeltaShape { key_heads, value_heads, key_dim, value_dim, taps, order } = self.shape;
        let order = if order == HeadOrder::Tiled { "t" } else { "g" };
        let gates = if self.fused_gates { "_fused" } else { "" };
        format!(
            "delta_net_{key_heads}x{key_dim}_{value_heads}x{value_dim}{order}_c{taps}{gates}_{}",
            self.tokens
        )
    }

    pub(crate) fn arguments(&self, k: &mut Builder) -> DeltaArguments {
        let runs = RunArguments::new(k);
        let [mixed, gate, beta] = ["mixed", "gate", "beta"].map(|name| k.buffer(name));
        let alpha = if self.fused_gates { beta } else { k.buffer("alpha") };
        let [convolution, decay, step_bias, norm] =
            ["convolution", "decay", "step_bias", "norm"].map(|name| k.buffer(name));
        let (out, eps) = (k.buffer("out"), k.scalar("eps", Elem::Float));
        let groups = k.scalar("groups", Elem::Int);
        DeltaArguments {
            runs,
            mixed,
            gate,
            beta,
            alpha,
            convolution,
            decay,
            step_bias,
            norm,
            out,
            eps,
            groups,
        }
    }

    pub(crate) fn lds(&self, k: &mut Builder) -> DeltaLds {
        DeltaLds {
            mixed: k.local(4 * self.tokens * self.channels()),
            factors: k.local(4 * self.tokens * FACTORS),
            out: k.local(4 * self.tokens * self.shape.value_dim),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_do_not_divide_have_no_kernel() {
        let shape = DeltaShape {
            key_heads: 16,
            value_heads: 32,
            key_dim: 128,
            value_dim: 128,
            taps: 4,
            order: HeadOrder::Grouped,
        };
        assert!(DeltaNetSpec::fits(&shape));
        for (key_dim, value_dim) in [(32, 32), (8, 16), (16, 8), (64, 128), (32, 4)] {
            assert!(DeltaNetSpec::fits(&DeltaShape { key_dim, value_dim, ..shape }), "{key_dim} {value_dim}");
        }
        for (key_dim, value_dim) in
            [(128, 12), (128, 130), (100, 128), (256, 128), (128, 256), (24, 128), (8, 8), (0, 128), (128, 0)]
        {
            assert!(
                !DeltaNetSpec::fits(&DeltaShape { key_dim, value_dim, ..shape }),
                "{key_dim} {value_dim}"
            );
        }
        for taps in [0, 1, 3] {
            assert!(!DeltaNetSpec::fits(&DeltaShape { taps, ..shape }), "{taps}");
        }
        assert!(!DeltaNetSpec::fits(&DeltaShape { key_heads: 3, ..shape }));
        assert!(!DeltaNetSpec::fits(&DeltaShape { key_heads: 0, ..shape }));
    }
}
