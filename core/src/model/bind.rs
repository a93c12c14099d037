//! Binding: finds each tensor that the architecture needs, checks its shape and type, and assigns an id.

use super::error::{ModelError, Name, TensorFault, excerpt};
use super::family::{Family, FfnNorm, HeadNorms, WindowRope};
use super::hparams::{HyperParams, Keys};
use super::kv_slots::KvSlots;
use super::rope::{Rope, Scaling};
use super::surplus;
use super::weights::{Attention, Delta, DeltaGateWeights, Layer, Mixer, Model, StateShape, Weight};
use crate::gguf::{Gguf, Tensor};
use crate::heap::{self, Heap, Vec};
use crate::plan::{DeltaShape, Matrix, Norm, NormKind, RopeId, StateSlot, VectorId, WeightId};
use crate::quant;
use core::fmt::Write;
use core::ops::Range;

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
        let (weights, vectors, read) = (Vec::new_in(heap), Vec::new_in(heap), Vec::new_in(heap));
        let mut binder = Binder { gguf, heap, weights, vectors, read };
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
        let output_norm = binder.stream_norm("output_norm", None, &hparams, family)?;
        let ropes = binder.ropes(&hparams, family)?;
        let mut kv_slots = KvSlots::new(hparams.layers.len(), heap)?;
        let mut layers = heap::with_capacity(heap, hparams.layers.len())?;
        let mut recurrent = 0;
        for (index, shape) in hparams.layers.iter().enumerate() {
            let mixer = match hparams.delta.filter(|_| shape.recurrent) {
                Some(delta) => {
                    recurrent += 1;
                    let fused = family.recurrence.is_some_and(|recurrence| recurrence.fused_gates);
                    Mixer::Delta(binder.delta(index, &hparams, delta, fused, StateSlot(recurrent - 1))?)
                }
                None => {
                    Mixer::Attention(binder.attention(index, &hparams, family, &mut kv_slots, ropes.len())?)
                }
            };
            layers.push(binder.layer(index, &hparams, family, mixer)?);
        }
        let token_inputs = binder.token_inputs(&hparams, vocabulary)?;
        let state = hparams.delta.map(|delta| StateShape { layers: recurrent, delta });
        let Binder { weights, vectors, mut read, .. } = binder;
        surplus::check(gguf, &mut read, &hparams, family)?;
        Ok(Self {
            family,
            hparams,
            weights,
            vectors,
            ropes,
            groups: kv_slots.into_groups(),
            state,
            token_inputs,
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
pub(super) struct Dims {
    pub(super) cols: u32,
    pub(super) rows: u32,
    pub(super) stack: u32,
}

pub(super) struct Binder<'g, 'a> {
    gguf: &'g Gguf<'a>,
    heap: Heap<'a>,
    weights: Vec<'a, Weight<'a>>,
    pub(super) vectors: Vec<'a, Vec<'a, f32>>,
    /// The names of the tensors that were read.
    read: Vec<'a, &'a [u8]>,
}

pub(super) fn fault(name: &str, fault: TensorFault) -> ModelError {
    ModelError::Tensor { name: excerpt(name.as_bytes()), fault }
}

pub(super) fn named(layer: Option<usize>, part: &str, suffix: &str) -> Name {
    let mut name = Name::new();
    // Names of the table fit; a truncated one would not be found.
    let _ = match layer {
        Some(layer) => write!(name, "blk.{layer}.{part}.{suffix}"),
        None => write!(name, "{part}.{suffix}"),
    };
    name
}

/// The name of a tensor that has no suffix.
pub(super) fn bare(layer: usize, part: &str) -> Name {
    let mut name = Name::new();
    // As above.
    let _ = write!(name, "blk.{layer}.{part}");
    name
}

impl<'a> Binder<'_, 'a> {
    pub(super) fn find(&self, name: &str) -> Option<Tensor<'a>> {
        self.gguf.tensor(name).copied()
    }

    /// Binds a required matrix or stack with expected dims, fastest first; 0 = any.
    pub(super) fn weight(&mut self, name: &str, expected: [u64; 3]) -> Result<WeightId, ModelError> {
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
        heap::push(&mut self.read, tensor.name)?;
        Ok(id)
    }

    /// A named matrix with its companions; `None` when the file has no such weight.
    pub(super) fn part(
        &mut self,
        part: &str,
        layer: Option<usize>,
        dims: Dims,
    ) -> Result<Option<Matrix>, ModelError> {
        let name = named(layer, part, "weight");
        let Some(tensor) = self.find(&name) else { return Ok(None) };
        let expected = [u64::from(dims.cols), u64::from(dims.rows), u64::from(dims.stack)];
        let weight = self.bind(&name, &tensor, expected)?;
        let bias = self.vector(&named(layer, part, "bias"), dims.rows as usize * dims.stack as usize)?;
        let scale = self.scale(part, layer, dims.stack)?;
        Ok(Some(Matrix { weight, first_row: 0, rows: dims.rows, scale, bias }))
    }

    pub(super) fn scale(
        &mut self,
        part: &str,
        layer: Option<usize>,
        stack: u32,
    ) -> Result<Option<VectorId>, ModelError> {
        self.vector(&named(layer, part, "scale"), stack as usize)
    }

    pub(super) fn required(&mut self, part: &str, layer: usize, dims: Dims) -> Result<Matrix, ModelError> {
        self.part(part, Some(layer), dims)?
            .ok_or_else(|| fault(&named(Some(layer), part, "weight"), TensorFault::Missing))
    }

    /// The kernel of a short convolution, which files have as `[channels, taps]`, as `[taps, channels]`.
    fn convolution(&mut self, name: &str, shape: DeltaShape) -> Result<VectorId, ModelError> {
        let (channels, taps) = (shape.channels(), shape.taps as usize);
        let id = self.required_vector(name, channels * taps)?;
        let mut turned = heap::filled(self.heap, channels * taps, 0f32)?;
        for (channel, kernel) in self.vectors[id.index()].chunks_exact(taps).enumerate() {
            for (tap, &weight) in kernel.iter().enumerate() {
                turned[tap * channels + channel] = weight;
            }
        }
        self.vectors[id.index()] = turned;
        Ok(id)
    }

    /// A vector of `len` equal values.
    pub(super) fn filled(&mut self, len: u32, value: f32) -> Result<VectorId, ModelError> {
        let values = heap::filled(self.heap, len as usize, value)?;
        let id = VectorId(u32::try_from(self.vectors.len()).unwrap_or(u32::MAX));
        heap::push(&mut self.vectors, values)?;
        Ok(id)
    }

    /// A required vector with its values multiplied by a factor.
    pub(super) fn scaled(&mut self, name: &str, len: u32, factor: f32) -> Result<VectorId, ModelError> {
        let id = self.required_vector(name, len as usize)?;
        self.vectors[id.index()].iter_mut().for_each(|value| *value *= factor);
        Ok(id)
    }

    fn required_vector(&mut self, name: &str, len: usize) -> Result<VectorId, ModelError> {
        self.vector(name, len)?.ok_or_else(|| fault(name, TensorFault::Missing))
    }

    /// An optional vector of `len` elements, in f32.
    pub(super) fn vector(&mut self, name: &str, len: usize) -> Result<Option<VectorId>, ModelError> {
        self.slice(name, [len, 1], 0..len)
    }

    /// The same part of each of the `stack` vectors of `len` elements in an optional tensor, in f32.
    pub(super) fn slice(
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
        heap::push(&mut self.read, tensor.name)?;
        let id = VectorId(u32::try_from(self.vectors.len()).unwrap_or(u32::MAX));
        heap::push(&mut self.vectors, values)?;
        Ok(Some(id))
    }

    fn optional_norm(&mut self, name: &str, len: u32, eps: f32) -> Result<Option<Norm>, ModelError> {
        let weight = self.vector(name, len as usize)?;
        Ok(weight.map(|weight| Norm::rms(weight, eps)))
    }

    pub(super) fn norm(&mut self, name: &str, len: u32, eps: f32) -> Result<Norm, ModelError> {
        self.optional_norm(name, len, eps)?.ok_or_else(|| fault(name, TensorFault::Missing))
    }

    /// A norm of the stream, of the family's kind.
    fn stream_norm(
        &mut self,
        part: &str,
        layer: Option<usize>,
        hparams: &HyperParams<'_>,
        family: &Family,
    ) -> Result<Norm, ModelError> {
        let norm = self.norm(&named(layer, part, "weight"), hparams.width, hparams.eps)?;
        let bias = match family.norm {
            NormKind::Rms => None,
            NormKind::Layer => self.vector(&named(layer, part, "bias"), hparams.width as usize)?,
        };
        Ok(Norm { kind: family.norm, bias, ..norm })
    }

    /// The rotary embeddings: the one of full layers, then the one of windowed layers if it differs.
    fn ropes(&mut self, hparams: &HyperParams<'a>, family: &Family) -> Result<Vec<'a, Rope<'a>>, ModelError> {
        const NAME: &str = "rope_freqs.weight";
        const SHORT: &str = "rope_factors_short.weight";
        let mut id = self.vector(NAME, hparams.rope_dims as usize / 2)?;
        if id.is_none() {
            id = self.vector(SHORT, hparams.rope_dims as usize / 2)?;
        }
        let divisors = id.map_or(&[][..], |id| &self.vectors[id.index()]);
        if let Some(&bad) = divisors.iter().find(|&&divisor| !(divisor.is_finite() && divisor != 0.0)) {
            let expected = "finite divisors other than 0";
            return Err(ModelError::Value { key: excerpt(NAME.as_bytes()), found: f64::from(bad), expected });
        }
        let mut ropes = heap::with_capacity(self.heap, 2)?;
        let (dims, pairing) = (hparams.rope_dims, family.pairing);
        ropes.push(Rope::new(pairing, dims, hparams.rope_base, hparams.rope_scaling, divisors, self.heap)?);
        let windowed = hparams.layers.iter().any(|layer| layer.window.is_some());
        if windowed && family.window_rope != WindowRope::Same {
            let plain = Scaling::Linear { factor: 1.0, magnitude: 1.0 };
            let dims = hparams.window_rope_dims;
            ropes.push(Rope::new(pairing, dims, hparams.window_rope_base, plain, &[], self.heap)?);
        }
        Ok(ropes)
    }

    fn attention(
        &mut self,
        index: usize,
        hparams: &HyperParams<'a>,
        family: &Family,
        kv_slots: &mut KvSlots<'a>,
        ropes: usize,
    ) -> Result<Attention, ModelError> {
        let shape = hparams.layers[index];
        let (width, eps) = (hparams.width, hparams.eps);
        let name = |part: &str| named(Some(index), part, "weight");
        let owns_kv = shape.kv_layer as usize == index;
        let (query, key, value) = if owns_kv {
            let [query, key, value] = self.qkv(index, hparams, family)?;
            (query, Some(key), Some(value))
        } else {
            let rows = shape.heads * shape.key_dim;
            (self.required("attn_q", index, Dims { cols: width, rows, stack: 1 })?, None, None)
        };
        let [query_len, key_len] = match family.head_norms {
            HeadNorms::BeforeRotation | HeadNorms::AfterRotation => [shape.key_dim; 2],
            HeadNorms::AllHeads => [shape.heads * shape.key_dim, shape.kv_heads * shape.key_dim],
        };
        let query_norm = self.optional_norm(&name("attn_q_norm"), query_len, eps)?;
        let key_norm = self.optional_norm(&name("attn_k_norm"), key_len, eps)?.filter(|_| owns_kv);
        let value_norm = match owns_kv && family.gemma4 {
            true => Some(Norm::rms(self.filled(shape.value_dim, 1.0)?, eps)),
            false => None,
        };
        if family.requires_head_norms && (query_norm.is_none() || key_norm.is_none() && owns_kv) {
            let missing = if query_norm.is_none() { "attn_q_norm" } else { "attn_k_norm" };
            return Err(fault(&name(missing), TensorFault::Missing));
        }
        let values = shape.heads * shape.value_dim;
        let output = self.required("attn_output", index, Dims { cols: values, rows: width, stack: 1 })?;
        let gate = match family.gate_tensor {
            true => Some(self.required("attn_gate", index, Dims { cols: width, rows: values, stack: 1 })?),
            false => None,
        };
        Ok(Attention {
            query,
            gated: family.gated_attention,
            gate,
            key,
            value,
            output: self.damped(output, hparams.residual_scale, 1)?,
            query_norm,
            key_norm,
            head_norms: family.head_norms,
            temperature: hparams.temperature,
            soft_cap: hparams.score_cap,
            value_norm,
            key_dim: shape.key_dim,
            value_dim: shape.value_dim,
            sinks: self.vector(&name("attn_sinks"), shape.heads as usize)?,
            kv: kv_slots.slot(hparams, index)?,
            rope: shape.rotated.then_some(RopeId(if shape.window.is_some() && ropes > 1 { 1 } else { 0 })),
            heads: shape.heads,
            window: shape.window,
        })
    }

    /// A layer with a recurrent state.
    fn delta(
        &mut self,
        index: usize,
        hparams: &HyperParams<'a>,
        shape: DeltaShape,
        fused_gates: bool,
        state: StateSlot,
    ) -> Result<Delta, ModelError> {
        let cols = hparams.width;
        let (channels, values) = (shape.channels() as u32, shape.value_width() as u32);
        let heads = shape.value_heads;
        let from_width = |rows| Dims { cols, rows, stack: 1 };
        let gates = if fused_gates {
            DeltaGateWeights::ByKeyHead(self.required("ssm_ba", index, from_width(2 * heads))?)
        } else {
            let beta = self.required("ssm_beta", index, from_width(heads))?;
            DeltaGateWeights::Apart { beta, alpha: self.required("ssm_alpha", index, from_width(heads))? }
        };
        let name = |part: &str, suffix: &str| named(Some(index), part, suffix);
        Ok(Delta {
            mixed: self.required("attn_qkv", index, from_width(channels))?,
            gate: self.required("attn_gate", index, from_width(values))?,
            gates,
            output: self.required("ssm_out", index, Dims { cols: values, rows: cols, stack: 1 })?,
            convolution: self.convolution(&name("ssm_conv1d", "weight"), shape)?,
            decay: self.required_vector(&bare(index, "ssm_a"), heads as usize)?,
            step_bias: self.required_vector(&name("ssm_dt", "bias"), heads as usize)?,
            norm: self.norm(&name("ssm_norm", "weight"), shape.value_dim, hparams.eps)?,
            shape,
            state,
        })
    }

    fn layer(
        &mut self,
        index: usize,
        hparams: &HyperParams<'a>,
        family: &Family,
        mixer: Mixer,
    ) -> Result<Layer, ModelError> {
        let (width, eps) = (hparams.width, hparams.eps);
        let name = |part: &str| named(Some(index), part, "weight");
        let (post_attention_norm, post_ffn_norm) = match family.ffn_norm {
            FfnNorm::Plain | FfnNorm::PostAttention | FfnNorm::Parallel => (None, None),
            FfnNorm::Sandwich | FfnNorm::After => (
                Some(self.norm(&name("post_attention_norm"), width, eps)?),
                Some(self.norm(&name("post_ffw_norm"), width, eps)?),
            ),
        };
        Ok(Layer {
            attention_norm: match family.ffn_norm {
                FfnNorm::After => None,
                _ => Some(self.stream_norm("attn_norm", Some(index), hparams, family)?),
            },
            mixer,
            post_attention_norm,
            ffn_norm: match family.ffn_norm.tensor() {
                Some(tensor) => Some(self.stream_norm(tensor, Some(index), hparams, family)?),
                None => None,
            },
            post_ffn_norm,
            ffn: match hparams.experts.filter(|_| !family.gemma4 && index >= hparams.dense_layers as usize) {
                Some(experts) => self.mixture(index, hparams, family, experts)?,
                None => self.dense(index, hparams, family)?,
            },
            parallel_experts: match hparams.experts.filter(|_| family.gemma4) {
                Some(experts) => Some(self.parallel_experts(index, hparams, experts)?),
                None => None,
            },
            token_input: self.token_input(index, hparams)?,
            output_scale: if family.gemma4 { self.output_scale(index)? } else { 1.0 },
        })
    }

    /// Queries, keys and values: three tensors, or one with their rows in this order.
    fn qkv(
        &mut self,
        layer: usize,
        hparams: &HyperParams<'_>,
        family: &Family,
    ) -> Result<[Matrix; 3], ModelError> {
        const FUSED: &str = "attn_qkv";
        let shape = hparams.layers[layer];
        let queries = shape.heads * shape.key_dim * if family.gated_attention { 2 } else { 1 };
        let rows = [queries, shape.kv_heads * shape.key_dim, shape.kv_heads * shape.value_dim];
        let cols = hparams.width;
        let name = named(Some(layer), FUSED, "weight");
        if self.find(&name).is_none() {
            let dims = rows.map(|rows| Dims { cols, rows, stack: 1 });
            let query = self.required("attn_q", layer, dims[0])?;
            let key = self.required("attn_k", layer, dims[1])?;
            let value = match self.part("attn_v", Some(layer), dims[2])? {
                // values may be the keys, before their norm and rotation
                None if family.gemma4 && shape.key_dim == shape.value_dim => key,
                None => self.required("attn_v", layer, dims[2])?,
                Some(value) => value,
            };
            return Ok([query, key, value]);
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
}
