//! The operations of a plan. Each is a unit of meaning and of placement; a driver must not split it.
//!
//! Notation: an activation tensor is `[rows, width]` f32; a matrix is `[out, in]`; `RMS(x; w, eps)` is
//! `x * w / sqrt(mean(x^2) + eps)`; `LN(x; w, b, eps)` is `(x - mean(x)) * w / sqrt(variance(x) + eps) + b`.

use super::delta_net::DeltaNet;
use super::id::{GroupId, RopeId, TensorId, VectorId, WeightId};
use super::norm::Norm;
use heapless::Vec as Fixed;

/// Rows `first_row..first_row + rows` of a weight, with the operations on their products.
///
/// In an expert stack the rows are those of each expert; `bias` and `scale` then have one entry (row of
/// entries) per expert.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matrix {
    /// The weight.
    pub weight: WeightId,
    /// First output row.
    pub first_row: u32,
    /// Output rows.
    pub rows: u32,
    /// Factor on the product, one value or one per expert.
    pub scale: Option<VectorId>,
    /// Added after the factor: `[rows]`, or `[experts, rows]`.
    pub bias: Option<VectorId>,
}

/// The non-linearity of a gated feed-forward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Glu {
    /// `silu(gate) * up`
    Silu,
    /// `gelu_tanh(gate) * up`
    Gelu,
    /// gpt-oss: `g = min(gate, limit)`, `u = clamp(up, -limit, limit)`, `g * sigmoid(alpha * g) * (u + 1)`
    Oai {
        /// Slope inside the sigmoid, 1.702.
        alpha: f32,
        /// Clamp, 7.
        limit: f32,
    },
}

/// The non-linearity of a feed-forward without a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `gelu_tanh(x)`
    Gelu,
    /// `max(x, 0)^2`
    ReluSquared,
}

/// The storage of a layer's keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvSlot {
    /// The group.
    pub group: GroupId,
    /// The layer's index within the group.
    pub layer: u16,
}

/// The operation on a projection's product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Epilogue {
    /// `out = y`
    Store {
        /// `[rows, matrix.rows]`
        out: TensorId,
    },
    /// `out = activation(y)`
    Activate {
        /// The non-linearity.
        activation: Activation,
        /// `[rows, matrix.rows]`
        out: TensorId,
    },
    /// `to += y`
    Add {
        /// `[rows, matrix.rows]`
        to: TensorId,
    },
    /// `to += sigmoid(gate) * y`
    AddGated {
        /// `[rows, matrix.rows]`
        to: TensorId,
        /// `[rows, 1]`
        gate: TensorId,
    },
    /// `out = glu(y, up x)`: this matrix is the gate.
    Gate {
        /// The second matrix, of as many rows.
        up: Matrix,
        /// The non-linearity.
        glu: Glu,
        /// `[rows, matrix.rows]`
        out: TensorId,
    },
    /// `out = glu(y, by)` with columns of another tensor: this matrix is the gate.
    GateBy {
        /// `[rows, any]`
        by: TensorId,
        /// First column of it.
        column: u32,
        /// The non-linearity.
        glu: Glu,
        /// `[rows, matrix.rows]`
        out: TensorId,
    },
    /// Queries: optional RMS norm per head, then rotary embedding.
    Query {
        /// Per-head norm, `[head_dim]`.
        norm: Option<Norm>,
        /// Rotary embedding at the row's position.
        rope: Option<RopeId>,
        /// Elements per head.
        head_dim: u32,
        /// `[rows, heads * head_dim]`
        out: TensorId,
        /// `[rows, heads * head_dim]`: in the matrix, each head's rows are followed by as many of its output gate.
        gate: Option<TensorId>,
    },
    /// Keys: as queries, then written to the KV cache at the row's position.
    Key {
        /// Per-head norm, `[head_dim]`.
        norm: Option<Norm>,
        /// Rotary embedding at the row's position.
        rope: Option<RopeId>,
        /// The storage.
        kv: KvSlot,
    },
    /// Values: optional RMS norm per head, then written to the KV cache at the row's position.
    Value {
        /// Per-head norm, `[value_dim]`.
        norm: Option<Norm>,
        /// The storage.
        kv: KvSlot,
    },
}

/// One matrix of a projection and its epilogue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The matrix.
    pub matrix: Matrix,
    /// The operation on the product.
    pub epilogue: Epilogue,
}

/// `y_i = matrix_i * norm(input)` for up to four matrices over the same input.
#[derive(Clone, Debug, PartialEq)]
pub struct Project {
    /// `[rows, in]`
    pub input: TensorId,
    /// Applied to the input first.
    pub norm: Option<Norm>,
    /// The matrices.
    pub parts: Fixed<Part, 4>,
}

/// A factor on queries that grows with their position `p`: `scale * ln(floor((p + offset) / length) + 1) + 1`.
///
/// Source: `inp_attn_scale` in llama.cpp's `llm_graph_input_attn_temp`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature {
    /// Positions over which the factor stays the same.
    pub length: u32,
    /// Added to positions.
    pub offset: u32,
    /// Slope.
    pub scale: f32,
}

