//! A bound model: weights by id, layers as the plan builder needs them, KV groups and rotary embeddings.

use super::family::{Family, HeadNorms};
use super::hparams::HyperParams;
use super::rope::Rope;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::{
    Activation, BatchLimits, DeltaShape, GroupId, KvError, KvPages, KvSlot, KvType, MAX_GROUPS, Matrix, Norm,
    PAGE_TOKENS, RopeId, Shape, StateId, StateSlot, Temperature, VectorId, WeightId,
};
use crate::quant;

/// A matrix `[rows, cols]`, or a stack of them `[stack, rows, cols]`, as the file holds it.
#[derive(Clone, Copy, Debug)]
pub struct Weight<'a> {
    /// The tensor's name.
    pub name: &'a [u8],
    /// Block format.
    pub ty: quant::Type,
    /// Output rows of each matrix.
    pub rows: usize,
    /// Inputs, in elements.
    pub cols: usize,
    /// Number of matrices; 1 unless it is an expert stack.
    pub stack: usize,
    /// `stack * rows * row_bytes` bytes.
    pub data: &'a [u8],
}

impl<'a> Weight<'a> {
    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        // The binder has checked that rows are whole blocks.
        self.ty.row_bytes(self.cols).unwrap_or(0)
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> u64 {
        (self.rows * self.stack) as u64 * self.row_bytes() as u64
    }

    /// Rows `first..first + count` of one matrix of the stack.
    pub fn slice(&self, matrix: usize, first: usize, count: usize) -> &'a [u8] {
        let bytes = self.row_bytes();
        let start = (matrix * self.rows + first) * bytes;
        &self.data[start..start + count * bytes]
    }
}

/// The router of a mixture-of-experts layer.
#[derive(Clone, Copy, Debug)]
pub struct Router {
    /// `[experts, width]`
    pub matrix: Matrix,
    /// Added to the probabilities when experts are chosen, not to their weights.
    pub selection_bias: Option<VectorId>,
}

/// A layer's feed-forward.
#[derive(Clone, Copy, Debug)]
pub enum Ffn {
    /// `down * activation(up * x)`
    Plain {
        /// `[ffn, width]`
        up: Matrix,
        /// The non-linearity.
        activation: Activation,
        /// `[width, ffn]`
        down: Matrix,
    },
    /// Gate, up and down.
    Dense {
        /// `[ffn, width]`
        gate: Matrix,
        /// `[ffn, width]`
        up: Matrix,
        /// `[width, ffn]`
        down: Matrix,
    },
    /// A router and expert stacks.
    Mixture {
        /// The router.
        router: Router,
        /// Per expert `[ffn, width]`.
        gate: Matrix,
        /// Per expert `[ffn, width]`.
        up: Matrix,
        /// Per expert `[width, ffn]`.
        down: Matrix,
        /// The shared expert.
        shared: Option<Shared>,
    },
}

/// An expert that every row uses, weighted by `sigmoid(weight * x)` if it has such a weight.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    /// `[ffn, width]`
    pub gate: Matrix,
    /// `[ffn, width]`
    pub up: Matrix,
    /// `[width, ffn]`
    pub down: Matrix,
    /// `[1, width]`
    pub weight: Option<Matrix>,
}

/// Softmax attention over cached keys and values.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// `[heads * key_dim, width]`, or twice as many rows: each head followed by its output gate.
    pub query: Matrix,
    /// The query's heads are followed by output gates.
    pub gated: bool,
    /// `[heads * value_dim, width]`: output gates of a tensor of their own.
    pub gate: Option<Matrix>,
    /// `[kv_heads * key_dim, width]`; `None` if the layer reads the keys and values of an earlier one.
    pub key: Option<Matrix>,
    /// `[kv_heads * value_dim, width]`; likewise.
    pub value: Option<Matrix>,
    /// `[width, heads * value_dim]`
    pub output: Matrix,
    /// Of queries, per head or over all heads.
    pub query_norm: Option<Norm>,
    /// Of keys, likewise.
    pub key_norm: Option<Norm>,
    /// Where these norms are.
    pub head_norms: HeadNorms,
    /// Factor on queries by their position.
    pub temperature: Option<Temperature>,
    /// Per value head.
    pub value_norm: Option<Norm>,
    /// Elements of a query or key head.
    pub key_dim: u32,
    /// Elements of a value head.
    pub value_dim: u32,
    /// Virtual scores.
    pub sinks: Option<VectorId>,
    /// The storage of keys and values.
    pub kv: KvSlot,
    /// Rotary embedding of queries and keys, where the layer has one.
    pub rope: Option<RopeId>,
    /// `c * tanh(score / c)` on scores.
    pub soft_cap: Option<f32>,
    /// Query heads.
    pub heads: u32,
    /// Positions visible.
    pub window: Option<u32>,
}

