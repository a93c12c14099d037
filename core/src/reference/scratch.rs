//! Buffers for the intermediate rows of the reference, reserved once, so that a step allocates nothing.

use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::model::{Mixer, Model};
use crate::plan::PAGE_TOKENS;

/// The sizes that a model and its KV pages imply.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Inputs of the widest matrix.
    cols: usize,
    /// The widest row of any operation but the head, whose products are written to the output.
    width: usize,
    /// Experts chosen per row.
    top_k: usize,
    /// Elements of the longest head.
    head: usize,
    /// Most positions of a sequence.
    positions: usize,
}

impl Sizes {
    pub(super) fn new(model: &Model<'_>, pages: u32) -> Self {
        let layers = model.layers.iter();
        let outputs = layers.map(|layer| match &layer.mixer {
            Mixer::Attention(layer) => layer.query.rows.max(layer.output.rows) as usize,
            Mixer::Delta(layer) => layer.mixed.rows.max(layer.output.rows) as usize,
        });
        let outputs = outputs.max();
        let table = [model.embedding, model.head.weight];
        let inner = (0..).zip(&model.weights).filter(|(id, _)| table.iter().all(|table| table.0 != *id));
        let rows = inner.map(|(_, weight)| weight.rows).max().unwrap_or(0);
        let cols = model.weights.iter().map(|weight| weight.cols).max().unwrap_or(0);
        let dims = model.groups.iter().map(|group| group.key_dim.max(group.value_dim) as usize);
        Self {
            cols,
            width: cols.max(rows).max(outputs.unwrap_or(0)),
            top_k: model.hparams.experts.map_or(0, |experts| experts.used as usize),
            head: dims
                .chain(model.state.map(|state| state.delta.value_dim as usize))
                .max()
                .unwrap_or(0)
                .max(model.hparams.rope_dims as usize),
            positions: (pages as usize).saturating_mul(PAGE_TOKENS),
        }
    }

    /// Bytes of [`Scratch`].
    pub(super) fn bytes(&self) -> usize {
        let cells = [4 * self.width, 2 * self.cols, 3 * self.head, 2 * self.top_k, self.positions];
        cells.into_iter().fold(0_usize, usize::saturating_add).saturating_mul(size_of::<f32>())
    }
}

/// Intermediate rows of an operation.
pub(super) struct Scratch<'h> {
    /// The input row, normalized if there is a norm.
    pub(super) input: Vec<'h, f32>,
    /// Products, `first` before `second`.
    pub(super) first: Vec<'h, f32>,
    pub(super) second: Vec<'h, f32>,
    /// The sum over experts, or the output of attention.
    pub(super) sum: Vec<'h, f32>,
    /// Cosines, then sines.
    pub(super) angles: Vec<'h, f32>,
    /// One head, or one cached key or value.
    pub(super) head: Vec<'h, f32>,
    /// A score per position.
    pub(super) scores: Vec<'h, f32>,
    /// The chosen experts and their weights.
    pub(super) ids: Vec<'h, u32>,
    pub(super) weights: Vec<'h, f32>,
    pub(super) product: ProductScratch<'h>,
}

impl<'h> Scratch<'h> {
    pub(super) fn new(sizes: &Sizes, heap: Heap<'h>) -> Result<Self, OutOfMemory> {
        Ok(Self {
            input: heap::with_capacity(heap, sizes.width)?,
            first: heap::with_capacity(heap, sizes.width)?,
            second: heap::with_capacity(heap, sizes.width)?,
            sum: heap::with_capacity(heap, sizes.width)?,
            angles: heap::with_capacity(heap, 2 * sizes.head)?,
            head: heap::with_capacity(heap, sizes.head)?,
            scores: heap::with_capacity(heap, sizes.positions)?,
            ids: heap::with_capacity(heap, sizes.top_k)?,
            weights: heap::with_capacity(heap, sizes.top_k)?,
            product: ProductScratch::new(sizes.cols, heap)?,
        })
    }
}

/// Buffers for one row of weights in f32 and one quantized row of activations.
pub struct ProductScratch<'h> {
    pub(super) row: Vec<'h, f32>,
    pub(super) quantized: Vec<'h, u8>,
}

impl<'h> ProductScratch<'h> {
    /// For rows of up to `cols` elements: 8 bytes each.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn new(cols: usize, heap: Heap<'h>) -> Result<Self, OutOfMemory> {
        // No activation format needs more than f32 does.
        let quantized = heap::filled(heap, cols.saturating_mul(size_of::<f32>()), 0_u8)?;
        Ok(Self { row: heap::filled(heap, cols, 0_f32)?, quantized })
    }
}

/// Makes `row` a row of `len` zeros; its capacity suffices.
pub(super) fn clear<T: Copy + Default>(row: &mut Vec<'_, T>, len: usize) {
    row.clear();
    row.resize(len, T::default());
}
