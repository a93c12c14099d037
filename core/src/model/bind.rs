//! Binding: finds each tensor that the architecture needs, checks its shape and type, and assigns an id.

use super::error::{ModelError, Name, TensorFault};
use super::family::{Family, FfnNorm};
use super::hparams::{ExpertParams, HyperParams, Keys};
use super::rope::{Rope, Scaling};
use super::weights::{Ffn, KvGroup, Layer, Model, Router, Shared, Weight};
use crate::gguf::{Gguf, Tensor};
use crate::heap::{self, Heap, Vec};
use crate::plan::{GroupId, KvSlot, Matrix, Norm, RopeId, VectorId, WeightId};
use crate::quant;
use core::fmt::Write;
use core::ops::Range;

/// Most KV groups of a model; batches have one page table per sequence and group.
const MAX_GROUPS: usize = 8;

impl<'a> Model<'a> {
    /// Binds a parsed file.
    ///
    /// # Errors
    /// The first key or tensor that the architecture needs and the file lacks, by name.
    pub fn new(gguf: &Gguf<'a>, heap: Heap<'a>) -> Result<Self, ModelError> {
        let name = gguf.find::<&[u8]>("general.architecture")?.ok_or(ModelError::NoArchitecture)?;
        let family = Family::named(name).ok_or_else(|| ModelError::UnknownArchitecture(excerpt(name)))?;
        let keys = Keys::new(gguf, family);
        let hparams = HyperParams::new(&keys, family, heap)?;
        let mut binder = Binder { gguf, heap, weights: Vec::new_in(heap), vectors: Vec::new_in(heap) };
        let width = hparams.width;

        let table = binder.weight("token_embd.weight", [u64::from(width), 0, 1])?;
        let rows = binder.weights[table.index()].rows;
        let vocabulary = u32::try_from(rows).unwrap_or(u32::MAX);
        if let Some(declared) = keys.vocabulary()?.filter(|&declared| declared != vocabulary) {
            let expected = [u64::from(width), u64::from(declared), 1];
            let found = [u64::from(width), u64::from(vocabulary), 1, 1];
            return Err(fault("token_embd.weight", TensorFault::Shape { expected, found }));
        }
        let head = match binder.part("output", None, Dims { cols: width, rows: vocabulary, stack: 1 })? {
            Some(matrix) => matrix,
            None => Matrix { weight: table, first_row: 0, rows: vocabulary, scale: None, bias: None },
        };
        let output_norm = binder.norm("output_norm.weight", width, hparams.eps)?;
        let ropes = binder.ropes(&hparams, family)?;
        let mut groups = heap::with_capacity(heap, MAX_GROUPS)?;
        let mut layers = heap::with_capacity(heap, hparams.layers.len())?;
        for index in 0..hparams.layers.len() {
            layers.push(binder.layer(index, &hparams, family, &mut groups, ropes.len())?);
        }
        let Binder { weights, vectors, .. } = binder;
        Ok(Self {
            family,
            hparams,
            weights,
            vectors,
            ropes,
            groups,
            layers,
            embedding: table,
            output_norm,
            head,
            vocabulary,
        })
    }
}

/// Expected dimensions of a matrix.
#[derive(Clone, Copy)]
struct Dims {
    cols: u32,
    rows: u32,
    stack: u32,
}

struct Binder<'g, 'a> {
    gguf: &'g Gguf<'a>,
    heap: Heap<'a>,
    weights: Vec<'a, Weight<'a>>,
    vectors: Vec<'a, Vec<'a, f32>>,
}

fn excerpt<const N: usize>(bytes: &[u8]) -> heapless::String<N> {
    let mut text = heapless::String::new();
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            if text.push(char).is_err() {
                return text;
            }
        }
    }
    text
}

fn fault(name: &str, fault: TensorFault) -> ModelError {
    ModelError::Tensor { name: excerpt(name.as_bytes()), fault }
}

fn named(layer: Option<usize>, part: &str, suffix: &str) -> Name {
    let mut name = Name::new();
    // Names of the table fit; a truncated one would not be found.
    let _ = match layer {
        Some(layer) => write!(name, "blk.{layer}.{part}.{suffix}"),
        None => write!(name, "{part}.{suffix}"),
    };
    name
}