impl Attention {
    /// True if a projection's epilogues have all that queries and keys need.
    pub fn has_plain_heads(&self) -> bool {
        let before = self.head_norms == HeadNorms::BeforeRotation;
        (before || self.query_norm.is_none() && self.key_norm.is_none()) && self.temperature.is_none()
    }
}

/// Linear attention by the gated delta rule.
#[derive(Clone, Copy, Debug)]
pub struct Delta {
    /// `[channels, width]`: queries, keys and values.
    pub mixed: Matrix,
    /// `[value_heads * value_dim, width]`
    pub gate: Matrix,
    /// Betas and alphas.
    pub gates: DeltaGateWeights,
    /// `[width, value_heads * value_dim]`
    pub output: Matrix,
    /// `[taps, channels]`, the last row for the newest token.
    pub convolution: VectorId,
    /// `[value_heads]`
    pub decay: VectorId,
    /// `[value_heads]`
    pub step_bias: VectorId,
    /// Per value head.
    pub norm: Norm,
    /// Heads and their sizes.
    pub shape: DeltaShape,
    /// Where the state is.
    pub state: StateSlot,
}

impl Delta {
    /// Elements of a token's output, before [`Self::output`].
    pub const fn output_width(&self) -> u32 {
        self.shape.value_heads * self.shape.value_dim
    }
}

/// The projections to betas and alphas.
#[derive(Clone, Copy, Debug)]
pub enum DeltaGateWeights {
    /// `[2 * value_heads, width]`: for each key head, the betas of its value heads, then their alphas.
    ByKeyHead(Matrix),
    /// Two of `[value_heads, width]`.
    Apart {
        /// Betas.
        beta: Matrix,
        /// Alphas.
        alpha: Matrix,
    },
}

/// The mixing of the tokens of a sequence.
#[derive(Clone, Copy, Debug)]
pub enum Mixer {
    /// Softmax attention.
    Attention(Attention),
    /// Linear attention with a recurrent state.
    Delta(Delta),
}

/// One decoder layer.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    /// Before the mixer.
    pub attention_norm: Option<Norm>,
    /// Attention, or what stands for it.
    pub mixer: Mixer,
    /// On the attention output, before the residual addition.
    pub post_attention_norm: Option<Norm>,
    /// Before the feed-forward.
    pub ffn_norm: Option<Norm>,
    /// On the feed-forward output, before the residual addition.
    pub post_ffn_norm: Option<Norm>,
    /// The feed-forward.
    pub ffn: Ffn,
    /// Experts beside a dense feed-forward.
    pub parallel_experts: Option<ParallelExperts>,
    /// The layer's own embedding of the token, added at its end.
    pub token_input: Option<TokenInput>,
    /// Factor on the layer's output.
    pub output_scale: f32,
}

/// Experts that read the same stream as a dense feed-forward; both results are normalized and added.
#[derive(Clone, Copy, Debug)]
pub struct ParallelExperts {
    /// On the router's input.
    pub router_norm: Norm,
    /// On the experts' input.
    pub norm: Norm,
    /// On the experts' result.
    pub post_norm: Norm,
    /// On the dense feed-forward's result.
    pub dense_post_norm: Norm,
    /// `[experts, width]`
    pub router: Matrix,
    /// Per expert `[ffn, width]`.
    pub gate: Matrix,
    /// Per expert `[ffn, width]`.
    pub up: Matrix,
    /// Per expert `[width, ffn]`.
    pub down: Matrix,
}