impl Temperature {
    /// The factor at a position.
    pub fn factor(&self, position: u32) -> f32 {
        let steps = (u64::from(position) + u64::from(self.offset)) / u64::from(self.length);
        self.scale * libm::logf(steps as f32 + 1.0) + 1.0
    }
}

/// The use of finished heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadTarget {
    /// Queries.
    Query {
        /// Elements per head.
        head_dim: u32,
        /// `[rows, heads * head_dim]`
        out: TensorId,
    },
    /// Keys, written to the KV cache at the row's position.
    Key(KvSlot),
}

/// Heads of queries or keys that need more than a projection's epilogue: rotary embedding, then an RMS norm per head,
/// then a factor by position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotate {
    /// `[rows, heads * head_dim]`
    pub input: TensorId,
    /// Rotary embedding at the row's position.
    pub rope: Option<RopeId>,
    /// Per-head norm behind the rotation, `[head_dim]`.
    pub norm: Option<Norm>,
    /// Factor behind both.
    pub temperature: Option<Temperature>,
    /// Where the heads go.
    pub target: HeadTarget,
}

/// Causal attention of queries against a layer's cached keys and values.
///
/// Query head `h` reads KV head `h / (heads / kv_heads)`. A row at position `p` sees positions `0..=p`, or with a
/// window `w` only `p - w + 1..=p`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attend {
    /// `[rows, heads * key_dim]`
    pub query: TensorId,
    /// The storage of keys and values.
    pub kv: KvSlot,
    /// Query heads.
    pub heads: u32,
    /// Factor on the scores.
    pub scale: f32,
    /// Positions visible, the row's own included.
    pub window: Option<u32>,
    /// `c * tanh(score / c)` on scores.
    pub soft_cap: Option<f32>,
    /// One virtual score per head with a zero value.
    pub sinks: Option<VectorId>,
    /// `[rows, heads * value_dim]`: the result is multiplied by the sigmoid of it.
    pub gate: Option<TensorId>,
    /// `[rows, heads * value_dim]`
    pub out: TensorId,
}

/// The function from router products to probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gating {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid per expert.
    Sigmoid,
    /// The products themselves; softmax over the chosen experts' only.
    SoftmaxOfChosen,
}

/// Experts are chosen from the best groups only: those whose two best experts' scores have the largest sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertGroups {
    /// Groups of as many neighboring experts each, at least two.
    pub count: u32,
    /// Groups that experts are chosen from.
    pub used: u32,
}

/// Chooses experts per row: higher score first, lower index on ties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// `[rows, in]`
    pub input: TensorId,
    /// Applied to the input first.
    pub norm: Option<Norm>,
    /// `[experts, in]`
    pub router: Matrix,
    /// Products to probabilities.
    pub gating: Gating,
    /// Added to probabilities for choosing only.
    pub selection_bias: Option<VectorId>,
    /// Limits the choice to some groups.
    pub groups: Option<ExpertGroups>,
    /// Experts chosen per row.
    pub top_k: u32,
    /// Divide the chosen weights by their sum (at least [`Route::LEAST_SUM`]).
    pub renormalize: bool,
    /// Factor on the weights, after that.
    pub scale: f32,
    /// `[rows, top_k]` u32: chosen experts.
    pub ids: TensorId,
    /// `[rows, top_k]` f32: their weights.
    pub weights: TensorId,
}

impl Route {
    /// Smallest sum that chosen weights are divided by: the least normal f16, 2^-14, as in llama.cpp.
    pub const LEAST_SUM: f32 = 6.103_515_6e-5;
}

/// The use of a result by a tensor that gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The result is added to it.
    Add,
    /// The result replaces it.
    Replace,
}

/// `to += sum_k weight_k * down_e(glu(gate_e x, up_e x))` over the chosen experts, `x = norm(input)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// `[rows, in]`
    pub input: TensorId,
    /// Applied to the input first.
    pub norm: Option<Norm>,
    /// `[rows, top_k]` u32
    pub ids: TensorId,
    /// `[rows, top_k]` f32
    pub weights: TensorId,
    /// Experts per row.
    pub top_k: u32,
    /// Per expert `[hidden, in]`.
    pub gate: Matrix,
    /// Per expert `[hidden, in]`.
    pub up: Matrix,
    /// Per expert `[out, hidden]`.
    pub down: Matrix,
    /// The non-linearity.
    pub glu: Glu,
    /// `[rows, out]`
    pub to: TensorId,
    /// Added to `to`, or in its place.
    pub update: Update,
}

/// `to = scale * (to + RMS(input))`, or `to = scale * RMS(input)`.
///
/// A norm that is shorter than a row applies to each part of the row that is as long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormAdd {
    /// A branch's output.
    pub input: TensorId,
    /// Its norm.
    pub norm: Norm,
    /// The residual stream.
    pub to: TensorId,
    /// Added to `to`, or in its place.
    pub update: Update,
    /// Factor on the sum.
    pub scale: f32,
}

/// The output of the head, per output row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadResult {
    /// `[outputs, vocab]` f32.
    Logits,
    /// `[outputs]`: the token of the largest logit, the lowest id on ties.
    ArgMax,
    /// `[outputs, in]` f32: the input after the norm, without the product.
    Hidden,
}