impl<'a> Binder<'_, 'a> {
    fn find(&self, name: &str) -> Option<Tensor<'a>> {
        self.gguf.tensor(name).copied()
    }

    /// Binds a required matrix or stack with expected dims, fastest first; 0 = any.
    fn weight(&mut self, name: &str, expected: [u64; 3]) -> Result<WeightId, ModelError> {
        let tensor = self.find(name).ok_or_else(|| fault(name, TensorFault::Missing))?;
        self.bind(name, &tensor, expected)
    }

    fn bind(&mut self, name: &str, tensor: &Tensor<'a>, expected: [u64; 3]) -> Result<WeightId, ModelError> {
        let dims = tensor.dims;
        let equal = expected.iter().zip(dims).all(|(&want, have)| have > 0 && (want == 0 || want == have));
        if !equal || dims[3] != 1 {
            return Err(fault(name, TensorFault::Shape { expected, found: dims }));
        }
        if tensor.ty.activation().is_none() {
            return Err(fault(name, TensorFault::Type(tensor.ty)));
        }
        // The reader has checked that the element count fits, so each dimension does.
        let [cols, rows, stack] =
            [dims[0], dims[1], dims[2]].map(|dim| usize::try_from(dim).unwrap_or(usize::MAX));
        let weight = Weight { name: tensor.name, ty: tensor.ty, rows, cols, stack, data: tensor.data };
        let id = WeightId(u32::try_from(self.weights.len()).unwrap_or(u32::MAX));
        heap::push(&mut self.weights, weight)?;
        Ok(id)
    }

    /// A named matrix with its companions; `None` when the file has no such weight.
    fn part(&mut self, part: &str, layer: Option<usize>, dims: Dims) -> Result<Option<Matrix>, ModelError> {
        let name = named(layer, part, "weight");
        let Some(tensor) = self.find(&name) else { return Ok(None) };
        let expected = [u64::from(dims.cols), u64::from(dims.rows), u64::from(dims.stack)];
        let weight = self.bind(&name, &tensor, expected)?;
        let bias = self.vector(&named(layer, part, "bias"), dims.rows as usize * dims.stack as usize)?;
        let scale = self.scale(part, layer, dims.stack)?;
        Ok(Some(Matrix { weight, first_row: 0, rows: dims.rows, scale, bias }))
    }

    fn scale(
        &mut self,
        part: &str,
        layer: Option<usize>,
        stack: u32,
    ) -> Result<Option<VectorId>, ModelError> {
        self.vector(&named(layer, part, "scale"), stack as usize)
    }

    fn required(&mut self, part: &str, layer: usize, dims: Dims) -> Result<Matrix, ModelError> {
        self.part(part, Some(layer), dims)?
            .ok_or_else(|| fault(&named(Some(layer), part, "weight"), TensorFault::Missing))
    }

    /// An optional vector of `len` elements, in f32.
    fn vector(&mut self, name: &str, len: usize) -> Result<Option<VectorId>, ModelError> {
        self.slice(name, [len, 1], 0..len)
    }

    /// The same part of each of the `stack` vectors of `len` elements in an optional tensor, in f32.
    fn slice(
        &mut self,
        name: &str,
        [len, stack]: [usize; 2],
        part: Range<usize>,
    ) -> Result<Option<VectorId>, ModelError> {
        let Some(tensor) = self.find(name) else { return Ok(None) };
        let elements = tensor.dims.iter().try_fold(1u64, |all, &dim| all.checked_mul(dim));
        if elements != Some((len * stack) as u64) {
            let expected = [len as u64, stack as u64, 1];
            return Err(fault(name, TensorFault::Shape { expected, found: tensor.dims }));
        }
        let mut values = heap::filled(self.heap, len * stack, 0f32)?;
        quant::dequantize(tensor.ty, tensor.data, &mut values)
            .map_err(|_| fault(name, TensorFault::Type(tensor.ty)))?;
        for of in 0..stack {
            values.copy_within(of * len + part.start..of * len + part.end, of * part.len());
        }
        values.truncate(stack * part.len());
        let id = VectorId(u32::try_from(self.vectors.len()).unwrap_or(u32::MAX));
        heap::push(&mut self.vectors, values)?;
        Ok(Some(id))
    }

    fn optional_norm(&mut self, name: &str, len: u32, eps: f32) -> Result<Option<Norm>, ModelError> {
        let weight = self.vector(name, len as usize)?;
        Ok(weight.map(|weight| Norm { weight, eps }))
    }

    fn norm(&mut self, name: &str, len: u32, eps: f32) -> Result<Norm, ModelError> {
        self.optional_norm(name, len, eps)?.ok_or_else(|| fault(name, TensorFault::Missing))
    }

    /// The rotary embeddings: the one of full layers, then the one of windowed layers if it differs.
    fn ropes(&mut self, hparams: &HyperParams<'a>, family: &Family) -> Result<Vec<'a, Rope<'a>>, ModelError> {
        const NAME: &str = "rope_freqs.weight";
        let pairs = hparams.rope_dims as usize / 2;
        let id = self.vector(NAME, pairs)?;
        let divisors = id.map_or(&[][..], |id| &self.vectors[id.index()]);
        if let Some(&bad) = divisors.iter().find(|&&divisor| !(divisor.is_finite() && divisor != 0.0)) {
            let expected = "finite divisors other than 0";
            return Err(ModelError::Value { key: excerpt(NAME.as_bytes()), found: f64::from(bad), expected });
        }
        let mut ropes = heap::with_capacity(self.heap, 2)?;
        let (dims, pairing) = (hparams.rope_dims, family.pairing);
        ropes.push(Rope::new(pairing, dims, hparams.rope_base, hparams.rope_scaling, divisors, self.heap)?);
        let windowed = hparams.layers.iter().any(|layer| layer.window.is_some());
        if windowed && family.window_rope_base.is_some() {
            let plain = Scaling::Linear { factor: 1.0 };
            ropes.push(Rope::new(pairing, dims, hparams.window_rope_base, plain, divisors, self.heap)?);
        }
        Ok(ropes)
    }

    fn layer(
        &mut self,
        index: usize,
        hparams: &HyperParams<'a>,
        family: &Family,
        groups: &mut Vec<'a, KvGroup>,
        ropes: usize,
    ) -> Result<Layer, ModelError> {
        let shape = hparams.layers[index];
        let [query, key, value] = self.qkv(index, hparams)?;
        let (width, eps) = (hparams.width, hparams.eps);
        let name = |part: &str| named(Some(index), part, "weight");
        let query_norm = self.optional_norm(&name("attn_q_norm"), hparams.key_dim, eps)?;
        let key_norm = self.optional_norm(&name("attn_k_norm"), hparams.key_dim, eps)?;
        if family.head_norms && (query_norm.is_none() || key_norm.is_none()) {
            let missing = if query_norm.is_none() { "attn_q_norm" } else { "attn_k_norm" };
            return Err(fault(&name(missing), TensorFault::Missing));
        }
        let output_dims = Dims { cols: shape.heads * hparams.value_dim, rows: width, stack: 1 };
        let (post_attention_norm, post_ffn_norm) = match family.ffn_norm {
            FfnNorm::Plain | FfnNorm::PostAttention => (None, None),
            FfnNorm::Sandwich => (
                Some(self.norm(&name("post_attention_norm"), width, eps)?),
                Some(self.norm(&name("post_ffw_norm"), width, eps)?),
            ),
        };
        Ok(Layer {
            attention_norm: self.norm(&name("attn_norm"), width, eps)?,
            query,
            key,
            value,
            output: self.required("attn_output", index, output_dims)?,
            query_norm,
            key_norm,
            sinks: self.vector(&name("attn_sinks"), shape.heads as usize)?,
            post_attention_norm,
            ffn_norm: self.norm(&name(family.ffn_norm.tensor()), width, eps)?,
            post_ffn_norm,
            ffn: match hparams.experts.filter(|_| index >= hparams.dense_layers as usize) {
                Some(experts) => self.mixture(index, width, experts)?,
                None => self.dense(index, width, shape.ffn)?,
            },
            kv: kv_slot(hparams, index, groups)?,
            rope: RopeId(if shape.window.is_some() && ropes > 1 { 1 } else { 0 }),
            heads: shape.heads,
            window: shape.window,
        })
    }

    /// Queries, keys and values: three tensors, or one with their rows in this order.
    fn qkv(&mut self, layer: usize, hparams: &HyperParams<'_>) -> Result<[Matrix; 3], ModelError> {
        const FUSED: &str = "attn_qkv";
        let shape = hparams.layers[layer];
        let rows = [
            shape.heads * hparams.key_dim,
            shape.kv_heads * hparams.key_dim,
            shape.kv_heads * hparams.value_dim,
        ];
        let cols = hparams.width;
        let name = named(Some(layer), FUSED, "weight");
        if self.find(&name).is_none() {
            let dims = rows.map(|rows| Dims { cols, rows, stack: 1 });
            return Ok([
                self.required("attn_q", layer, dims[0])?,
                self.required("attn_k", layer, dims[1])?,
                self.required("attn_v", layer, dims[2])?,
            ]);
        }
        let total: u32 = rows.iter().sum();
        let weight = self.weight(&name, [u64::from(cols), u64::from(total), 1])?;
        let scale = self.scale(FUSED, Some(layer), 1)?;
        let mut first_row = 0;
        let mut parts = [Matrix { weight, first_row: 0, rows: 0, scale, bias: None }; 3];
        for ((part, rows), own) in parts.iter_mut().zip(rows).zip(["attn_q", "attn_k", "attn_v"]) {
            let range = first_row as usize..(first_row + rows) as usize;
            let mut bias = self.slice(&named(Some(layer), FUSED, "bias"), [total as usize, 1], range)?;
            // Fused weights may come with separate biases.
            if bias.is_none() {
                bias = self.vector(&named(Some(layer), own, "bias"), rows as usize)?;
            }
            *part = Matrix { first_row, rows, bias, ..*part };
            first_row += rows;
        }
        Ok(parts)
    }

    /// Gate, up and down; gate and up may be one tensor with the gate's rows first.
    fn dense(&mut self, layer: usize, width: u32, ffn: u32) -> Result<Ffn, ModelError> {
        if ffn == 0 {
            return Err(fault(&named(Some(layer), "ffn_up", "weight"), TensorFault::Missing));
        }
        let down = self.required("ffn_down", layer, Dims { cols: ffn, rows: width, stack: 1 })?;
        let dims = Dims { cols: width, rows: ffn, stack: 1 };
        if let Some(gate) = self.part("ffn_gate", Some(layer), dims)? {
            return Ok(Ffn::Dense { gate, up: self.required("ffn_up", layer, dims)?, down });
        }
        let fused = if self.find(&named(Some(layer), "ffn_gate_up", "weight")).is_some() {
            "ffn_gate_up"
        } else {
            "ffn_up"
        };
        let (gate, up) = self.fused_gate_up(fused, layer, dims)?;
        Ok(Ffn::Dense { gate, up, down })
    }

    fn mixture(&mut self, layer: usize, width: u32, experts: ExpertParams) -> Result<Ffn, ModelError> {
        let matrix =
            self.required("ffn_gate_inp", layer, Dims { cols: width, rows: experts.count, stack: 1 })?;
        let count = experts.count as usize;
        let selection_bias = self.vector(&named(Some(layer), "exp_probs_b", "bias"), count)?;
        let dims = Dims { cols: width, rows: experts.ffn, stack: experts.count };
        let (gate, up) = match self.part("ffn_gate_exps", Some(layer), dims)? {
            Some(gate) => (gate, self.required("ffn_up_exps", layer, dims)?),
            None => self.fused_gate_up("ffn_gate_up_exps", layer, dims)?,
        };
        let down_dims = Dims { cols: experts.ffn, rows: width, stack: experts.count };
        let down = self.required("ffn_down_exps", layer, down_dims)?;
        let shared = self.shared(layer, width, experts)?;
        Ok(Ffn::Mixture { router: Router { matrix, selection_bias }, gate, up, down, shared })
    }

    /// The shared expert, if there is one.
    fn shared(
        &mut self,
        layer: usize,
        width: u32,
        experts: ExpertParams,
    ) -> Result<Option<Shared>, ModelError> {
        let ffn = experts.shared_ffn;
        let dims = Dims { cols: width, rows: ffn, stack: 1 };
        let Some(gate) = self.part("ffn_gate_shexp", Some(layer), dims)? else { return Ok(None) };
        let up = self.required("ffn_up_shexp", layer, dims)?;
        let down = self.required("ffn_down_shexp", layer, Dims { cols: ffn, rows: width, stack: 1 })?;
        let weight = self.part("ffn_gate_inp_shexp", Some(layer), Dims { cols: width, rows: 1, stack: 1 })?;
        Ok(Some(Shared { gate, up, down, weight }))
    }

    fn fused_gate_up(
        &mut self,
        part: &str,
        layer: usize,
        dims: Dims,
    ) -> Result<(Matrix, Matrix), ModelError> {
        let name = named(Some(layer), part, "weight");
        let weight =
            self.weight(&name, [u64::from(dims.cols), u64::from(dims.rows) * 2, u64::from(dims.stack)])?;
        let scale = self.scale(part, Some(layer), dims.stack)?;
        let (rows, stack) = (dims.rows as usize, dims.stack as usize);
        let mut bias = |half| self.slice(&named(Some(layer), part, "bias"), [2 * rows, stack], half);
        let (gate_bias, up_bias) = (bias(0..rows)?, bias(rows..2 * rows)?);
        let gate = Matrix { weight, first_row: 0, rows: dims.rows, scale, bias: gate_bias };
        Ok((gate, Matrix { first_row: dims.rows, bias: up_bias, ..gate }))
    }
}

/// The layer's slot in the group of its KV shape; a new group if there is none.
fn kv_slot(
    hparams: &HyperParams<'_>,
    layer: usize,
    groups: &mut Vec<'_, KvGroup>,
) -> Result<KvSlot, ModelError> {
    let shape = hparams.layers[layer];
    let group = KvGroup {
        layers: 0,
        heads: shape.kv_heads,
        key_dim: hparams.key_dim,
        value_dim: hparams.value_dim,
        window: shape.window,
    };
    let at = groups.iter().position(|known| KvGroup { layers: 0, ..*known } == group);
    let at = at.unwrap_or(groups.len());
    if at == groups.len() {
        if at == MAX_GROUPS {
            return Err(ModelError::TooManyGroups(MAX_GROUPS));
        }
        heap::push(groups, group)?;
    }
    let layer = groups[at].layers;
    groups[at].layers += 1;
    // `at` is below MAX_GROUPS.
    Ok(KvSlot { group: GroupId(at as u8), layer })
}