/// `stream += RMS(projection * (gelu(gate * stream) * input); norm)`, with the layer's own part of the token's input.
#[derive(Clone, Copy, Debug)]
pub struct TokenInput {
    /// `[per_layer_width, width]`
    pub gate: Matrix,
    /// `[width, per_layer_width]`
    pub projection: Matrix,
    /// On the result.
    pub norm: Norm,
}

/// Each layer's own input: `RMS(projection * embedding; norm) + scale * table[token]`.
#[derive(Clone, Copy, Debug)]
pub struct TokenInputs {
    /// `[vocab, layers * per_layer_width]`
    pub table: WeightId,
    /// Factor on the table's rows.
    pub scale: f32,
    /// `[layers * per_layer_width, width]`
    pub projection: Matrix,
    /// On each layer's part of the projection.
    pub norm: Norm,
}

/// The recurrent state of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateShape {
    /// Layers that have one.
    pub layers: u16,
    /// Heads and their sizes, of every such layer.
    pub delta: DeltaShape,
}

impl StateShape {
    /// Floats of a sequence's state, all layers together.
    pub fn floats(&self) -> usize {
        // Both are bounded by the binder.
        usize::from(self.layers) * self.delta.state()
    }

    /// The floats of a sequence's state in one layer, in memory of `[states, layers, floats]`.
    pub fn layer(&self, state: StateId, slot: StateSlot) -> core::ops::Range<usize> {
        let floats = self.delta.state();
        let at = (state.0 as usize * usize::from(self.layers) + usize::from(slot.0)) * floats;
        at..at + floats
    }

    /// Bytes of a sequence's state: states are always f32.
    pub fn bytes(&self) -> usize {
        self.floats() * size_of::<f32>()
    }
}

/// Layers that share one KV shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvGroup {
    /// Layers in the group.
    pub layers: u16,
    /// KV heads.
    pub heads: u32,
    /// Elements of a key head.
    pub key_dim: u32,
    /// Elements of a value head.
    pub value_dim: u32,
    /// Positions visible.
    pub window: Option<u32>,
}

impl KvGroup {
    /// Bytes of keys and values per token, over all layers of the group; `None` when a head is no whole number of
    /// blocks, or on overflow.
    pub fn bytes_per_token(&self, kv: KvType) -> Option<usize> {
        let key = kv.row_bytes(self.key_dim as usize)?;
        let value = kv.row_bytes(self.value_dim as usize)?;
        usize::from(self.layers).checked_mul(self.heads as usize)?.checked_mul(key.checked_add(value)?)
    }
}

/// A model bound to its file: everything that a plan refers to by id.
#[derive(Debug)]
pub struct Model<'a> {
    /// The architecture's row.
    pub family: &'static Family,
    /// Hyperparameters.
    pub hparams: HyperParams<'a>,
    /// Matrices, by [`WeightId`].
    pub weights: Vec<'a, Weight<'a>>,
    /// Vectors in f32, by [`VectorId`].
    pub vectors: Vec<'a, Vec<'a, f32>>,
    /// Rotary embeddings, by [`RopeId`].
    pub ropes: Vec<'a, Rope<'a>>,
    /// KV groups, by `GroupId`.
    pub groups: Vec<'a, KvGroup>,
    /// The state of each sequence, where layers have one.
    pub state: Option<StateShape>,
    /// Inputs of the layers beside the stream, where they have some.
    pub token_inputs: Option<TokenInputs>,
    /// Decoder layers.
    pub layers: Vec<'a, Layer>,
    /// `[vocab, width]`
    pub embedding: WeightId,
    /// Before the head.
    pub output_norm: Norm,
    /// `[vocab, width]`; the embedding if the file has no other.
    pub head: Matrix,
    /// Tokens in the vocabulary.
    pub vocabulary: u32,
}