/// `cap(matrix * norm(input))` over the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// `[outputs, in]`
    pub input: TensorId,
    /// Final norm.
    pub norm: Norm,
    /// `[vocab, in]`
    pub matrix: Matrix,
    /// Factor on the products before the cap.
    pub scale: f32,
    /// `c * tanh(y / c)`
    pub soft_cap: Option<f32>,
    /// The output.
    pub result: HeadResult,
}

/// One operation of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `out = scale * table[token]`
    Embed {
        /// `[vocab, width]`
        table: WeightId,
        /// Factor.
        scale: f32,
        /// `[rows, width]`
        out: TensorId,
    },
    /// Selects the output rows: `out[i] = input[outputs[i]]`.
    Select {
        /// Batch rows.
        input: TensorId,
        /// Output rows.
        out: TensorId,
    },
    /// Matrices over one input.
    Project(Project),
    /// Rotation of heads that are no projection's.
    Rotate(Rotate),
    /// Attention.
    Attend(Attend),
    /// Linear attention with a recurrent state.
    DeltaNet(DeltaNet),
    /// Expert choice.
    Route(Route),
    /// Chosen experts.
    Experts(Experts),
    /// The norm of a branch's output, added to the stream.
    NormAdd(NormAdd),
    /// Vocabulary scores.
    Head(Head),
}

impl Op {
    /// The operation's name, as printed.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embed { .. } => "embed",
            Self::Select { .. } => "select",
            Self::Project(_) => "project",
            Self::Rotate(_) => "rotate",
            Self::Attend(_) => "attend",
            Self::DeltaNet(_) => "delta_net",
            Self::Route(_) => "route",
            Self::Experts(_) => "experts",
            Self::NormAdd(_) => "norm_add",
            Self::Head(_) => "head",
        }
    }

    /// Calls `visit` with every activation tensor that is read or written.
    pub fn each_tensor(&self, mut visit: impl FnMut(TensorId)) {
        match self {
            Self::Embed { out, .. } => visit(*out),
            Self::Select { input, out } => [*input, *out].into_iter().for_each(visit),
            Self::Project(project) => {
                visit(project.input);
                for part in &project.parts {
                    match part.epilogue {
                        Epilogue::Store { out }
                        | Epilogue::Activate { out, .. }
                        | Epilogue::Gate { out, .. } => visit(out),
                        Epilogue::Query { out, gate, .. } => {
                            [Some(out), gate].into_iter().flatten().for_each(&mut visit);
                        }
                        Epilogue::GateBy { by, out, .. } => [by, out].into_iter().for_each(&mut visit),
                        Epilogue::Add { to } => visit(to),
                        Epilogue::AddGated { to, gate } => [to, gate].into_iter().for_each(&mut visit),
                        Epilogue::Key { .. } | Epilogue::Value { .. } => {}
                    }
                }
            }
            Self::Rotate(op) => {
                visit(op.input);
                if let HeadTarget::Query { out, .. } = op.target {
                    visit(out);
                }
            }
            Self::Attend(attention) => {
                [Some(attention.query), attention.gate, Some(attention.out)]
                    .into_iter()
                    .flatten()
                    .for_each(visit);
            }
            Self::DeltaNet(op) => {
                let [beta, alpha] = op.gates.tensors();
                [op.mixed, op.gate, beta, alpha, op.out].into_iter().for_each(visit);
            }
            Self::Route(route) => [route.input, route.ids, route.weights].into_iter().for_each(visit),
            Self::Experts(op) => [op.input, op.ids, op.weights, op.to].into_iter().for_each(visit),
            Self::NormAdd(op) => [op.input, op.to].into_iter().for_each(visit),
            Self::Head(head) => visit(head.input),
        }
    }

    /// The norm that is applied to the input.
    pub fn norm(&self) -> Option<Norm> {
        match self {
            Self::Project(op) => op.norm,
            Self::Route(op) => op.norm,
            Self::Experts(op) => op.norm,
            Self::NormAdd(op) => Some(op.norm),
            Self::Head(op) => Some(op.norm),
            Self::Embed { .. }
            | Self::Select { .. }
            | Self::Rotate(_)
            | Self::Attend(_)
            | Self::DeltaNet(_) => None,
        }
    }

    /// Calls `visit` with every matrix (expert stacks once).
    pub fn each_matrix(&self, mut visit: impl FnMut(&Matrix)) {
        match self {
            Self::Project(project) => {
                for part in &project.parts {
                    visit(&part.matrix);
                    if let Epilogue::Gate { up, .. } = &part.epilogue {
                        visit(up);
                    }
                }
            }
            Self::Route(route) => visit(&route.router),
            Self::Experts(op) => [&op.gate, &op.up, &op.down].into_iter().for_each(visit),
            Self::Head(head) => visit(&head.matrix),
            Self::Embed { .. }
            | Self::Select { .. }
            | Self::Rotate(_)
            | Self::Attend(_)
            | Self::DeltaNet(_)
            | Self::NormAdd(_) => {}
        }
    }
}
