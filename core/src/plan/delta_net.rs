//! Linear attention with a recurrent state. Notation as in the operations.

use super::id::{TensorId, VectorId};
use super::norm::Norm;

/// The slot of a layer among those with a recurrent state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSlot(pub u16);

/// Which key head a value head reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeadOrder {
    /// Value heads of one key head are neighbors: head `h` reads `h / (value_heads / key_heads)`.
    Grouped,
    /// Value heads go through the key heads in turn: head `h` reads `h % key_heads`.
    Tiled,
}

/// The head shape of a delta net.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeltaShape {
    /// Heads of queries and keys.
    pub key_heads: u32,
    /// Heads of values, a multiple of `key_heads`.
    pub value_heads: u32,
    /// Elements of a query or key head.
    pub key_dim: u32,
    /// Elements of a value head.
    pub value_dim: u32,
    /// Tokens that the short convolution sees, the newest included.
    pub taps: u32,
    /// Which key head a value head reads.
    pub order: HeadOrder,
}

impl DeltaShape {
    /// Elements of all queries, and of all keys, of a token.
    pub const fn key_width(&self) -> usize {
        self.key_heads as usize * self.key_dim as usize
    }

    /// Elements of all values of a token.
    pub const fn value_width(&self) -> usize {
        self.value_heads as usize * self.value_dim as usize
    }

    /// Channels of the convolution: queries, keys, values.
    pub const fn channels(&self) -> usize {
        2 * self.key_width() + self.value_width()
    }

    /// The key head that a value head reads.
    pub const fn key_head(&self, value_head: u32) -> u32 {
        match self.order {
            HeadOrder::Grouped => value_head / (self.value_heads / self.key_heads),
            HeadOrder::Tiled => value_head % self.key_heads,
        }
    }

    /// Floats of the convolution's state, `[taps, channels]`: the input at position `p` is in row `p % taps`, so that a
    /// token's row is none of those that it reads.
    pub const fn convolution_state(&self) -> usize {
        self.taps as usize * self.channels()
    }

    /// Floats of the recurrent state, `[value_heads, key_dim, value_dim]`.
    pub const fn recurrent_state(&self) -> usize {
        self.value_width() * self.key_dim as usize
    }

    /// Floats of a sequence's state in one layer.
    pub const fn state(&self) -> usize {
        self.convolution_state() + self.recurrent_state()
    }
}

/// Where the gates of a delta net are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaGates {
    /// `[rows, 2 * value_heads]`: for each key head, the betas of its value heads, then their alphas.
    ByKeyHead(TensorId),
    /// Two tensors of `[rows, value_heads]`.
    Apart {
        /// Before the sigmoid.
        beta: TensorId,
        /// Before the softplus.
        alpha: TensorId,
    },
}

impl DeltaGates {
    /// The tensors, both the same where there is one.
    pub const fn tensors(&self) -> [TensorId; 2] {
        match *self {
            Self::ByKeyHead(both) => [both, both],
            Self::Apart { beta, alpha } => [beta, alpha],
        }
    }

    /// The columns of a value head's beta and alpha in [`Self::tensors`].
    pub const fn columns(&self, shape: &DeltaShape, head: u32) -> [usize; 2] {
        match self {
            Self::ByKeyHead(_) => {
                let share = shape.value_heads / shape.key_heads;
                let beta = head / share * 2 * share + head % share;
                [beta as usize, (beta + share) as usize]
            }
            Self::Apart { .. } => [head as usize; 2],
        }
    }
}

/// Linear attention by the gated delta rule, token after token of each run, behind a short causal convolution.
///
/// With `c = silu(convolution(mixed))` split into queries, keys and values, queries and keys of unit length per head:
/// `g = exp(decay * softplus(alpha + step_bias))`, `S = g S`, `u = sigmoid(beta) (v - S'k)`, `S += k u'`,
/// `y = S'q / sqrt(key_dim)`, `out = RMS(y; norm) * silu(gate)`. A run at position 0 begins with an empty state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeltaNet {
    /// `[rows, channels]`
    pub mixed: TensorId,
    /// `[rows, value_heads * value_dim]`
    pub gate: TensorId,
    /// Betas and alphas.
    pub gates: DeltaGates,
    /// `[taps, channels]`, the last row for the newest token.
    pub convolution: VectorId,
    /// `[value_heads]`, negative.
    pub decay: VectorId,
    /// `[value_heads]`
    pub step_bias: VectorId,
    /// `[value_dim]`; its epsilon is also that of queries' and keys' lengths.
    pub norm: Norm,
    /// Heads and their sizes.
    pub shape: DeltaShape,
    /// Where the layer's state is.
    pub state: StateSlot,
    /// `[rows, value_heads * value_dim]`
    pub out: TensorId,
}