impl<'a> Model<'a> {
    /// A matrix or stack.
    pub fn weight(&self, id: WeightId) -> &Weight<'a> {
        &self.weights[id.index()]
    }

    /// A copy with its own tables, for a driver that stores some weights in another format; changes of the copy do not
    /// affect the original.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn copy<'h>(&self, heap: Heap<'h>) -> Result<Model<'h>, OutOfMemory>
    where
        'a: 'h,
    {
        let mut vectors = heap::with_capacity(heap, self.vectors.len())?;
        for vector in &self.vectors {
            vectors.push(heap::copied(heap, vector)?);
        }
        let mut ropes = heap::with_capacity(heap, self.ropes.len())?;
        for rope in &self.ropes {
            let frequencies = heap::copied(heap, &rope.frequencies)?;
            ropes.push(Rope { pairing: rope.pairing, frequencies, magnitude: rope.magnitude });
        }
        let layers = heap::copied(heap, &self.hparams.layers)?;
        Ok(Model {
            family: self.family,
            hparams: HyperParams { layers, ..self.hparams },
            weights: heap::copied(heap, &self.weights)?,
            vectors,
            ropes,
            groups: heap::copied(heap, &self.groups)?,
            layers: heap::copied(heap, &self.layers)?,
            ..*self
        })
    }

    /// A vector.
    pub fn vector(&self, id: VectorId) -> &[f32] {
        &self.vectors[id.index()]
    }

    /// Bytes taken from the heap: tables, and vectors in f32. Matrices stay in the file.
    pub fn heap_bytes(&self) -> usize {
        let vectors: usize = self.vectors.iter().map(heap::held).sum();
        let ropes: usize = self.ropes.iter().map(|rope| heap::held(&rope.frequencies)).sum();
        let tables = [
            heap::held(&self.hparams.layers),
            heap::held(&self.weights),
            heap::held(&self.vectors),
            heap::held(&self.ropes),
            heap::held(&self.groups),
            heap::held(&self.layers),
        ];
        vectors + ropes + tables.iter().sum::<usize>()
    }

    /// The limits of a batch for plans of a shape, on a backend with these KV pages and `states` recurrent states.
    pub fn limits(&self, shape: Shape, pages: impl Into<KvPages>, states: u32) -> BatchLimits {
        let mut windows = [None; MAX_GROUPS];
        windows.iter_mut().zip(&self.groups).for_each(|(window, group)| *window = group.window);
        let (states, pages) = (self.state.map(|_| states), pages.into());
        BatchLimits { shape, vocabulary: self.vocabulary, groups: self.groups.len(), pages, windows, states }
    }

    /// Bytes of keys and values per token over all groups.
    ///
    /// # Errors
    /// [`KvError`] if a head is no whole number of blocks.
    pub fn kv_bytes_per_token(&self, kv: KvType) -> Result<u64, KvError> {
        kv.check(self)?;
        let groups = self.groups.iter().map(|group| group.bytes_per_token(kv).unwrap_or(usize::MAX) as u64);
        Ok(groups.fold(0, u64::saturating_add))
    }

    /// Bytes of keys and values in these pages.
    ///
    /// # Errors
    /// [`KvError`] if a head is no whole number of blocks.
    pub fn kv_bytes(&self, kv: KvType, pages: &KvPages) -> Result<u64, KvError> {
        kv.check(self)?;
        let bytes = (0..).map(GroupId).zip(&self.groups).map(|(id, group)| {
            let tokens = u64::from(pages.of(id)).saturating_mul(PAGE_TOKENS as u64);
            tokens.saturating_mul(group.bytes_per_token(kv).unwrap_or(usize::MAX) as u64)
        });
        Ok(bytes.fold(0, u64::saturating_add))
    }
}

impl KvType {
    /// Checks that keys and values of a model can be stored in this format.
    ///
    /// # Errors
    /// [`KvError`] if a head is no whole number of blocks.
    pub fn check(self, model: &Model<'_>) -> Result<(), KvError> {
        let dims = model.groups.iter().flat_map(|group| [group.key_dim, group.value_dim]);
        match dims.into_iter().find(|&dim| self.row_bytes(dim as usize).is_none()) {
            Some(dim) => Err(KvError { kv: self, dim }),
            None => Ok(()),
        }
    }
}
